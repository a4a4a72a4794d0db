"""Digests that ranks must share: who is in doubt, counted by hand."""

from __future__ import annotations

import pytest

from provstore.evidence.verify import digests
from provstore.evidence.verify.digests import Digests, Doubt, Stated

A, B, C = "a" * 64, "b" * 64, "c" * 64


def taken(*words, ranks=(0, 1, 2), step=7):
    """The doubts after these words of (rank, digest), in their order."""
    held = Digests()
    for seq, (rank, sha256) in enumerate(words):
        held.take({"name": "weights", "step": step, "ranks": list(ranks), "rank": rank, "sha256": sha256}, seq)
    return list(held.doubts())


def doubt(*stated, majority=0, group=3, step=7):
    return Doubt("weights", step, tuple(Stated(*one) for one in stated), majority, group)


@pytest.mark.parametrize(
    ("words", "doubts"),
    [
        ([(0, A), (1, A), (2, A)], []),
        ([(0, A), (1, A)], []),
        ([(0, A)], [doubt((0, A, 0))]),
        ([(0, A), (1, A), (2, B)], [doubt((2, B, 2), majority=2)]),
        ([(0, A), (1, B), (2, A)], [doubt((1, B, 1), majority=2)]),
        ([(0, A), (1, B)], [doubt((0, A, 0), (1, B, 1))]),
        ([(0, A), (1, B), (2, C)], [doubt((0, A, 0), (1, B, 1), (2, C, 2))]),
        # A rank that states two digests confirms neither.
        ([(0, A), (0, B), (1, A), (2, A)], [doubt((0, B, 1), majority=2)]),
        ([(0, A), (0, B), (1, A)], [doubt((0, A, 0), (1, A, 2), (0, B, 1))]),
        # Neither does the collector, nor a rank outside the group.
        ([(None, A), (0, A)], [doubt((-1, A, 0), (0, A, 1))]),
        ([(None, B), (0, A), (1, A), (2, A)], [doubt((-1, B, 0), majority=3)]),
        ([(9, B), (0, A), (1, A), (2, A)], [doubt((9, B, 0), majority=3)]),
        ([(9, A), (8, A), (0, A)], [doubt((9, A, 0), (8, A, 1), (0, A, 2))]),
        # After all ranks of a group have spoken, the next word begins another.
        ([(0, A), (1, A), (2, A), (0, B)], [doubt((0, B, 3))]),
        ([], []),
    ],
)
def test_who_is_in_doubt(words, doubts):
    assert taken(*words) == doubts


def test_more_than_half_of_those_that_speak_are_a_majority():
    four = (0, 1, 2, 3)
    assert taken((0, A), (1, A), (2, B), (3, B), ranks=four) == [
        doubt((0, A, 0), (1, A, 1), (2, B, 2), (3, B, 3), group=4)
    ]
    assert taken((0, A), (1, A), (2, A), (3, B), ranks=four) == [doubt((3, B, 3), majority=3, group=4)]
    assert taken((0, A), (1, A), (2, B), ranks=four) == [doubt((2, B, 2), majority=2, group=4)]


def test_groups_differ_by_name_step_and_ranks_and_are_told_in_the_order_of_their_end():
    held = Digests()
    for seq, (name, step, ranks, rank) in enumerate(
        [("x", 1, [0, 1], 0), ("x", 2, [0, 1], 0), ("y", 1, [0, 1], 0), ("x", 1, [0, 2], 0), ("x", 1, [0, 1], 1)]
    ):
        held.take({"name": name, "step": step, "ranks": ranks, "rank": rank, "sha256": A if rank == 0 else B}, seq)

    assert [(one.name, one.step, one.group, len(one.stated)) for one in held.doubts()] == [
        ("x", 1, 2, 2), ("x", 2, 2, 1), ("y", 1, 2, 1), ("x", 1, 2, 1),
    ]  # fmt: skip
    assert held.is_full is False


def test_words_wait_up_to_a_limit_and_whole_groups_make_room(monkeypatch):
    monkeypatch.setattr(digests, "MOST_WAITING", 3)
    held = Digests()

    def say(step, rank, sha256=A):
        held.take({"name": "x", "step": step, "ranks": [0, 1], "rank": rank, "sha256": sha256}, 0)

    for step in range(5):
        say(step, 0)
        say(step, 0, B)
        say(step, 1)
    assert held.is_full is False
    say(5, 0)
    say(6, 0)
    say(7, 0)
    assert held.is_full is False
    say(8, 0)
    assert held.is_full is True
    assert [one.step for one in held.doubts()] == [0, 1, 2, 3, 4, 5, 6, 7]
