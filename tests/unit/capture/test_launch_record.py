"""The records of the agent that launched a job: read once, bounded, and never in the way of training."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from conftest import captured, needs_hooks, run_job

from provstore.capture.recording import launch
from provstore.capture.recording.launch import launch_found, launch_of

SUBMIT = {"action_id": "submit", "tool_name": "submit_job", "state_changing": True, "timestamp_ms": 1}


def said(**more: Any) -> dict[str, Any]:
    return {"schema_version": "aep/v0.5", "run_id": "agent", "created_at_ms": 1, "actions": [{**SUBMIT, **more}]}


def decided(decision: str) -> dict[str, Any]:
    return said(capability_decision={"capability": "c", "subject": "s", "resource": "r", "decision": decision})


def written(path: Path, *records: dict[str, Any], tail: str = "") -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in records) + tail)
    return path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("launched")
    written(folder / "denied.jsonl", decided("deny"))
    written(folder / "allowed.jsonl", decided("allow"))
    (folder / "broken.jsonl").write_text("no record")
    job = run_job("launched", folder / "capture", "denied", "allowed", "broken", "missing", ranks=1)
    assert job.codes == [0], job.texts
    return job.out


def lines(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in captured(folder, 0) if line["t"] == kind]


def demanded(folder: Path) -> dict[str, dict[str, str]]:
    return {line.get("op", "load"): line["policy"] for kind in ("call", "checkpoint") for line in lines(folder, kind)}


@needs_hooks
@pytest.mark.parametrize("name", ["denied", "environment"])
def test_a_denied_launch_demands_every_action_in_full_and_the_header_says_why(recorded: Path, name: str) -> None:
    full = {"mode": "full", "reason": "consent anomaly recorded", "rule": "2"}
    file = recorded.parent / "denied.jsonl"

    assert set(map(str, demanded(recorded / name).values())) == {str(full)}
    assert lines(recorded / name, "header")[0]["launch"] == {
        "file": "denied.jsonl",
        "digest": f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}",
        "bytes": file.stat().st_size,
        "action": "agent/submit",
        "evaluated": True,
        "consent_anomaly": True,
        "reason": "agent/submit: capability_decision: c: denied",
    }
    assert lines(recorded / name, "fault") == []


@needs_hooks
def test_an_allowed_launch_changes_nothing(recorded: Path) -> None:
    assert {op: one["rule"] for op, one in demanded(recorded / "allowed").items()} == {
        "all_reduce": "6", "barrier": "7", "load": "6",
    }  # fmt: skip
    assert lines(recorded / "allowed", "header")[0]["launch"]["consent_anomaly"] is False


@needs_hooks
@pytest.mark.parametrize(
    ("name", "reason"), [("broken", "broken.jsonl: agent evidence"), ("missing", "missing.jsonl: No such file")]
)
def test_a_file_that_cannot_be_used_is_a_fault_and_no_anomaly_and_the_header_says_that_nothing_was_evaluated(
    recorded: Path, name: str, reason: str
) -> None:
    header = lines(recorded / name, "header")[0]["launch"]
    (fault,) = lines(recorded / name, "fault")

    assert {one["rule"] for one in demanded(recorded / name).values()} == {"6", "7"}
    assert (header["evaluated"], "consent_anomaly" in header) == (False, False)
    assert header["reason"].startswith(reason)
    assert (fault["where"], fault["error"]) == ("launch record", header["reason"])


def test_nothing_is_read_where_no_file_is_named() -> None:
    assert launch_of(None, "agent/submit", {}) is None
    assert launch_of(None, None, {"PROVSTORE_LAUNCH_RECORD": ""}) is None


def test_without_a_named_action_the_file_is_kept_by_its_digest_and_not_evaluated(tmp_path: Path) -> None:
    found = launch_of(written(tmp_path / "a.jsonl", decided("deny")), None, {})

    assert found is not None
    assert found.header()["reason"] == "no launching action is named"
    assert found.sha256 == hashlib.sha256((tmp_path / "a.jsonl").read_bytes()).hexdigest()
    assert not found.consent.has_anomaly


def test_a_file_is_read_up_to_its_limit_and_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.jsonl", decided("deny"))
    monkeypatch.setattr(launch, "MAX_BYTES", path.stat().st_size)
    found = launch_of(path, "agent/submit", {})
    assert found is not None
    assert found.consent.has_anomaly

    monkeypatch.setattr(launch, "MAX_BYTES", path.stat().st_size - 1)
    found = launch_of(path, "agent/submit", {})
    assert found is not None
    assert found.fault == f"a.jsonl: has more than {path.stat().st_size - 1} bytes"


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        found = launch_of(path, "agent/submit", {})
        assert found is not None
        assert found.fault == f"{path.name}: is no file"


def test_an_unreadable_record_beside_a_harmless_one_leaves_the_question_open_and_beside_a_denial_does_not(
    tmp_path: Path,
) -> None:
    torn = '{"schema_version":"aep/v0.5","run_id":"agent","act'
    for decision, evaluated in (("allow", False), ("deny", True)):
        found = launch_of(written(tmp_path / "a.jsonl", decided(decision), tail=torn), "agent/submit", {})
        assert found is not None
        assert (found.consent.is_evaluated, found.consent.has_anomaly) == (evaluated, evaluated)


def test_what_the_program_itself_states_holds_beside_a_file_that_shows_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", decided("allow"))

    alone, beside = (launch_found(file, "agent/submit", is_stated=True) for file in (None, path))

    assert alone is not None
    assert beside is not None
    assert alone.header() == {"evaluated": True, "reason": "the program says so", "consent_anomaly": True}
    assert (beside.consent.has_anomaly, beside.file) == (True, "a.jsonl")


def test_whatever_fails_in_reading_is_a_fault_and_never_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(launch, "launch_of", fails)
    found = launch_found("x", "agent/submit", is_stated=False)

    assert found is not None
    assert (found.fault, found.consent.has_anomaly) == ("RuntimeError: broken", False)
