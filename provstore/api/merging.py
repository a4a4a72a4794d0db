"""One answer from what was judged of several places: said once, and never that no fault was found where one was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from provstore.evidence.verify.findings import state_of
from provstore.evidence.verify.walk import Checked
from provstore.model.verification import (
    FAULT,
    NO_ANCHOR,
    NOT_CHECKED,
    OK,
    UNKNOWN,
    UNPROVEN,
    EvidenceFinding,
    Verification,
)

WORST_FIRST = (FAULT, UNKNOWN, UNPROVEN, OK, NOT_CHECKED)
_HOLDS_LITTLE = ("unanchored", "anchor-partial")
_NO_FAULT = NO_ANCHOR[: NO_ANCHOR.index("{")]
_NOT_ANCHORED = "Not anchored: "


def merged(
    scope: tuple[str, int],
    checked: Sequence[Checked],
    findings: Iterable[EvidenceFinding],
    axes: dict[str, str],
    counts: dict[str, int],
) -> Verification:
    """Return one answer from what was judged of each place; what two places say alike is said once."""
    more = list(findings)
    best = max(checked, key=lambda one: one.reach.size)
    parts = [part if part is best else _without_reach(part, best) for part in checked]
    found = [*(one for part in parts for one in part.findings), *more]
    limits = [text for part in parts for text in part.limits]
    if any(state_of(one.code) == FAULT for one in found):
        found = [replace(one, text=_after_a_fault(one.text)) for one in found]
        limits = [_after_a_fault(text) for text in limits]
    known: dict[tuple[object, ...], EvidenceFinding] = {}
    for one in found:
        known.setdefault((one.code, one.epoch, one.seq, one.rank, one.keyid, one.text), one)
    for part in parts:
        for axis, reached in part.axes.items():
            axes[axis] = min(axes.get(axis, NOT_CHECKED), reached, key=WORST_FIRST.index)
    return Verification(
        run=scope[0],
        attempt=scope[1],
        axes=axes,
        counts={**checked[0].counts, **counts},
        anchor=best.reach,
        findings=tuple(sorted(known.values(), key=EvidenceFinding.order)),
        limits=tuple(dict.fromkeys(limits)),
    )


def state(findings: Iterable[EvidenceFinding]) -> str:
    """Return the state of an axis to which all of these findings belong."""
    return min((state_of(one.code) for one in findings), default=OK, key=WORST_FIRST.index)


def _without_reach(part: Checked, best: Checked) -> Checked:
    """Return what was judged of a place, less how far anchors reach there: that is told of the place that holds best.

    A place that holds less has findings of its own that say what it lacks; without one, nothing is left out.
    """
    said_already = any(one.code == "unanchored" for one in best.findings)
    lacks = any(state_of(one.code) == FAULT for one in part.findings)
    if not (said_already or lacks):
        return part
    dropped = {one.text for one in part.findings if one.code in _HOLDS_LITTLE and one.epoch is None}
    findings = tuple(one for one in part.findings if one.text not in dropped)
    if not any(one.code in _ANCHOR_CODES for one in findings):
        part = replace(part, axes={**part.axes, "anchor": best.axes.get("anchor", NOT_CHECKED)})
    return replace(part, findings=findings, limits=tuple(text for text in part.limits if text not in dropped))


_ANCHOR_CODES = frozenset(("rollback", "fork", "unanchored", "anchor-partial", "anchor-not-independent"))


def _after_a_fault(text: str) -> str:
    """Return a text without the words that no fault was found."""
    return text[text.index(_NOT_ANCHORED) :] if text.startswith(_NO_FAULT) and _NOT_ANCHORED in text else text
