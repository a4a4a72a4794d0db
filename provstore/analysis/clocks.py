"""Offsets between the clocks of a group's ranks, bounded by causality.

In a call that synchronises, no member can notice the end, or go on when it blocks, before every member has entered. So
what one rank's clock says it noticed, less what another's says it entered, bounds the difference of their clocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from provstore.graph.calltable import Integers

Floats = NDArray[np.float64]

UNKNOWN_NS = -1


@dataclass(frozen=True, slots=True)
class Offsets:
    """One value a member, in nanoseconds against the clock that most members share."""

    chosen: Floats
    """The offset nearest to 0 between the bounds."""
    lowest: Floats
    highest: Floats
    contradictory: NDArray[np.bool_]
    """The bounds exclude each other: some calls did not block."""


def none(members: int) -> Offsets:
    """Return offsets of 0 that are known to be exact: one clock."""
    zero = np.zeros(members)
    return Offsets(zero, zero, zero, np.zeros(members, dtype=np.bool_))


def offsets(entered: Integers, noticed: Integers, sites: Integers) -> Offsets:
    """Return the offsets of members' clocks.

    Args:
        entered: When each member entered each call, ns; instances × members.
        noticed: When it noticed the end or went on, ns; ``UNKNOWN_NS`` where it says nothing.
        sites: The place in the program of each instance. Members may go on from some places without waiting, so the
            bounds are those of the place that binds least.
    """
    lowest = np.full(entered.shape[1], np.inf)
    highest = -lowest
    for site in np.unique(sites):
        low, high = _bounds(entered[sites == site], noticed[sites == site])
        lowest, highest = np.minimum(lowest, low), np.maximum(highest, high)
    highest[0] = lowest[0] = 0.0
    contradictory = lowest > highest
    lowest, highest = np.minimum(lowest, highest), np.maximum(lowest, highest)
    together = float(np.median(np.median(entered - entered[:, :1], axis=0)[1:]))
    shared = _most_shared(lowest, highest, together)
    chosen = np.clip(shared, lowest, highest)
    return Offsets(chosen - shared, lowest - shared, highest - shared, contradictory)


def _bounds(entered: Integers, noticed: Integers) -> tuple[Floats, Floats]:
    """Return the lowest and highest offset of each member's clock against the first member's."""
    unknown = noticed == UNKNOWN_NS
    last_word = np.where(unknown, np.inf, noticed.astype(np.float64) - entered[:, :1])
    first_word = np.where(unknown[:, :1], -np.inf, entered - noticed[:, :1].astype(np.float64))
    return first_word.max(axis=0), last_word.min(axis=0)


def _most_shared(lowest: Floats, highest: Floats, together: float) -> float:
    """Return the offset that fits most members: 0 when it does, else the one nearest to entering together."""
    ends = np.concatenate((lowest, highest))
    candidates = np.unique(np.concatenate(([0.0, together], ends[np.isfinite(ends)])))
    begun = np.searchsorted(np.sort(lowest), candidates, side="right")
    over = np.searchsorted(np.sort(highest), candidates, side="left")
    fitting = begun - over
    best = candidates[fitting == fitting.max()]
    return 0.0 if 0.0 in best else float(best[np.argmin(np.abs(best - together))])
