"""How late each rank enters the calls of each of its groups, its clock's offset taken out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

import numpy as np

from provstore.analysis import clocks
from provstore.analysis.case import Case
from provstore.analysis.clocks import Floats, Offsets
from provstore.analysis.signatures import ROOTED
from provstore.graph.calltable import Flags, Integers
from provstore.model.dump import COLLECTIVE

_NS_PER_MS = 1e6
_ROUNDS = 6
_CHANCES = 100
"""One in so many times a rank of the job may be last so often by chance."""
_ENOUGH = 256
"""In more calls than these the share alone excludes chance."""


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
    """Late in every call, the first included."""
    is_steady: bool
    """By about the same time in most calls."""
    is_bimodal: bool
    """By the same time in most calls, and not at all in some after the first: no offset of its clock shows that."""
    offset_ms: float
    clocks_off: int
    """How many ranks of the job have clocks that are known to be off against most others."""
    own_clock_off: bool
    """Its own clock is one of those."""
    explained_by_clock: bool
    """The causal bounds leave room for a clock that is off by the whole lateness."""
    contradictory: bool
    own_excess_ms: float
    """How much more time of its own, not spent waiting for others, it took than its peers over all these calls."""

    @property
    def median_ms(self) -> float:
        """The typical lateness."""
        return float(np.median(self.late_ms))


def lateness(case: Case) -> list[Lateness]:
    """Return how late the ranks are that are mostly last in a group, or at one place in the program."""
    matrices = _matrices(case)
    noticed = _noticed(case) if matrices else np.empty(0, dtype=np.int64)
    roles = _roles(case)
    offsets = {group: _group_offsets(case, rows, noticed) for group, rows in matrices.items()}
    clock = _rank_offsets(case, matrices, offsets)
    entered = case.table.created - clock[case.table.rank]
    own: list[Integers] = []
    found = []
    for group, rows in matrices.items():
        for place, peers, chosen in _mostly_last(case, rows, entered[rows], roles):
            own = own or [_own_time(case, entered)]
            view = _View(case, group, rows[chosen], entered, own[0], offsets[group], _clocks_off(case, clock))
            found.append(_measured(view, place, peers))
    return found


def _matrices(case: Case) -> dict[int, Integers]:
    """Return for each group its whole instances, as rows of the table: instances × members; largest groups first."""
    found, matrices = case.instances, {}
    bounds = np.searchsorted(found.group, np.arange(len(case.table.groups) + 1))
    sizes = np.diff(found.start)
    for group in sorted(range(len(case.table.groups)), key=lambda at: (-len(case.table.groups[at].ranks), at)):
        low, high = int(bounds[group]), int(bounds[group + 1])
        if high - low <= case.options.straggler_instances:
            continue
        members = int(sizes[low:high].max())
        whole = np.flatnonzero(sizes[low:high] == members) + low
        if members > 1 and len(whole) > case.options.straggler_instances:
            rows = found.rows[found.start[whole][:, None] + np.arange(members)]
            if (case.table.rank[rows] == case.table.rank[rows[:1]]).all():
                matrices[group] = rows
    return matrices


def _rank_offsets(case: Case, matrices: dict[int, Integers], offsets: dict[int, Offsets]) -> Integers:
    """Return one clock offset a rank, ns: that of its largest group, the groups' own zeros made equal."""
    known: dict[int, float] = {}
    for group, rows in matrices.items():
        ranks = case.table.rank[rows[0]].tolist()
        chosen = dict(zip(ranks, offsets[group].chosen.tolist()))
        both = [known[rank] - chosen[rank] for rank in ranks if rank in known]
        zero = float(np.median(both)) if both else 0.0
        for rank in ranks:
            known.setdefault(rank, chosen[rank] + zero)
    highest = max((dump.rank for dump in case.table.dumps), default=0)
    found = np.zeros(highest + 1, dtype=np.int64)
    for rank, offset in known.items():
        found[rank] = round(offset)
    return found


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


