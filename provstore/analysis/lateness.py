"""How late each rank enters the calls of each of its groups, its clock's offset taken out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provstore.analysis import clocks
from provstore.analysis.case import Case
from provstore.analysis.clocks import Floats, Offsets
from provstore.analysis.signatures import ROOTED
from provstore.graph.calltable import Integers
from provstore.model.dump import COLLECTIVE

_NS_PER_MS = 1e6
_CONSTANT_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Lateness:
    """One rank in one group."""

    rank: int
    group: int
    rows: Integers
    """The rank's calls, the group's first left out."""
    late_ms: Floats
    last_share: float
    cadence_ms: float
    is_constant: bool
    """Equally late in nearly every call, the first included."""
    offset_ms: float
    explained_by_clock: bool
    """The causal bounds leave room for a clock that is off by the whole lateness."""
    contradictory: bool

    @property
    def median_ms(self) -> float:
        """The typical lateness."""
        return float(np.median(self.late_ms))


def lateness(case: Case) -> Iterator[Lateness]:
    """Yield each rank's lateness in each group, for the ranks that break no limit but the cadence's."""
    found = case.instances
    noticed = _noticed(case)
    bounds = np.searchsorted(found.group, np.arange(len(case.table.groups) + 1))
    roles = _roles(case)
    for group, item in enumerate(case.table.groups):
        low, high = int(bounds[group]), int(bounds[group + 1])
        if len(item.ranks) < 2 or high - low <= case.options.straggler_instances:
            continue
        sizes = np.diff(found.start[low : high + 1])
        whole = np.flatnonzero(sizes == sizes.max()) + low
        if sizes.max() >= 2 and len(whole) > case.options.straggler_instances:
            rows = found.rows[found.start[whole][:, None] + np.arange(int(sizes.max()))]
            if (case.table.rank[rows] == case.table.rank[rows[:1]]).all():
                yield from _in_group(case, group, rows, noticed, roles)


def _noticed(case: Case) -> Integers:
    """Return when each call's rank noticed its end; on an eventless backend when it went on to its next call."""
    table = case.table
    went_on = np.full(len(table), clocks.UNKNOWN_NS, dtype=np.int64)
    order = np.lexsort((table.turn, table.rank))
    same = table.rank[order][1:] == table.rank[order][:-1]
    went_on[order[:-1][same]] = table.created[order[1:][same]]
    noticed = np.where(case.progress.eventless, went_on, table.completed)
    rooted = np.array([item.op in ROOTED for item in table.signatures], dtype=np.bool_)
    if len(table):
        noticed = np.where(rooted[table.signature] | (table.channel != COLLECTIVE), clocks.UNKNOWN_NS, noticed)
    return noticed


def _roles(case: Case) -> dict[int, tuple[object, ...]]:
    """Return what makes ranks comparable: kinds of groups, and the place in those with sends and receives."""
    found: dict[int, list[tuple[object, ...]]] = {}
    for group in case.table.groups:
        for place, rank in enumerate(group.ranks):
            found.setdefault(rank, []).append((group.desc, len(group.ranks), place if group.has_p2p else -1))
    return {rank: tuple(sorted(parts, key=repr)) for rank, parts in found.items()}


def _in_group(
    case: Case, group: int, rows: Integers, noticed: Integers, roles: dict[int, tuple[object, ...]]
) -> Iterator[Lateness]:
    ranks = [int(rank) for rank in case.table.rank[rows[0]]]
    entered = case.table.created[rows]
    offsets = clocks.none(len(ranks)) if _one_host(case, ranks) else clocks.offsets(entered, noticed[rows])
    entered = entered - entered[:, :1].min() - offsets.chosen[None, :]
    last = np.bincount(entered[1:].argmax(axis=1), minlength=len(ranks)) / (len(rows) - 1)
    cadence = float(np.median(np.diff(np.median(entered, axis=1)))) / _NS_PER_MS
    for place in np.flatnonzero(last >= case.options.straggler_last_share).tolist():
        peers = [at for at, rank in enumerate(ranks) if at != place and roles[rank] == roles[ranks[place]]]
        if peers:
            late = (entered[:, place] - np.median(entered[:, peers], axis=1)) / _NS_PER_MS
            yield _summed_up(group, ranks[place], rows[1:, place], late, float(last[place]), cadence, offsets, place)


def _summed_up(
    group: int, rank: int, rows: Integers, late: Floats, last: float, cadence: float, offsets: Offsets, place: int
) -> Lateness:
    median = float(np.median(late[1:]))
    offset = float(offsets.chosen[place]) / _NS_PER_MS
    room = float(offsets.highest[place]) / _NS_PER_MS
    return Lateness(
        rank=rank,
        group=group,
        rows=rows,
        late_ms=late[1:],
        last_share=last,
        cadence_ms=cadence,
        is_constant=bool((late > median / 2).mean() >= _CONSTANT_SHARE and late[0] > median / 2),
        offset_ms=offset,
        explained_by_clock=offset + median <= room,
        contradictory=bool(offsets.contradictory[place]),
    )


def _one_host(case: Case, ranks: list[int]) -> bool:
    hosts = {case.culprit(rank).host for rank in ranks}
    return len(hosts) == 1 and None not in hosts
