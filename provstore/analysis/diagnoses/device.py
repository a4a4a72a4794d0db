"""A rank whose call its peers have completed: its device has stopped, or the thread that polls it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from provstore.analysis.build import NO_FRAMES, Place, Remarks, age_caveats, make, walk
from provstore.analysis.case import Case
from provstore.analysis.scene import Scene
from provstore.analysis.waits import End
from provstore.analysis.wording import call_words, rank_words, source_words
from provstore.model.finding import Finding, Hop

ABOUT = "hang"
PRECEDENCE = 30

NO_TIMEOUT = "the call has not timed out: it may still end"


def find(scene: Scene, earlier: Sequence[Finding]) -> Iterator[Finding]:
    """Yield a finding for each rank that still has pending what a peer has done, while others wait for it."""
    blamed = {culprit.rank for finding in earlier for culprit in finding.culprits}
    for end in scene.waits.ends:
        if end.kind == "device" and end.ranks[0] not in blamed:
            yield _finding(scene, end)


def _last_hop(case: Case, row: int, peers: Collection[int]) -> Hop:
    rank = case.rank(row)
    words = f"rank {rank} is still in {call_words(case, row)}, which {rank_words(peers)} completed"
    return Hop(rank, words, "peer_done", case.group(row).name, case.signature(row).op, case.seq(row), case.source(row))


def _finding(scene: Scene, end: End) -> Finding:
    case, rank = scene.case, end.ranks[0]
    peers = scene.waits.of_rank[rank].peers_done
    source = case.source(end.row)
    summary = (
        f"rank {rank}: {call_words(case, end.row)}{source_words(source)} still pending, "
        f"its {'peer' if len(peers) == 1 else 'peers'} {rank_words(peers).split(' ', 1)[1]} completed it. Device side."
        f"{'' if source else f' ({NO_FRAMES})'}"
    )
    return make(
        case,
        "device",
        Place(end.row, evidence=tuple(end.awaited)),
        summary=summary,
        confidence="certain" if case.progress.timed_out[end.row] else "probable",
        culprits=(rank,),
        victims=end.victims,
        chain=(*walk(case, scene.waits, end.ranks), _last_hop(case, end.row, peers)),
        remarks=Remarks(
            next_step=f"look for device errors of rank {rank}: XID messages in the kernel log, ECC, throttling",
            caveats=(
                *(() if case.progress.timed_out[end.row] else (NO_TIMEOUT,)),
                *age_caveats(case, (end.row, *end.awaited)),
            ),
            alternatives=("the thread that polls the device has stopped, the device itself has not",),
        ),
    )
