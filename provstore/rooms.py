"""The registry: a module's file name is its registration."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from provstore.errors import ConfigError


def names(room: str) -> list[str]:
    """Return the public module names of a room, such as ``exports.graphs``, in alphabetical order."""
    package = importlib.import_module(f"provstore.{room}")
    found = sorted(one.name for one in pkgutil.iter_modules(package.__path__) if not one.name.startswith("_"))
    if not found:
        # No room is empty: the listing failed, which pkgutil does not tell. Without memory, as a rule.
        raise MemoryError(f"{room}: its modules cannot be listed")
    return found


def load(room: str, name: str) -> ModuleType:
    """Return the module that serves ``name`` in ``room``; hyphens in ``name`` stand for underscores.

    Raises:
        ConfigError: The room has no such module; the message lists those it has.
    """
    module = name.replace("-", "_")
    known = names(room)
    if module not in known:
        raise ConfigError(f"{name}: {room}: not known; known are {', '.join(n.replace('_', '-') for n in known)}")
    return importlib.import_module(f"provstore.{room}.{module}")
