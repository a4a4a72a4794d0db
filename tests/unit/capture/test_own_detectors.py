"""What a live job's numbers and its own detectors escalate, from the call in the training loop to the stored graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import captured, needs_hooks, run_job

import provstore
from provstore.api.recording import record
from provstore.capture.recording.alarms import Alarms, escalation_members, left_behind
from provstore.capture.recording.capture_file import CaptureFile, line_of
from provstore.errors import ConfigError


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    job = run_job("own_detectors", tmp_path_factory.mktemp("own") / "capture", ranks=1)
    assert job.codes == [0], job.texts
    return job.out


def lines(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in captured(folder, 0) if line["t"] == kind]


def events(folder: Path) -> list[tuple[str, str, str, int, str | None]]:
    return [
        (
            one["event"],
            one["trigger"],
            one["scope"],
            one.get("closed_step", one["opened_step"]),
            one.get("close_reason"),
        )
        for one in lines(folder, "escalation")
    ]


@needs_hooks
def test_one_spike_of_the_loss_of_a_live_job_opens_one_escalation_in_its_step_and_closes_it_when_it_is_over(
    recorded: Path,
) -> None:
    # Step 40 spikes; the hold of 50 steps from there ends at 90, and 20 calm steps are long past.
    assert events(recorded / "loss")[:2] == [
        ("opened", "loss-spike", "run", 40, None), ("closed", "loss-spike", "run", 90, "clear"),
    ]  # fmt: skip
    escalated = {call["step"] for call in lines(recorded / "loss", "call") if call["policy"]["rule"] == "P2"}
    assert escalated == set(range(41, 91))


@needs_hooks
@pytest.mark.parametrize(("name", "step"), [("norm", 40), ("vanished", 1)])
def test_a_gradient_norm_that_leaps_or_vanishes_beside_a_finite_loss_escalates_its_rank(
    recorded: Path, name: str, step: int
) -> None:
    assert events(recorded / name)[0] == ("opened", "grad-norm", "rank:0", step, None)


@needs_hooks
def test_a_detector_above_its_limit_escalates_its_rank_at_once_and_ends_when_it_was_calm_long_enough(
    recorded: Path,
) -> None:
    opened, closed = lines(recorded / "score", "escalation")[:2]
    first, second = [call for call in lines(recorded / "score", "call") if call["step"] == 6 and "late" not in call]

    assert [one["source"] for one in (opened, closed)] == ["rank:0/mine"] * 2
    assert (opened["trigger"], opened["scope"], opened["rule"]) == ("detector", "rank:0", "P2")
    assert float.fromhex(opened["value"].removeprefix("f64:")) == 0.8000001
    assert float.fromhex(opened["threshold"].removeprefix("f64:")) == 0.8
    assert (first["policy"]["rule"], second["policy"]["rule"]) == ("6", "P2")
    assert second["escalations"] == ["rank:0/mine/esc-0"]
    # 0.6 is neither: from step 40 on it is below 0.5, and the twentieth such step is 59.
    assert (opened["opened_step"], closed["closed_step"], closed["close_reason"]) == (6, 59, "clear")


@needs_hooks
def test_a_score_that_is_no_number_is_a_fault_and_escalates_nothing(recorded: Path) -> None:
    (fault,) = lines(recorded / "score", "fault")

    assert fault["where"] == "detector"
    assert "mine: score: nan is not a number from 0 to 1" in fault["error"]


@needs_hooks
def test_what_a_detector_escalated_is_listed_with_its_name_from_the_store(recorded: Path, tmp_path: Path) -> None:
    uri = f"embedded:{tmp_path / 'store'}"
    record([recorded / "score"], store=uri)
    with provstore.open(uri) as store:
        rows = store.query("evidence/escalations", run="job", attempt=0).rows

    assert [(row["source"], row["trigger"], row["escalated"], row["opened_step"]) for row in rows] == [
        ("rank:0/mine", "detector", "rank:0", 6), ("rank:0/late", "detector", "rank:0", 90),
    ]  # fmt: skip
    assert [row["reason"] for row in rows] == [None, "score of step 3"]
    assert rows[0]["actions"] > 60


def test_a_detector_that_is_silent_is_neither_calm_nor_firing(tmp_path: Path) -> None:
    alarms = Alarms(tmp_path, 0, None, lambda one: None)
    alarms.saw_score("one", 0.9, None)
    alarms.saw_score("two", 0.0, None)
    news = [one for step in range(100) for one in alarms.end_step(step, 1.0, None, norm_is_local=False)]

    assert [one.event for one in news] == ["opened"], "nothing says that it is over"
    for step in range(100, 200):
        alarms.saw_score("two", 0.0, None)
        news += alarms.end_step(step, 1.0, None, norm_is_local=False)
    assert [one.event for one in news] == ["opened"], "the one that fired has not said that it is calm"
    for step in range(200, 220):
        alarms.saw_score("one", 0.4, None)
        news += alarms.end_step(step, 1.0, None, norm_is_local=False)
    assert [(one.event, one.closed_step) for one in news] == [("opened", None), ("closed", 219)]


def test_an_escalation_of_a_detector_is_in_force_again_after_a_restart(tmp_path: Path) -> None:
    opened: list[Any] = []
    Alarms(tmp_path, 3, None, opened.append).saw_score("mine", 1.0, None)
    file = CaptureFile(tmp_path, 3)
    file.write(line_of("escalation", epoch=0, at_ns=1, **escalation_members(one)) for one in opened)
    file.close()

    assert left_behind(file.path) == (opened, 1)
    again = Alarms(tmp_path, 3, file.path, lambda one: None)
    deciding, covering = again.in_force(("rank:3",))
    assert deciding is not None
    assert covering == ("rank:3/mine/esc-0",)


@pytest.mark.parametrize("score", [float("nan"), -0.1, 1.1, True, float("inf")])
def test_a_score_outside_0_and_1_is_refused(tmp_path: Path, score: float) -> None:
    with pytest.raises(ConfigError, match="is not a number from 0 to 1"):
        Alarms(tmp_path, 0, None, lambda one: None).saw_score("mine", score, None)


@pytest.mark.parametrize(("name", "step"), [("", None), ("a\nb", None), ("x" * 101, None), ("mine", -1), ("mine", 1.0)])
def test_a_name_or_step_that_is_none_is_refused(tmp_path: Path, name: str, step: Any) -> None:
    with pytest.raises(ValueError, match="detector"):
        Alarms(tmp_path, 0, None, lambda one: None).saw_score(name, 0.9, step)
