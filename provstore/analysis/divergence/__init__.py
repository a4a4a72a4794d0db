"""Where two runs part: their recorded calls compared by digest, epoch by epoch."""

from __future__ import annotations

from provstore.analysis.divergence.alignment import GroupFacts, aligned
from provstore.analysis.divergence.comparison import Comparison, compare
from provstore.analysis.divergence.divergence import (
    KINDS,
    Correlation,
    Coverage,
    Divergence,
    Event,
    Point,
    exit_code,
)

__all__ = [
    "KINDS",
    "Comparison",
    "Correlation",
    "Coverage",
    "Divergence",
    "Event",
    "GroupFacts",
    "Point",
    "aligned",
    "compare",
    "exit_code",
]
