"""A rank that left out a call, or made one too many, and went on: others of its role did not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provstore.analysis.build import Place, Remarks, age_caveats, make, walk
from provstore.analysis.idle import IdleEnd, idle_ends
from provstore.analysis.roles import Divergence
from provstore.analysis.scene import Scene
from provstore.analysis.waits import End
from provstore.analysis.wording import call_words, group_words, rank_words, source_words
from provstore.model.finding import Finding

ABOUT = "hang"
PRECEDENCE = 20

_LONGEST_CYCLE = 16
PEERS_ONLY = "judged by what ranks of the same role did; that this rank was meant to do the same is not recorded"
PAST_ONLY = "judged by what the rank did in its earlier steps; that it was meant to do the same again is not recorded"
NOT_SEEN = "judged by what the others did; that they were not meant to enter it is not recorded"
ANOTHER_ORDER = "the rank entered its calls in another order than the ranks it waits for: an order deadlock"


def find(scene: Scene, earlier: Sequence[Finding]) -> Iterator[Finding]:
    """Yield a finding for each rank whose missing call explains a cycle of waits or an idle rank."""
    blamed = {culprit.rank for finding in earlier for culprit in finding.culprits}
    seen: set[int] = set()
    for item in idle_ends(scene):
        for rank in _entered(scene, item) if item.is_outvoted else ():
            if rank not in blamed | seen:
                seen.add(rank)
                yield _too_many(scene, item, rank)
    for end in scene.waits.ends:
        if end.kind not in ("cycle", "host"):
            continue
        for found in scene.roles.divergences(_suspects(scene, end)) or _in_their_groups(scene, end):
            if found.rank not in blamed | seen and _explains(scene, end, found):
                seen.add(found.rank)
                yield _finding(scene, end, found)


def _entered(scene: Scene, item: IdleEnd) -> list[int]:
    """Return the ranks that went into a call which most of its members never meant to enter."""
    rows = scene.case.instances.calls(int(scene.case.instances.of_row[item.row]))
    return [scene.case.rank(int(row)) for row in rows]


def _too_many(scene: Scene, item: IdleEnd, rank: int) -> Finding:
    case = scene.case
    rows = case.instances.calls(int(case.instances.of_row[item.row]))
    row = next(int(one) for one in rows if case.rank(int(one)) == rank)
    others = [other for other in case.group(row).ranks if other not in set(_entered(scene, item))]
    summary = (
        f"rank {rank}: is alone in {call_words(case, row)}{source_words(case.source(row))}; {rank_words(others)} "
        f"have nothing pending and did not enter it. Extra call."
    )
    return make(
        case,
        "extra-call",
        Place(row, evidence=tuple([int(one) for one in rows])),
        summary=summary,
        confidence="probable",
        culprits=(rank,),
        victims=item.end.victims,
        seq_range=(case.seq(row), case.seq(row)),
        remarks=Remarks(
            next_step=f"look for an uneven loop or a condition that lets only rank {rank} reach this line",
            caveats=(NOT_SEEN, *age_caveats(case, (row,))),
            alternatives=(f"{rank_words(others)} all stopped on the CPU before this call",),
        ),
    )


def _in_their_groups(scene: Scene, end: End) -> list[Divergence]:
    """Return who of a cycle parts from most other ranks in the groups that the cycle runs through."""
    if end.kind != "cycle" or len(end.ranks) > _LONGEST_CYCLE:
        return []
    groups = {int(scene.case.table.group[row]) for row in end.awaited}
    found = [scene.roles.divergence_in(rank, groups) for rank in end.ranks]
    strays = [one for one in found if one is not None]
    return strays if len(strays) == 1 else _by_habit(scene, end)


def _by_habit(scene: Scene, end: End) -> list[Divergence]:
    """Return who of a cycle does what it never did there, when the others do what they always did."""
    known = [scene.roles.habit(rank, scene.waits.of_rank[rank].row) for rank in end.ranks]
    strays = [found for usual, found in known if usual is False]
    others_are_usual = sum(usual is True for usual, _ in known) == len(known) - 1
    return [found for found in strays if found is not None] if len(strays) == 1 and others_are_usual else []


def _suspects(scene: Scene, end: End) -> Sequence[int]:
    """Return whose calls are compared: an idle rank's own, and all that wait for it when it may only look idle."""
    if end.kind == "cycle" or end.ranks[0] in scene.case.hides_p2p:
        return sorted({*end.ranks, *end.victims})
    return end.ranks


def _explains(scene: Scene, end: End, found: Divergence) -> bool:
    """Return whether a divergence can be what the ranks of ``end`` wait for.

    In a cycle, a call that seems one too many may be one that came too early: then the order is wrong, not the count.
    """
    if end.kind == "cycle":
        return found.kind == "skipped_call" or not scene.roles.is_one_early(found.row)
    if found.rank in end.ranks:
        return True
    return found.kind == "skipped_call" and bool(found.peers)


def _finding(scene: Scene, end: End, found: Divergence) -> Finding:
    case = scene.case
    code = found.kind.replace("_", "-")
    waiting = [row for row in end.awaited if int(case.table.group[row]) == found.group and case.rank(row) != found.rank]
    row = min(waiting, key=case.order) if waiting else found.model_row
    group = group_words(case.table.groups[found.group])
    op = case.signature(found.model_row).op
    number = case.seq(row) if waiting else None
    low, high = _range(scene, found, number)
    where = f"#{high}" if low == high else f"#{low}-#{high}"
    is_skip = found.kind == "skipped_call"
    did = "left out" if is_skip else "made one too many"
    onward = f" and went on to {call_words(case, found.row)}{source_words(case.source(found.row))}" if is_skip else ""
    compared = f"{rank_words(found.peers)} of the same role did not" if found.peers else "unlike in its earlier steps"
    summary = (
        f"rank {found.rank}: {did} {op} {where} of {group}{source_words(case.source(found.model_row))}"
        f"{onward}; {compared}. {'Skipped' if is_skip else 'Extra'} call."
    )
    return make(
        case,
        code,
        Place(
            row if waiting else found.row,
            at_culprit=found.row,
            op=op,
            seq=high,
            evidence=(found.row, found.model_row, *waiting),
        ),
        summary=summary,
        confidence="probable",
        culprits=(found.rank,),
        victims=(*end.ranks, *end.victims),
        seq_range=(low, high),
        chain=walk(case, scene.waits, (found.rank,)),
        remarks=Remarks(
            next_step=f"look for a condition that lets rank {found.rank} pass by this line",
            caveats=(PEERS_ONLY if found.peers else PAST_ONLY, *age_caveats(case, end.awaited)),
            alternatives=(ANOTHER_ORDER,) if end.kind == "cycle" else (),
        ),
    )


def _range(scene: Scene, found: Divergence, number: int | None) -> tuple[int, int]:
    """Return the numbers in which the call can lie: after the rank's last call of the group before it went astray."""
    table = scene.case.table
    rows = [
        row
        for row in range(table.rows_of_dump(int(table.dump[found.row])).start, found.row + 1)
        if table.group[row] == found.group and scene.case.is_p2p(row) == scene.case.is_p2p(found.model_row)
    ]
    if scene.case.is_p2p(found.model_row):
        number = None
    inside = found.kind == "extra_call"
    before = [row for row in rows if row < found.row or inside]
    last = scene.case.seq(before[-1]) if before else 0
    high = number if number is not None else (last if inside else last + 1)
    return min(high, last if inside else last + 1), high
