"""How recorded training epochs read in a list, and what to know about their bundles."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provstore.model.evidence_report import RecordedEpoch

COLUMNS = (
    "training epoch",
    "part",
    "actions",
    "weakest recorded",
    "strongest demanded",
    "less because",
    "missing",
    "digest",
)


RANKS_TOLD = (
    "in ranks, first and last are positions in the order of that rank, as its recorder counted them, and no numbers of "
    "actions: a checkpoint has the position of what came before it"
)


def recorded_row(one: RecordedEpoch) -> tuple[object, ...]:
    """Return a recorded epoch as a row of :data:`COLUMNS`."""
    less = ", ".join(f"{name} {count}" for name, count in one.shortfall.items())
    missing = len(one.missing_ranks) or None
    return (one.epoch, one.part, one.actions, one.recording_mode, one.policy_mode, less, missing, one.digest[:16])
