"""A rank that others wait for and that left no dump."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from provstore.analysis.build import Place, Remarks, age_caveats, make, walk
from provstore.analysis.idle import first_awaited
from provstore.analysis.scene import Scene
from provstore.analysis.signatures import BARRIERS
from provstore.analysis.waits import End
from provstore.analysis.wording import call_words, rank_words, source_words, verb
from provstore.model.finding import Finding

OTHER_REASONS = (
    "stuck where it could not write a dump (a held interpreter lock, teardown)",
    "its dump file was lost, was not collected, or could not be read",
)

ABOUT = "hang"
PRECEDENCE = 60

_MOST_DEAD = 8
"""So many ranks are called dead at most: about a host. Of more, the dumps were not collected."""
_WAITING_SHARE = 1 / 3
"""So many of the ranks seen must wait, on a backend without completion events, before a rank without dump is dead."""
_WAITING_SHARE_REFUSED = 1 / 2
"""The same for a rank whose dump is there and cannot be read: it was alive to write it."""


def find(scene: Scene, earlier: Sequence[Finding]) -> Iterator[Finding]:
    """Yield a finding for each rank without a dump that calls of other ranks wait for."""
    victims = {rank for finding in earlier if finding.kind == "mismatch" for rank in finding.victims}
    ends = [end for end in scene.waits.ends if end.kind == "dead"]
    if _is_too_little(scene, ends):
        return
    for end in ends:
        if end.ranks[0] not in victims and not _may_have_ended(scene, end) and not _may_be_late(scene, end):
            yield _finding(scene, end)


def _is_too_little(scene: Scene, ends: Sequence[End]) -> bool:
    """Return whether so many dumps are missing that their absence accuses nobody: they were not collected."""
    seen = len({dump.rank for dump in scene.case.table.dumps})
    return len(ends) > _MOST_DEAD or (len(ends) > 1 and len(scene.case.missing) > seen)


def _may_be_late(scene: Scene, end: End) -> bool:
    """Return whether only the limit of a watcher makes the waits a hang: a rank that still moves leaves no dump."""
    case = scene.case
    return any(case.age_seconds(row) is not None for row in end.awaited) and not case.is_over_due(end.awaited)


def _is_explained(scene: Scene, end: End) -> bool:
    """Return whether all that wait for a rank also wait for one whose dump shows that it keeps them waiting."""
    others = (set(one.victims) for one in scene.waits.ends if one.kind in ("host", "device", "mismatch"))
    return any(set(end.victims) <= other for other in others)


def _may_have_ended(scene: Scene, end: End) -> bool:
    """Return whether the job may have ended well: few still wait, and their backend sets its flags late."""
    case = scene.case
    if not case.progress.eventless[end.row]:
        return False
    seen = len({dump.rank for dump in case.table.dumps})
    if all(_may_be_the_last(scene, row) for row in end.awaited):
        return 2 * len(end.victims) <= seen
    least = _WAITING_SHARE_REFUSED if end.ranks[0] in case.refused else _WAITING_SHARE
    return len(end.victims) < least * seen


def _may_be_the_last(scene: Scene, row: int) -> bool:
    """Return whether a job may end with a call: it is a barrier, or unlike all calls of its group before it."""
    case, table, call = scene.case, scene.case.table, scene.roles.tokens.call
    if row + 1 < int(table.first_row[table.dump[row] + 1]):
        return False
    before = np.arange(int(table.first_row[table.dump[row]]), row)
    alike = (table.group[before] == table.group[row]) & (call[before] == call[row])
    return case.signature(row).op in BARRIERS or not alike.any()


def _finding(scene: Scene, end: End) -> Finding:
    case, rank = scene.case, end.ranks[0]
    row = first_awaited(scene, end)
    place = scene.waits.place(row)
    waiting = sorted({case.rank(row) for row in end.awaited if scene.waits.place(row) == place})
    refused = rank in case.refused
    doubtful = bool(case.progress.eventless[row]) and _mostly_settled(scene, row)
    doubtful = doubtful or refused or _is_explained(scene, end)
    summary = (
        f"rank {rank}: {'its dump could not be read' if refused else 'left no dump'}; {rank_words(waiting)} "
        f"{verb(waiting, 'waits', 'wait')} for it in {call_words(case, row)}{source_words(case.source(row))}. "
        f"Dead, or cut off."
    )
    return make(
        case,
        "dead",
        Place(row, evidence=tuple(end.awaited)),
        summary=summary,
        confidence="possible" if doubtful else "probable",
        culprits=(rank,),
        victims=end.victims,
        chain=walk(case, scene.waits, end.ranks),
        remarks=Remarks(
            next_step=f"look at the log and exit status of rank {rank}, and for the kernel's out-of-memory messages",
            caveats=("no dump is not proof of death", *age_caveats(case, end.awaited)),
            alternatives=OTHER_REASONS,
        ),
    )


def _mostly_settled(scene: Scene, row: int) -> bool:
    case = scene.case
    at = int(case.instances.of_row[row])
    return at >= 0 and bool(case.progress.settled[case.instances.calls(at)].any())
