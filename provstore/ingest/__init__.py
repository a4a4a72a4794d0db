"""Ingest: files become records, facts, journal entries and graph, in that order."""

from __future__ import annotations

from provstore.ingest.flow import Ingest, Request, ingest
from provstore.ingest.upkeep import behind, catch_up, check, rebuild

__all__ = ["Ingest", "Request", "behind", "catch_up", "check", "ingest", "rebuild"]
