"""What healthy training does with odd values, and that nobody is accused of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from test_suspicion import call, gradient, named, run_of

from provstore.analysis.outliers import Sizes
from provstore.analysis.replicas import Held, drifts
from provstore.analysis.suspicion import suspicious
from provstore.model.action import Action

STEPS = 12
SPOILT = {"finite_in": False, "finite_out": False}
GOT = {"finite_out": False}


def spoilt_in(rank: int, *steps: int) -> dict[str, dict[str, bool]]:
    """Reductions of these steps into which one rank puts values that are not finite: every rank gets them."""
    return {f"r{one}s{step}": SPOILT if one == rank else GOT for one in range(4) for step in steps}


def other_call(rank: int, step: int, op: str, **said) -> Action:
    """A call that is no sum, made before the reduction of its step, in a group of its own."""
    name = {"action_id": f"gloo/other/{step}/{rank}", "chain": f"gloo/other/{step}", "group": "other@0-3", "op": op}
    return replace(call(rank, step), **{**name, "digest_out": None, **said})


def with_others(calls: list[Action], *others: Action) -> list[Action]:
    """Put calls before the first call of their rank and step."""
    before = {(one.rank, one.step): one for one in others}
    return [row for one in calls for row in (before.pop((one.rank, one.step), None), one) if row is not None]


def test_a_gradient_that_overflows_in_a_step_that_is_left_out_accuses_nobody() -> None:
    """As a scaler of the loss does: it is scaled too far, all ranks see an infinity, and the step is left out."""
    found = suspicious(run_of(calls=STEPS, **spoilt_in(1, 2, 3)))
    assert found.suspicious == ()
    (said,) = found.undecided
    assert (said.ranks, said.blocks_answer) == ((1,), False)
    assert "first in all_reduce #2" in said.what


def test_until_five_sound_steps_have_followed_the_rank_is_named() -> None:
    assert named(suspicious(run_of(calls=6, **spoilt_in(1, 2)))) == [("nan-origin", 1, 2)]
    assert suspicious(run_of(calls=7, **spoilt_in(1, 2))).suspicious == ()


def test_values_that_stay_not_finite_name_their_rank_though_others_had_overflown_before() -> None:
    found = suspicious(run_of(calls=STEPS, **spoilt_in(1, 1), **spoilt_in(2, *range(8, 13))))
    assert named(found) == [("nan-origin", 2, 8)]
    assert "all else that it had before was finite" in found.suspicious[0].finding.summary


def test_a_checkpoint_that_is_loaded_makes_nothing_harmless() -> None:
    rows = run_of(calls=STEPS, **spoilt_in(1, 2, 3))
    load = gradient(1, 3, "checkpoint.load")
    at = next(place for place, one in enumerate(rows) if (one.rank, one.seq) == (1, 4))
    assert named(suspicious([*rows[:at], load, *rows[at:]])) == [("nan-origin", 1, 2)]


@pytest.mark.parametrize("later", [(), tuple(range(8, 13))])
def test_a_gradient_that_is_added_to_others_first_is_judged_by_all_that_follows(later: tuple[int, ...]) -> None:
    rows = run_of(calls=STEPS, **spoilt_in(1, *later))
    at = next(place for place, one in enumerate(rows) if (one.rank, one.seq) == (1, 1))
    found = suspicious([*rows[:at], gradient(1, 1, finite_out=False), *rows[at:]])
    assert [code for code, _, _ in named(found)] == (["nan-origin"] if later else [])


def test_a_rank_that_begins_a_maximum_with_minus_infinity_is_not_the_origin_of_anything() -> None:
    least = other_call(2, 12, "all_reduce", reduce_op="max", finite_in=False)
    assert suspicious(with_others(run_of(calls=STEPS), least)).suspicious == ()
    added = replace(least, reduce_op="sum", finite_out=False)
    assert named(suspicious(with_others(run_of(calls=STEPS), added))) == [("nan-origin", 2, 12)]


@pytest.mark.parametrize(("op", "root"), [("broadcast", 0), ("scatter", 0), ("recv", None)])
@pytest.mark.parametrize("got", [True, False])
def test_what_lies_in_a_buffer_before_it_is_written_is_nobodys_fault(op: str, root: int | None, got: bool) -> None:
    rows = with_others(run_of(calls=STEPS), other_call(3, 12, op, root=root, finite_in=False, finite_out=got))
    found = suspicious(rows)
    assert found.suspicious == ()
    assert [one.blocks_answer for one in found.undecided] == ([] if got else [True])


def test_padding_that_is_gathered_in_every_step_is_not_the_origin_of_a_nan_that_comes_later() -> None:
    padded = [other_call(rank, step, "all_gather", **SPOILT) for rank in range(4) for step in range(1, STEPS + 1)]
    assert suspicious(with_others(run_of(calls=STEPS), *padded)).suspicious == ()
    found = suspicious(with_others(run_of(calls=STEPS, **spoilt_in(3, *range(8, 13))), *padded))
    assert named(found) == [("nan-origin", 3, 8)]


def test_a_loss_that_is_not_finite_is_not_carried_by_a_call_whose_input_was() -> None:
    losses = {rank: {step: math.nan if (rank, step) == (1, 3) else 1.0 for step in range(1, 6)} for rank in range(4)}
    assert suspicious(run_of(), losses=losses).suspicious == ()


def sizes_of(**other: float):
    """Sizes of 1 but where ``r<rank>s<seq>`` says otherwise."""

    def of(action: Action) -> Sizes:
        value = other.get(f"r{action.rank}s{action.seq}", 1.0)
        return Sizes(value, value)

    return of


@pytest.mark.parametrize(
    "said",
    [
        {"dtypes_in": ("int64",)},
        {"dtypes_in": ("bool",)},
        {"reduce_op": "max"},
        {"reduce_op": "product"},
    ],
)
def test_counters_flags_and_maxima_are_not_compared(said: dict[str, object]) -> None:
    rows = [replace(one, **said) for one in run_of()]
    assert suspicious(rows, sizes_of(r2s3=1e9)).suspicious == ()
    assert named(suspicious(run_of(), sizes_of(r2s3=1e9))) == [("cross-rank-outlier", 2, 3)]


@pytest.mark.parametrize(("value", "names"), [(1 / 512, 0), (0.0, 0), (1e5, 1)])
def test_a_few_figures_may_be_as_small_as_a_last_batch_is_short(value: float, names: int) -> None:
    """A loss sum and a number of samples: 512 in a batch, 1 or none in the last of one rank."""
    rows = [replace(one, shapes_in=((2,),), dtypes_in=("float32",)) for one in run_of()]
    assert len(suspicious(rows, sizes_of(r3s5=value)).suspicious) == names


def test_where_most_put_in_zeros_one_alone_was_to_put_in_something() -> None:
    others = {f"r{rank}s{seq}": 0.0 for rank in range(4) for seq in range(1, 6) if rank != seq % 4}
    assert suspicious(run_of(), sizes_of(**others)).suspicious == ()


def test_a_rank_whose_data_is_used_up_joins_in_with_zeros() -> None:
    """As Join of torch does: its shadow calls are of no step."""
    rows = [replace(one, step=None) if one.rank == 3 and (one.seq or 0) > 5 else one for one in run_of(calls=STEPS)]
    zeros = {f"r3s{seq}": 0.0 for seq in range(6, STEPS + 1)}
    assert suspicious(rows, sizes_of(**zeros)).suspicious == ()


def test_a_rank_that_puts_in_zeros_every_other_time_does_so_by_design() -> None:
    zeros = {f"r2s{seq}": 0.0 for seq in range(1, STEPS + 1, 2)}
    assert suspicious(run_of(calls=STEPS), sizes_of(**zeros)).suspicious == ()


def test_what_is_the_habit_of_a_rank_in_one_kind_of_call_says_nothing_of_another() -> None:
    """In three of four calls rank 0 puts in what is 9 decades smaller, by design; its gradients are like all others."""
    rows = [replace(one, shapes_in=((64,) if (one.seq or 0) % 4 else (1000,),)) for one in run_of(calls=40)]
    small = {f"r0s{seq}": 1e-9 for seq in range(1, 41) if seq % 4}
    assert suspicious(rows, sizes_of(**small)).suspicious == ()


def test_the_same_bytes_in_another_shape_are_no_disagreement() -> None:
    rows = [
        replace(one, shapes_out=((2, 4),) if one.rank == 1 else ((8,),), digest_out=f"sha256:{one.rank == 1}{one.seq}")
        for one in run_of()
    ]
    found = suspicious(rows)
    assert found.suspicious == ()
    assert [(one.ranks, one.blocks_answer) for one in found.undecided] == [((1,), False)]


def held(ranks: int, apart: tuple[int, ...]) -> list[Held]:
    """Equal parameters until step 3, others on some ranks from then on."""
    return [
        Held(rank, (0, step, 0), f"sha256:{step}{'x' if rank in apart and step >= 3 else ''}", "sha256:table")
        for rank in range(ranks)
        for step in range(1, 6)
    ]


def in_groups(*groups: tuple[int, ...]) -> list[Action]:
    """One reduction in each step in each group."""
    return [
        replace(call(rank, step), action_id=f"gloo/{at}/{step}/{rank}", chain=f"gloo/{at}/{step}", group=f"{at}@x")
        for at, ranks in enumerate(groups)
        for rank in ranks
        for step in range(1, 6)
    ]


@pytest.mark.parametrize(
    ("groups", "apart"),
    [
        (((0, 1, 2), (3,)), (3,)),
        (((0, 1), (2, 3)), (2, 3)),
    ],
    ids=["an evaluator that gets weights at times", "two experts of two replicas"],
)
def test_ranks_that_learn_apart_are_no_replicas(groups: tuple[tuple[int, ...], ...], apart: tuple[int, ...]) -> None:
    found = suspicious(in_groups(*groups), drifts=drifts(held(4, apart)))
    assert found.suspicious == ()
    assert [(one.ranks, one.blocks_answer) for one in found.undecided] == [((0, 1, 2, 3), False)]


def test_ranks_that_learn_together_in_several_groups_are_replicas() -> None:
    found = suspicious(in_groups((0, 1), (1, 2), (2, 3)), drifts=drifts(held(4, (3,))))
    assert [code for code, _, _ in named(found)] == ["replica-drift"]
