"""The journal: an append-only, checksummed, content-addressed ledger of every accepted batch of facts."""

from provstore.journal.batches import Batch, Origin, Source
from provstore.journal.evidence import BundleFrame, JournalEvidence, RecordFrame
from provstore.journal.journal import Journal
from provstore.journal.problems import Problem

__all__ = ["Batch", "BundleFrame", "Journal", "JournalEvidence", "Origin", "Problem", "RecordFrame", "Source"]
