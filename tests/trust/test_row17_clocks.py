"""Clocks that lie: ten years off, backwards, leaping, in another zone (matrix row 17).

Order comes from the chain; a wall clock is a claim, and a strange one is said to be strange.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import evidence_seeds
import pytest
from evidence_seeds import ATTEMPT, RUN
from scale import LONG

import provstore
from provstore.api.verifying import Belief
from provstore.evidence import key_files, keys
from provstore.evidence.trust.keys import Trust
from provstore.journal import Journal, writer

SECOND = 10**9
NOW = 1_790_000_000 * SECOND
TEN_YEARS = 3_652 * 86_400 * SECOND


def clock(readings: Iterable[int]) -> Callable[[], int]:
    """Return a clock that shows these readings, the last one again and again."""
    left, shown = list(readings), [NOW]

    def read() -> int:
        shown[0] = left.pop(0) if left else shown[0]
        return shown[0]

    return read


def told(directory: Path, walls: list[int], monkeypatch: pytest.MonkeyPatch) -> tuple[set[str], list[bytes]]:
    """Seal one epoch at each reading of the wall clock; return the codes of a verification, and the records."""
    anchors = []
    for at, wall in enumerate(walls):
        monkeypatch.setattr(writer, "time", SimpleNamespace(time_ns=clock([wall])))
        with Journal.open(directory, writable=True) as journal:
            journal.append_records(RUN, ATTEMPT, [evidence_seeds.observation(at, None, f"{at}", wall)])
            anchors += [evidence_seeds.anchor(note) for _, note in evidence_seeds.seal(journal, clock([wall]))]
    with Journal.open(directory, writable=False) as journal:
        assert journal.check() == []
        lines = [record.line for record in journal.evidence(RUN, ATTEMPT).records()]
        return evidence_seeds.faults(journal, anchors), lines


def in_order(count: int, walls: list[int]) -> list[bytes]:
    return [evidence_seeds.observation(at, None, f"{at}", walls[at]) for at in range(count)]


def test_a_clock_that_runs_on_is_not_remarked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walls = [NOW, NOW + SECOND, NOW + 90 * SECOND]
    codes, lines = told(tmp_path / "journal", walls, monkeypatch)
    assert codes == set()
    assert lines == in_order(3, walls)


@pytest.mark.parametrize(
    "walls",
    [
        [NOW, NOW - TEN_YEARS, NOW + SECOND],
        [NOW + TEN_YEARS, NOW, NOW + SECOND],
        [NOW, NOW - 3_600 * SECOND],
    ],
    ids=["ten years back", "ten years ahead at first", "an hour back"],
)
def test_a_clock_that_goes_back_is_remarked_and_changes_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, walls: list[int]
) -> None:
    codes, lines = told(tmp_path / "journal", walls, monkeypatch)
    assert codes == {"clock-odd"}
    assert lines == in_order(len(walls), walls)


def test_a_leap_second_changes_no_order_and_breaks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of 2016 had one: the POSIX clock shows the same second twice."""
    leap = 1_483_228_800 * SECOND
    walls = [leap - SECOND // 2, leap + SECOND // 2, leap, leap + SECOND]
    codes, lines = told(tmp_path / "journal", walls, monkeypatch)
    assert codes <= {"clock-odd"}
    assert lines == in_order(4, walls)


def test_a_change_of_zone_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walls = [NOW, NOW + SECOND]
    for zone in ("Pacific/Kiritimati", "America/Anchorage"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        codes, lines = told(tmp_path / zone.replace("/", "-"), walls, monkeypatch)
        assert codes == set()
        assert lines == in_order(2, walls)
    monkeypatch.undo()
    time.tzset()


def test_a_segment_made_in_the_future_is_followed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments also roll by age: an age below nothing, or of twenty years, must not stop the journal."""
    walls = [NOW - TEN_YEARS, NOW + TEN_YEARS, NOW]
    codes, lines = told(tmp_path / "journal", walls, monkeypatch)
    assert codes == {"clock-odd"}
    assert len(lines) == 3
    assert len(list((tmp_path / "journal").glob("seg-*.pvj"))) >= 2


if LONG:

    def test_a_whole_process_in_another_year_is_remarked(tmp_path: Path) -> None:
        library = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
        if library is None:
            pytest.skip("libfaketime: not installed")
        seed = tmp_path / "key"
        key = keys.PrivateKey.generate()
        key_files.save(seed, key, None)
        driver = (
            "import sys, time, provstore; from provstore.evidence import key_files;"
            "from provstore.model.evidence import Observation;"
            "store = provstore.open('embedded:' + sys.argv[1]);"
            "store.record([Observation(sys.argv[3], {'x': 1}, at_ns=time.time_ns())], run='job');"
            "store.seal(signer=key_files.load(sys.argv[2], lambda: b'')); store.close()"
        )
        for shift in ("+10y", "-10y", "-1d"):
            environment = {**os.environ, "LD_PRELOAD": str(library), "FAKETIME": shift}
            environment["PYTHONPATH"] = str(Path(__file__).parents[2])
            command = [sys.executable, "-c", driver.replace("sys.argv[2]", "__import__('pathlib').Path(sys.argv[2])")]
            subprocess.run([*command, str(tmp_path / "store"), str(seed), shift], check=True, env=environment)
        with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
            belief = Belief(Trust.of_keys([key.public_key], "test"))
            (answer,) = store.verify(belief=belief, refresh=False)
        codes = {found.code for found in answer.findings}
        assert codes - evidence_seeds.LIMITS == {"clock-odd"}
        assert answer.counts["signed"] == 3
