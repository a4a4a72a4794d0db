"""Recomputing collectives from the stored inputs of all ranks, and judging the recorded outputs by it."""

from __future__ import annotations

from provstore.analysis.reexecution.instance import Instance, Piece, Side, StoredTensor
from provstore.analysis.reexecution.recompute import recompute
from provstore.analysis.reexecution.verdict import (
    EXACT,
    EXPLAINED,
    MISMATCH,
    NOT_RECOMPUTABLE,
    WITHIN_BOUND,
    Missing,
    Verdict,
)

__all__ = [
    "EXACT",
    "EXPLAINED",
    "MISMATCH",
    "NOT_RECOMPUTABLE",
    "WITHIN_BOUND",
    "Instance",
    "Missing",
    "Piece",
    "Side",
    "StoredTensor",
    "Verdict",
    "recompute",
]