def _own_time(case: Case, entered: Integers) -> Integers:
    """Return for each call the time its rank had spent up to it, less the time in calls that waited for others, ns.

    A collective lasts at least until its last member came to it, a send or receive until its other end did; a rank
    comes to a call when the calls before it are over. Some rounds follow that from rank to rank.
    """
    table, found = case.table, case.instances
    order = np.lexsort((table.turn, table.rank))
    begins = np.searchsorted(table.rank[order], np.unique(table.rank))
    parts = np.split(order, begins[1:])
    paired = np.flatnonzero(case.partner >= 0)
    over = entered.copy()
    for _ in range(_ROUNDS):
        for rows in parts:
            over[rows] = np.maximum.accumulate(over[rows])
        if len(found):
            last = np.maximum.reduceat(over[found.rows], found.start[:-1])
            over[found.rows] = np.repeat(last, np.diff(found.start))
        over[paired] = np.maximum(over[paired], over[case.partner[paired]])
    own = np.zeros(len(table), dtype=np.int64)
    for rows in parts:
        free = np.maximum.accumulate(over[rows])
        own[rows[1:]] = np.cumsum(np.maximum(entered[rows[1:]] - free[:-1], 0))
    return own


def _roles(case: Case) -> dict[int, tuple[object, ...]]:
    """Return what makes ranks comparable: kinds of groups, and the place in those with sends and receives."""
    found: dict[int, list[tuple[object, ...]]] = {}
    for group in case.table.groups:
        for place, rank in enumerate(group.ranks):
            found.setdefault(rank, []).append((group.desc, len(group.ranks), place if group.has_p2p else -1))
    return {rank: tuple(sorted(parts, key=repr)) for rank, parts in found.items()}


def _group_offsets(case: Case, rows: Integers, noticed: Integers) -> Offsets:
    ranks = case.table.rank[rows[0]].tolist()
    if _one_host(case, ranks):
        return clocks.none(len(ranks))
    return _offsets(case, rows, case.table.created[rows], noticed)


def _mostly_last(
    case: Case, rows: Integers, entered: Integers, roles: dict[int, tuple[object, ...]]
) -> Iterator[tuple[int, list[int], Integers]]:
    """Yield (place of a rank, places of its role peers, the group's calls in which the rank is mostly last)."""
    last = entered.argmax(axis=1)
    often = np.bincount(last, minlength=rows.shape[1])
    ranks = case.table.rank[rows[0]].tolist()
    least = case.options.straggler_last_share * case.options.straggler_instances
    for place in np.flatnonzero(often >= least).tolist():
        peers = [at for at, rank in enumerate(ranks) if at != place and roles[rank] == roles[ranks[place]]]
        for chosen in _selections(case, rows, last == place) if peers else ():
            if _is_no_chance(case, entered[chosen], place):
                yield place, peers, chosen


def _is_no_chance(case: Case, entered: Integers, place: int) -> bool:
    """Return whether a member is last in so many independent calls that members of equal speed would not show it.

    Calls of one step carry one lateness on: a call is independent of an earlier one when all had entered that before
    any entered this.
    """
    first, last = entered.min(axis=1).tolist(), entered.max(axis=1).tolist()
    chosen: list[int] = []
    for at in range(1, len(entered)):
        if not chosen or first[at] >= last[chosen[-1]]:
            chosen.append(at)
    count, members = len(chosen), entered.shape[1]
    often = int((entered[chosen].argmax(axis=1) == place).sum())
    if count < case.options.straggler_instances or often < case.options.straggler_last_share * count:
        return False
    if count > _ENOUGH:
        return True
    ranks = len({dump.rank for dump in case.table.dumps})
    tail = sum(comb(count, k) * (members - 1) ** (count - k) for k in range(often, count + 1))
    return bool(tail * ranks * _CHANCES <= members**count)


