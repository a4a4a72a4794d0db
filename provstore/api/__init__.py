"""The Python API: what notebooks, the command line and the browser call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provstore.api.functions import belief, diagnose, open, rebuild, shipped_queries, verify  # noqa: A004
    from provstore.api.store import Store

__all__ = ["Store", "belief", "diagnose", "open", "rebuild", "shipped_queries", "verify"]


def __getattr__(name: str) -> Any:
    """Load what is asked for on first use: a command needs few modules of this room."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "Store":
        from provstore.api.store import Store

        return Store
    from provstore.api import functions

    return getattr(functions, name)
