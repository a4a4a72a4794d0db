"""What a process group may be called by whoever asks about it: one rule for targets and for orders."""

from __future__ import annotations

from collections.abc import Mapping

DEFAULT = "default"
"""What people call the group of all ranks."""
_DESCRIBED = "default_pg"
"""How recorders describe it."""


def stated(name: str) -> str:
    """Return the name under which recorders state the group that is called so."""
    return _DESCRIBED if name == DEFAULT else name


def is_called(group: Mapping[str, object], name: str) -> bool:
    """Return whether a group with ``name``, ``desc`` and ``group`` (as in ids) is called so."""
    if name == DEFAULT:
        return group["desc"] == _DESCRIBED
    return name in (group["name"], group["desc"], group["group"])
