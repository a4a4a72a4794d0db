"""Where things are: addresses and directories, from arguments and the environment."""

from __future__ import annotations

import os
from pathlib import Path

from provstore.errors import ConfigError

DEFAULT_STORE = "embedded:.provstore"
SCHEMES = ("memory", "embedded", "neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
"""How the addresses of stores begin."""

_DEFAULT_DIRECTORY = Path(".provstore")
_ON_THIS_MACHINE = ("memory", "embedded")


def store_uri(given: str | None) -> str:
    """Return the address of the store: the given one, else ``PROVSTORE_STORE``, else ``embedded:.provstore``.

    Raises:
        ConfigError: It is no address of a store, or it holds a user or password.
    """
    return checked_address(given or os.environ.get("PROVSTORE_STORE") or DEFAULT_STORE)


def checked_address(uri: str) -> str:
    """Return ``uri`` if it is the address of a store without user and password.

    Raises:
        ConfigError: It is not; the text of the error never holds a password.
    """
    scheme, colon, place = uri.partition(":")
    if colon and scheme not in _ON_THIS_MACHINE and "@" in place:
        shown = f"{scheme}:…" if scheme in SCHEMES else "…"
        raise ConfigError(
            f"{shown}: store: an address holds neither user nor password",
            hint="put user and password in PROVSTORE_NEO4J_USER and PROVSTORE_NEO4J_PASSWORD",
        )
    if not colon or scheme not in SCHEMES:
        known = ", ".join(f"{name}:" for name in SCHEMES)
        is_path = not colon or "/" in scheme or scheme.startswith((".", "~"))
        raise ConfigError(
            f"{uri}: store: not a store address; known are {known}",
            hint=f"did you mean embedded:{uri}" if is_path else None,
        )
    return uri


def embedded_directory(uri: str) -> Path | None:
    """Return the directory of an embedded store, None for any other; a leading ``~`` is the home directory."""
    scheme, _, place = uri.partition(":")
    if scheme != "embedded":
        return None
    # pathlib's way raises RuntimeError for a user who does not exist; that name may be a folder's.
    return Path(os.path.expanduser(place)) if place else _DEFAULT_DIRECTORY  # noqa: PTH111


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


def config_directory() -> Path:
    """Return where the user's settings are: ``PROVSTORE_CONFIG_HOME``, else ``provstore`` in the XDG place.

    Never below the working directory: who can write into a project must not choose whom its evidence is trusted by.
    """
    return _users_directory("PROVSTORE_CONFIG_HOME", "XDG_CONFIG_HOME", ".config")


def state_directory() -> Path:
    """Return where is kept what was seen before: ``PROVSTORE_STATE_HOME``, else ``provstore`` in the XDG place."""
    return _users_directory("PROVSTORE_STATE_HOME", "XDG_STATE_HOME", ".local/state")


def keys_directory() -> Path:
    """Return where the user's private keys are."""
    return config_directory() / "keys"


def trust_file(given: str | Path | None = None) -> Path:
    """Return the trust file: the given one, else ``PROVSTORE_TRUST``, else ``trust.json`` among the settings."""
    stated = given or os.environ.get("PROVSTORE_TRUST")
    return Path(stated) if stated else own_trust_file()


def own_trust_file() -> Path:
    """Return the user's own trust file: ``trust.json`` among the settings, which nobody else writes."""
    return config_directory() / "trust.json"


def anchor_directory(given: str | Path | None = None) -> Path:
    """Return where checkpoints seen before are kept: the given place, else ``PROVSTORE_ANCHORS``, else the state."""
    stated = given or os.environ.get("PROVSTORE_ANCHORS")
    return Path(stated) if stated else state_directory() / "anchors"


def _users_directory(own: str, base: str, below_home: str) -> Path:
    stated = os.environ.get(own)
    if stated:
        return Path(stated).absolute()
    shared = os.environ.get(base, "")
    # The XDG specification: a relative path is to be ignored.
    if Path(shared).is_absolute():
        return Path(shared) / "provstore"
    return Path(os.path.expanduser("~")) / below_home / "provstore"  # noqa: PTH111 - Path.home() raises without one
