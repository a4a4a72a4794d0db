"""Ranks that held equal parameters and no longer do: who is named, from which step on, and when nobody is."""

from __future__ import annotations

import pytest
from test_suspicion import named, run_of

from provstore.analysis.replicas import STATE, Drift, Held, drifts
from provstore.analysis.suspicion import suspicious

RANKS, STEPS = 4, 6


def held(*changes: tuple[int, int, str], ranks: int = RANKS, steps: int = STEPS) -> list[Held]:
    """Equal digests of all ranks; each change is (rank, first step, word in the digest from then on)."""
    found = []
    for rank in range(ranks):
        for step in range(steps):
            word = "".join(said for who, since, said in changes if who == rank and step >= since)
            found.append(Held(rank, (0, step, 0), f"sha256:{step}{word}", f"sha256:table-of-{step}"))
    return found


def told(found: list[Drift]) -> list[tuple[tuple[int, int, int], tuple[int, ...], tuple[int, ...]]]:
    return [(one.place, one.minority, one.members) for one in found]


def test_the_rank_the_first_step_that_differs_and_the_last_that_is_equal_are_named_once() -> None:
    (one,) = drifts(held((2, 3, "x")))
    assert (one.place, one.last_equal, one.minority, one.members) == ((0, 3, 0), (0, 2, 0), (2,), (0, 1, 2, 3))
    assert one.refs == ("sha256:table-of-2", "sha256:table-of-3")


def test_equal_ranks_have_no_drift_whatever_the_order_of_their_digests() -> None:
    assert drifts(held()) == []
    assert told(drifts(reversed(held((1, 4, "x"))))) == [((0, 4, 0), (1,), (0, 1, 2, 3))]


def test_parts_of_a_model_that_is_spread_over_ranks_are_never_compared() -> None:
    assert drifts(held(*((rank, 0, f"part{rank}") for rank in range(RANKS)))) == []


def test_groups_of_replicas_are_compared_each_within_itself() -> None:
    stages = [(rank, 0, "second") for rank in (3, 4, 5)]
    assert told(drifts(held(*stages, (4, 2, "x"), ranks=6))) == [((0, 2, 0), (4,), (3, 4, 5))]


@pytest.mark.parametrize("ranks", [2, 4])
def test_without_a_majority_nobody_is_named_and_all_are_undecided(ranks: int) -> None:
    half = [(rank, 2, "x") for rank in range(ranks // 2)]
    (one,) = drifts(held(*half, ranks=ranks))
    assert (one.minority, one.members) == ((), tuple(range(ranks)))
    found = suspicious(run_of(ranks), drifts=[one])
    assert [(said.code, said.ranks, said.blocks_answer) for said in found.undecided] == [
        ("tie", tuple(range(ranks)), True)
    ]


def test_ranks_that_all_part_at_one_step_are_said_and_leave_the_answer_as_it_is() -> None:
    (one,) = drifts(held(*((rank, 3, f"own{rank}") for rank in range(RANKS))))
    assert (one.minority, one.undecided().blocks_answer) == ((), False)


def test_a_rank_without_a_digest_at_some_steps_is_compared_where_it_has_one() -> None:
    sparse = [one for one in held((1, 2, "x")) if one.rank != 1 or one.place[1] in {0, 4}]
    (one,) = drifts(sparse)
    assert (one.place, one.minority) == ((0, 4, 0), (1,))


def test_a_second_rank_that_leaves_the_majority_later_is_a_finding_of_its_own() -> None:
    found = drifts(held((1, 2, "x"), (3, 4, "y")))
    assert told(found) == [((0, 2, 0), (1,), (0, 1, 2, 3)), ((0, 4, 0), (3,), (0, 2, 3))]


def test_the_first_call_after_the_last_equal_step_stands_for_the_change_and_what_follows_is_affected() -> None:
    found = suspicious(run_of(), drifts=drifts(held((2, 3, "x"))))
    assert named(found) == [("replica-drift", 2, 3)]
    (one,) = found.suspicious
    assert (one.finding.confidence, [ref.digest for ref in one.finding.evidence]) == (
        "certain",
        ["sha256:table-of-2", "sha256:table-of-3"],
    )
    assert "after step 3 of epoch 0, and held equal ones after step 2" in one.finding.summary
    assert {name.split("/")[2] for name in found.affected} == {"3", "4", "5"}


def test_parameters_that_follow_from_other_bytes_out_of_a_call_are_no_second_finding() -> None:
    changed = {"r2s3": {"digest_out": "sha256:other"}}
    found = suspicious(run_of(**changed), drifts=drifts(held((2, 3, "x"))))
    assert named(found) == [("replica-disagreement", 2, 3)]
    earlier = suspicious(run_of(**changed), drifts=drifts(held((2, 1, "x"))))
    assert named(earlier) == [("replica-drift", 2, 1), ("replica-disagreement", 2, 3)]


def test_other_state_in_a_checkpoint_is_less_than_certain() -> None:
    found = suspicious(run_of(), drifts=drifts(held((0, 5, "x")), STATE))
    assert [(one.action.rank, one.finding.confidence) for one in found.suspicious] == [(0, "probable")]
