"""A rank that others wait for and that waits for nobody: it is held up on the CPU side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provstore.analysis.build import age_caveats, make, waiting_ranks, walk
from provstore.analysis.case import Case
from provstore.analysis.scene import Scene
from provstore.analysis.waits import End
from provstore.analysis.wording import (
    call_words,
    group_words,
    last_call_words,
    rank_words,
    source_words,
    verb,
)
from provstore.model.dump import CHANNEL_NAMES, RECV, SEND
from provstore.model.finding import Finding

ABOUT = "hang"
PRECEDENCE = 40

HIDDEN_P2P = "or blocked in a send or receive that the recorder does not keep; may be a victim"


def find(scene: Scene, earlier: Sequence[Finding]) -> Iterator[Finding]:
    """Yield a finding for each rank that has not entered a call others wait in, and has nothing pending itself."""
    blamed = {culprit.rank for finding in earlier for culprit in finding.culprits}
    skipped = {rank for finding in earlier if finding.kind == "skipped_call" for rank in finding.victims}
    for end in scene.waits.ends:
        if end.kind == "host" and end.ranks[0] not in blamed:
            finding = _finding(scene, end)
            if not (finding.confidence == "possible" and end.ranks[0] in skipped):
                yield finding


def first_awaited(scene: Scene, end: End) -> int:
    """Return the row of the call that the end's rank should have entered first, as far as its role tells."""
    case, rank = scene.case, end.ranks[0]
    expected = scene.roles.next_expected(rank)
    if expected is not None:
        token = scene.roles.tokens.in_job[expected]
        for row in sorted(end.awaited, key=lambda at: int(case.table.created[at])):
            if not case.is_p2p(row) and scene.roles.tokens.in_job[row] == token:
                return row
            if case.is_p2p(row) and case.is_p2p(expected) and case.group(expected).desc == case.group(row).desc:
                return row
    collectives = [row for row in end.awaited if not case.is_p2p(row)]
    return min(collectives or end.awaited, key=lambda at: (int(case.table.created[at]), at))


def _finding(scene: Scene, end: End) -> Finding:
    case, rank = scene.case, end.ranks[0]
    row = first_awaited(scene, end)
    waiting = waiting_ranks(case, end) if case.is_p2p(row) else _members_waiting(case, end, row)
    hidden = case.progress.eventless[row] and case.hides_p2p
    line = source_words(case.source(row))
    what, op, seq = _missing_call(case, rank, row)
    summary = (
        f"rank {rank}: never {what}; {rank_words(waiting)} {verb(waiting, 'waits', 'wait')} there{line}; "
        f"its last call was {last_call_words(case, rank)}. Host side{', possibly' if hidden else ''}."
    )
    return make(
        case,
        "host",
        summary=summary,
        confidence="possible" if hidden else ("certain" if end.reason == "absent" else "probable"),
        culprits=(rank,),
        victims=end.victims,
        row=row,
        op=op,
        seq=seq,
        evidence=end.awaited,
        chain=walk(case, scene.waits, end.ranks),
        alternatives=(HIDDEN_P2P,) if hidden else _alternatives(case, row),
        caveats=age_caveats(case, end.awaited),
        next_step=f"look at what rank {rank} did on the CPU: py-spy dump of its process, its log, its data loader",
    )


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


def _alternatives(case: Case, row: int) -> tuple[str, ...]:
    if case.is_p2p(row):
        return (f"{rank_words((case.rank(row),))} may have posted one {case.signature(row).op} too many",)
    return ()

