"""Any write, sync or rename of a sequence of operations may fail, be cut short, be lost, or be the last before a crash.

The rule to hold (trust.md section 8): acknowledged ⊆ recovered, and recovered ⊆ written, in order.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from journal_fakes import Crash, FaultyDisk, large, number, small

from provstore.errors import StoreError
from provstore.journal import Journal, Origin, block_lines, block_parquet, recovery, writer
from provstore.journal.columns import Group


@pytest.fixture(autouse=True)
def small_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Roll every few batches, and let a few facts be many, so that every kind of operation occurs."""
    monkeypatch.setattr(writer, "ROLL_BYTES", 3_000)
    monkeypatch.setattr(recovery, "RESERVE_BYTES", 100)
    monkeypatch.setattr(block_lines, "MAX_FACTS", 12)
    # Packing is no part of these tests: each block is packed once and then known.
    packed: dict[int, memoryview] = {}
    pack = block_parquet.encode

    def once(run: str, attempt: int, parts: Sequence[Group]) -> memoryview:
        key = int(parts[0].columns[0][1][0])  # type: ignore[arg-type]
        if key not in packed:
            packed[key] = pack(run, attempt, parts)
        return packed[key]

    monkeypatch.setattr(block_parquet, "encode", once)


class Script:
    """A fixed sequence of operations: opens, batches of both encodings, source files, rolls."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "journal"
        self.source = directory / "rank0.pkl"
        self.source.write_bytes(b"dump")
        self.origin = Origin(hashlib.sha256(b"dump").hexdigest(), 4, "flight_recorder", "1", self.source)
        self.tried: list[int] = []
        self.acknowledged: list[int] = []

    def run(self, disk: FaultyDisk) -> None:
        for first in (0, 7):
            try:
                with Journal.open(self.directory, writable=True, disk=disk) as journal:
                    for at in range(first, first + 7):
                        self._append(journal, at)
            except StoreError:
                continue

    def _append(self, journal: Journal, at: int) -> None:
        self.tried.append(at)
        try:
            journal.append(large(at, 12) if at % 5 == 2 else small(at), self.origin if at % 4 == 1 else None)
        except StoreError:
            return
        self.acknowledged.append(at)

    def recovered(self) -> list[int]:
        """Open twice with a sound disk, as a next process would; return what is there."""
        with Journal.open(self.directory, writable=True, disk=FaultyDisk()) as journal:
            journal.append(small(99))
        with Journal.open(self.directory, writable=False) as journal:
            problems = [problem for problem in journal.check() if problem.is_loss]
            assert problems == []
            found = [number(block) for _, block in journal.blocks()]
            if any(at % 4 == 1 for at in found if at != 99):
                assert journal.source(self.origin.sha256) == b"dump"
        assert found.pop() == 99
        return found


def _operations(directory: Path) -> int:
    disk = FaultyDisk()
    directory.mkdir()
    script = Script(directory)
    script.run(disk)
    assert script.acknowledged == list(range(14))
    assert script.recovered() == list(range(14))
    return disk.count


def _each(tmp_path: Path, fault: str, check: Callable[[Script, FaultyDisk], None]) -> None:
    count = _operations(tmp_path / "sound")
    assert count >= 60
    for at in range(count):
        directory = tmp_path / f"{fault}-{at}"
        directory.mkdir()
        script, disk = Script(directory), FaultyDisk(at, fault)
        with contextlib.suppress(Crash):
            script.run(disk)
        check(script, disk)


def _is_within(part: list[int], whole: list[int]) -> bool:
    """Return whether ``part`` is ``whole`` with items left out."""
    rest = iter(whole)
    return all(item in rest for item in part)


@pytest.mark.parametrize("fault", ["fail", "full", "shorten"])
def test_after_any_single_failure_the_session_goes_on_and_nothing_acknowledged_is_lost(
    tmp_path: Path, fault: str
) -> None:
    def check(script: Script, disk: FaultyDisk) -> None:
        recovered = script.recovered()
        assert _is_within(script.acknowledged, recovered), (disk.at, script.acknowledged, recovered)
        assert _is_within(recovered, script.tried), (disk.at, recovered)
        if fault == "shorten":
            assert script.acknowledged == list(range(14))
        else:
            assert len(script.acknowledged) >= 7

    _each(tmp_path, fault, check)


@pytest.mark.parametrize("fault", ["fail", "full"])
def test_when_the_power_goes_after_a_failure_nothing_acknowledged_is_lost(tmp_path: Path, fault: str) -> None:
    """What was not synced is gone after a power cut, so that a failed sync that was taken for a good one would show."""

    def check(script: Script, disk: FaultyDisk) -> None:
        disk.lose_power(keep=False)
        recovered = script.recovered()
        assert _is_within(script.acknowledged, recovered), (disk.at, script.acknowledged, recovered)
        assert _is_within(recovered, script.tried), (disk.at, recovered)

    _each(tmp_path, fault, check)


@pytest.mark.parametrize("keep", [True, False], ids=["process dies", "power goes"])
@pytest.mark.parametrize("fault", ["crash", "tear"])
def test_after_a_crash_at_any_operation_the_acknowledged_is_there_and_at_most_one_more(
    tmp_path: Path, fault: str, keep: bool
) -> None:
    def check(script: Script, disk: FaultyDisk) -> None:
        disk.lose_power(keep=keep)
        recovered = script.recovered()
        assert recovered in (script.acknowledged, script.tried), (disk.at, script.acknowledged, recovered)

    _each(tmp_path, fault, check)


def test_a_disk_that_lies_about_one_operation_leads_to_a_clean_answer(tmp_path: Path) -> None:
    """No program can keep what a disk drops. A loss inside is named; one at the end of a session leaves no trace here.

    (A graph that had applied more shows it: its position is above the journal's.)
    """

    def check(script: Script, disk: FaultyDisk) -> None:
        disk.lose_power(keep=False)
        try:
            with Journal.open(script.directory, writable=True, disk=FaultyDisk()) as journal:
                journal.append(small(99))
            with Journal.open(script.directory, writable=False) as journal:
                found = [number(block) for _, block in journal.blocks(on_problem=lambda problem: None)]
                lost = set(script.acknowledged) - set(found)
                named = journal.check() or _events(script.directory)
        except StoreError:
            return
        assert found[-1] == 99
        assert _is_within(found[:-1], script.tried), (disk.at, found)
        assert named or _are_last(lost, script.acknowledged), (disk.at, lost)

    _each(tmp_path, "drop", check)


def _are_last(lost: set[int], acknowledged: list[int]) -> bool:
    """Return whether, in each of the two sessions, only the last batches are lost."""
    for session in (range(7), range(7, 14)):
        own = [at for at in acknowledged if at in session]
        gone = [at for at in own if at in lost]
        if gone != own[len(own) - len(gone) :]:
            return False
    return True


def _events(directory: Path) -> bool:
    return any(b'"event":"recovery"' in path.read_bytes() for path in directory.glob("seg-*"))
