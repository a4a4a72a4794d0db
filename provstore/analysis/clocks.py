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
    """The offset nearest to 0 inside the bounds; their middle where they contradict each other."""
    lowest: Floats
    highest: Floats
    contradictory: NDArray[np.bool_]
    """The bounds exclude each other: some calls did not block."""


def none(members: int) -> Offsets:
    """Return offsets of 0 that are known to be exact: one clock."""
    zero = np.zeros(members)
    return Offsets(zero, zero, zero, np.zeros(members, dtype=np.bool_))


def offsets(entered: Integers, noticed: Integers) -> Offsets:
    """Return the offsets of members' clocks.

    Args:
        entered: When each member entered each call, ns; instances × members.
        noticed: When it noticed the end or went on, ns; ``UNKNOWN_NS`` where it says nothing.
    """
    unknown = noticed == UNKNOWN_NS
    last_word = np.where(unknown, np.inf, noticed.astype(np.float64) - entered[:, :1])
    first_word = np.where(unknown[:, :1], -np.inf, entered - noticed[:, :1].astype(np.float64))
    highest, lowest = last_word.min(axis=0), first_word.max(axis=0)
    highest[0] = lowest[0] = 0.0
    shared = _most_shared(lowest, highest)
    contradictory = lowest > highest
    inside = np.clip(shared, lowest, np.maximum(lowest, highest))
    chosen = np.where(contradictory, (np.clip(lowest, -1e18, 1e18) + np.clip(highest, -1e18, 1e18)) / 2, inside)
    return Offsets(chosen - shared, lowest - shared, highest - shared, contradictory)


def _most_shared(lowest: Floats, highest: Floats) -> float:
    """Return the offset that fits most members, the one nearest to 0 among several."""
    ends = np.concatenate((lowest, highest))
    candidates = np.unique(np.concatenate(([0.0], ends[np.isfinite(ends)])))
    begun = np.searchsorted(np.sort(lowest), candidates, side="right")
    over = np.searchsorted(np.sort(highest), candidates, side="left")
    fitting = begun - over
    best = candidates[fitting == fitting.max()]
    return float(best[np.argmin(np.abs(best))])
