"""The journal: an append-only, checksummed, content-addressed ledger of every accepted batch of facts."""

from provstore.journal.batches import Origin
from provstore.journal.journal import Journal
from provstore.journal.problems import Problem

__all__ = ["Journal", "Origin", "Problem"]
