"""One lost blob takes from a replay only what is told by that blob; what the rest tells is still told."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from captures import FULL, READ, RankCapture, floats, tensor_digest
from signed_captures import packed

from provstore.api.diffing import diff
from provstore.api.recording import record
from provstore.api.replaying import Replay, ReplayRequest, replay
from provstore.cli._app import run as command_line
from provstore.ingest import capture_tables, recording
from provstore.journal import Journal

RUNS = ("job", "again")


def capture(folder: Path, run: str) -> Path:
    """Write two ranks with three sums that were kept, and one that was not.

    Times differ between runs, so that no table of theirs is the same blob.
    """
    folder.mkdir()
    for rank in range(2):
        made = RankCapture(folder, rank, run=run)
        made.begin(0)
        made.lines.append(
            {"t": "data", "epoch": 0, "step": 0, "at_ns": 5 + len(run), "batch": 0, "ids_digest": "sha256:" + "a" * 64}
        )
        for at in range(3):
            values, total = floats(1.0 + rank, at), floats(3.0, 2.0 * at)
            said = made.call(0, values, mode="full", policy=FULL, out=tensor_digest("float32", [2], total))
            for side, kept in (("in", values), ("out", total)):
                made.snapshot(said, side, kept)
        made.call(0, floats(1.0, 1.0), mode="validation", policy=READ, shortfall=["time-budget"])
        made.lines.append({"t": "anchor", "epoch": 0, "step": 0, "at_ns": 6 + len(run), "params": "sha256:" + "b" * 64})
        made.end(0)
        made.write()
    return folder


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lost")
    with pytest.MonkeyPatch.context() as patch:
        # What a call keeps, 8 bytes that went in and 8 that came out, is a blob of its own.
        patch.setattr(capture_tables, "_PACK_BYTES", 16)
        record([capture(folder / run, run) for run in RUNS], store=f"embedded:{folder / 'store'}")
    return folder / "store"


@pytest.fixture
def store(recorded: Path, tmp_path: Path) -> Path:
    return shutil.copytree(recorded, tmp_path / "store")


def blobs(store: Path, role: str, run: str = "job") -> list[Path]:
    with Journal.open(store / "journal", writable=False) as journal:
        (bundle,) = recording.stored_bundles(journal, run)
        names = [one["sha256"] for one in sorted(bundle.blobs(role), key=lambda one: one["rank"] or 0)]
    return [store / "journal" / "blobs" / name[:2] / f"{name}.zst" for name in names]


def replayed(store: Path, **more: object) -> Replay:
    return replay(ReplayRequest("job", 0, execute=True, **more), store=f"embedded:{store}")


def verdicts(found: Replay) -> list[str]:
    return [one.verdict.name for one in found.executed or ()]


def test_all_that_was_kept_is_recomputed(store: Path) -> None:
    found = replayed(store)
    assert verdicts(found) == ["exact"] * 3
    assert (found.lost, found.exit_code) == ((), 3), "of one call nothing was kept"


def test_a_lost_blob_takes_its_own_collective_alone(store: Path) -> None:
    one, *_ = blobs(store, "snapshot")
    one.unlink()
    found = replayed(store)
    assert sorted(verdicts(found)) == ["exact", "exact", "not-recomputable"]
    (without,) = [one for one in found.executed or () if one.verdict.name == "not-recomputable"]
    (lack,) = without.verdict.missing
    assert (lack.rank, lack.what) == (0, "input")
    assert "bytes missing" in lack.reason
    assert one.stem[:12] in lack.reason
    assert [(lost.role, lost.state, lost.sha256) for lost in found.lost] == [("snapshot", "missing", one.stem)]
    assert found.exit_code == 3


def test_a_damaged_blob_is_named_so_and_answers_no(store: Path) -> None:
    one, *_ = blobs(store, "snapshot")
    one.write_bytes(packed(b"another"))
    found = replayed(store)
    assert sorted(verdicts(found)) == ["exact", "exact", "not-recomputable"]
    (reason,) = [lack.reason for one in found.executed or () for lack in one.verdict.missing]
    assert "bytes damaged" in reason
    assert [lost.state for lost in found.lost] == ["damaged"]
    assert found.exit_code == 1


@pytest.mark.parametrize(
    ("role", "item"),
    [("headers", "environment"), ("data", "data-order"), ("anchors", "anchors")],
)
def test_an_item_of_a_plan_whose_table_is_lost_is_missing_for_that_reason_and_the_rest_is_told(
    store: Path, role: str, item: str
) -> None:
    lost = blobs(store, role)[0]
    lost.unlink()
    found = replayed(store)
    assert verdicts(found) == ["exact"] * 3
    of_it = found.plan.item(item)
    assert of_it.state == "missing"
    assert f"bytes missing: blob {lost.stem[:12]}" in of_it.detail
    assert "were not recorded" not in of_it.detail
    assert (found.plan.verdict, found.exit_code) == ("approximate", 3)


def test_a_table_that_was_altered_is_a_mismatch_of_its_item(store: Path) -> None:
    blobs(store, "data")[0].write_bytes(packed(b"{}\n"))
    found = replayed(store)
    assert found.plan.item("data-order").state == "mismatch"
    assert found.exit_code == 1


def test_without_the_table_of_snapshots_nobody_is_told_that_nothing_was_kept(store: Path) -> None:
    for one in blobs(store, "snapshots-index"):
        one.unlink()
    found = replayed(store)
    assert verdicts(found) == []
    assert not any("nothing was recomputed: of no collective" in note for note in found.notes)
    assert {one.role for one in found.lost} == {"snapshots-index"}
    assert {why for why, _ in found.not_kept} == {"not known: the table of what was kept cannot be read"}


def test_the_command_shows_plan_and_lost_bytes(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, *_ = blobs(store, "snapshot")
    one.unlink()
    words = ["--store", f"embedded:{store}", "replay", "--run", "job", "--epoch", "0", "--execute"]
    assert command_line(words) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "run job, attempt 0, epoch 0: approximate" in said
    assert "2 of 4 collectives recomputed: 2 exact; 1 not-recomputable; 1 not kept" in said
    assert f"snapshot of epoch 0 (blob {one.stem[:12]}…) is missing" in said
    assert command_line(["--json", *words]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert answer["unreadable"][0]["sha256"] == one.stem
    assert answer["counts"] == {
        "exact": 2, "explained": 0, "within-bound": 0, "mismatch": 0, "not-recomputable": 1, "not-kept": 1,
        "not-asked": 0,
    }  # fmt: skip
    assert sum(answer["counts"].values()) == answer["collectives"] == 4
    assert answer["not_kept"] == [{"reason": "time-budget", "collectives": 1}]


def test_lost_anchors_of_a_re_run_are_no_difference(store: Path) -> None:
    equal = replayed(store, against="again")
    assert equal.anchors is not None
    assert equal.anchors.is_equal
    blobs(store, "anchors", "again")[0].unlink()
    found = replayed(store, against="again")
    assert found.anchors is None or found.anchors.first is None
    assert found.exit_code == 3
    assert [(one.bundle.run, one.role) for one in found.lost] == [("again", "anchors")]


@pytest.mark.parametrize("role", ["anchors", "data", "headers"])
def test_a_table_that_one_of_two_compared_runs_lost_is_no_difference_and_is_named(store: Path, role: str) -> None:
    whole = diff("job", "again", store=f"embedded:{store}")
    assert (whole.exit_code, whole.lost) == (0, ())
    blobs(store, role, "again")[0].unlink()
    found = diff("job", "again", store=f"embedded:{store}")
    assert found.divergence.first_divergence is None
    assert found.exit_code == 3
    assert [(one.bundle.run, one.role) for one in found.lost] == [("again", role)]
    assert found.to_dict()["unreadable"] == [one.to_dict() for one in found.lost]
