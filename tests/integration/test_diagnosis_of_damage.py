"""A diagnosis of a recorded run whose journal has lost records says so, and does not take them for never recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from captures import RankCapture

import provstore
from provstore.api.recording import record
from provstore.errors import InputError, StoreError


def recorded(place: Path, *, finite: bool) -> None:
    """Two ranks, of which rank 1 puts a NaN into the third call, or does not."""
    for rank in range(2):
        capture = RankCapture(place / "c", rank, 2)
        capture.begin(0)
        for at in range(4):
            capture.call(0, finite_in=finite or at < 2 or (at == 2 and rank == 0), finite_out=finite or at < 2)
        capture.end(0)
        capture.write()
    record([place / "c"], journal=place / "store" / "journal", store=f"embedded:{place / 'store'}")


def flip(place: Path, text: bytes) -> None:
    (segment,) = (place / "store" / "journal").glob("*.pvj")
    content = bytearray(segment.read_bytes())
    content[content.index(text)] ^= 1
    segment.write_bytes(content)


def diagnosed(place: Path) -> provstore.Diagnosis:
    with provstore.open(f"embedded:{place / 'store'}", read_only=True) as store:
        return store.diagnose(run="job")


def test_a_nan_whose_record_is_damaged_is_no_run_without_anything_to_judge(tmp_path: Path) -> None:
    recorded(tmp_path, finite=False)
    assert [one.rank for found in diagnosed(tmp_path).findings for one in found.culprits] == [1]

    flip(tmp_path, b'"action_id":"gloo/0@0-1/2/1"')

    with pytest.raises(StoreError, match=r"job: attempt 0: .*are damaged.*what was recorded there is not judged"):
        diagnosed(tmp_path)


def test_without_damage_a_run_of_finite_values_has_nothing_to_diagnose_for_want_of_dumps(tmp_path: Path) -> None:
    recorded(tmp_path, finite=True)

    found = diagnosed(tmp_path)
    assert (found.status, found.findings) == ("undecided", ())
    (reason,) = found.undecided
    assert (reason.code, reason.blocks_answer) == ("missing_dump", True)
    assert reason.what.startswith("nothing to diagnose: no dump of it is stored")
    assert "collectives/lagging_ranks" in reason.next_step


def test_of_a_run_whose_values_were_all_seen_to_be_finite_a_nan_is_ruled_out_without_any_dump(tmp_path: Path) -> None:
    recorded(tmp_path, finite=True)

    with provstore.open(f"embedded:{tmp_path / 'store'}", read_only=True) as store:
        assert store.diagnose(run="job", about="nan").status == "healthy"
        assert store.diagnose(run="job", about="hang").status == "undecided"
        with pytest.raises(InputError, match="other"):
            store.diagnose(run="other")
