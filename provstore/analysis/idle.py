"""Ranks that others wait for and that wait for nobody: which call they should have entered, and whether they should."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from provstore.analysis.case import Case
from provstore.analysis.scene import Scene
from provstore.analysis.waits import End
from provstore.model.dump import ABSENT, COLLECTIVE, RECV, SEND


@dataclass(frozen=True, slots=True)
class IdleEnd:
    """An idle rank that is waited for."""

    end: End
    row: int
    """The call of another rank that it should have entered first, as far as its role tells."""
    may_hide: bool
    """It may be blocked in a send or receive that its recorder does not keep."""
    is_outvoted: bool
    """Those that wait have made a call too many: most members, or what was usual, or groups of the kind say so."""
    is_doubtful: bool
    """Nothing tells whether it should have entered."""


_OTHER_SIDE = {SEND: RECV, RECV: SEND}

_OUTVOTED = 3
"""So many times more members must be idle than wait, when only their numbers speak."""


def idle_ends(scene: Scene) -> Iterator[IdleEnd]:
    """Yield the idle ranks that calls of other ranks wait for."""
    ends = [end for end in scene.waits.ends if end.kind == "host"]
    idle = {end.ranks[0] for end in ends}
    for end in ends:
        row = first_awaited(scene, end)
        inside, outside = _sides(scene, row, idle)
        hides = _may_hide(scene.case, end.ranks[0], row)
        verdict = "right" if scene.case.is_p2p(row) else _standing(scene, row, inside, outside)
        doubtful = (hides and len(inside) <= len(outside)) or (verdict == "open" and not hides)
        yield IdleEnd(end, row, hides, verdict == "wrong" and not hides, doubtful)


def _standing(scene: Scene, row: int, inside: list[int], outside: list[int]) -> str:
    """Return whether those inside an awaited call are ``right`` to be there, ``wrong``, or whether that is ``open``."""
    if len(inside) > len(outside):
        return "right"
    usual = {known for rank in outside if (known := _expects(scene, row, rank)) is not None}
    elsewhere = _elsewhere(scene, row)
    if not _is_mostly_over(scene):
        return "open" if usual == {False} and not elsewhere and len(inside) == len(outside) else "right"
    if len(outside) >= _OUTVOTED * len(inside) and not elsewhere:
        return "wrong"
    if usual == {True} or elsewhere:
        return "right"
    return "wrong" if usual == {False} or _only_here(scene, row) else "open"


def _is_mostly_over(scene: Scene) -> bool:
    """Return whether more ranks are idle than wait: most of the job has ended."""
    seen = {dump.rank for dump in scene.case.table.dumps}
    waiting = len(seen & set(scene.waits.of_rank))
    return len(seen) - waiting > waiting


def _expects(scene: Scene, row: int, rank: int) -> bool | None:
    """Return whether an awaited call is what used to follow where an idle member stands; None without a past."""
    case = scene.case
    last = case.presence.last_row(rank, int(case.table.group[row]))
    if last is None:
        return None
    usual = scene.judge.usual_after(last)
    return int(scene.roles.tokens.call[row]) in usual if usual else None


def first_awaited(scene: Scene, end: End) -> int:
    """Return the call of another rank that the end's rank should have entered first, as far as roles tell."""
    case, rank = scene.case, end.ranks[0]
    expected = scene.roles.next_expected(rank)
    due = _last_done(case, rank, end.awaited)
    if expected is not None:
        token = scene.roles.tokens.in_job[expected]
        fitting = [row for row in end.awaited if _is_expected(scene, row, expected, int(token))]
        if fitting:
            side = int(case.table.channel[expected])
            # A rank that should have sent is awaited in a receive.
            return min(fitting, key=lambda row: (int(case.table.channel[row]) == side, due[row], case.order(row)))

    def behind(row: int) -> tuple[bool, int]:
        return case.is_p2p(row), scene.roles.calls_since_anchor(row)

    return min(end.awaited, key=lambda row: (behind(row), due[row], case.order(row)))


def _is_expected(scene: Scene, row: int, expected: int, token: int) -> bool:
    """Return whether an awaited call is the one that role peers made next, as far as its other end can tell."""
    case = scene.case
    if not case.is_p2p(row):
        return int(scene.roles.tokens.in_job[row]) == token
    return case.is_p2p(expected) and case.group(expected).desc == case.group(row).desc


def _last_done(case: Case, rank: int, awaited: Iterable[int]) -> dict[int, int]:
    """Return for each awaited call when ``rank`` last did its part of one like it, in its own program order.

    In a program that goes round, what was done longest ago comes next. No clock of another rank is asked.
    """
    table = case.table
    mine = np.flatnonzero(table.rank == rank)
    known: dict[tuple[int, int, int], int] = {}
    found = {}
    for row in awaited:
        group, channel = int(table.group[row]), int(table.channel[row])
        wanted, peer = (COLLECTIVE, ABSENT) if channel == COLLECTIVE else (_OTHER_SIDE[channel], case.rank(row))
        key = group, wanted, peer
        if key not in known:
            alike = (table.group[mine] == group) & (table.channel[mine] == wanted)
            alike &= (peer == ABSENT) | (table.peer[mine] == peer)
            known[key] = int(table.turn[mine[alike]].max(initial=ABSENT))
        found[row] = known[key]
    return found


def _may_hide(case: Case, rank: int, row: int) -> bool:
    return bool(case.progress.eventless[row]) and rank in case.hides_p2p


def _sides(scene: Scene, row: int, idle: set[int]) -> tuple[list[int], list[int]]:
    """Return the members inside an awaited call, and those that are idle outside it."""
    case = scene.case
    if case.is_p2p(row):
        return [case.rank(row)], [int(case.table.peer[row])]
    at = int(case.instances.of_row[row])
    inside = [case.rank(int(one)) for one in case.instances.calls(at)]
    return inside, [rank for rank in case.group(row).ranks if rank in idle and rank not in inside]


def _siblings(scene: Scene, row: int) -> list[int]:
    """Return the groups of the same kind as the group of a call."""
    case = scene.case
    mine = case.group(row)
    return [
        at
        for at, group in enumerate(case.table.groups)
        if (group.backend, group.desc, len(group.ranks)) == (mine.backend, mine.desc, len(mine.ranks))
        and group.ranks != mine.ranks
    ]


def _elsewhere(scene: Scene, row: int) -> bool:
    """Return whether a group of the same kind came to the number of a call."""
    number = int(scene.case.number[row])
    return any(scene.judge.at(at, number) is not None for at in _siblings(scene, row))


def _only_here(scene: Scene, row: int) -> bool:
    """Return whether groups of the same kind, all ended, never came to the number of a call."""
    case = scene.case
    members = [(at, rank) for at in _siblings(scene, row) for rank in case.table.groups[at].ranks]
    if not members or any(rank in scene.waits.of_rank for _, rank in members):
        return False
    ends = [case.presence.window(rank, at) for at, rank in members]
    return all(end is not None and end[1] == int(case.number[row]) - 1 for end in ends)
