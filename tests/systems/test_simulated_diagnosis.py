"""Faults of simulated jobs get their own name and rank; nobody else is ever accused, whatever the dumps leave out."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulator import HANGS, Scenario, Shape3D
from simulator.sampling import LAYOUT_NAMES, VARIATIONS, draw, fits
from simulator.trial import Trial, hold

FAULTS = (*HANGS, "skip_first", "wrong_op_first", "order", "two", "slow")
GPU_ONLY = ("device", "device_before")
PIPELINED = ("megatron", "megatron_batched", "context", "gloo_megatron")
SUBGROUPS = tuple(name for name in LAYOUT_NAMES if name not in ("ddp", "fsdp", "coalesced", "gloo_ddp", "gloo_fsdp"))


def exists(layout: str, fault: str) -> bool:
    if fault in ("no_send", "no_recv"):
        return layout in PIPELINED
    if fault == "wrong_group":
        return layout in SUBGROUPS
    return not (fault in GPU_ONLY and layout.startswith("gloo_"))


def judged(layout: str, fault: str, seed: int, variation: str = "plain", large: bool = False) -> Trial:
    scenario = draw(layout, fault, seed, variation, large)
    trial = hold(scenario)
    assert not trial.verdict.is_wrong, f"{scenario.describe()}: {trial.verdict.why}"
    for finding in trial.diagnosis.findings:
        assert finding.confidence == "certain" or finding.caveats, (
            f"{scenario.describe()}: {finding.summary}: no reason"
        )
    return trial


def expect_answer(trial: Trial) -> None:
    """Where the dumps can show the fault, it must be named; of two faults, at least one, and no innocent either way."""
    words = ("right", "partial") if trial.outcome.truth.parts else ("right",)
    if trial.outcome.truth.decidable:
        assert trial.verdict.word in words, f"{trial.outcome.scenario.describe()}: {trial.verdict}"


PAIRS = [(layout, fault) for layout in LAYOUT_NAMES for fault in FAULTS if exists(layout, fault)]


@pytest.mark.parametrize(("layout", "fault"), PAIRS)
def test_a_fault_that_the_dumps_can_show_is_named_and_nobody_else(layout: str, fault: str) -> None:
    expect_answer(judged(layout, fault, seed=11))


def taken(at: int, count: int) -> list[str]:
    """Return ``count`` layouts, others for every ``at``, so that a short list covers all of them in turn."""
    return [LAYOUT_NAMES[(at * 5 + step * 3) % len(LAYOUT_NAMES)] for step in range(count)]


HEALTHY = [
    (layout, variation)
    for at, variation in enumerate(VARIATIONS)
    for layout in (LAYOUT_NAMES if variation in ("plain", "wrapped") else taken(at, 4))
    if fits(layout, variation)
]


@pytest.mark.parametrize(("layout", "variation"), HEALTHY)
def test_a_job_without_fault_is_healthy_or_the_answer_says_what_is_missing(layout: str, variation: str) -> None:
    trial = judged(layout, "none", 12, variation)
    assert not trial.diagnosis.findings
    if variation not in ("lost", "truncated"):
        assert trial.diagnosis.status == "healthy", trial.verdict.why


@pytest.mark.parametrize("layout", LAYOUT_NAMES)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_dump_in_flight_is_no_hang(layout: str, seed: int) -> None:
    assert not judged(layout, "in_flight", seed).diagnosis.findings


POORER = [
    (layout, fault, variation)
    for at, variation in enumerate(VARIATIONS)
    if variation not in ("plain", "hook")
    for place, fault in enumerate(FAULTS)
    for layout in taken(at + place, 1)
    if (at + place) % 2 and exists(layout, fault) and fits(layout, variation)
]


@pytest.mark.parametrize(("layout", "fault", "variation"), POORER)
def test_poorer_evidence_never_accuses_an_innocent_rank(layout: str, fault: str, variation: str) -> None:
    expect_answer(judged(layout, fault, 13, variation))


@pytest.mark.parametrize(
    "fault", ["stuck", "dead", "no_send", "skip", "wrong_op", "wrong_size", "wrong_dtype", "device"]
)
def test_sixty_four_ranks_with_pipelines_are_told_apart(fault: str) -> None:
    expect_answer(judged("megatron", fault, 21, large=True))


def test_two_hundred_and_fifty_six_healthy_ranks_are_healthy(tmp_path: Path) -> None:
    size = Shape3D(256, tp=4, pp=4, layers=1, micro=2, steps=2)
    assert hold(Scenario("megatron", size), tmp_path).diagnosis.status == "healthy"


@pytest.mark.parametrize("fault", ["stuck", "dead", "device", "wrong_op"])
def test_victims_are_never_among_the_culprits(fault: str) -> None:
    trial = judged("hsdp", fault, 3)
    for finding in trial.diagnosis.findings:
        assert not {culprit.rank for culprit in finding.culprits} & set(finding.victims)
    assert trial.diagnosis.findings


@pytest.mark.parametrize("fault", ["stuck", "device", "wrong_size"])
def test_a_finding_points_at_a_line_of_the_training_script(fault: str) -> None:
    sources = [finding.source for finding in judged("fsdp", fault, 6).diagnosis.findings]
    assert sources
    assert all(source is not None and source.file.endswith("/job/train.py") for source in sources)
