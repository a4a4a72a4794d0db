"""Judging: from the records of one attempt of one run to findings, with nothing but arithmetic."""

from __future__ import annotations

from provstore.analysis.options import Options
from provstore.analysis.verdict import diagnose

__all__ = ["Options", "diagnose"]
