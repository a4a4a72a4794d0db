"""Which actions are suspicious: those that a finding names, and no others."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from provstore.analysis.outliers import Sizes, score_of
from provstore.analysis.suspicion import suspicious
from provstore.model.action import TENSOR_V1, Action

GROUP = "pg@0-3"


def call(rank: int, seq: int, op: str = "all_reduce", **said) -> Action:
    """A healthy call, recorded in full."""
    usual = {"finite_in": True, "finite_out": True, "digest_out": f"sha256:{seq:064x}", "digest_kind": TENSOR_V1}
    return Action(
        action_id=f"gloo/{GROUP}/{seq}/{rank}",
        op=op,
        rank=rank,
        at_ns=seq * 1_000_000,
        side_effect_class="mutate-local",
        mode="full",
        policy_mode="full",
        policy_reason="external escalation signal",
        backend="gloo",
        group=GROUP,
        seq=seq,
        step=seq,
        chain=f"gloo/{GROUP}/{seq}",
        **{**usual, **said},
    )


def run_of(ranks: int = 4, calls: int = 5, **changed) -> list[Action]:
    """Calls of every rank; ``changed`` maps ``r<rank>s<seq>`` to what differs there."""
    return [
        replace(call(rank, seq), **changed.get(f"r{rank}s{seq}", {}))
        for rank in range(ranks)
        for seq in range(1, calls + 1)
    ]


def named(found) -> list[tuple[str, int, int | None]]:
    return [(one.finding.code, one.action.rank, one.action.seq) for one in found.suspicious]


def sizes(default: float = 1.0, **other: float):
    table = {f"r{key}": value for key, value in other.items()}

    def of(action: Action) -> Sizes:
        value = table.get(f"rr{action.rank}s{action.seq}", other.get(f"r{action.rank}s{action.seq}", default))
        return Sizes(value, value / 10)

    return of


def test_a_healthy_run_that_is_recorded_in_full_has_no_suspicious_action() -> None:
    found = suspicious(run_of(), sizes())
    assert (found.suspicious, found.affected, found.undecided) == ((), (), ())
    assert found.coverage == {"actions": 20, "calls": 20, "with_flags": 20, "with_digests": 20, "with_statistics": 20}


def test_one_corrupted_gradient_among_20_actions_is_the_only_suspicious_one_and_the_later_ones_are_affected() -> None:
    found = suspicious(run_of(), sizes(r2s3=1e6))
    assert named(found) == [("cross-rank-outlier", 2, 3)]
    others = {f"gloo/{GROUP}/3/{rank}" for rank in (0, 1, 3)}
    later = {f"gloo/{GROUP}/{seq}/{rank}" for seq in (4, 5) for rank in range(4)}
    assert set(found.affected) == others | later


@pytest.mark.parametrize("value", [1e-9, 0.0, 40.0])
def test_an_input_far_smaller_or_larger_than_the_others_stands_out(value: float) -> None:
    assert named(suspicious(run_of(), sizes(r1s2=value))) == [("cross-rank-outlier", 1, 2)]


def test_two_equal_outliers_are_two_entries_at_their_own_positions() -> None:
    found = suspicious(run_of(ranks=8), sizes(r1s2=1e5, r6s4=1e5))
    assert named(found) == [("cross-rank-outlier", 1, 2), ("cross-rank-outlier", 6, 4)]


@pytest.mark.parametrize("seed", range(5))
def test_gradients_that_vary_as_gradients_do_accuse_nobody(seed: int) -> None:
    """Norms of ranks differ by chance, here log-normally by a factor of about 1.6, over 400 calls."""
    chance = random.Random(seed)
    table = {(rank, seq): math.exp(chance.gauss(0, 0.25)) for rank in range(8) for seq in range(1, 401)}

    def of(action: Action) -> Sizes:
        value = table[action.rank, action.seq]
        return Sizes(value, value / 5)

    assert suspicious(run_of(ranks=8, calls=400), of).suspicious == ()


def test_a_rank_that_always_puts_in_more_is_not_unusual_until_it_leaves_its_own_habit() -> None:
    def of(action: Action) -> Sizes:
        value = 1e4 if action.rank == 3 else 1.0
        if (action.rank, action.seq) == (3, 7):
            value = 1e9
        return Sizes(value, value)

    assert named(suspicious(run_of(calls=10), of)) == [("cross-rank-outlier", 3, 7)]


def test_three_ranks_are_too_few_to_tell_who_stands_out_and_it_says_so() -> None:
    found = suspicious(run_of(ranks=3), sizes(r1s2=1e9))
    assert found.suspicious == ()
    assert [one.code for one in found.undecided] == ["no_values"]


def test_the_rank_that_first_puts_in_a_nan_is_named_and_those_that_got_it_are_affected() -> None:
    spoilt = {"finite_in": False, "finite_out": False}
    changed = {"r2s3": spoilt, **{f"r{rank}s3": {"finite_out": False} for rank in (0, 1, 3)}}
    changed |= {f"r{rank}s{seq}": spoilt for rank in range(4) for seq in (4, 5)}
    found = suspicious(run_of(**changed))
    assert named(found) == [("nan-origin", 2, 3)]
    assert found.suspicious[0].finding.confidence == "certain"
    assert len(found.affected) == 11


def test_an_origin_after_an_input_that_was_finite_is_probable_where_older_flags_are_missing() -> None:
    changed = {"r2s1": {"finite_in": None, "finite_out": None}, "r2s4": {"finite_in": False, "finite_out": False}}
    (only,) = suspicious(run_of(**changed)).suspicious
    assert (only.finding.confidence, only.action.rank, only.action.seq) == ("probable", 2, 4)


def test_a_rank_that_may_have_got_the_values_in_a_call_without_flags_is_not_accused() -> None:
    """Rank 0 put the NaN into call 3, whose flags nobody kept; ranks 2 and 3 were looked at in call 4 alone."""
    none, spoilt = {"finite_in": None, "finite_out": None}, {"finite_in": False, "finite_out": False}
    changed = {f"r{rank}s3": none for rank in range(4)} | {"r2s4": spoilt, "r3s4": spoilt}
    found = suspicious(run_of(**changed))
    assert found.suspicious == ()
    assert [one.code for one in found.undecided] == ["no_values"]
    assert "ranks 2,3 hold values that are not finite" in found.undecided[0].what


def test_the_rank_whose_loss_alone_stops_being_finite_is_named_where_flags_are_missing() -> None:
    none, spoilt = {"finite_in": None, "finite_out": None}, {"finite_in": False, "finite_out": False}
    changed = {f"r{rank}s3": none for rank in range(4)} | {f"r{rank}s4": spoilt for rank in range(4)}
    losses = {rank: {2: 1.0, 3: math.nan if rank == 1 else 0.9, 4: math.nan} for rank in range(4)}
    (only,) = suspicious(run_of(**changed), losses=losses).suspicious
    assert (only.action.rank, only.action.seq, only.finding.confidence) == (1, 3, "probable")
    shared = {rank: {2: 1.0, 3: math.nan, 4: math.nan} for rank in range(4)}
    assert suspicious(run_of(**changed), losses=shared).suspicious == (), "a loss that all share names nobody"
    partly = {rank: said for rank, said in losses.items() if rank != 3}
    assert suspicious(run_of(**changed), losses=partly).suspicious == (), "rank 3 may have been the first"


def test_the_minority_is_named_where_replicas_disagree() -> None:
    found = suspicious(run_of(r1s4={"digest_out": "sha256:" + "f" * 64}))
    assert named(found) == [("replica-disagreement", 1, 4)]


def test_a_disagreement_that_lasts_is_told_once_for_a_rank() -> None:
    changed = {f"r1s{seq}": {"digest_out": "sha256:" + f"{seq}" * 64} for seq in (3, 4, 5)}
    assert named(suspicious(run_of(**changed))) == [("replica-disagreement", 1, 3)]


def test_two_ranks_that_disagree_are_undecided() -> None:
    found = suspicious(run_of(ranks=2, r1s2={"digest_out": "sha256:" + "f" * 64}))
    assert found.suspicious == ()
    assert [(one.code, one.ranks) for one in found.undecided] == [("tie", (0, 1))]


def test_digests_of_unlike_schemes_are_not_compared() -> None:
    found = suspicious(run_of(r1s2={"digest_out": "abcd", "digest_kind": "legacy-f32-4k-16hex"}))
    assert found.suspicious == ()


def test_ranks_of_a_reduce_scatter_hold_different_bytes_by_design() -> None:
    rows = [call(rank, 1, "reduce_scatter", digest_out=f"sha256:{rank:064x}") for rank in range(4)]
    assert suspicious(rows).suspicious == ()


def test_a_mismatch_of_a_re_execution_and_an_accused_action_are_named_with_their_own_findings() -> None:
    name = f"gloo/{GROUP}/2/1"
    found = suspicious(run_of(), mismatches={name: "element 7 differs", "gone/1/2": "x"})
    assert named(found) == [("reexecution-mismatch", 1, 2)]
    assert "element 7 differs" in found.suspicious[0].finding.summary
    accused = suspicious(run_of(), accused={name: found.suspicious[0].finding})
    assert named(accused) == [("reexecution-mismatch", 1, 2)]


def test_the_order_in_which_ranks_are_given_changes_nothing() -> None:
    rows = run_of(r2s3={"finite_in": False})
    other = [one for rank in (3, 1, 0, 2) for one in rows if one.rank == rank]
    left, right = suspicious(rows, sizes(r1s5=1e7)), suspicious(other, sizes(r1s5=1e7))
    assert set(named(left)) == set(named(right))
    assert set(left.affected) == set(right.affected)


@pytest.mark.parametrize(("distance", "score"), [(0.0, 0.0), (3.0, 0.4), (6.0, 0.8), (12.0, 0.9), (math.inf, 1.0)])
def test_scores_are_those_of_the_written_curve(distance: float, score: float) -> None:
    assert score_of(distance) == pytest.approx(score)


def gradient(rank: int, step: int, op: str = "tensor.grad", **said) -> Action:
    """A tensor of the rank's own, which no call gave it."""
    own = {"op": op, "action_id": f"{op}/{rank}/{step}/w", "chain": None, "group": None, "seq": None, "name": "w"}
    return replace(call(rank, step), **{**own, "finite_in": None, "digest_out": None, **said})


def test_a_gradient_that_is_not_finite_is_the_origin_that_the_calls_after_it_carry() -> None:
    actions = run_of(**{f"r{rank}s3": {"finite_out": False, "finite_in": rank != 2} for rank in range(4)})
    at = next(place for place, one in enumerate(actions) if (one.rank, one.seq) == (2, 3))
    found = suspicious([*actions[:at], gradient(2, 3, finite_out=False), *actions[at:]])
    (one,) = found.suspicious
    assert (one.finding.code, one.action.op, one.action.rank, one.finding.confidence) == (
        "nan-origin",
        "tensor.grad",
        2,
        "certain",
    )
    assert found.undecided == ()


def test_activations_that_are_not_finite_accuse_nobody_while_nothing_after_them_is_not_finite() -> None:
    actions = [*run_of(), gradient(1, 6, "tensor.activation", finite_out=False)]
    found = suspicious(actions)
    assert found.suspicious == ()
    assert [(one.ranks, one.blocks_answer) for one in found.undecided] == [((1,), True)]
