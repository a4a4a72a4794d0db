"""Tables beside the records that are lost, cut or damaged: what is still known is told, what is missing is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from captures import RankCapture, floats

import provstore
from provstore.api import assistant, overview
from provstore.api.recording import record
from provstore.cli._app import run
from provstore.errors import StoreError
from provstore.evidence.content import statistics_line
from provstore.evidence.content.statistics_line import Statistics
from provstore.ingest import recording
from provstore.journal import Journal, blobs
from provstore.model import canonical

WORLD, STEPS, EPOCHS = 4, 6, 2
ORIGIN_RANK, ORIGIN_STEP = 2, 8
"""In epoch 1, where it is the third step."""
LARGE_RANK, LARGE_STEP = 3, 2
"""In epoch 0: it puts in values 10,000 times as large as the others."""
BATCH = "Rank 2 trained on batch 2 of epoch 1 in this step"
DIGEST = "sha256:" + "0" * 64


def stated(size: float) -> str:
    figures = Statistics(64, min=-size, max=size, abs_max=size, l2=size, percentiles=(size,) * 7, sample_n=64)
    return statistics_line.line(figures).decode()


def captured(
    place: Path, *, finite: bool | None = False, large: bool = True, loss: Callable[[int, int], float] = lambda *_: 1.0
) -> str:
    """Two epochs of six steps: a NaN of rank 2 in step 8, large values of rank 3 in step 2. Return the store.

    ``finite``: without the NaN; ``None``: no finite flags are recorded.
    """
    for rank in range(WORLD):
        capture = RankCapture(place / "c", rank, WORLD)
        for epoch in range(EPOCHS):
            capture.begin(epoch, epoch * STEPS)
            for step in range(epoch * STEPS, (epoch + 1) * STEPS):
                batch = step - epoch * STEPS
                capture.lines.append(
                    {"t": "data", "epoch": epoch, "at_ns": capture.now(), "batch": batch, "count": 8, "step": step,
                     "ids_digest": DIGEST}
                )  # fmt: skip
                is_origin = (rank, step) == (ORIGIN_RANK, ORIGIN_STEP) and finite is False
                is_met = (step > ORIGIN_STEP and finite is False) or is_origin
                said = capture.call(epoch, floats(*[1.0] * 64), step=step)
                said["finite_in"], said["finite_out"] = not is_met, finite is True or step < ORIGIN_STEP
                if finite is None:
                    del said["finite_in"], said["finite_out"]
                is_large = large and (rank, step) == (LARGE_RANK, LARGE_STEP)
                said["stats_in"], said["stats_out"] = stated(10_000.0 if is_large else 1.0 + rank / 10), stated(4.0)
                capture.lines.append(
                    {"t": "anchor", "epoch": epoch, "step": step, "rng": "r", "order": "o", "cursor": batch + 1,
                     "params": DIGEST}
                )  # fmt: skip
                capture.lines.append(
                    {"t": "step", "epoch": epoch, "step": step, "at_ns": capture.now(),
                     "loss": canonical.tag_double(loss(rank, step))}
                )  # fmt: skip
            capture.end(epoch)
        capture.write()
    uri = f"embedded:{place / 'store'}"
    record([place / "c"], store=uri)
    return uri


@contextmanager
def opened(uri: str) -> Iterator[Journal]:
    with Journal.open(Path(uri.removeprefix("embedded:")) / "journal", writable=False) as journal:
        yield journal


def files_of(uri: str, role: str, epoch: int) -> list[Path]:
    with opened(uri) as journal:
        stored = [one for one in recording.stored_bundles(journal, "job") if one.epoch == epoch]
        found = [
            blobs.path_of(journal.directory, blob["sha256"], blobs.SOURCE_SUFFIX)
            for one in stored
            for blob in one.blobs(role)
        ]
    assert found
    return found


def damage(uri: str, role: str, epoch: int = 1, how: str = "lost") -> None:
    """Spoil the table of a role; what was kept for questions is removed, so that they read the tables."""
    for path in files_of(uri, role, epoch):
        data = path.read_bytes()
        if how == "lost":
            path.unlink()
        elif how == "cut":
            path.write_bytes(data[: len(data) // 2])
        else:
            path.write_bytes(bytes([*data[:-6], data[-6] ^ 255, *data[-5:]]))
    forget(uri)


def forget(uri: str) -> None:
    shutil.rmtree(Path(uri.removeprefix("embedded:")) / "journal" / "derived", ignore_errors=True)


def asked(uri: str, tool: str = "list_suspicious_actions", **arguments: Any) -> dict[str, Any]:
    return assistant.ask(tool, {"run": "job", **arguments}, uri)


def notes(said: dict[str, Any]) -> list[str]:
    return [one["what"] for one in said["undecided"] if one["code"] == "unreadable_table"]


def diagnosed(uri: str, about: str | None = None) -> provstore.Diagnosis:
    with provstore.open(uri, read_only=True) as store:
        return store.diagnose(run="job", about=about)


@pytest.mark.parametrize(
    ("how", "why"), [("lost", "is missing"), ("cut", "is cut off"), ("altered", "is altered")], ids=str
)
def test_an_origin_whose_batches_cannot_be_read_is_told_without_them_and_says_why(
    tmp_path: Path, how: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = captured(tmp_path)
    damage(uri, "data", how=how)

    for said in (asked(uri), asked(uri, epoch=1)):
        (row,) = [one for one in said["actions"] if one["code"] == "nan-origin"]
        assert (row["rank"], row["step"], row["batches"], row["batch_count"]) == (ORIGIN_RANK, ORIGIN_STEP, [], 0)
        assert "batch" not in row["reason"]
        (note,) = notes(said)
        assert note.startswith("batches of rank 2 in epoch 1: not readable, because the table of its data (blob ")
        assert f") {why}" in note
    assert [one["ranks"] for one in said["undecided"] if one["code"] == "unreadable_table"] == [[ORIGIN_RANK]]
    summary = asked(uri, "summarize_epoch", epoch=1)
    assert summary["first_non_finite"]["rank"] == ORIGIN_RANK
    assert notes(summary) == [note]

    assert run(["--store", uri, "evidence", "list", "--finding", "nan-origin", "--json"]) == 0
    carried = json.loads(capsys.readouterr().out)["carried"]
    assert ([one["rank"] for one in carried["rows"]], carried["notes"]) == ([2], [f"job, attempt 0: {note}"])
    assert run(["--store", uri, "evidence", "list", "--finding", "nan-origin"]) == 0
    assert "batches of rank 2 in epoch 1: not readable" in " ".join(capsys.readouterr().out.split())

    assert run(["--store", uri, "diagnose", "run:job", "--about", "nan", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert [one["code"] for one in answer["findings"]] == ["nan-origin"]
    assert [(one["what"], one["blocks_answer"]) for one in answer["undecided"]] == [(note, False)]
    assert run(["--store", uri, "diagnose", "run:job"]) == 1
    assert "batches of rank 2 in epoch 1: not readable" in " ".join(capsys.readouterr().out.split())


def test_where_only_the_anchors_are_lost_batches_that_state_their_step_are_told(tmp_path: Path) -> None:
    uri = captured(tmp_path)
    damage(uri, "anchors")
    said = asked(uri)

    (row,) = [one for one in said["actions"] if one["code"] == "nan-origin"]
    assert BATCH in row["reason"]
    (note,) = notes(said)
    assert note.startswith("anchors of epoch 1: not readable, because the table (blob ")
    assert note.endswith("whether ranks went on holding equal parameters is not judged from there on")


def test_lost_statistics_leave_the_nan_and_the_large_values_of_other_epochs(tmp_path: Path) -> None:
    uri = captured(tmp_path)
    damage(uri, "statistics", epoch=1)

    said = asked(uri)
    assert [(one["code"], one["rank"], one["step"]) for one in said["actions"]] == [
        ("cross-rank-outlier", LARGE_RANK, LARGE_STEP),
        ("nan-origin", ORIGIN_RANK, ORIGIN_STEP),
    ]
    (note,) = notes(said)
    assert note.startswith("statistics of epoch 1: not readable, because the table (blob ")
    assert note.endswith("whose values there are far from those of the others is not judged")
    assert notes(asked(uri, epoch=0)) == []


def test_with_their_statistics_lost_nobody_is_named_for_large_values(tmp_path: Path) -> None:
    uri = captured(tmp_path)
    damage(uri, "statistics", epoch=0)

    assert [one["code"] for one in asked(uri, epoch=0)["actions"]] == []
    found = diagnosed(uri)
    assert (found.status, [one.code for one in found.findings]) == ("findings", ["nan-origin"])
    assert [one.code for one in found.undecided if one.blocks_answer] == ["unreadable_table"]


def test_a_run_of_finite_values_whose_statistics_are_lost_is_not_called_healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = captured(tmp_path, finite=True, large=False)
    damage(uri, "statistics", epoch=0, how="altered")

    assert run(["--store", uri, "diagnose", "run:job"]) == 3
    told = " ".join(capsys.readouterr().out.split())
    assert "cannot decide" in told
    assert "statistics of epoch 0: not readable" in told


def test_the_question_for_a_nan_reads_no_statistics(tmp_path: Path) -> None:
    uri = captured(tmp_path)
    damage(uri, "statistics", epoch=1)
    found = diagnosed(uri, about="nan")

    assert ([one.code for one in found.findings], found.undecided) == (["nan-origin"], ())
    assert BATCH in found.findings[0].summary


def test_losses_that_follow_lost_ones_accuse_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uri = captured(
        tmp_path, finite=None, large=False, loss=lambda rank, step: float("nan") if (rank, step) == (1, 8) else 1.0
    )
    assert [(one["code"], one["rank"]) for one in asked(uri)["actions"]] == [("nan-origin", 1)]
    damage(uri, "steps", epoch=0)

    said = asked(uri)
    assert said["actions"] == []
    (note,) = notes(said)
    assert note.startswith("losses of epoch 0: not readable, because the table (blob ")
    assert [one["rank"] for one in asked(uri, epoch=1)["actions"]] == [1], "asked alone, the epoch has all its losses"
    assert run(["--store", uri, "evidence", "list", "--finding", "nan-origin"]) == 3
    assert "losses of epoch 0: not readable" in " ".join(capsys.readouterr().out.split())
    assert run(["--store", uri, "evidence", "list", "--finding", "0123456789abcdef"]) == 3
    assert "losses of epoch 0: not readable" in " ".join(capsys.readouterr().err.split())


def test_what_could_not_be_read_is_not_kept_for_later_questions(tmp_path: Path) -> None:
    uri = captured(tmp_path)
    damage(uri, "data")
    with Journal.open(Path(uri.removeprefix("embedded:")) / "journal", writable=True) as journal:
        assert not overview.keep(journal, ("job", 0), [0, 1])


def test_what_was_kept_before_a_table_was_lost_is_compared_with_nothing_less(tmp_path: Path) -> None:
    uri = captured(tmp_path)
    for path in files_of(uri, "data", 1):
        path.unlink()

    with opened(uri) as journal, pytest.raises(StoreError, match="job: attempt 0: batches of rank 2 in epoch 1: not"):
        overview.untrue(journal, ("job", 0))
    (row,) = [one for one in asked(uri)["actions"] if one["code"] == "nan-origin"]
    assert BATCH in row["reason"], "it was worked out while the table was there"
