"""Where things are: addresses and directories, from arguments and the environment."""

from __future__ import annotations

import os
from pathlib import Path

from provstore.errors import ConfigError

DEFAULT_STORE = "embedded:.provstore"
_DEFAULT_DIRECTORY = Path(".provstore")


def store_uri(given: str | None) -> str:
    """Return the address of the store: the given one, else ``PROVSTORE_STORE``, else ``embedded:.provstore``."""
    return given or os.environ.get("PROVSTORE_STORE") or DEFAULT_STORE


def embedded_directory(uri: str) -> Path | None:
    """Return the directory of an embedded store, None for any other."""
    scheme, _, place = uri.partition(":")
    return (Path(place) if place else _DEFAULT_DIRECTORY) if scheme == "embedded" else None


def journal_directory(uri: str, given: str | Path | None) -> Path:
    """Return where the journal is: the given place, else ``PROVSTORE_JOURNAL``, else beside the embedded store.

    Raises:
        ConfigError: The store is in memory only, so nothing tells where its journal could be.
    """
    stated = given or os.environ.get("PROVSTORE_JOURNAL")
    if stated:
        return Path(stated)
    if uri.startswith("memory:"):
        raise ConfigError(f"{uri}: journal: a store in memory has none unless --journal names one")
    return (embedded_directory(uri) or _DEFAULT_DIRECTORY) / "journal"
