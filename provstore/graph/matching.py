"""Which calls of different ranks belong together: numbers made comparable, sends paired with receives.

Source: docs/explanation/diagnosis.md#matching
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np

from provstore.graph.calltable import CallTable, Flags, Integers, build
from provstore.graph.progress import Progress, progress
from provstore.model.dump import ABSENT, COLLECTIVE, RECV, SEND, Dump, Signature

EXACT, ALIGNED, INFERRED = 0, 1, 2
BASIS_NAMES = ("exact", "aligned", "inferred")

_LARGEST_SHIFT = 4
_NO_PAIR = -1


@dataclass(frozen=True, slots=True)
class Alignment:
    """Numbers that are comparable between ranks, one a row of the table; meaningful for collectives only."""

    table: CallTable
    number: Integers
    """The recorded number, or a corrected one in groups whose recorded numbers drift apart."""
    basis: Integers
    """``EXACT`` where the recorded number is used, ``ALIGNED`` where it was corrected."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Sends and the receives they belong to; rows of the table, pair by pair."""

    table: CallTable
    sends: Integers
    receives: Integers
    basis: Integers
    """``EXACT``: counted from the first call of both; ``ALIGNED``: from the border of completion; ``INFERRED``: by
    time among the alignments whose sizes and element types fit."""

    def partners(self) -> Integers:
        """Return each row's partner, or -1."""
        partner = np.full(len(self.table), _NO_PAIR, dtype=np.int64)
        partner[self.sends] = self.receives
        partner[self.receives] = self.sends
        return partner


def align(dumps: Iterable[Dump]) -> Alignment:
    """Return comparable numbers for the collectives of ``dumps``."""
    table = build(dumps)
    return aligned(table, progress(table))


def pair_p2p(dumps: Iterable[Dump]) -> Pairs:
    """Return which send of ``dumps`` belongs to which receive."""
    table = build(dumps)
    return paired(table, progress(table))


def is_complete(dump: Dump) -> bool:
    """Return whether the dump holds every call since its recorder began."""
    if dump.wrapped or dump.active_only:
        return False
    return not len(dump.calls) or (dump.record_ids_stated and dump.calls.record_id[0] == 0)


def aligned(table: CallTable, how_far: Progress) -> Alignment:
    """Return comparable numbers: corrected in groups with batched p2p, or with ranks whose format counts otherwise."""
    number = table.seq.copy()
    basis = np.full(len(table), EXACT, dtype=np.int64)
    drifting = {group for (_, group), said in table.status.items() if said.batched_p2p}
    for at, dump in enumerate(table.dumps):
        if not dump.seq_comparable:
            drifting.update(int(group) for group in np.unique(table.group[table.rows_of_dump(at)]))
    for group in sorted(drifting):
        _align_group(table, how_far, group, number, basis)
    return Alignment(table, number, basis)


def _align_group(table: CallTable, how_far: Progress, group: int, number: Integers, basis: Integers) -> None:
    in_group = np.flatnonzero((table.group == group) & (table.channel == COLLECTIVE))
    if not len(in_group):
        return
    basis[in_group] = ALIGNED
    members = np.unique(table.dump[in_group])
    parts = [in_group[table.dump[in_group] == at] for at in members]
    dumps = [table.dumps[int(at)] for at in members]
    if all(map(is_complete, dumps)):
        comparable = all(dump.seq_comparable for dump in dumps)
        for at, rows in zip(members, parts):
            number[rows] = _without_batches(table, int(at), group, rows) if comparable else np.arange(len(rows))
        return
    reference = max(parts, key=len)
    number[reference] = np.arange(len(reference))
    for rows in parts:
        if rows is not reference:
            number[rows] = np.arange(len(rows)) + _best_shift(table, how_far, rows, reference)
    number[in_group] -= min(0, int(number[in_group].min()))


def _without_batches(table: CallTable, at: int, group: int, rows: Integers) -> Integers:
    """Return the numbers of ``rows`` less the batches of sends and receives that this rank ran before each."""
    span = table.rows_of_dump(at)
    batched = (table.group[span] == group) & (table.batch[span] != ABSENT)
    ends = np.unique(table.batch[span][batched])
    return np.asarray(table.seq[rows] - np.searchsorted(ends, table.record_id[rows]), dtype=np.int64)


def _best_shift(table: CallTable, how_far: Progress, rows: Integers, reference: Integers) -> int:
    """Return what to add to an ordinal in ``rows`` to get the ordinal of the same instance in ``reference``."""
    border = int((~how_far.pending[reference]).sum()) - int((~how_far.pending[rows]).sum())
    best = (2.0, 0.0, 0, border)
    for shift in range(border - _LARGEST_SHIFT, border + _LARGEST_SHIFT + 1):
        mine = rows[max(0, -shift) : max(0, len(reference) - shift)]
        theirs = reference[max(0, shift) : max(0, shift) + len(mine)]
        if len(mine):
            unequal = float((table.signature[mine] != table.signature[theirs]).mean())
            distance = float(np.median(np.abs(table.created[mine] - table.created[theirs])))
            best = min(best, (unequal, distance, abs(shift - border), shift))
    return best[3]


def paired(table: CallTable, how_far: Progress) -> Pairs:
    """Return the pairs: the k-th send of a channel (group, source, destination) with its k-th receive."""
    rows = np.flatnonzero((table.channel != COLLECTIVE) & (table.peer != ABSENT))
    if not len(rows):
        empty = np.empty(0, dtype=np.int64)
        return Pairs(table, empty, empty, empty)
    lanes = _Lanes(table, how_far, rows)
    sends, receives, basis = lanes.by_count()
    return lanes.refined(sends, receives, basis)


