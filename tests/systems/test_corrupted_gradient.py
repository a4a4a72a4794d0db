"""A job that ends well and holds one wrong gradient: the one action that is named is the one that was spoilt."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from provstore.cli._app import run
from tests.torch_jobs import needs_hooks, run_script

ROOT = Path(__file__).parents[2]
JOB = Path(__file__).with_name("corrupted_job.py")
WORLD, STEPS, BAD_RANK, BAD_STEP = 4, 5, 2, 3
SEQ = BAD_STEP + 1
"""gloo counts its calls from 1."""


pytestmark = needs_hooks


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the jobs and take in what they left; return the folder."""
    folder = tmp_path_factory.mktemp("corrupted")
    done = run_script(JOB, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    for fault in ("none", "corrupt", "nan"):
        assert run([*store(folder), "--quiet", "record", str(folder / fault / "capture"), "--run", fault]) == 0
    return folder


def store(folder: Path) -> list[str]:
    return ["--store", f"embedded:{folder / 'store'}"]


def asked(folder: Path, capsys: pytest.CaptureFixture[str], tool: str, **arguments: Any) -> dict[str, Any]:
    capsys.readouterr()
    assert run([*store(folder), "agent-query", "--tool", tool, "--args", json.dumps(arguments)]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_everything_that_was_asked_for_is_recorded(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for fault in ("none", "corrupt", "nan"):
        counts = asked(jobs, capsys, "summarize_epoch", run=fault, epoch=0)["counts"]
        assert counts["recording_mode"] == {"full": WORLD * STEPS}
        assert counts["shortfall"] == {}
        answer = asked(jobs, capsys, "list_suspicious_actions", run=fault)
        assert set(answer["coverage"].values()) == {WORLD * STEPS}, "flags, digests and statistics of every call"


def test_a_sound_job_has_no_suspicious_action(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = asked(jobs, capsys, "list_suspicious_actions", run="none")

    assert (answer["actions"], answer["affected"], answer["undecided"]) == ([], 0, [])


@pytest.mark.parametrize(("fault", "code"), [("corrupt", "cross-rank-outlier"), ("nan", "nan-origin")])
def test_exactly_the_spoilt_action_is_suspicious_and_those_after_it_are_affected(
    jobs: Path, capsys: pytest.CaptureFixture[str], fault: str, code: str
) -> None:
    answer = asked(jobs, capsys, "list_suspicious_actions", run=fault)

    (found,) = answer["actions"]
    assert (found["rank"], found["step"], found["seq"], found["op"]) == (BAD_RANK, BAD_STEP, SEQ, "all_reduce")
    assert found["code"] == code
    assert found["score"] > 0.8
    # What the others got out of the call, and the call after it on every rank.
    assert answer["affected"] == (WORLD - 1) + WORLD * (STEPS - 1 - BAD_STEP)


def test_the_origin_of_a_nan_is_told_with_the_batch_that_its_rank_had_in_that_step(
    jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = b'["2003","2503"]'
    digest = f"sha256:{hashlib.sha256(ids).hexdigest()}"
    batch = {"epoch": 0, "batch": BAD_STEP, "samples": 2, "ids_digest": digest}
    (found,) = asked(jobs, capsys, "list_suspicious_actions", run="nan")["actions"]
    assert found["batches"] == [batch]
    assert asked(jobs, capsys, "summarize_epoch", run="nan", epoch=0)["first_non_finite"]["batches"] == [batch]
    (outlier,) = asked(jobs, capsys, "list_suspicious_actions", run="corrupt")["actions"]
    assert outlier["batches"] == []


def test_the_output_of_the_spoilt_call_has_its_32_ancestors(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*store(jobs), "--quiet", "ingest", str(jobs / "corrupt" / "dumps")]) == 0
    entity = f"tensor:{BAD_RANK}:{SEQ}:out"
    answer = asked(jobs, capsys, "trace_tensor", run="corrupt", entity_id=entity, depth=50, limit=200)

    base = "https://w3id.org/provstore/id/corrupt/0/gloo/0@0-3/"
    activities = {f"{base}{seq}" for seq in range(1, SEQ + 1)}
    inputs = {f"{base}{seq}/{rank}/in" for seq in range(1, SEQ + 1) for rank in range(WORLD)}
    outputs = {f"{base}{seq}/{rank}/out" for seq in range(1, SEQ) for rank in range(WORLD)}
    found = [one["id"] for one in answer["causal_ancestors"]]
    assert set(found) == activities | inputs | outputs
    assert len(found) == 32
