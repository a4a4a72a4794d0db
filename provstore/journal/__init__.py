"""The journal: an append-only, checksummed, content-addressed ledger of every accepted batch of facts."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provstore.journal.batches import Batch, Origin, Source
    from provstore.journal.evidence import BundleFrame, JournalEvidence, RecordFrame
    from provstore.journal.journal import Journal
    from provstore.journal.problems import Problem

__all__ = ["Batch", "BundleFrame", "Journal", "JournalEvidence", "Origin", "Problem", "RecordFrame", "Source"]
_MODULES = {
    "Batch": "batches",
    "BundleFrame": "evidence",
    "Journal": "journal",
    "JournalEvidence": "evidence",
    "Origin": "batches",
    "Problem": "problems",
    "RecordFrame": "evidence",
    "Source": "batches",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for on first use: most questions to a graph need only to know where the journal ends."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"provstore.journal.{_MODULES[name]}"), name)
