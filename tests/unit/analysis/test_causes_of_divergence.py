"""What differs of two runs before their calls do, and what the comparison then hints at."""

from __future__ import annotations

from dataclasses import replace

from provstore.analysis.divergence import Coverage, Divergence, Point
from provstore.analysis.divergence.reading import COMMUNICATION, DESCRIPTION
from provstore.api.causes import cause_of, explained
from provstore.evidence.replay import AnchorComparison
from provstore.evidence.replay.anchors import KindDifference


def runs(step: int | None) -> Divergence:
    """Runs whose calls differ first at a step, or nowhere."""
    point = None if step is None else Point("output-digest", 0, step, "all_reduce", "0@0-3", 4, (0, 1), "out")
    return Divergence("a", "b", point, {}, None, "communication or reduction" if point else None, Coverage(), {})


def anchors(*kinds: tuple[str, int | None, tuple[int, ...]]) -> AnchorComparison:
    told = (KindDifference(kind, 40, len(ranks), 0 if ranks else None, step, ranks) for kind, step, ranks in kinds)
    return AnchorComparison("b", 40, 1, None, kinds=tuple(told))


def test_other_samples_are_the_cause_of_calls_that_differ_in_their_step_or_later() -> None:
    both = anchors(("data", 25, (2,)), ("params", 25, (0, 1, 2, 3)))
    for step in (25, 39):
        assert cause_of(runs(step), both).ranks == (2,)
        assert explained(runs(step), both).reading.startswith("other data: sample ids of rank 2 from step 25 on")


def test_samples_that_differ_later_explain_nothing() -> None:
    later = anchors(("data", 30, (2,)))
    assert cause_of(runs(25), later) is None
    assert explained(runs(25), later).reading == "communication or reduction"


def test_parameters_are_no_cause_of_calls_in_their_own_step() -> None:
    assert cause_of(runs(25), anchors(("params", 25, (1,)))) is None
    assert cause_of(runs(25), anchors(("params", 24, (1,)))).kind == "params"


def test_parameters_that_differ_before_the_first_call_does_are_hinted_at_and_no_rank_of_that_call() -> None:
    hint = "local compute of rank 1, 3 since the last equal call"
    found = replace(runs(56), reading=hint)
    told = "other parameters: those of rank 0-3 from step 45 on; this can follow from it"
    assert explained(found, anchors(("params", 45, (0, 1, 2, 3)))).reading == told
    # At the end of the same step they are an effect of the call.
    assert explained(found, anchors(("params", 56, (1,)))).reading == hint


def test_other_parameters_explain_neither_other_calls_nor_another_result_of_equal_inputs() -> None:
    early = anchors(("params", 45, (1,)))
    reduced = replace(runs(56), reading=COMMUNICATION)
    assert explained(reduced, early).reading == COMMUNICATION
    shape = replace(
        runs(56), first_divergence=Point("shape", 0, 56, "all_reduce", "0@0-3", 4, (1,)), reading=DESCRIPTION
    )
    assert explained(shape, early).reading == DESCRIPTION


def test_without_a_call_that_differs_the_first_anchor_that_does_is_told() -> None:
    assert cause_of(runs(None), anchors(("rng", 0, (0, 1)), ("data", None, ()))).kind == "rng"
    assert cause_of(runs(None), anchors(("rng", None, ()))) is None
    assert cause_of(runs(None), None) is None
