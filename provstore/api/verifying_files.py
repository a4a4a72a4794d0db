"""Which of two things a name means: a run of a store, or exported evidence that lies here."""

from __future__ import annotations

import contextlib
from pathlib import Path

from provstore import config
from provstore.api.opening import GRAPH_FILE
from provstore.errors import ConfigError, ProvstoreError
from provstore.evidence import anchors as held
from provstore.evidence.files import ExportedEvidence
from provstore.evidence.verify.file import is_evidence
from provstore.journal import Journal
from provstore.queries.evidence import scopes as graph_scopes
from provstore.stores import open_store


def names_a_run(name: str, uri: str | None, journal: str | Path | None) -> bool:
    """Return whether journal, graph or the verifier's own anchors know a run of that name.

    An emptied store is still one that held it: its anchors say so.

    Raises:
        StoreError: There is a store, and it cannot be read.
    """
    address = config.store_uri(uri)
    directory = _journal(address, journal)
    if directory is None:
        return False
    anchors = _anchors(name)
    if any(one.place == str(directory.resolve()) for one in anchors):
        return True
    if directory.is_dir():
        with Journal.open(directory, writable=False) as found:
            stores = {about.store for one in anchors if (about := held.scope_of(one.origin))}
            if found.journal_id in stores or any(name == run for run, _ in found.scopes()):
                return True
    return _is_in_graph(name, address)


def has_no_store(name: str, uri: str | None, journal: str | Path | None) -> bool:
    """Return whether there is no journal, and none is remembered that held a run of that name."""
    directory = _journal(config.store_uri(uri), journal)
    if directory is None or directory.is_dir():
        return False
    return not any(one.place == str(directory.resolve()) for one in _anchors(name))


def _journal(address: str, given: str | Path | None) -> Path | None:
    try:
        return config.journal_directory(address, given)
    except ConfigError:
        return None


def _anchors(name: str) -> list[held.Anchor]:
    state = held.AnchorState(config.anchor_directory(None))
    return [one for one in state.all() if (about := held.scope_of(one.origin)) and about.run == name]


def holds_evidence(path: Path) -> bool:
    """Return whether a folder or file is exported evidence, sound or not; in doubt it is."""
    try:
        if path.is_dir():
            ExportedEvidence(path)
            return True
        return is_evidence(path)
    except ProvstoreError:
        return not path.is_dir() or any(path.glob("epoch-*"))


def _is_in_graph(name: str, address: str) -> bool:
    """Return whether an embedded graph knows a run; a server is not asked what the name of a folder means."""
    folder = config.embedded_directory(address)
    if folder is None or not (folder / GRAPH_FILE).exists():
        return False
    with contextlib.closing(open_store(address, writable=False)) as graph:
        return any(name == run for run, _ in graph_scopes(graph))
