"""The first call, in causal order, into which a rank put a value that is not finite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provstore.analysis.build import Place, Remarks, make
from provstore.analysis.rank_lists import ranks_text
from provstore.analysis.scene import Scene
from provstore.analysis.values import Origin
from provstore.analysis.wording import call_words, rank_words, source_words, verb
from provstore.model.finding import Finding

ABOUT = "nan"
PRECEDENCE = 90

WHICH_FAULT = "what happens inside of a call is not recorded"


def find(scene: Scene, _earlier: Sequence[Finding]) -> Iterator[Finding]:
    """Yield a finding for each call in which values that are not finite began."""
    if scene.values.gap is None:
        for origin in scene.values.origins:
            yield _finding(scene, origin)


def _finding(scene: Scene, origin: Origin) -> Finding:
    case, row = scene.case, origin.rows[0]
    line = source_words(case.source(row))
    if origin.ranks:
        counts = (
            f" ({origin.nan_count} NaN, {origin.inf_count} infinite)" if origin.nan_count + origin.inf_count else ""
        )
        summary = (
            f"{rank_words(origin.ranks)}: {verb(origin.ranks, 'puts', 'put')} values that are not finite{counts} into "
            f"{call_words(case, row)}{line}; everything before it was finite. Origin of the NaN."
        )
    else:
        members = case.group(row).ranks
        summary = (
            f"ranks {ranks_text(members)}: {call_words(case, row)}{line} gives values that are not finite although all "
            f"its inputs are finite: the reduction itself (overflow, or transport)."
        )
    return make(
        case,
        "nan-origin",
        Place(row, evidence=tuple(origin.rows)),
        summary=summary,
        confidence="certain" if origin.ranks else "probable",
        culprits=origin.ranks,
        victims=origin.victims if origin.ranks else case.group(row).ranks,
        measures={"nan_count": float(origin.nan_count), "inf_count": float(origin.inf_count)},
        remarks=Remarks(
            next_step="look at what was computed before this call: loss, gradients, the batch",
            caveats=() if origin.ranks else (WHICH_FAULT,),
            alternatives=()
            if origin.ranks
            else ("overflow of the sum in a narrow element type", "a fault in transport"),
        ),
    )
