"""Merging: several dumps of one recorder, in any order, and those that cannot belong together."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from provstore.graph.merge import merge
from provstore.model.dump import COMPLETED, SCHEDULED, Group
from tests.hand_dumps import Row, dump, ring


def _calls(one: object) -> list[tuple[int, int, int]]:
    calls = one.calls  # type: ignore[attr-defined]
    return list(zip(calls.record_id, calls.seq, calls.state))


def test_overlapping_dumps_become_their_union_in_the_most_advanced_state() -> None:
    early = dump(0, [Row(0), Row(1, state=SCHEDULED, retired=0)], name="early")
    late = dump(0, [Row(1, record_id=1), Row(2, record_id=2)], name="late")
    for order in permutations([early, late]):
        (merged,) = merge(order).dumps
        assert _calls(merged) == [(0, 0, COMPLETED), (1, 1, COMPLETED), (2, 2, COMPLETED)]


def test_a_single_dump_stays_as_it_is() -> None:
    dumps = ring()
    assert merge(dumps).dumps == dumps


def test_a_record_created_at_two_times_is_a_contradiction_that_names_both_files() -> None:
    one, other = dump(0, [Row(0)], name="one"), dump(0, [Row(0, created_ns=5)], name="other")
    found = merge([one, other, dump(1, [Row(0)])])
    assert [d.rank for d in found.dumps] == [1]
    assert {found.contradictions[0].first.file, found.contradictions[0].second.file} == {"one", "other"}


def test_one_number_created_at_two_times_is_a_contradiction_even_without_a_common_record() -> None:
    one = dump(0, [Row(4, record_id=0, op_id=4)], name="one")
    other = dump(0, [Row(4, record_id=9, op_id=4)], name="other")
    assert len(merge([one, other]).contradictions) == 1


def test_a_dump_without_entries_joins_the_other_dump_of_its_rank() -> None:
    empty = replace(dump(0, [], name="empty"), backend="")
    assert [d.file for d in merge([empty, dump(0, [Row(0)])]).dumps] == ["rank_0"]
    assert [d.file for d in merge([empty]).dumps] == ["empty"]


def test_an_undeclared_group_folds_into_the_declared_one_of_its_name() -> None:
    bare = dump(0, [Row(0), Row(1)], [Group("0", "default_pg", None, "nccl")], name="bare")
    whole = dump(0, [Row(0), Row(1)], name="whole")
    for order in permutations([bare, whole]):
        (merged,) = merge(order).dumps
        assert [group.ranks for group in merged.groups] == [(0, 1, 2, 3)]
        assert len(merged.calls) == 2
