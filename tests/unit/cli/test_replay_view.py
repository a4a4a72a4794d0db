"""How a replay is shown: what is wrong first, what could not be done counted apart."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

from provstore.analysis.reexecution.verdict import Verdict
from provstore.api.reexecuting import Recomputed
from provstore.api.replaying import Replay
from provstore.cli import replay as view
from provstore.evidence.replay import AnchorComparison
from provstore.evidence.replay.anchors import AnchorDifference, KindDifference


def recomputed(name: str, seq: int) -> Recomputed:
    return Recomputed(f"gloo/0@0-1/{seq}", "all_reduce", 0, (0, 1), Verdict(name, None, 1, 1))


def shown(
    executed: tuple[Recomputed, ...], total: int, not_kept: tuple[tuple[str, int], ...] = (), *, is_part: bool = False
) -> list[str]:
    none = cast("Any", None)
    found = Replay(none, none, (), False, executed, total, is_part, not_kept=not_kept)
    assert sum(found.counts.values()) == total
    return [line.text for line in view._executed_lines(found, 100, verbose=False)]


def test_what_could_not_be_recomputed_is_not_counted_as_recomputed_and_mismatches_come_first() -> None:
    names = ["not-recomputable"] * 30 + ["exact"] * 5 + ["mismatch"] * 2
    executed = tuple(recomputed(name, seq) for seq, name in enumerate(names))
    lines = shown(executed, 40, (("time-budget", 3),))
    assert lines[0] == "7 of 40 collectives recomputed: 2 mismatch, 5 exact; 30 not-recomputable; 3 not kept"
    assert lines.pop(1) == "  not kept: 3: time-budget"
    assert [re.findall(r"^\w[\w-]+", line.strip())[0] for line in lines[1:4]] == [
        "mismatch",
        "mismatch",
        "not-recomputable",
    ]


def test_where_nothing_was_recomputed_there_is_no_verdict_to_tell() -> None:
    assert shown((), 48, (("recorded in mode validation", 48),)) == [
        "0 of 48 collectives recomputed; 48 not kept",
        "  not kept: 48: recorded in mode validation",
    ]


def test_what_was_not_asked_for_is_counted_as_that() -> None:
    assert shown((recomputed("exact", 0),), 16, is_part=True) == [
        "1 of 16 collectives recomputed: 1 exact; 15 not asked for"
    ]


def test_exact_is_said_of_an_epoch_only_when_every_collective_of_it_was_recomputed() -> None:
    executed = tuple(recomputed("exact", seq) for seq in range(3))

    def code(total: int, *, is_part: bool = False) -> int:
        return Replay(cast("Any", None), cast("Any", None), (), False, executed, total, is_part).exit_code

    assert code(3) == 0
    assert code(4) == 3, "of one collective nothing was kept"
    assert code(4, is_part=True) == 0, "no more was asked for"


def test_equal_anchors_state_nothing_beside_a_collective_that_is_wrong() -> None:
    anchors = AnchorComparison("again", 12, 0, None)
    plan = cast("Any", SimpleNamespace(item=lambda _: SimpleNamespace(digest="sha256:" + "a" * 64)))

    def exact(*names: str) -> bool:
        executed = tuple(recomputed(name, seq) for seq, name in enumerate(names))
        return Replay(plan, cast("Any", None), executed=executed, collectives=3, anchors=anchors).check.is_exact

    assert exact()
    assert exact("exact", "exact")
    for wrong in ("mismatch", "within-bound", "explained"):
        assert not exact("exact", wrong)


def test_each_kind_of_anchor_is_told_with_its_step_and_ranks() -> None:
    kinds = (
        KindDifference("rng", 40, 40, 0, 0, (0, 1)),
        KindDifference("params", 40, 10, 0, 15, (0, 1)),
        KindDifference("missing", 40, 0),
        KindDifference("data", 40, 0),
    )
    first = AnchorDifference(0, 0, 0, ("rng",))
    found = AnchorComparison("again", 40, 40, first, 0, (), kinds, 20, ("numpy", "python"))
    lines = [line.text for line in view.anchor_lines(found, 200)]
    assert lines[:3] == [
        "again: differs first at step 0, ranks 0-1: rng (states of the random number generators: numpy, python)",
        "  then from step 15, ranks 0-1: params (parameters)",
        "  equal at all 20 steps: data",
    ]


def test_what_a_re_run_does_not_hold_is_not_told_as_equal() -> None:
    found = AnchorComparison("again", 12, 0, None, 12, lacking={"params": 12})
    assert [line.text for line in view.anchor_lines(found, 200)] == [
        "again: what it holds of 12 anchors is equal",
        "  not in again: params (parameters) of 12 anchors, so nothing is said of them",
    ]


def test_anchors_that_one_run_alone_has_are_not_counted_as_compared() -> None:
    first = AnchorDifference(0, 3, 0, ("missing",))
    found = AnchorComparison("again", 6, 6, first, kinds=(KindDifference("missing", 12, 6, 0, 3, (0, 1)),))
    assert [line.text for line in view.anchor_lines(found, 200)][-1] == (
        "  6 anchors differ or are missing; both runs have 6"
    )


def test_chunks_are_counted_only_where_there_are_some() -> None:
    whole = Recomputed("gloo/0@0-1/7", "all_reduce", 0, (0, 1), Verdict("explained", None, 2, 3))
    none = Recomputed("gloo/0@0-1/8", "all_reduce", 0, (0, 1), Verdict("not-recomputable", None, 0, 0))
    assert shown((whole, none), 2)[1:] == [
        "  explained: all_reduce gloo/0@0-1/7, 2 of 3 chunks",
        "  not-recomputable: all_reduce gloo/0@0-1/8",
    ]
