"""Provenance store for distributed PyTorch training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provstore.api import Store, belief, diagnose, open, rebuild, shipped_queries, verify  # noqa: A004

__version__ = "0.1.0"

__all__ = ["Store", "__version__", "belief", "diagnose", "open", "rebuild", "shipped_queries", "verify"]


def __getattr__(name: str) -> Any:
    """Load the API on first use, so that ``import provstore`` costs next to nothing."""
    if name in __all__:
        from provstore import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
