"""Replaying an epoch: what is needed to restore it, how a re-run is compared, and what may be claimed afterwards."""

from __future__ import annotations

from provstore.evidence.replay.anchors import AnchorComparison, compare_anchors
from provstore.evidence.replay.epoch import EpochFacts, Held
from provstore.evidence.replay.plan import Item, RestorePlan, restore_plan
from provstore.evidence.replay.skips import Skip, skips_from, skips_in

__all__ = [
    "AnchorComparison",
    "EpochFacts",
    "Held",
    "Item",
    "RestorePlan",
    "Skip",
    "compare_anchors",
    "restore_plan",
    "skips_from",
    "skips_in",
]
