"""Calls that cannot end because their members disagree: which, who is wrong, and whether a skip lies behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provstore.analysis.blame import Blame
from provstore.analysis.case import UNDER_WAY
from provstore.analysis.instances import DETAILS
from provstore.analysis.scene import Scene
from provstore.analysis.waits import MISMATCH
from provstore.graph.calltable import Integers
from provstore.graph.matching import payload
from provstore.model.dump import COLLECTIVE, SEND

EQUAL_CALLS = "equal calls cannot be told apart: the call can be any of this range"


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One call whose members disagree."""

    blame: Blame
    detail: str
    """``op``, ``dtype`` or ``size``."""
    victims: tuple[int, ...]
    cause: str | None = None
    seq_range: tuple[int, int] | None = None
    caveats: tuple[str, ...] = ()


def disagreements(scene: Scene) -> Iterator[Disagreement]:
    """Yield the disagreements that hold ranks up, and those in which an eventless job ended."""
    seen = set()
    for end in scene.waits.ends:
        if end.kind != MISMATCH:
            continue
        at = int(scene.case.instances.of_row[end.row])
        if at < 0:
            yield _between_two(scene, end.row, end.victims)
        else:
            seen.add(at)
            yield _in_instance(scene, at, end.victims)
    for at in _failed(scene):
        if at not in seen:
            yield _in_instance(scene, at, _waiting_in(scene, at))


def _failed(scene: Scene) -> list[int]:
    """Return the first call of each group without completion events in which members disagree and that none survived.

    A failed call leaves the work list too, so nothing may be pending.
    """
    case, found = scene.case, scene.case.instances
    failed: dict[int, int] = {}
    for at in np.flatnonzero(found.disagreement >= 0).tolist():
        group = int(found.group[at])
        if group in failed or case.excused(at) or not case.progress.eventless[found.calls(at)].all():
            continue
        if not _survived(scene, at):
            failed[group] = at
    return list(failed.values())


def _survived(scene: Scene, at: int) -> bool:
    """Return whether every member went on well beyond the call; a few calls may have been under way beside it."""
    case = scene.case
    rows = case.instances.calls(at)
    ends = case.table.first_row[case.table.dump[rows] + 1]
    return bool((ends - rows > UNDER_WAY).all())


def _waiting_in(scene: Scene, at: int) -> tuple[int, ...]:
    group = scene.case.table.groups[int(scene.case.instances.group[at])]
    return tuple(rank for rank in group.ranks if rank in scene.case.missing)


def _in_instance(scene: Scene, at: int, victims: tuple[int, ...]) -> Disagreement:
    found = scene.case.instances
    blame = scene.judge.instance(at)
    if not blame.wrong:
        blame = _by_role(scene, blame)
    detail = DETAILS[int(found.disagreement[at])]
    if not blame.wrong:
        return Disagreement(blame, detail, victims)
    cause = _cause(scene, blame, detail)
    if cause is None:
        return Disagreement(blame, detail, victims)
    numbers = _where_it_can_lie(scene, blame, cause)
    caveats = (EQUAL_CALLS,) if numbers[0] != numbers[1] else ()
    return Disagreement(blame, detail, victims, cause, numbers, caveats)


def _by_role(scene: Scene, blame: Blame) -> Blame:
    """Decide for the side none of whose ranks left the role it shares with other ranks, when the other side's did."""
    strays = [any(scene.roles.divergence(scene.case.rank(row)) for row in side) for side in blame.sides]
    if len(blame.sides) != 2 or strays[0] == strays[1]:
        return blame
    wrong, right = blame.sides if strays[0] else blame.sides[::-1]
    return Blame(wrong, right, "roles", blame.sides)


def _cause(scene: Scene, blame: Blame, detail: str) -> str | None:
    """Return ``skipped_call`` or ``extra_call`` when the wrong side's calls are the right side's, shifted by one."""
    case, tokens = scene.case, scene.roles.tokens.call
    wrong, right = blame.wrong[0], blame.right[0]
    mine, theirs = _following(scene, wrong), _following(scene, right)
    later = min(len(mine), len(theirs) - 1)
    if later > 0 and (tokens[mine[:later]] == tokens[theirs[1 : 1 + later]]).all():
        return "skipped_call"
    later = min(len(mine) - 1, len(theirs))
    if later > 0 and (tokens[mine[1 : 1 + later]] == tokens[theirs[:later]]).all():
        return "extra_call"
    if _came_after(scene, right, wrong):
        return "skipped_call"
    previous = _previous(scene, wrong)
    if previous is not None and tokens[previous] == tokens[wrong] and tokens[previous] != tokens[right]:
        return "extra_call"
    mine_at, theirs_at = case.source(wrong), case.source(right)
    if detail != "op" or mine_at is None or theirs_at is None:
        return None
    same_place = (mine_at.file, mine_at.function) == (theirs_at.file, theirs_at.function)
    return "skipped_call" if same_place and mine_at.line > theirs_at.line else None


