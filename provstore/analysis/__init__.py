"""Judging: from the records of one attempt of one run to findings, with nothing but arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provstore.analysis.options import Options
    from provstore.analysis.verdict import diagnose

__all__ = ["Options", "diagnose"]


def __getattr__(name: str) -> Any:
    """Load what is asked for on first use: many questions of this room need no diagnosis, and none of its imports."""
    if name == "Options":
        from provstore.analysis.options import Options

        return Options
    if name == "diagnose":
        from provstore.analysis.verdict import diagnose

        return diagnose
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
