"""Ranks that others wait for and that wait for nobody: which call they should have entered, and whether they should."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from provstore.analysis.case import Case
from provstore.analysis.scene import Scene
from provstore.analysis.waits import End


@dataclass(frozen=True, slots=True)
class IdleEnd:
    """An idle rank that is waited for."""

    end: End
    row: int
    """The call of another rank that it should have entered first, as far as its role tells."""
    may_hide: bool
    """It may be blocked in a send or receive that its recorder does not keep."""
    is_outvoted: bool
    """More members are idle than wait, or no group of the kind came that far: those that wait made a call too many."""
    is_doubtful: bool
    """It may hide, and neither most members nor its role say that it should have entered."""


def idle_ends(scene: Scene) -> Iterator[IdleEnd]:
    """Yield the idle ranks that calls of other ranks wait for."""
    ends = [end for end in scene.waits.ends if end.kind == "host"]
    idle = {end.ranks[0] for end in ends}
    for end in ends:
        row = _first_awaited(scene, end)
        inside, outside = _sides(scene, row, idle)
        hides = _may_hide(scene.case, end.ranks[0], row)
        outvoted = len(outside) > len(inside) or (
            len(outside) == len(inside) and not hides and _only_here(scene, row, idle)
        )
        yield IdleEnd(end, row, hides, outvoted and not scene.case.is_p2p(row), hides and len(inside) <= len(outside))


def _first_awaited(scene: Scene, end: End) -> int:
    case, rank = scene.case, end.ranks[0]
    expected = scene.roles.next_expected(rank)
    in_time = sorted(end.awaited, key=lambda at: (int(case.table.created[at]), at))
    if expected is not None:
        token = scene.roles.tokens.in_job[expected]
        for row in in_time:
            if not case.is_p2p(row) and scene.roles.tokens.in_job[row] == token:
                return row
            if case.is_p2p(row) and case.is_p2p(expected) and case.group(expected).desc == case.group(row).desc:
                return row
    return next((row for row in in_time if not case.is_p2p(row)), in_time[0])


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


def _only_here(scene: Scene, row: int, idle: set[int]) -> bool:
    """Return whether groups of the same kind, all ended, never came to this number."""
    case = scene.case
    if case.is_p2p(row):
        return False
    mine, number = case.group(row), int(case.number[row])
    siblings = [
        at
        for at, group in enumerate(case.table.groups)
        if (group.backend, group.desc, len(group.ranks)) == (mine.backend, mine.desc, len(mine.ranks))
        and group.ranks != mine.ranks
    ]
    ends = [case.presence.window(rank, at) for at in siblings for rank in case.table.groups[at].ranks]
    still = [rank for at in siblings for rank in case.table.groups[at].ranks if rank in scene.waits.of_rank]
    return bool(ends) and not still and all(end is not None and end[1] == number - 1 for end in ends)
