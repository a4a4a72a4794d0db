"""How far each call got, as far as its own rank's dump shows it.

With completion events a call is done when it was seen completed. Without them only the ``retired`` flag tells anything,
and it is set late, out of order, and on failure too: such a call is settled, which is not success.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provstore.graph.calltable import CallTable, Flags, Integers
from provstore.model.dump import ABSENT, COLLECTIVE, COMPLETED


@dataclass(frozen=True, slots=True)
class Progress:
    """Flags, one a row of the table."""

    eventless: Flags
    """The row's dump holds no completion events."""
    done: Flags
    """Seen completed; always false on an eventless backend."""
    settled: Flags
    """Eventless only: the call, or a later one of its rank and group, left the work list."""
    timed_out: Flags
    """With events: left the work list without completing."""
    pending: Flags
    """Neither done nor settled, as far as its state is known."""


def progress(table: CallTable) -> Progress:
    """Return how far each call got."""
    eventless = _per_row(table, [dump.eventless for dump in table.dumps])
    done = (table.state == COMPLETED) & ~eventless
    done |= _stated_done(table, ~done & ~eventless)
    retired = table.retired == 1
    settled = _settled(table, eventless, retired)
    pending = ~(done | settled) & ~_without_state(table)
    return Progress(eventless, done, settled, retired & ~done & ~eventless, pending)


def _without_state(table: CallTable) -> Flags:
    """Return the batched sends and receives whose state is not known: their closing entry alone would tell it.

    A dump of active calls leaves out the closing entry of a batch that is done, but not the calls of that batch.
    """
    active_only = _per_row(table, [dump.active_only for dump in table.dumps])
    rows = np.flatnonzero(active_only & (table.channel != COLLECTIVE) & (table.batch == ABSENT))
    unknown = np.zeros(len(table), dtype=np.bool_)
    keys = np.stack((table.dump[rows], table.group[rows], table.p2p_seq[rows]))
    _, at, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    numbered = table.p2p_seq[rows]
    unknown[rows] = (numbered == 0) | ((numbered > 0) & (counts[at.reshape(-1)] > 1))
    return unknown


def _per_row(table: CallTable, flags: list[bool]) -> Flags:
    return np.repeat(np.array(flags, dtype=np.bool_), np.diff(table.first_row))


def _stated_done(table: CallTable, open_rows: Flags) -> Flags:
    """Return the collectives that the status table of their own dump shows completed, in groups without p2p."""
    found = np.zeros(len(table), dtype=np.bool_)
    for row in np.flatnonzero(open_rows & (table.channel == COLLECTIVE)):
        group = int(table.group[row])
        status = table.status.get((int(table.dump[row]), group))
        if status is not None and status.last_completed != ABSENT and not table.groups[group].has_p2p:
            found[row] = int(table.seq[row]) <= status.last_completed
    return found


def _settled(table: CallTable, eventless: Flags, retired: Flags) -> Flags:
    settled = eventless & retired
    if not eventless.any():
        return settled
    slot: Integers = table.dump * len(table.groups) + table.group
    last = np.full(len(table.dumps) * max(len(table.groups), 1), ABSENT, dtype=np.int64)
    rows = np.flatnonzero(settled)
    np.maximum.at(last, slot[rows], rows)
    return settled | (eventless & (np.arange(len(table)) <= last[slot]))
