"""A call that all its members have entered, equally, and that none has finished."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provstore.analysis.build import Place, Remarks, age_caveats, make, walk
from provstore.analysis.scene import Scene
from provstore.analysis.waits import End
from provstore.analysis.wording import call_words, rank_words, source_words
from provstore.model.dump import SCHEDULED, STARTED
from provstore.model.finding import Finding

ABOUT = "hang"
PRECEDENCE = 40

LATE_START = "that a rank had not started the call may be a consequence: its device, or its link, is not looked at"
NO_MEMBER = "no single member can be named from the dumps"


def find(scene: Scene, _earlier: Sequence[Finding]) -> Iterator[Finding]:
    """Yield a finding for each call that hangs with all its members inside."""
    for end in scene.waits.ends:
        if end.kind == "hang" and not _is_silent(scene, end):
            yield _finding(scene, end)


def _is_silent(scene: Scene, end: End) -> bool:
    """Return whether an eventless call of one or two ranks may as well have ended: their flags are set late."""
    case = scene.case
    return bool(case.progress.eventless[end.row]) and case.age_seconds(end.row) is None and len(end.ranks) < 3


def _finding(scene: Scene, end: End) -> Finding:
    case = scene.case
    members = [end.row, int(case.partner[end.row])] if case.is_p2p(end.row) else _calls(scene, end.row)
    state = case.table.state
    late = [case.rank(row) for row in members if state[row] == SCHEDULED]
    named = late if any(state[row] == STARTED for row in members) else []
    who = f" {rank_words(named)} had not started it." if named else ""
    summary = (
        f"{rank_words(case.rank(row) for row in members)}: all entered {call_words(case, end.row)}"
        f"{source_words(case.source(end.row))} with equal arguments and none finished.{who} Device or network."
    )
    aged = case.is_over_due(members)
    return make(
        case,
        "collective-hang",
        Place(end.row, evidence=tuple(members)),
        summary=summary,
        confidence="probable" if aged else "possible",
        culprits=named,
        victims=(*end.ranks, *end.victims),
        chain=walk(case, scene.waits, end.ranks),
        remarks=Remarks(
            next_step="check the links between the members, then their devices: run a collective test over this group",
            caveats=(LATE_START if named else NO_MEMBER, *age_caveats(case, members)),
            alternatives=() if aged else ("the call was in flight when the dumps were written",),
        ),
    )


def _calls(scene: Scene, row: int) -> list[int]:
    found = scene.case.instances
    return [int(at) for at in found.calls(int(found.of_row[row]))]
