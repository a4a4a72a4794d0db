"""Tensor records of what healthy training does with odd values: nobody is accused of it, and of a real NaN one is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from provstore.analysis import Options, diagnose
from provstore.model.dump import RECV, SEND, Dump, DumpSet, TensorRecord
from provstore.model.finding import Diagnosis
from tests.hand_dumps import Row, dump

RANKS = 4
CALLS = 12

Bad = Callable[[int, int, str], bool]
"""Whether one side of a call of a rank is not finite."""


def job(*others: Row, calls: int = CALLS) -> list[Dump]:
    """Calls of all ranks that are reductions, but where another row has their number."""
    instead = {row.seq: row for row in others}
    rows = [instead.get(seq, Row(seq)) for seq in range(calls)]
    return [dump(rank, rows, ranks=RANKS) for rank in range(RANKS)]


def records(bad: Bad, *, nan: int = 1, sides: Sequence[str] = ("in", "out"), calls: int = CALLS) -> list[TensorRecord]:
    return [
        TensorRecord(
            rank, "0", seq, side, not bad(rank, seq, side), bad(rank, seq, side) * nan, bad(rank, seq, side) * (1 - nan)
        )
        for rank in range(RANKS)
        for seq in range(calls)
        for side in sides
    ]


def judged(dumps: Sequence[Dump], tensors: Sequence[TensorRecord], about: str | None = None) -> Diagnosis:
    return diagnose(DumpSet("run", 0, dumps, (), tensors), Options(about=about))


def named(answer: Diagnosis) -> list[tuple[list[int], int | None]]:
    return [([one.rank for one in finding.culprits], finding.seq) for finding in answer.findings]


def said(answer: Diagnosis) -> list[tuple[tuple[int, ...], bool]]:
    assert {one.code for one in answer.undecided} <= {"no_values"}
    return [(one.ranks, one.blocks_answer) for one in answer.undecided]


def overflown(rank: int, *seqs: int) -> Bad:
    """One rank puts an overflown gradient into some reductions, and all get it."""
    return lambda one, seq, side: seq in seqs and (side == "out" or one == rank)


def lasting(rank: int, first: int) -> Bad:
    """One rank puts a NaN into a reduction, and all that is reduced later holds it too."""
    return lambda one, seq, side: seq > first or (seq == first and (side == "out" or one == rank))


def either(*some: Bad) -> Bad:
    return lambda rank, seq, side: any(bad(rank, seq, side) for bad in some)


def test_a_gradient_that_overflows_and_is_gone_later_accuses_nobody() -> None:
    answer = judged(job(), records(overflown(1, 1, 2)))
    assert (answer.status, answer.findings) == ("healthy", ())
    assert said(answer) == [((1,), False)]
    assert "#1 " in answer.undecided[0].what
    assert "tensor" not in answer.undecided[0].next_step, "they are there"


def test_asked_where_a_nan_began_one_that_is_gone_leaves_it_open_because_steps_are_not_recorded() -> None:
    answer = judged(job(), records(overflown(1, 1, 2)), about="nan")
    assert (answer.status, answer.findings) == ("undecided", ())
    assert said(answer) == [((1,), True)]
    assert "steps" in answer.undecided[0].what


@pytest.mark.parametrize(("last", "names"), [(6, []), (7, [([1], 7)])])
def test_until_five_sound_reductions_of_the_kind_have_followed_the_rank_is_named(
    last: int, names: list[object]
) -> None:
    assert named(judged(job(), records(overflown(1, last)))) == names


def test_sound_reductions_of_another_kind_make_nothing_harmless() -> None:
    scalars = [Row(seq, inputs=((1,),), outputs=((1,),)) for seq in range(3, CALLS)]
    assert named(judged(job(*scalars), records(overflown(1, 2)))) == [([1], 2)]


@pytest.mark.parametrize(("steps", "names"), [(6, [([1], 29)]), (12, [])])
def test_so_many_equal_buckets_as_a_step_holds_are_one_step(steps: int, names: list[object]) -> None:
    """Nine gradients of one shape and a loss: those that follow in the step of a NaN were computed before it spread."""
    calls = 10 * steps
    losses = [Row(seq, inputs=((1,),), outputs=((1,),)) for seq in range(0, calls, 10)]
    assert named(judged(job(*losses, calls=calls), records(overflown(1, 29), calls=calls))) == names


def test_a_kind_of_calls_that_comes_once_later_accuses_nobody() -> None:
    gather, odd = Row(0, "all_gather", outputs=((8,),) * 4), Row(3, inputs=((3,),), outputs=((3,),))
    answer = judged(job(gather, odd), records(lambda _rank, seq, _side: seq == 0))
    assert (answer.findings, said(answer)) == ((), [((0, 1, 2, 3), False)])


def test_a_nan_that_stays_names_its_rank_though_another_had_overflown_before() -> None:
    answer = judged(job(), records(either(overflown(1, 1), lasting(2, 8))))
    assert named(answer) == [([2], 8)]


def test_a_reduction_of_finite_inputs_that_overflows_once_is_no_fault_of_anybody() -> None:
    answer = judged(job(), records(lambda _, seq, side: seq == 2 and side == "out"))
    assert answer.findings == ()
    assert said(answer) == [((0, 1, 2, 3), False)]


def test_a_maximum_that_begins_at_minus_infinity_is_not_the_origin_of_anything() -> None:
    answer = judged(job(), records(lambda rank, seq, side: (rank, seq, side) == (2, CALLS - 1, "in"), nan=0))
    assert (answer.findings, said(answer)) == ((), [((2,), False)])
    assert named(judged(job(), records(overflown(2, CALLS - 1), nan=0))) == [([2], CALLS - 1)]


@pytest.mark.parametrize("others", [(3,), (1, 2, 3)])
def test_what_lies_in_a_buffer_before_it_is_written_is_nobodys_fault(others: tuple[int, ...]) -> None:
    last = CALLS - 1
    answer = judged(
        job(Row(last, "broadcast")), records(lambda one, seq, side: (seq, side) == (last, "in") and one in others)
    )
    assert (answer.status, answer.findings, answer.undecided) == ("healthy", (), ())


@pytest.mark.parametrize(("into", "names"), [((2,), [([2], CALLS - 1)]), ((1, 2), [])])
def test_who_of_several_sends_a_nan_to_all_is_not_recorded(into: tuple[int, ...], names: list[object]) -> None:
    last = CALLS - 1
    bad = records(lambda one, seq, side: seq == last and (side == "out" or one in into))
    answer = judged(job(Row(last, "broadcast")), bad)
    assert named(answer) == names
    assert said(answer) == ([] if names else [((1, 2), True)])
    assert names or "root" in answer.undecided[0].what


def test_what_ranks_hold_before_a_broadcast_whose_output_is_not_recorded_names_nobody() -> None:
    last = CALLS - 1
    bad = records(lambda one, seq, side: (one, seq) == (3, last), sides=("in",))
    answer = judged(job(Row(last, "broadcast")), bad)
    assert (answer.findings, said(answer)) == ((), [((3,), True)])


def padded(*seqs: int) -> Bad:
    return lambda _rank, seq, _side: seq in seqs


def test_padding_that_is_gathered_again_and_again_is_not_the_origin_of_a_nan_that_comes_later() -> None:
    gathers = [Row(seq, "all_gather", outputs=((8,),) * 4) for seq in (0, 6, 11)]
    assert named(judged(job(*gathers), records(padded(0, 6, 11)))) == []
    assert named(judged(job(*gathers), records(either(padded(0, 6, 11), lasting(3, 8))))) == [([3], 8)]


def test_a_nan_that_is_gathered_and_then_reduced_names_who_gathered_it() -> None:
    gather = Row(6, "all_gather", outputs=((8,),) * 4)
    assert named(judged(job(gather), records(lasting(3, 6)))) == [([3], 6)]


def test_a_nan_that_a_rank_may_have_received_is_not_laid_on_it() -> None:
    """What is sent from rank to rank is in no tensor record: stage 0 may have computed it, or stage 1."""
    dumps = job()
    sent = {0: Row(0, "send", channel=SEND, peer=1), 1: Row(0, "recv", channel=RECV, peer=0)}
    rows = [Row(seq) for seq in range(CALLS)]
    dumps[:2] = [dump(rank, [*rows[:6], sent[rank], *rows[6:]], ranks=RANKS) for rank in (0, 1)]
    answer = judged(dumps, records(lasting(1, 8)))
    assert (answer.findings, said(answer)) == ((), [((1,), True)])
    assert "received" in answer.undecided[0].what
    assert named(judged(dumps, records(lasting(1, 2)))) == [([1], 2)], "before it received anything"
    assert named(judged(dumps, records(lasting(0, 8)))) == [([0], 8)], "a rank that only sends"


@pytest.mark.parametrize(("first", "names"), [(3, []), (8, [([1], 8)])])
def test_a_nan_that_the_first_calls_of_a_cut_ring_hold_already_began_before_them(
    first: int, names: list[object]
) -> None:
    """The first three calls are gone from the dumps, and with them who put in the NaN."""
    cut = [replace(one, wrapped=True) for one in (dump(rank, [Row(s) for s in range(3, CALLS)]) for rank in range(4))]
    answer = judged(cut, [one for one in records(lasting(1, first)) if one.seq >= 3])
    assert named(answer) == names
    assert said(answer) == ([] if names else [((1,), True)])