class _Lanes:
    """Sends and receives sorted by channel, side and program order."""

    def __init__(self, table: CallTable, how_far: Progress, rows: Integers) -> None:
        self._table = table
        sending = table.channel[rows] == SEND
        source = np.where(sending, table.rank[rows], table.peer[rows])
        target = np.where(sending, table.peer[rows], table.rank[rows])
        lane_key = (table.group[rows] << 40) | (source << 20) | target
        _, lane = np.unique(lane_key, return_inverse=True)
        slot = lane * 2 + (table.channel[rows] == RECV)
        order = np.argsort(slot, kind="stable")
        self._rows: Integers = rows[order]
        self._slot: Integers = slot[order]
        self._start: Integers = np.searchsorted(self._slot, np.arange(2 * (int(lane.max()) + 1) + 1))
        self._done: Flags = ~how_far.pending[self._rows]
        self._exact = self._counted_from_start()

    def _counted_from_start(self) -> Flags:
        """Return for each lane whether both of its ends hold every call since their recorders began."""
        complete = np.array([is_complete(dump) for dump in self._table.dumps], dtype=np.bool_)
        slots = len(self._start) - 1
        known = np.zeros(slots, dtype=np.bool_)
        filled = np.flatnonzero(np.diff(self._start))
        known[filled] = complete[self._table.dump[self._rows[self._start[filled]]]]
        return np.asarray(known[0::2] & known[1::2])

    def by_count(self) -> tuple[Integers, Integers, Integers]:
        """Return the pairs counted from the start, or outward from the border between done and pending."""
        lane = self._slot >> 1
        position = np.arange(len(self._rows)) - self._start[self._slot]
        last_done = np.full(len(self._start) - 1, -1, dtype=np.int64)
        np.maximum.at(last_done, self._slot[self._done], position[self._done])
        place = np.where(self._exact[lane], position, position - last_done[self._slot] - 1)
        key = (lane << 32) + place + (1 << 31)
        receiving = (self._slot & 1) == 1
        _, at_send, at_receive = np.intersect1d(
            key[~receiving], key[receiving], assume_unique=True, return_indices=True
        )
        sends, receives = self._rows[~receiving][at_send], self._rows[receiving][at_receive]
        of_lane = lane[~receiving][at_send]
        return sends, receives, np.where(self._exact[of_lane], EXACT, ALIGNED).astype(np.int64)

    def refined(self, sends: Integers, receives: Integers, basis: Integers) -> Pairs:
        """Return the pairs with those lanes aligned anew whose border does not fit on both sides."""
        doubtful = self._doubtful()
        if not len(doubtful):
            return Pairs(self._table, sends, receives, basis)
        lane_of_row = np.full(len(self._table), _NO_PAIR, dtype=np.int64)
        lane_of_row[self._rows] = self._slot >> 1
        keep = ~np.isin(lane_of_row[sends], doubtful)
        parts = [(sends[keep], receives[keep], basis[keep])]
        for lane in doubtful:
            again = lane_of_row[sends] == lane
            parts.append(self._aligned_by_time(int(lane)) or (sends[again], receives[again], basis[again]))
        joined = [np.concatenate(column) for column in zip(*parts)]
        return Pairs(self._table, *joined)

    def _doubtful(self) -> Integers:
        """Return the lanes, not counted from the start, whose pending calls are not equally many on both sides."""
        waiting = np.bincount(self._slot[~self._done], minlength=len(self._start) - 1)
        filled = np.diff(self._start) > 0
        uneven = (waiting[0::2] != waiting[1::2]) & filled[0::2] & filled[1::2]
        return np.flatnonzero(uneven & ~self._exact)

    def _aligned_by_time(self, lane: int) -> tuple[Integers, Integers, Integers] | None:
        """Return the pairs of one lane that fit and are closest in time; None when no alignment fits."""
        table = self._table
        sends = self._rows[self._start[2 * lane] : self._start[2 * lane + 1]]
        receives = self._rows[self._start[2 * lane + 1] : self._start[2 * lane + 2]]
        border = int(self._done[self._start[2 * lane + 1] : self._start[2 * lane + 2]].sum()) - int(
            self._done[self._start[2 * lane] : self._start[2 * lane + 1]].sum()
        )
        found = None
        for shift in range(border - _LARGEST_SHIFT, border + _LARGEST_SHIFT + 1):
            mine = sends[max(0, -shift) : max(0, len(receives) - shift)]
            theirs = receives[max(0, shift) : max(0, shift) + len(mine)]
            if len(mine) and self._fit(mine, theirs):
                distance = float(np.median(np.abs(table.created[mine] - table.created[theirs])))
                candidate = (distance, abs(shift - border), mine, theirs)
                found = candidate if found is None or candidate[:2] < found[:2] else found
        if found is None:
            return None
        return found[2], found[3], np.full(len(found[2]), INFERRED, dtype=np.int64)

    def _fit(self, sends: Integers, receives: Integers) -> bool:
        signatures = self._table.signatures
        return all(
            payload(signatures[a], SEND) == payload(signatures[b], RECV)
            for a, b in {
                (int(a), int(b)) for a, b in zip(self._table.signature[sends], self._table.signature[receives])
            }
        )


def payload(signature: Signature, channel: int) -> tuple[int, tuple[str, ...]]:
    """Return how many elements a send gives or a receive takes, and of which types."""
    sending = (signature.input_sizes, signature.input_dtypes), (signature.output_sizes, signature.output_dtypes)
    first, second = sending if channel == SEND else sending[::-1]
    sizes, dtypes = first if first[0] else second
    return sum(prod(shape) for shape in sizes), dtypes
