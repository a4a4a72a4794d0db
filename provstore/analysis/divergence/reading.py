"""What a first difference hints at."""

from __future__ import annotations

from dataclasses import dataclass

from provstore.analysis.divergence import divergence as words
from provstore.analysis.divergence.divergence import Point

COMMUNICATION = "communication or reduction: what went in is equal on all ranks"
LOCAL = "local compute of rank {} since the last equal call"
ALL_FIRST = (
    "data, seed or initial state: inputs differ on all ranks at the first call that was compared; compare anchors"
)
ALL_LATER = "local compute or data of all ranks since the last equal call; compare anchors"
INPUTS_UNKNOWN = "undecided: what went in was not recorded on all ranks, so that compute and communication look alike"
FIRST_UNKNOWN = "data, seed, initial state or communication: what went into the first call that was compared is unknown"
CONTROL = "control flow: the runs did not issue the same calls"
RANKS = "the runs were not recorded on the same ranks"
DESCRIPTION = "the calls differ in what they are, not only in their numbers"
EVENT = "local compute of rank {} before this tensor was recorded"
_FIXED = {
    words.RANK_MISSING: RANKS,
    words.SEQUENCE_MISSING: CONTROL,
    words.OP: CONTROL,
    words.SHAPE: DESCRIPTION,
    words.DTYPE: DESCRIPTION,
    words.METADATA: DESCRIPTION,
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known around the first difference."""

    equal: int
    """Ranks whose inputs of the call are equal in both runs."""
    different: int
    ranks: int
    """Ranks whose call was compared at all."""
    is_first_observed: bool
    """No digest of these ranks was compared before."""


def reading_of(point: Point, around: Reading) -> str:
    """Return in words what the first difference hints at."""
    fixed = _FIXED.get(point.kind or "")
    if fixed is not None:
        return fixed
    names = ", ".join(map(str, point.ranks))
    if around.different:
        return _of_inputs(names, around)
    if point.group is None:
        is_everywhere = around.is_first_observed and len(point.ranks) == around.ranks > 1
        return ALL_FIRST if is_everywhere else EVENT.format(names)
    if around.equal == around.ranks:
        return COMMUNICATION
    return FIRST_UNKNOWN if around.is_first_observed else INPUTS_UNKNOWN


def _of_inputs(names: str, around: Reading) -> str:
    if around.equal:
        return LOCAL.format(names)
    if around.is_first_observed:
        return ALL_FIRST
    return ALL_LATER if around.different == around.ranks > 1 else LOCAL.format(names)
