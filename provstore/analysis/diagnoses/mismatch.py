"""Members of one call that ask for different things: another operation, element type or size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provstore.analysis.blame import Blame
from provstore.analysis.build import Place, Remarks, age_caveats, make, walk
from provstore.analysis.case import Case
from provstore.analysis.disagreements import Disagreement, disagreements
from provstore.analysis.scene import Scene
from provstore.analysis.wording import call_words, rank_words, shape_words, source_words, verb
from provstore.model.finding import Finding

ABOUT = "hang"
PRECEDENCE = 10

_GROUNDS = {
    "majority": "the others agree",
    "siblings": "groups of the same kind agree with the other side",
    "usual": "the other side did what was usual here before",
    "roles": "the other side did what ranks of its role did",
}


def find(scene: Scene, _earlier: Sequence[Finding]) -> Iterator[Finding]:
    """Yield a finding for each call that cannot end because its members disagree."""
    for found in disagreements(scene):
        yield _finding(scene, found)


def _finding(scene: Scene, found: Disagreement) -> Finding:
    case, blame = scene.case, found.blame
    wrong = sorted({case.rank(row) for row in blame.wrong})
    row = blame.right[0] if blame.right else blame.sides[0][0]
    at_culprit = blame.wrong[0] if blame.wrong else None
    cause = found.cause
    summary = f"{_who(scene, found, wrong)} Mismatch of {found.detail}{_cause_words(found)}."
    ranks = {case.rank(one) for side in blame.sides for one in side}
    return make(
        case,
        "mismatch",
        Place(row, at_culprit=at_culprit, evidence=tuple([one for side in blame.sides for one in side[:4]])),
        summary=summary,
        confidence="probable" if _doubts(blame) else "certain",
        culprits=wrong,
        victims=(*ranks, *found.victims) if wrong else tuple(set(found.victims) - ranks),
        detail=found.detail,
        cause=cause,
        seq_range=found.seq_range,
        chain=walk(case, scene.waits, ranks),
        remarks=Remarks(
            next_step="compare the ranks' code paths at these lines: a condition on the rank, or on its data",
            caveats=(*_doubts(blame), *found.caveats, *age_caveats(case, [row])),
            alternatives=_alternatives(scene, found),
        ),
    )


def _who(scene: Scene, found: Disagreement, wrong: list[int]) -> str:
    case, blame = scene.case, found.blame
    if not wrong:
        parts = [
            f"{rank_words(case.rank(row) for row in side)} {shape_words(case, side[0])}"
            f"{source_words(case.source(side[0]))}"
            for side in blame.sides[:4]
        ]
        return f"{call_words(case, blame.sides[0][0])}: {' against '.join(parts)}; which side is wrong cannot be told."
    mine, theirs = blame.wrong[0], blame.right[0]
    others = sorted({case.rank(row) for row in blame.right})
    line = source_words(case.source(mine))
    return (
        f"{rank_words(wrong)}: {verb(wrong, 'calls', 'call')} {shape_words(case, mine)}{line}"
        f" as {_as_what(case, theirs)}, where {rank_words(others)} "
        f"{verb(others, 'calls', 'call')} {shape_words(case, theirs)}{source_words(case.source(theirs))}; "
        f"{_GROUNDS[blame.ground]}."
    )


def _doubts(blame: Blame) -> tuple[str, ...]:
    """Return why who is wrong is less than certain: no majority of the call's own members says so."""
    if blame.ground in ("majority", "tie"):
        return ()
    return (f"no majority of its members decides: {_GROUNDS[blame.ground]}",)


def _as_what(case: Case, theirs: int) -> str:
    return (
        f"the other end of {call_words(case, theirs)}"
        if case.is_p2p(theirs)
        else call_words(case, theirs).split(" ", 1)[1]
    )


def _cause_words(found: Disagreement) -> str:
    if found.cause is None or found.seq_range is None:
        return ""
    low, high = found.seq_range
    where = f"#{low}" if low == high else f"#{low}-#{high}"
    what = "a call was left out" if found.cause == "skipped_call" else "a call was made too many"
    return f": {what} at {where}"


def _alternatives(scene: Scene, found: Disagreement) -> tuple[str, ...]:
    blame: Blame = found.blame
    if blame.wrong:
        return ()
    return tuple(f"{rank_words(scene.case.rank(row) for row in side)} wrong" for side in blame.sides[:4])
