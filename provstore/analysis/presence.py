"""Where each rank stands in each group: which calls it has entered, as far as dumps and their status tables tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provstore.graph.calltable import CallTable, Integers
from provstore.graph.matching import is_complete
from provstore.model.dump import ABSENT, COLLECTIVE

ENTERED, PASSED, ABSENT_FROM, NO_DUMP, UNKNOWN = "entered", "passed", "absent", "no_dump", "unknown"


@dataclass(frozen=True, slots=True)
class Place:
    """One rank's standing towards one instance."""

    state: str
    """``entered``, ``passed`` (no entry kept, but the rank was there and went on), ``absent``, ``no_dump``,
    ``unknown``."""
    done: bool = False
    """Passed, and shown completed."""
    reason: str = ""
    """Why it is unknown: the code of an undecided answer."""


class Presence:
    """Answers where a rank stands, for instances of which it has no entry."""

    def __init__(self, table: CallTable, number: Integers) -> None:
        self._table = table
        self._number = number
        self._groups = max(len(table.groups), 1)
        self._of_rank: dict[int, list[int]] = {}
        for at, dump in enumerate(table.dumps):
            self._of_rank.setdefault(dump.rank, []).append(at)
        slots = table.dump * self._groups + table.group
        size = len(table.dumps) * self._groups
        everything = np.arange(len(table))
        self._first, self._last = _ends(slots, everything, size)
        collectives = np.flatnonzero(table.channel == COLLECTIVE)
        self._first_call, self._last_call = _ends(slots[collectives], collectives, size)

    def has_dump(self, rank: int) -> bool:
        """Return whether any recorder of the rank left a dump."""
        return rank in self._of_rank

    def dump_of(self, rank: int, group: int) -> int | None:
        """Return the dump that would hold the rank's calls of a group, or None."""
        backend = self._table.groups[group].backend
        mine = self._of_rank.get(rank, ())
        for at in mine:
            if self._table.dumps[at].backend == backend or (at, group) in self._table.status:
                return at
        empty = [at for at in mine if not self._table.dumps[at].backend]
        return empty[0] if empty else None

    def window(self, rank: int, group: int) -> tuple[int, int] | None:
        """Return the lowest and highest number of the rank's recorded collectives of a group."""
        at = self.dump_of(rank, group)
        if at is None:
            return None
        slot = at * self._groups + group
        first, last = int(self._first_call[slot]), int(self._last_call[slot])
        return None if last < 0 else (int(self._number[first]), int(self._number[last]))

    def last_row(self, rank: int, group: int) -> int | None:
        """Return the row of the rank's last recorded call of a group, of any kind."""
        at = self.dump_of(rank, group)
        row = -1 if at is None else int(self._last[at * self._groups + group])
        return None if row < 0 else row

    def towards(self, rank: int, group: int, number: int) -> Place:
        """Return the standing of a rank that has no entry of this instance."""
        at = self.dump_of(rank, group)
        if at is None:
            return Place(UNKNOWN, reason="missing_dump") if self.has_dump(rank) else Place(NO_DUMP)
        dump = self._table.dumps[at]
        enqueued, completed = self._stated(at, group)
        window = self.window(rank, group)
        if window is not None and number <= window[1]:
            return Place(PASSED, done=not dump.eventless and (number < window[0] or dump.active_only))
        if enqueued is not None:
            return (
                Place(ABSENT_FROM)
                if number > enqueued
                else Place(PASSED, done=completed is not None and number <= completed)
            )
        if window is not None and not dump.active_only:
            return Place(ABSENT_FROM)
        if is_complete(dump) and not (dump.entry_count == 0 and self._says_more(at)):
            return Place(ABSENT_FROM)
        if (at, group) not in self._table.status and any(dump.groups):
            return Place(ABSENT_FROM)
        return Place(UNKNOWN, reason="active_only" if dump.active_only else "ring_wrapped")

    def _says_more(self, at: int) -> bool:
        """Return whether the status table of a dump without entries shows that there were calls."""
        return any(group.last_enqueued > 0 for group in self._table.dumps[at].groups)

    def _stated(self, at: int, group: int) -> tuple[int | None, int | None]:
        """Return the highest numbers that the dump states enqueued and completed, in the group's own numbering."""
        said = self._table.status.get((at, group))
        if said is None or said.last_enqueued == ABSENT or self._table.groups[group].has_p2p:
            return None, None
        dump = self._table.dumps[at]
        if not dump.seq_comparable or said.batched_p2p:
            return None, None
        if not dump.eventless:
            return said.last_enqueued, said.last_completed
        row = int(self._last_call[at * self._groups + group])
        if row < 0:
            return (said.last_enqueued, None) if said.last_enqueued <= 0 else (None, None)
        lead = int(self._table.op_id[row]) - int(self._number[row])
        return said.last_enqueued - lead, None


def _ends(slots: Integers, rows: Integers, size: int) -> tuple[Integers, Integers]:
    first = np.full(size, -1, dtype=np.int64)
    last = np.full(size, -1, dtype=np.int64)
    first[slots[::-1]] = rows[::-1]
    last[slots] = rows
    return first, last
