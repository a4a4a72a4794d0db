"""Ingest: files become records, facts, journal entries and graph, in that order."""

from __future__ import annotations

from provstore.ingest.flow import ingest
from provstore.ingest.given import Request, consistent, gather
from provstore.ingest.upkeep import catch_up, check, replay

__all__ = ["Request", "catch_up", "check", "consistent", "gather", "ingest", "replay"]
