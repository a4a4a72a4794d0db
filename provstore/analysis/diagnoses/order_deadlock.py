"""Ranks that entered calls in different orders, so that each waits for the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provstore.analysis.build import Place, Remarks, age_caveats, make
from provstore.analysis.scene import Scene
from provstore.analysis.waits import NOT_POSTED, Blocker, End, Wait
from provstore.analysis.wording import call_words, hop, rank_words, source_words
from provstore.graph.matching import is_complete
from provstore.model.finding import Finding

ABOUT = "hang"
PRECEDENCE = 70

NEVER_POSTED = "one of them left out a call that the other waits in; which one cannot be told"
WHOSE_ORDER = "which of the orders was meant is not recorded"
UNDECLARED = "no file declares the members of all these groups"

_SHOWN = 6


def find(scene: Scene, earlier: Sequence[Finding]) -> Iterator[Finding]:
    """Yield a finding for each cycle of waits that no skipped call explains."""
    blamed = {culprit.rank for finding in earlier for culprit in finding.culprits}
    for end in scene.waits.ends:
        if end.kind == "cycle" and not blamed.intersection((*end.ranks, *end.victims)):
            yield _finding(scene, end)


def shortest_cycle(scene: Scene, end: End) -> list[tuple[Wait, Blocker]]:
    """Return a shortest closed walk through the lowest rank of a cycle that lies on one."""
    waits, inside = scene.waits.of_rank, set(end.ranks)
    best: list[tuple[Wait, Blocker]] = []
    for root in end.ranks[:64]:
        back: dict[int, tuple[int, Blocker]] = {}
        queue, seen, closed = [root], {root}, False
        for rank in queue:
            for blocker in waits[rank].blockers:
                if blocker.rank == root and rank != root:
                    back[root] = rank, blocker
                    closed = True
                    break
                if blocker.rank in inside and blocker.rank not in seen:
                    seen.add(blocker.rank)
                    back[blocker.rank] = rank, blocker
                    queue.append(blocker.rank)
            if closed:
                break
        steps, at = [], root
        while closed:
            before, blocker = back[at]
            steps.append((waits[before], blocker))
            at = before
            if at == root:
                break
        if steps and (not best or len(steps) < len(best)):
            best = steps[::-1]
    return best


def _strays(scene: Scene, steps: list[tuple[Wait, Blocker]]) -> list[int]:
    """Return the one rank of a cycle that does what it never did there while the others do what they always did."""
    usual = {wait.rank: scene.roles.habit(wait.rank, wait.row)[0] for wait, _ in steps}
    strays = [rank for rank, known in usual.items() if known is False]
    return strays if len(strays) == 1 and all(known for rank, known in usual.items() if rank not in strays) else []


def _may_be_a_skip(scene: Scene, steps: list[tuple[Wait, Blocker]]) -> bool:
    """Return whether one rank may as well have left out the call the other waits in: there is no past to tell."""
    if any(blocker.reason == NOT_POSTED for _, blocker in steps):
        return True
    table = scene.case.table
    cut = [wait for wait, _ in steps if not is_complete(table.dumps[int(table.dump[wait.row])])]
    return any(scene.roles.habit(wait.rank, wait.row)[0] is None for wait in cut)


def _finding(scene: Scene, end: End) -> Finding:
    case = scene.case
    steps = shortest_cycle(scene, end)
    ranks = sorted({wait.rank for wait, _ in steps}) or list(end.ranks)
    texts = [
        f"rank {wait.rank} in {call_words(case, wait.row)}{source_words(case.source(wait.row))}" for wait, _ in steps
    ]
    shown = "; ".join(texts[:_SHOWN]) + ("; …" if len(texts) > _SHOWN else "")
    doubtful = _may_be_a_skip(scene, steps)
    row = min((wait.row for wait, _ in steps), key=case.order, default=end.row)
    return make(
        case,
        "order-deadlock",
        Place(row, evidence=tuple([wait.row for wait, _ in steps])),
        summary=f"{rank_words(ranks)}: each waits for the next, in different calls: {shown}. Order deadlock.",
        confidence="probable"
        if all(case.group(wait.row).declared for wait, _ in steps) and not doubtful
        else "possible",
        culprits=_strays(scene, steps) or (() if doubtful else ranks),
        victims=(*end.ranks, *end.victims),
        chain=tuple(hop(case, wait, blocker) for wait, blocker in steps),
        remarks=Remarks(
            next_step="make all ranks enter these calls in one order, or on one thread",
            caveats=(
                *(() if all(case.group(wait.row).declared for wait, _ in steps) else (UNDECLARED,)),
                WHOSE_ORDER,
                *age_caveats(case, end.awaited),
            ),
            alternatives=(NEVER_POSTED,) if doubtful else (),
        ),
    )
