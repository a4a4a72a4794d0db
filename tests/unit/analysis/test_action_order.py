"""What comes after an action: on its rank by its order, on other ranks through the calls that they share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from provstore.analysis.action_order import ActionOrder
from provstore.model.action import Action


def shared(rank: int, seq: int, group: str) -> Action:
    """A call of one group; groups are joined by the ranks that are in both."""
    return Action(
        f"{group}/{seq}/{rank}", "all_reduce", rank, seq, "read", "full", "full", "", group=group, seq=seq,
        chain=f"{group}/{seq}",
    )  # fmt: skip


JOB = [
    shared(0, 1, "a"), shared(0, 2, "a"),
    shared(1, 1, "a"), shared(1, 1, "b"), shared(1, 2, "a"),
    shared(2, 1, "b"),
    shared(3, 1, "c"),
]  # fmt: skip
"""Rank 1 is in groups a and b; rank 3 shares nothing."""


def test_what_comes_after_goes_through_shared_calls_and_not_beyond_them() -> None:
    order = ActionOrder(JOB)

    assert order.after(["a/1/0"]) == {"a/1/0", "a/2/0", "a/1/1", "b/1/1", "a/2/1", "b/1/2"}
    assert order.after(["a/2/0"]) == {"a/2/0", "a/2/1"}
    assert order.after(["b/1/2", "c/1/3"]) == {"b/1/2", "b/1/1", "a/2/1", "a/2/0", "c/1/3"}
    assert order.after([]) == order.after(["unknown"]) == set()


def test_the_ranks_that_come_after_are_those_of_the_actions_that_do() -> None:
    order = ActionOrder(JOB)

    assert order.ranks_after("a/1/0") == {0, 1, 2}
    assert order.ranks_after("a/2/0") == {0, 1}
    assert order.ranks_after("c/1/3") == {3}


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from("ab")), unique=True, max_size=20),
    st.data(),
)
def test_what_comes_after_is_the_closure_of_next_on_the_rank_and_of_shared_calls(
    said: list[tuple[int, int, str]], draw: st.DataObject
) -> None:
    rows = [shared(*one) for one in said]
    names = set(draw.draw(st.lists(st.sampled_from([one.action_id for one in rows]), max_size=3))) if rows else set()
    expected = set(names)
    while True:
        more = {
            other.action_id
            for at, one in enumerate(rows)
            if one.action_id in expected
            for place, other in enumerate(rows)
            if (other.rank == one.rank and place > at) or other.chain == one.chain
        }
        if more <= expected:
            break
        expected |= more

    order = ActionOrder(rows)
    assert order.after(names) == expected
    for name in names:
        assert order.ranks_after(name) == {order.by_id[other].rank for other in order.after([name])}
