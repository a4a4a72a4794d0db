"""Where a NaN came from: rank, call, and the batch that this rank trained on in the step, wherever it is told."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from captures import RankCapture

import provstore
from provstore.api import assistant
from provstore.api.carrying import listed_with
from provstore.api.recording import record
from provstore.cli._app import run
from provstore.journal import Journal
from provstore.model import canonical

WORLD, STEPS, EPOCHS = 3, 4, 2
ORIGIN_RANK, ORIGIN_STEP = 2, 6
"""In epoch 1, where it is the third step."""


def digest(rank: int, epoch: int, batch: int) -> str:
    """Of the ids of a batch: SHA-256 of their canonical list."""
    ids = canonical.encode([f"{rank}-{epoch}-{batch}-{sample}" for sample in range(8)])
    return f"sha256:{hashlib.sha256(ids).hexdigest()}"


def captured(
    directory: Path, *, batches: int = 1, known: bool = True, anchored: bool = True, grad: bool = False
) -> str:
    """Two epochs of four steps; rank 2 puts a NaN into the call of step 6. Return the address of its store.

    ``batches`` are noted in each step, with its number where that is ``known``; ``grad``: its gradient is seen too.
    """
    for rank in range(WORLD):
        capture = RankCapture(directory / "c", rank, WORLD)
        for epoch in range(EPOCHS):
            capture.begin(epoch, epoch * STEPS)
            for step in range(epoch * STEPS, (epoch + 1) * STEPS):
                first = (step - epoch * STEPS) * batches
                for batch in range(first, first + batches):
                    capture.lines.append(
                        {"t": "data", "epoch": epoch, "at_ns": capture.now(), "batch": batch, "count": 8,
                         "ids_digest": digest(rank, epoch, batch), **({"step": step} if known else {})}
                    )  # fmt: skip
                is_origin = (rank, step) == (ORIGIN_RANK, ORIGIN_STEP)
                if grad and rank == ORIGIN_RANK:
                    seen_gradient(capture, epoch, step, finite=not is_origin)
                is_met = step > ORIGIN_STEP or is_origin
                capture.call(epoch, step=step, finite_in=not is_met, finite_out=step < ORIGIN_STEP)
                if anchored:
                    capture.lines.append(
                        {"t": "anchor", "epoch": epoch, "step": step, "rng": "r", "order": "o",
                         "cursor": first + batches}
                    )  # fmt: skip
            capture.end(epoch)
        capture.write()
    uri = f"embedded:{directory / 'store'}"
    record([directory / "c"], store=uri)
    return uri


def seen_gradient(capture: RankCapture, epoch: int, step: int, *, finite: bool) -> None:
    policy = {"mode": "validation", "reason": "read-only, no anomaly", "rule": "7"}
    capture.lines.append(
        {"t": "tensor", "ordinal": capture._ordinal, "epoch": epoch, "step": step, "at_ns": capture.now(),
         "op": "tensor.grad", "name": "0.weight", "class": "read", "policy": policy, "mode": "validation",
         "shortfall": [], "finite": finite, "shape": [2], "dtype": "float32",
         "carried_by": [f"gloo/0@0-{WORLD - 1}/{capture._seq}/{capture.rank}"]}
    )  # fmt: skip
    capture._ordinal += 1


def origin(uri: str, **arguments: Any) -> dict[str, Any]:
    """The one row that names the origin."""
    (row,) = assistant.ask("list_suspicious_actions", {"run": "job", **arguments}, uri)["actions"]
    assert (row["code"], row["rank"], row["step"], row["epoch"]) == ("nan-origin", ORIGIN_RANK, ORIGIN_STEP, 1)
    return dict(row)


def expected(*batches: int) -> list[dict[str, Any]]:
    return [{"epoch": 1, "batch": one, "samples": 8, "ids_digest": digest(ORIGIN_RANK, 1, one)} for one in batches]


def test_the_batch_of_the_rank_in_that_step_is_named_in_every_answer_about_the_origin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = captured(tmp_path)
    told = f"Rank 2 trained on batch 2 of epoch 1 in this step (8 samples, ids {digest(2, 1, 2)[:19]}…)."
    for arguments in ({}, {"epoch": 1}):
        row = origin(uri, **arguments)
        assert (row["batches"], row["batch_count"]) == (expected(2), 1)
        assert row["reason"].endswith(f"; all it had before was finite. {told}")
    first = assistant.ask("summarize_epoch", {"run": "job", "epoch": 1}, uri)["first_non_finite"]
    assert (first["batches"], first["reason"]) == (expected(2), row["reason"])

    page = listed_with("nan-origin", store=uri).carried
    assert page is not None
    assert [one.summary for one in page.rows] == [row["reason"]]

    assert run(["--store", uri, "diagnose", "run:job", "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert (found["code"], found["batches"], found["batch_count"]) == ("nan-origin", expected(2), 1)
    assert found["summary"] == row["reason"]
    assert run(["--store", uri, "diagnose", "run:job"]) == 1
    assert told in " ".join(capsys.readouterr().out.split())


def test_a_program_finds_step_call_group_carrier_and_record_of_the_origin_in_its_members(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = captured(tmp_path)
    row = origin(uri)
    assert run(["--store", uri, "diagnose", "run:job", "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]

    assert (found["action_id"], found["step"], found["epoch"]) == (row["action_id"], ORIGIN_STEP, 1)
    assert found["carried_by"] == row["carried_by"]
    carrier = found["carried_by"][0] if found["carried_by"] else found["action_id"]
    assert carrier == f"gloo/{found['group']['name']}/{found['seq']}/{ORIGIN_RANK}"
    assert found["group"] == {"name": f"0@0-{WORLD - 1}", "desc": "", "ranks": [*range(WORLD)], "basis": "observed"}
    assert found["channel"] == "collective"
    assert found["next_step"]
    (place, *_) = found["evidence"]
    assert place["rank"] == ORIGIN_RANK
    with Journal.open(tmp_path / "store" / "journal", writable=False) as journal:
        (record,) = [one for one in journal.evidence("job", 0).records() if one.index == place["record_id"]]
    assert f'"action_id":"{row["action_id"]}"'.encode() in record.line
    assert place["digest"] == hashlib.sha256(record.line).hexdigest()
    assert place["file"] == record.where.partition(" ")[0]


def test_what_is_told_of_a_batch_accuses_it_of_nothing(tmp_path: Path) -> None:
    with provstore.open(captured(tmp_path), read_only=True) as opened:
        (found,) = opened.diagnose(run="job").findings
    assert [one.rank for one in found.culprits] == [ORIGIN_RANK]
    assert not {"cause", "because", "from batch", "culprit"} & set(found.summary.split())


def test_of_several_batches_in_the_step_all_are_named_as_one_of(tmp_path: Path) -> None:
    row = origin(captured(tmp_path, batches=2))
    assert (row["batches"], row["batch_count"]) == (expected(4, 5), 2)
    words = ", ".join(f"batch {one} (8 samples, ids {digest(2, 1, one)[:19]}…)" for one in (4, 5))
    told = "Rank 2 trained on 2 batches of epoch 1 in this step; which of them it had here is not recorded, one of: "
    assert row["reason"].endswith(f"{told}{words}.")


def test_of_many_batches_in_the_step_the_first_are_named_and_all_are_counted(tmp_path: Path) -> None:
    row = origin(captured(tmp_path, batches=40))
    assert (row["batches"], row["batch_count"]) == (expected(*range(80, 96)), 40)
    assert "trained on 40 batches of epoch 1" in row["reason"]
    assert row["reason"].endswith(" and 37 more.")


def test_batches_that_were_written_before_a_long_step_ended_are_placed_by_the_anchors(tmp_path: Path) -> None:
    assert origin(captured(tmp_path, known=False))["batches"] == expected(2)


@pytest.mark.parametrize("given", [{"batches": 0}, {"known": False, "anchored": False}])
def test_where_none_was_recorded_or_its_step_is_not_known_no_batch_is_mentioned(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    row = origin(captured(tmp_path, **given))
    assert (row["batches"], row["batch_count"]) == ([], 0)
    assert "batch" not in row["reason"]


def test_of_a_step_that_the_job_did_not_end_the_batch_since_the_last_one_is_named(tmp_path: Path) -> None:
    for rank in range(WORLD):
        capture = RankCapture(tmp_path / "c", rank, WORLD)
        capture.begin(0)
        for step in range(3):
            ids = {"batch": step, "count": 8, "ids_digest": digest(rank, 0, step)}
            is_ended, is_origin = step < 2, (rank, step) == (2, 2)
            number = {"step": step} if is_ended else {}
            capture.lines.append({"t": "data", "epoch": 0, "at_ns": capture.now(), **ids, **number})
            said = capture.call(0, finite_in=not is_origin, finite_out=is_ended)
            if is_ended:
                said["step"] = step
                capture.lines.append({"t": "anchor", "epoch": 0, "step": step, "rng": "r", "cursor": step + 1})
            else:
                del said["step"]
        capture.end(0, closed=False, reason="exception")
        capture.write()
    uri = f"embedded:{tmp_path / 'store'}"
    record([tmp_path / "c"], store=uri)
    (row,) = assistant.ask("list_suspicious_actions", {"run": "job"}, uri)["actions"]
    assert (row["rank"], row["step"], [one["batch"] for one in row["batches"]]) == (2, None, [2])
    told = f"Rank 2 had batch 2 of epoch 0 after the last step that it ended (8 samples, ids {digest(2, 0, 2)[:19]}…)."
    assert row["reason"].endswith(told)


def test_the_gradient_that_had_it_first_is_named_with_its_parameter_its_call_and_the_batch(tmp_path: Path) -> None:
    row = origin(captured(tmp_path, grad=True))
    assert (row["op"], row["parameter"], row["carried_by"]) == ("tensor.grad", "0.weight", ["gloo/0@0-2/6/2"])
    assert row["batches"] == expected(2)
    assert "0.weight, tensor.grad at step 6, carried by all_reduce #6 in group 0@0-2 at step 6;" in row["reason"]


def test_the_id_of_the_finding_does_not_depend_on_what_is_known_of_batches(tmp_path: Path) -> None:
    said = []
    for name, batches in (("with", 1), ("without", 0)):
        uri = captured(tmp_path / name, batches=batches)
        said.append(origin(uri)["finding"])
    assert len(set(said)) == 1


def test_what_is_kept_of_it_is_what_the_journal_gives(tmp_path: Path) -> None:
    from provstore.api import overview

    captured(tmp_path)
    with Journal.open(tmp_path / "store" / "journal", writable=False) as journal:
        assert overview.untrue(journal, ("job", 0)) == []
