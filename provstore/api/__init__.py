"""The Python API: what notebooks, the command line and the browser call."""

from __future__ import annotations

from provstore.api.functions import belief, diagnose, open, rebuild, shipped_queries, verify  # noqa: A004
from provstore.api.store import Store

__all__ = ["Store", "belief", "diagnose", "open", "rebuild", "shipped_queries", "verify"]
