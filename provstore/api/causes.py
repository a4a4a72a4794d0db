"""What of two runs differs before their calls do: samples, random states, the order of calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from provstore.analysis.rank_lists import ranks_text
from provstore.api.drifting import stored_drifts
from provstore.api.stored_tables import StoredTables, notes
from provstore.evidence.epoch_bundles import ANCHORS, CHECKPOINTS
from provstore.evidence.replay import AnchorComparison
from provstore.evidence.replay.anchors import KindDifference

if TYPE_CHECKING:
    from provstore.analysis.divergence import Divergence
    from provstore.api.stored_runs import StoredRun

_EFFECT = "params"
_OF_VALUES = ("input-digest", "output-digest", "finite-flag")
_SAMPLES = {"data": "sample ids", "cursor": "number of batches"}


def cause_of(found: Divergence, anchors: AnchorComparison | None) -> KindDifference | None:
    """Return the anchor that differs first, where no call differs before it; parameters are no cause within a step."""
    first = next((one for one in anchors.kinds if one.place is not None), None) if anchors else None
    point = found.first_divergence
    if first is None or first.place is None or point is None or point.epoch is None or point.step is None:
        return first
    at = (point.epoch, point.step)
    return first if first.place < at or (first.place == at and first.kind != _EFFECT) else None


def explained(found: Divergence, anchors: AnchorComparison | None) -> Divergence:
    """Return a comparison whose hint names what differs before its first call does: other samples, or parameters.

    Samples count from the step of that call on, parameters from the one before: they are kept at the end of a step.
    """
    from provstore.analysis.divergence.reading import COMMUNICATION

    point = found.first_divergence
    if anchors is None or point is None or point.epoch is None or point.step is None:
        return found
    for one in anchors.kinds:
        if one.kind in _SAMPLES and one.place is not None and one.place <= (point.epoch, point.step):
            ranks = ranks_text(one.ranks)
            text = f"other data: {_SAMPLES[one.kind]} of rank {ranks} from step {one.step} on; this can follow from it"
            return replace(found, reading=text)
        is_before = one.place is not None and one.place < (point.epoch, point.step)
        if one.kind == _EFFECT and is_before and point.kind in _OF_VALUES and found.reading != COMMUNICATION:
            ranks = ranks_text(one.ranks)
            text = f"other parameters: those of rank {ranks} from step {one.step} on; this can follow from it"
            return replace(found, reading=text)
    return found


def drifted(runs: Iterable[StoredRun], last: int | None) -> Iterator[str]:
    """Yield which ranks of the runs no longer held what their replicas held, up to an epoch; and what is not known."""
    for run in runs:
        tables = StoredTables(run.journal)
        for one in stored_drifts(tables, [part for part in run.bundles if last is None or part.epoch <= last]):
            said = [one.text(rank) for rank in one.minority] or [one.undecided().what]
            yield from (f"{run.run}: {text}" for text in said)
        yield from (f"{run.run}: {one.what}" for one in notes(tables.unreadable(ANCHORS, CHECKPOINTS)))