def _selections(case: Case, rows: Integers, is_last: Flags) -> Iterator[Integers]:
    """Yield the calls of a group in which a rank is mostly last: all of them, or those of one place in the program."""
    asked = case.options
    if is_last[1:].mean() >= asked.straggler_last_share:
        yield np.arange(len(rows))
        return
    sites = _sites(case, rows)
    for site in np.unique(sites[is_last]).tolist():
        chosen = np.flatnonzero(sites == site)
        if len(chosen) > asked.straggler_instances and is_last[chosen[1:]].mean() >= asked.straggler_last_share:
            yield chosen


@dataclass(frozen=True, slots=True)
class _View:
    """Some calls of one group, and the clocks to read them by."""

    case: Case
    group: int
    rows: Integers
    """Instances × members."""
    entered: Integers
    own: Integers
    offsets: Offsets
    clocks_off: frozenset[int]
    """Ranks whose clocks are known to be off."""


def _measured(view: _View, place: int, peers: list[int]) -> Lateness:
    rows, offsets = view.rows, view.offsets
    moments = view.entered[rows]
    late = (moments[:, place] - np.median(moments[:, peers], axis=1)) / _NS_PER_MS
    median = float(np.median(late[1:]))
    spent = (view.own[rows[-1]] - view.own[rows[0]]) / _NS_PER_MS
    low, high = np.quantile(late[1:], (0.25, 0.75))
    rank = view.case.rank(int(rows[0, place]))
    return Lateness(
        rank=rank,
        group=view.group,
        rows=rows[1:, place],
        late_ms=late[1:],
        last_share=float((moments[1:].argmax(axis=1) == place).mean()),
        cadence_ms=float(np.median(np.diff(np.median(moments, axis=1)))) / _NS_PER_MS,
        is_constant=bool((late > median / 2).all()),
        is_steady=bool(high - low <= median / 2),
        is_bimodal=bool(high - low <= median / 4 and late[1:].min() <= median / 4),
        offset_ms=float(offsets.chosen[place]) / _NS_PER_MS,
        clocks_off=len(view.clocks_off),
        own_clock_off=rank in view.clocks_off,
        explained_by_clock=float(offsets.chosen[place] - offsets.highest[place]) / _NS_PER_MS + median <= 0,
        contradictory=bool(offsets.contradictory[place]),
        own_excess_ms=float(spent[place] - np.median(spent[peers])),
    )


def _offsets(case: Case, rows: Integers, entered: Integers, noticed: Integers) -> Offsets:
    sites = _sites(case, rows) if case.progress.eventless[rows].any() else np.zeros(len(rows), dtype=np.int64)
    known, counts = np.unique(sites, return_counts=True)
    sites = np.where(np.isin(sites, known[counts < case.options.straggler_instances]), -1, sites)
    often = sites != -1 if (sites != -1).any() else np.ones(len(sites), dtype=np.bool_)
    return clocks.offsets(entered[often], noticed[rows][often], sites[often])


def _sites(case: Case, rows: Integers) -> Integers:
    """Return one number for each place in the program from which a group's calls are made."""
    table = case.table
    return np.asarray(table.signature[rows[:, 0]] * (1 << 32) + table.stack[rows[:, 0]] + 1, dtype=np.int64)


def _clocks_off(case: Case, clock: Integers) -> frozenset[int]:
    """Return the ranks whose clock differs from the one that most ranks share."""
    ranks = np.unique(case.table.rank)
    known, counts = np.unique(clock[ranks], return_counts=True)
    return frozenset(ranks[clock[ranks] != known[counts.argmax()]].tolist())


def _one_host(case: Case, ranks: list[int]) -> bool:
    """Return whether the sidecars of all ranks name one host, and so one clock; a file's name is no such statement."""
    stated = {dump.rank: dump.sidecar.host for dump in case.table.dumps if dump.sidecar and dump.sidecar.host}
    return {stated.get(rank) for rank in ranks} == {stated.get(ranks[0], "")}
