"""Which calls belong together: pairs of sends and receives, and numbers made comparable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provstore.graph.matching import ALIGNED, BASIS_NAMES, EXACT, INFERRED, Pairs, align, pair_p2p
from provstore.model.dump import ABSENT, COLLECTIVE, COMPLETED, RECV, SCHEDULED, SEND, Dump, Group
from tests.hand_dumps import SECOND, Row, dump, ring

PIPELINE = Group("5", "pp", (0, 1), "nccl", "pg_config")


def send(at: int, **facts: object) -> Row:
    return Row(0, "send", channel=SEND, peer=1, created_ns=SECOND * (1 + at), record_id=at, **facts)  # type: ignore[arg-type]


def receive(at: int, **facts: object) -> Row:
    return Row(0, "recv", channel=RECV, peer=0, created_ns=SECOND * (1 + at), record_id=at, **facts)  # type: ignore[arg-type]


def two(sends: Sequence[Row], receives: Sequence[Row], **facts: object) -> list[Dump]:
    return [replace(dump(rank, rows, [PIPELINE]), **facts) for rank, rows in enumerate((sends, receives))]  # type: ignore[arg-type]


def record_pairs(found: Pairs) -> list[tuple[int, int]]:
    ids = found.table.record_id
    return sorted((int(ids[a]), int(ids[b])) for a, b in zip(found.sends, found.receives))


def test_in_whole_rings_the_kth_send_belongs_to_the_kth_receive() -> None:
    found = pair_p2p(two([send(at) for at in range(3)], [receive(at) for at in range(3)]))
    assert record_pairs(found) == [(0, 0), (1, 1), (2, 2)]
    assert {BASIS_NAMES[basis] for basis in found.basis} == {"exact"}


def test_a_send_without_receive_stays_alone() -> None:
    found = pair_p2p(two([send(at) for at in range(3)], [receive(0)]))
    assert record_pairs(found) == [(0, 0)]
    assert found.partners().tolist().count(-1) == 2


def test_wrapped_rings_count_outward_from_the_border_of_completion() -> None:
    pending = {"state": SCHEDULED, "retired": 0}
    sends = [send(10), send(11), send(12, **pending)]
    receives = [receive(at) for at in range(30, 35)] + [receive(35, **pending)]
    found = pair_p2p(two(sends, receives, wrapped=True))
    assert record_pairs(found) == [(10, 33), (11, 34), (12, 35)]
    assert set(found.basis.tolist()) == {ALIGNED}


def test_uneven_pending_calls_are_aligned_by_time_among_those_that_fit() -> None:
    pending = {"state": SCHEDULED, "retired": 0}
    found = pair_p2p(two([send(10, **pending), send(20, **pending)], [receive(20, **pending)], active_only=True))
    assert record_pairs(found) == [(20, 20)]
    assert set(found.basis.tolist()) == {INFERRED}


def test_calls_of_other_sizes_do_not_pair_by_time() -> None:
    pending = {"state": SCHEDULED, "retired": 0}
    odd = send(20, inputs=((3,),), outputs=((3,),), **pending)
    found = pair_p2p(two([send(10, **pending), odd], [receive(20, **pending)], active_only=True))
    assert record_pairs(found) == [(10, 20)]


def test_channels_of_other_ranks_and_groups_do_not_mix() -> None:
    other = Group("6", "pp", (0, 2), "nccl", "pg_config")
    dumps = [
        dump(0, [send(0), replace(send(1), peer=2, group=1)], [PIPELINE, other]),
        dump(1, [receive(0)], [PIPELINE]),
        dump(2, [replace(receive(0), peer=0)], [other]),
    ]
    found = pair_p2p(dumps)
    assert sorted(int(found.table.rank[row]) for row in found.receives) == [1, 2]
    assert len(found.sends) == 2


@given(st.integers(0, 12), st.integers(0, 12))
def test_pairs_are_as_many_as_the_shorter_side_and_no_call_is_in_two(sends: int, receives: int) -> None:
    found = pair_p2p(two([send(at) for at in range(sends)], [receive(at) for at in range(receives)]))
    assert len(found.sends) == min(sends, receives)
    assert len(set(found.sends.tolist())) == len(set(found.receives.tolist())) == len(found.sends)


def test_comparable_numbers_are_kept() -> None:
    found = align(ring(3, 4))
    assert found.number.tolist() == [0, 1, 2, 3] * 3
    assert set(found.basis.tolist()) == {EXACT}


def test_batches_of_sends_and_receives_are_taken_out_of_a_groups_numbers() -> None:
    """A group of batched sends and receives bumps the counter only on ranks that take part."""
    group = Group("5", "pp", (0, 1), "nccl", "pg_config", batched_p2p=True)
    with_batch = [
        Row(1, record_id=0),
        Row(2, "send", channel=SEND, peer=7, record_id=1, batch=2),
        Row(3, record_id=3),
    ]
    found = align([dump(0, with_batch, [group]), dump(1, [Row(1, record_id=0), Row(2, record_id=1)], [group])])
    numbers = {(int(r), int(i)): int(n) for r, i, n in zip(found.table.rank, found.table.record_id, found.number)}
    assert numbers[0, 0] == numbers[1, 0]
    assert numbers[0, 3] == numbers[1, 1]
    assert set(found.basis[found.table.channel == COLLECTIVE].tolist()) == {ALIGNED}


def test_ranks_whose_format_counts_otherwise_are_aligned_by_order() -> None:
    old = dump(0, [Row(5), Row(9), Row(12)], ranks=2, seq_comparable=False)
    found = align([old, dump(1, [Row(0), Row(1), Row(2)], ranks=2)])
    assert found.number.tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_in_wrapped_rings_numbers_are_aligned_by_what_was_called(lost: int) -> None:
    sizes = [((4,),), ((6,),), ((9,),), ((2,),), ((7,),)]
    group = replace(PIPELINE, batched_p2p=True)

    def rows(first: int, shift: int) -> list[Row]:
        return [
            Row(
                at + shift, inputs=sizes[at % 5], outputs=sizes[at % 5], record_id=50 + at, created_ns=SECOND * (1 + at)
            )
            for at in range(first, 12)
        ]

    dumps = [replace(dump(rank, rows(*ends), [group]), wrapped=True) for rank, ends in enumerate(((0, 0), (lost, 40)))]
    found = align(dumps)
    numbers = {(int(r), int(i)): int(n) for r, i, n in zip(found.table.rank, found.table.record_id, found.number)}
    assert all(numbers[0, record] == numbers[1, record] for record in range(50 + lost, 62))


def test_an_undeclared_group_folds_into_the_one_declared_of_its_name() -> None:
    declared = Group("5", "pp", (0, 1), "nccl", "pg_config")
    bare = Group("5", "", None, "nccl")
    table = align([dump(0, [Row(1)], [declared]), dump(1, [Row(1)], [bare])]).table
    assert [(group.name, group.ranks, group.declared) for group in table.groups] == [("5", (0, 1), True)]


def test_two_rank_sets_under_one_name_are_two_groups() -> None:
    groups = [Group("5", "pp", (0, 1), "nccl", "pg_config"), Group("5", "pp", (2, 3), "nccl", "pg_config")]
    table = align([dump(0, [Row(1)], [groups[0]]), dump(2, [Row(1)], [groups[1]])]).table
    assert {group.ranks for group in table.groups} == {(0, 1), (2, 3)}


def test_groups_of_a_format_without_names_are_each_ranks_own() -> None:
    bare = Group("3", "", None, "nccl", pg_id=3)
    table = align([dump(rank, [Row(1)], [bare], seq_comparable=False) for rank in (0, 1)]).table
    assert [group.ranks for group in table.groups] == [(0,), (1,)]


def test_absent_peers_pair_with_nobody() -> None:
    lone = dump(0, [Row(0, "send", channel=SEND, peer=ABSENT, state=COMPLETED)], [PIPELINE])
    assert len(pair_p2p([lone]).sends) == 0
