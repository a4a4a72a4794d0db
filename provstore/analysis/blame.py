"""Which side of a disagreement is wrong: the minority, else what sibling groups did, else what was usual before.

Never the first rank read: when nothing decides, both sides are named and the answer stays open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from provstore.analysis.case import Case
from provstore.analysis.instances import DETAILS
from provstore.analysis.signatures import BARRIERS, NOT_COMPARED
from provstore.analysis.tokens import Tokens
from provstore.graph.calltable import Integers
from provstore.model.dump import COLLECTIVE

_CONTEXT = 8
_HISTORY = 1024

Side = tuple[int, ...]
"""Rows that agree with each other."""


@dataclass(frozen=True, slots=True)
class Blame:
    """Who is wrong, and on what ground."""

    wrong: Side
    """Rows of the wrong side; empty when nothing decides."""
    right: Side
    ground: str
    """``majority``, ``siblings``, ``usual``, ``roles`` or ``tie``."""
    sides: tuple[Side, ...]


class Judge:
    """Decides on disagreements of one case."""

    def __init__(self, case: Case, tokens: Tokens) -> None:
        self._case = case
        self._tokens = tokens

    def sides(self, rows: Sequence[int], detail: str) -> tuple[Side, ...]:
        """Return the rows of one instance apart by what they ask for, the largest side first."""
        wants = self._case.wants
        signature = self._case.table.signature
        columns = {"op": (wants.op,), "dtype": (wants.dtype,), "size": (wants.inputs, wants.outputs)}[detail]
        found: dict[int, list[int]] = {}
        for column in columns:
            found = {}
            for row in rows:
                value = int(column[signature[row]])
                if value != NOT_COMPARED or detail == "op":
                    found.setdefault(value, []).append(int(row))
            if len(found) > 1:
                break
        return tuple(sorted((tuple(side) for side in found.values()), key=lambda side: (-len(side), side)))

    def instance(self, at: int) -> Blame:
        """Return who is wrong in a collective instance whose members disagree."""
        found = self._case.instances
        rows = [int(row) for row in found.calls(at)]
        sides = self.sides(rows, DETAILS[int(found.disagreement[at])])
        largest = sides[0]
        if 2 * len(largest) > len(rows):
            wrong = tuple(row for side in sides[1:] for row in side)
            return Blame(wrong, largest, "majority", sides)
        return self._by_siblings(at, sides) or self._by_habit(at, sides) or Blame((), (), "tie", sides)

    def _by_siblings(self, at: int, sides: tuple[Side, ...]) -> Blame | None:
        votes: Counter[int] = Counter()
        for other in self._siblings(at):
            fitting = [place for place, side in enumerate(sides) if self._want(side[0]) == self._agreed(other)]
            votes.update(fitting)
        if len(votes) != 1:
            return None
        (right,) = votes
        wrong = tuple(row for place, side in enumerate(sides) if place != right for row in side)
        return Blame(wrong, sides[right], "siblings", sides)

    def _siblings(self, at: int) -> list[int]:
        """Return the instances of the same number in groups of the same kind whose last calls were the same."""
        case, found = self._case, self._case.instances
        mine = case.table.groups[int(found.group[at])]
        number, past = int(found.number[at]), self._past(at)
        siblings = []
        for group, other in enumerate(case.table.groups):
            alike = (other.backend, other.desc, len(other.ranks)) == (mine.backend, mine.desc, len(mine.ranks))
            if group == int(found.group[at]) or not alike:
                continue
            there = self.at(group, number)
            if there is not None and found.disagreement[there] < 0 and self._same_past(past, self._past(there)):
                siblings.append(there)
        return siblings

    def at(self, group: int, number: int) -> int | None:
        """Return the instance of a group with a number, or None."""
        found = self._case.instances
        low, high = np.searchsorted(found.group, (group, group + 1))
        place = int(low) + int(np.searchsorted(found.number[low:high], number))
        return place if place < high and int(found.number[place]) == number else None

    def _past(self, at: int) -> list[tuple[int, tuple[int, ...] | None]]:
        """Return the last instances of the same group before one: their numbers and what their members agreed on."""
        found = self._case.instances
        first = max(at - _CONTEXT, int(np.searchsorted(found.group, int(found.group[at]))))
        return [(int(found.number[one]), self._agreed(one)) for one in range(first, at)]

    @staticmethod
    def _same_past(
        mine: list[tuple[int, tuple[int, ...] | None]], other: list[tuple[int, tuple[int, ...] | None]]
    ) -> bool:
        there = dict(other)
        return all(there.get(number, agreed) == agreed for number, agreed in mine) and (not mine or bool(there))

    def _agreed(self, at: int) -> tuple[int, ...] | None:
        found = self._case.instances
        return None if found.disagreement[at] >= 0 else self._want(int(found.rows[found.start[at]]))

    def _want(self, row: int) -> tuple[int, ...]:
        wants, signature = self._case.wants, int(self._case.table.signature[row])
        return tuple(int(column[signature]) for column in (wants.op, wants.dtype, wants.inputs, wants.outputs))

    def _by_habit(self, at: int, sides: tuple[Side, ...]) -> Blame | None:
        """Decide between two sides by what followed the same calls before."""
        if len(sides) != 2:
            return None
        one, other = sides[0][0], sides[1][0]
        usual = self.followers(at)
        fits = [int(self._tokens.call[row]) in usual for row in (one, other)]
        if fits[0] == fits[1]:
            return None
        right, wrong = (sides[0], sides[1]) if fits[0] else (sides[1], sides[0])
        if self._may_have_moved_on(wrong[0], right[0]):
            return None
        return Blame(wrong, right, "usual", sides)

    def _may_have_moved_on(self, wrong: int, right: int) -> bool:
        """Return whether the unusual call may be the rightful next one after a loop that the other has not left."""
        frame, call = self._tokens.frame, self._tokens.call
        if self._tokens.has_frames and frame[wrong] == frame[right]:
            return False
        if (self._sequence(wrong)[1][:-1] == call[wrong]).any():
            return False
        if not self._tokens.has_frames or self._case.signature(wrong).op in BARRIERS:
            return True
        mine, usual = self._case.source(wrong), self._case.source(right)
        if mine is None or usual is None or (mine.file, mine.function) != (usual.file, usual.function):
            return True
        return mine.line > usual.line

    def followers(self, at: int) -> set[int]:
        """Return the calls that followed, earlier in this group, the calls that now precede instance ``at``."""
        return self._followers(int(self._case.instances.calls(at)[0]), after=False)

    def usual_after(self, row: int) -> set[int]:
        """Return the calls that followed, earlier in its group, the calls that end with the rank's call ``row``."""
        return self._followers(row, after=True)

    def _followers(self, row: int, *, after: bool) -> set[int]:
        _, tokens = self._sequence(row)
        here = len(tokens) if after else len(tokens) - 1
        for length in range(min(_CONTEXT, here), 0, -1):
            context = tokens[here - length : here]
            windows = np.lib.stride_tricks.sliding_window_view(tokens[: here - 1], length) if here > length else None
            if windows is None or not len(windows):
                continue
            found = np.flatnonzero((windows == context).all(axis=1)) + length
            if len(found):
                return {int(tokens[place]) for place in found}
        return set()

    def _sequence(self, row: int) -> tuple[Integers, Integers]:
        """Return the rows and tokens of a rank's collectives in the group of ``row``, up to that row."""
        table = self._case.table
        span = table.rows_of_dump(int(table.dump[row]))
        rows = np.arange(span.start, row + 1)
        mine = (table.group[rows] == table.group[row]) & (table.channel[rows] == COLLECTIVE)
        rows = rows[mine][-_HISTORY:]
        return rows, self._tokens.call[rows]