def _group_rows(scene: Scene, row: int) -> Integers:
    table = scene.case.table
    span = table.rows_of_dump(int(table.dump[row]))
    rows = np.arange(span.start, span.stop)
    return np.asarray(rows[(table.group[rows] == table.group[row]) & (table.channel[rows] == COLLECTIVE)])


def _following(scene: Scene, row: int) -> Integers:
    """Return the rank's calls of the group from ``row`` on."""
    rows = _group_rows(scene, row)
    return rows[np.searchsorted(rows, row) :]


def _previous(scene: Scene, row: int) -> int | None:
    rows = _group_rows(scene, row)
    at = int(np.searchsorted(rows, row))
    return int(rows[at - 1]) if at else None


def _came_after(scene: Scene, first: int, second: int) -> bool:
    """Return whether a call like ``second`` came right after one like ``first`` before."""
    tokens = scene.roles.tokens.call
    rows = _group_rows(scene, first)
    here = int(np.searchsorted(rows, first))
    history = tokens[rows[:here]]
    return bool(((history[:-1] == tokens[first]) & (history[1:] == tokens[second])).any())


def _where_it_can_lie(scene: Scene, blame: Blame, cause: str) -> tuple[int, int]:
    """Return the numbers of the run of calls, equal but for their lines, in which the skip or the extra call lies.

    Where source lines are known, the first line that differs between the two sides ends the search.
    """
    case, tokens = scene.case, scene.roles.tokens
    wrong, right = blame.wrong[0], blame.right[0]
    model = right if cause == "skipped_call" else wrong
    rows = _group_rows(scene, model)
    at = first = int(np.searchsorted(rows, model))
    while first and tokens.signature[rows[first - 1]] == tokens.signature[model]:
        first -= 1
    there = {int(case.number[row]): row for row in _group_rows(scene, right if model == wrong else wrong).tolist()}
    for row in rows[first:at].tolist():
        other = there.get(int(case.number[row]))
        if other is not None and tokens.call[row] != tokens.call[other]:
            return case.seq(row), case.seq(row)
    return case.seq(int(rows[first])), case.seq(int(rows[at]))


def _between_two(scene: Scene, row: int, victims: tuple[int, ...]) -> Disagreement:
    """Return a send and a receive of different sizes or types; wrong is the one that is unusual on their channel."""
    case = scene.case
    sides = (row,), (int(case.partner[row]),)
    now = [_payload(scene, side[0]) for side in sides]
    detail = "dtype" if now[0][0] == now[1][0] else "size"
    usual = [now[at] in _payloads_before(scene, sides[at][0]) for at in (0, 1)]
    if usual[0] == usual[1]:
        blame = _by_role(scene, Blame((), (), "tie", sides))
        stray = scene.roles.divergence(case.rank(blame.wrong[0])) if blame.wrong else None
        return Disagreement(blame, detail, victims, None if stray is None else stray.kind)
    right, wrong = (sides[0], sides[1]) if usual[0] else (sides[1], sides[0])
    return Disagreement(Blame(wrong, right, "usual", sides), detail, victims)


def _payload(scene: Scene, row: int) -> tuple[int, tuple[str, ...]]:
    return payload(scene.case.signature(row), int(scene.case.table.channel[row]) or SEND)


def _payloads_before(scene: Scene, row: int) -> set[tuple[int, tuple[str, ...]]]:
    table = scene.case.table
    span = table.rows_of_dump(int(table.dump[row]))
    rows = np.arange(span.start, row)
    alike = (
        (table.group[rows] == table.group[row])
        & (table.channel[rows] == table.channel[row])
        & (table.peer[rows] == table.peer[row])
    )
    return {_payload(scene, int(one)) for one in rows[alike]}
