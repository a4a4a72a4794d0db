"""Members of one call that disagree: what differs, and who is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from provstore.analysis import diagnose
from provstore.model.dump import RECV, SCHEDULED, SEND, Dump, DumpSet, Group
from provstore.model.finding import Diagnosis, Finding
from tests.hand_dumps import Row, dump

GATHER = {"op": "all_gather", "inputs": ((4,),), "outputs": ((16,),)}
SCATTER = {"op": "reduce_scatter", "inputs": ((16,),), "outputs": ((4,),)}


def judged(dumps: Sequence[Dump]) -> Diagnosis:
    return diagnose(DumpSet("run", 0, dumps))


def only(answer: Diagnosis) -> Finding:
    (finding,) = answer.findings
    return finding


def named(finding: Finding) -> list[int]:
    return [culprit.rank for culprit in finding.culprits]


def waiting(seq: int, **facts: object) -> Row:
    return Row(seq, state=SCHEDULED, retired=0, **facts)  # type: ignore[arg-type]


def with_dtype(one: Dump, dtype: str) -> Dump:
    last = one.signatures[-1]
    return replace(one, signatures=(*one.signatures[:-1], replace(last, input_dtypes=(dtype,), output_dtypes=(dtype,))))


@pytest.mark.parametrize(
    ("odd", "detail"),
    [({"op": "broadcast"}, "op"), ({"inputs": ((9,),), "outputs": ((9,),)}, "size")],
)
def test_the_minority_is_wrong(odd: dict[str, object], detail: str) -> None:
    rows = [Row(seq) for seq in range(3)]
    dumps = [dump(rank, [*rows, waiting(3, **(odd if rank == 1 else {}))]) for rank in range(4)]
    finding = only(judged(dumps))
    assert (finding.kind, finding.detail, named(finding), finding.victims) == ("mismatch", detail, [1], (0, 2, 3))
    assert finding.confidence == "certain"


def test_an_element_type_of_its_own_is_a_mismatch_of_dtype() -> None:
    dumps = [dump(rank, [Row(0), waiting(1)]) for rank in range(4)]
    finding = only(judged([*dumps[:3], with_dtype(dumps[3], "Half")]))
    assert (finding.detail, named(finding)) == ("dtype", [3])


def test_the_first_rank_read_is_not_taken_for_right() -> None:
    dumps = [dump(rank, [Row(0), waiting(1, op="broadcast" if rank == 0 else "all_reduce")]) for rank in range(4)]
    assert named(only(judged(dumps))) == [0]


def test_equal_counts_in_other_shapes_agree() -> None:
    shapes = (((8,),), ((2, 4),), ((4, 2),))
    dumps = [dump(rank, [Row(0), waiting(1, inputs=shapes[rank], outputs=shapes[rank])], ranks=3) for rank in range(3)]
    assert only(judged(dumps)).kind == "collective_hang"


@pytest.mark.parametrize("op", ["all_to_all", "all_to_all_single", "all_gather_v", "new_operation"])
def test_sizes_that_differ_by_nature_are_no_mismatch(op: str) -> None:
    sizes = (((8,),), ((5,),), ((11,),))
    dumps = [
        dump(rank, [Row(0), waiting(1, op=op, inputs=sizes[rank], outputs=sizes[rank - 1])], ranks=3)
        for rank in range(3)
    ]
    assert only(judged(dumps)).kind == "collective_hang"


def test_a_side_without_tensors_is_not_compared() -> None:
    root = dump(0, [waiting(0, op="gather", inputs=((8,),), outputs=((8,),) * 3)], ranks=3)
    others = [dump(rank, [waiting(0, op="gather", inputs=((8,),), outputs=())], ranks=3) for rank in (1, 2)]
    assert only(judged([root, *others])).kind == "collective_hang"


def test_a_barrier_has_nothing_to_compare() -> None:
    sides = {"inputs": (), "outputs": ()}
    dumps = [dump(rank, [waiting(0, op="barrier", **(sides if rank else {}))], ranks=2) for rank in range(2)]
    assert only(judged(dumps)).kind == "collective_hang"


def test_a_disagreement_that_a_job_lives_with_is_no_cause() -> None:
    def rows(rank: int) -> list[Row]:
        size = ((8 + rank,),)
        return [
            *(Row(seq, "gather", inputs=size) for seq in range(3)),
            *([waiting(3, op="gather", inputs=size)] if rank else []),
        ]

    finding = only(judged([dump(rank, rows(rank)) for rank in range(4)]))
    assert (finding.kind, named(finding)) == ("host", [0])


def pairs(odd: int, **facts: object) -> list[Dump]:
    """Three groups of two ranks; one rank makes another call as number 2."""
    found = []
    for rank in range(6):
        group = Group(str(rank // 2), "tp", (rank - rank % 2, rank - rank % 2 + 1), "nccl", "pg_config")
        own = facts if rank == odd else GATHER
        found.append(dump(rank, [Row(0, **GATHER), Row(1, **SCATTER), waiting(2, **own)], [group]))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("odd", [0, 1, 4, 5])
def test_in_a_group_of_two_the_side_that_differs_from_groups_of_the_kind_is_wrong(odd: int) -> None:
    answer = judged(pairs(odd, **{**GATHER, "inputs": ((5,),)}))
    (finding,) = (one for one in answer.findings if one.kind == "mismatch")
    assert (named(finding), finding.confidence) == ([odd], "probable")


def test_in_a_lone_group_of_two_without_a_past_nobody_is_named_and_both_sides_are_said() -> None:
    dumps = [dump(rank, [waiting(0, op=op)], ranks=2) for rank, op in enumerate(("all_reduce", "broadcast"))]
    answer = judged(dumps)
    finding = only(answer)
    assert (finding.kind, finding.culprits, finding.victims) == ("mismatch", (), ())
    assert [(item.code, item.ranks) for item in answer.undecided] == [("tie", (0, 1))]


def test_another_size_from_the_same_line_as_ever_is_wrong_in_a_group_of_two() -> None:
    rows = [Row(seq) for seq in range(4)]
    dumps = [dump(0, [*rows, waiting(4)], ranks=2), dump(1, [*rows, waiting(4, inputs=((9,),))], ranks=2)]
    assert named(only(judged(dumps))) == [1]


def test_a_last_call_after_a_loop_may_be_right_and_so_stays_open() -> None:
    rows = [Row(seq) for seq in range(4)]
    barrier = waiting(4, op="barrier", inputs=(), outputs=(), line=20)
    dumps = [dump(0, [*rows, waiting(4)], ranks=2), dump(1, [*rows, barrier], ranks=2)]
    assert only(judged(dumps)).culprits == ()


def steps(count: int, first: int = 0) -> list[Row]:
    """Return steps of two gathers and two scatters of different lines."""
    calls = [(GATHER, 11), (GATHER, 12), (SCATTER, 21), (SCATTER, 22)]
    return [Row(first + seq, **calls[seq % 4][0], line=calls[seq % 4][1]) for seq in range(count)]  # type: ignore[arg-type]


def last_pending(rows: list[Row]) -> list[Row]:
    return [*rows[:-1], replace(rows[-1], state=SCHEDULED, retired=0)]


def test_a_left_out_call_shows_later_and_the_range_says_where_it_can_lie() -> None:
    usual = last_pending(steps(10))
    skipped = [row for row in steps(11) if row.seq != 8]
    renumbered = last_pending([replace(row, seq=at) for at, row in enumerate(skipped)])
    finding = only(judged([dump(rank, renumbered if rank == 2 else usual) for rank in range(4)]))
    assert (finding.kind, finding.cause, named(finding)) == ("mismatch", "skipped_call", [2])
    low, high = finding.seq_range or (0, 0)
    assert low <= 8 <= high


def test_two_ends_with_different_sizes_are_a_mismatch_and_the_unusual_one_is_wrong() -> None:
    pipeline = [Group("0", "pp", (0, 1), "nccl", "pg_config")]
    sends = [Row(0, "send", channel=SEND, peer=1), Row(0, "send", channel=SEND, peer=1)]
    receives = [Row(0, "recv", channel=RECV, peer=0), Row(0, "recv", channel=RECV, peer=0)]
    dumps = [
        dump(0, [*sends, waiting(0, op="send", channel=SEND, peer=1, inputs=((9,),))], pipeline),
        dump(1, [*receives, waiting(0, op="recv", channel=RECV, peer=0)], pipeline),
    ]
    finding = only(judged(dumps))
    assert (finding.kind, finding.detail, named(finding)) == ("mismatch", "size", [0])


def test_without_completion_events_a_failed_last_call_is_found_although_all_left_it() -> None:
    def rows(rank: int) -> list[Row]:
        size = ((9,),) if rank == 1 else ((8,),)
        return [Row(0, state=SCHEDULED), Row(1, state=SCHEDULED, inputs=size, outputs=size)]

    finding = only(judged([dump(rank, rows(rank), backend="gloo", eventless=True) for rank in range(4)]))
    assert (finding.kind, named(finding)) == ("mismatch", [1])


def test_survivors_that_disagree_say_more_than_a_missing_dump() -> None:
    dumps = [
        dump(
            rank,
            [Row(0, state=SCHEDULED), waiting(1, inputs=((9 if rank == 0 else 8,),))],
            backend="gloo",
            eventless=True,
        )
        for rank in (0, 2, 3)
    ]
    finding = only(judged(dumps))
    assert (finding.kind, named(finding)) == ("mismatch", [0])


def test_a_group_keeps_its_ranks_apart_from_another_of_the_same_name() -> None:
    left, right = (Group("s", "tp", ranks, "nccl", "pg_config") for ranks in ((0, 1), (2, 3)))
    dumps = [
        dump(rank, [Row(0), Row(1, op=op)], [left if rank < 2 else right])
        for rank, op in enumerate(("a", "a", "b", "b"))
    ]
    assert judged(dumps).status == "healthy"
