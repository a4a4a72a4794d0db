"""A rank that others wait for and that waits for nobody: it is held up on the CPU side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provstore.analysis.build import Place, Remarks, age_caveats, make, walk
from provstore.analysis.case import Case
from provstore.analysis.idle import IdleEnd, idle_ends
from provstore.analysis.presence import ABSENT_FROM
from provstore.analysis.scene import Scene
from provstore.analysis.waits import End
from provstore.analysis.wording import call_words, group_words, last_call_clause, rank_words, source_words, verb
from provstore.model.dump import CHANNEL_NAMES, RECV, SEND
from provstore.model.finding import Finding

ABOUT = "hang"
PRECEDENCE = 65

HIDDEN_P2P = "or blocked in a send or receive that the recorder does not keep; may be a victim"
NOT_ALL_SEEN = "not all that the rank does is recorded: its sends and receives, or the calls of groups without members"
NOT_SURE = "that it did not come is concluded from the other end of the call: its own dump does not show it"
IN_FLIGHT = "the rank was only late: the calls that wait were in flight when the dumps were written"


def find(scene: Scene, earlier: Sequence[Finding]) -> Iterator[Finding]:
    """Yield a finding for each rank that has not entered a call others wait in, and has nothing pending itself."""
    blamed = {culprit.rank for finding in earlier for culprit in finding.culprits}
    idle = [item for item in idle_ends(scene) if item.end.ranks[0] not in blamed and not item.is_outvoted]
    hidden = [item for item in idle if item.may_hide]
    for item in idle:
        if not item.may_hide and not item.is_doubtful:
            yield _finding(scene, item)
    if len(hidden) == len(idle) == 1 and not earlier and not hidden[0].is_doubtful:
        yield _finding(scene, hidden[0])


def _finding(scene: Scene, item: IdleEnd) -> Finding:
    case, end, row = scene.case, item.end, item.row
    rank = end.ranks[0]
    waiting = [case.rank(row)] if case.is_p2p(row) else _members_waiting(case, end, row)
    line = source_words(case.source(row))
    what, op, seq = _missing_call(case, rank, row)
    summary = (
        f"rank {rank}: never {what}; {rank_words(waiting)} {verb(waiting, 'waits', 'wait')} there{line}; "
        f"{last_call_clause(case, rank)}. Host side{', possibly' if item.may_hide else ''}."
    )
    return make(
        case,
        "host",
        Place(row, op=op, seq=seq, evidence=tuple(end.awaited)),
        summary=summary,
        confidence=_confidence(scene, item),
        culprits=(rank,),
        victims=end.victims,
        chain=walk(case, scene.waits, end.ranks),
        remarks=Remarks(
            next_step=f"look at what rank {rank} did on the CPU: py-spy dump of its process, its log, its data loader",
            caveats=(*_doubts(scene, item), *age_caveats(case, end.awaited)),
            alternatives=_alternatives(case, item),
        ),
    )


def _confidence(scene: Scene, item: IdleEnd) -> str:
    case, rank = scene.case, item.end.ranks[0]
    if item.may_hide or case.is_half_known(rank):
        return "possible"
    known = case.is_over_due(item.end.awaited) and scene.waits.reason(item.row, rank) == ABSENT_FROM
    return "certain" if known else "probable"


def _doubts(scene: Scene, item: IdleEnd) -> tuple[str, ...]:
    """Return why it is less than certain that the rank never came, however long others have waited."""
    if item.may_hide or scene.case.is_half_known(item.end.ranks[0]):
        return (NOT_ALL_SEEN,)
    return () if scene.waits.reason(item.row, item.end.ranks[0]) == ABSENT_FROM else (NOT_SURE,)


def _members_waiting(case: Case, end: End, row: int) -> list[int]:
    place = int(case.instances.of_row[row])
    return sorted(case.rank(other) for other in end.awaited if int(case.instances.of_row[other]) == place)


def _missing_call(case: Case, rank: int, row: int) -> tuple[str, str, int]:
    """Return in words what the rank did not do, the operation, and its number."""
    if not case.is_p2p(row):
        return f"entered {call_words(case, row)}", case.signature(row).op, case.seq(row)
    channel = RECV if int(case.table.channel[row]) == SEND else SEND
    last = case.presence.last_row(rank, int(case.table.group[row]))
    seq = int(case.table.p2p_seq[last]) + 1 if last is not None else 1
    way = "to" if channel == SEND else "from"
    words = f"{CHANNEL_NAMES[channel]} {way} rank {case.rank(row)} in {group_words(case.group(row))}"
    return f"posted its {words}", CHANNEL_NAMES[channel], seq


def _alternatives(case: Case, item: IdleEnd) -> tuple[str, ...]:
    row = item.row
    found = []
    if item.may_hide or case.is_half_known(item.end.ranks[0]):
        found.append(HIDDEN_P2P)
    elif case.is_p2p(row):
        found.append(f"{rank_words((case.rank(row),))} may have posted one {case.signature(row).op} too many")
    if not case.is_over_due(item.end.awaited):
        found.append(IN_FLIGHT)
    return tuple(found)
