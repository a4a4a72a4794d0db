"""Comparing a graph with bytes: what stands in it against what the recorded bytes give, fact by fact."""

from __future__ import annotations

from provstore.analysis.evidence.covering import Cover, Covers, attributed
from provstore.analysis.evidence.facts import Difference, differences
from provstore.analysis.evidence.projection import EvidenceNodes, projection_differences

__all__ = [
    "Cover",
    "Covers",
    "Difference",
    "EvidenceNodes",
    "attributed",
    "differences",
    "projection_differences",
]
