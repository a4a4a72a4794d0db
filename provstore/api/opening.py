"""Opening a journal and the graph made from it, so that they belong together and the graph is up to date."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from pathlib import Path

from provstore import config
from provstore.errors import StoreError
from provstore.ingest.given import Progress
from provstore.journal import Journal
from provstore.stores import GraphStore, open_store

GRAPH_FILE = "graph.kgl"
_LOG = logging.getLogger("provstore")


@dataclass(frozen=True, slots=True)
class Opened:
    """A journal and its graph."""

    journal: Journal
    graph: GraphStore
    behind: int = 0
    """Positions of the journal that the graph lacks because another process is writing."""


def open_both(
    uri: str, directory: Path, exits: contextlib.ExitStack, *, read_only: bool, progress: Progress | None
) -> Opened:
    """Return journal and graph; ``exits`` closes them.

    Raises:
        StoreError: One of them is missing, damaged, locked, or does not belong to the other.
    """
    return _reading(uri, directory, exits, progress) if read_only else _writing(uri, directory, exits, progress)


def existing(directory: Path) -> Path:
    """Return the directory of a journal that must be there."""
    if not directory.is_dir():
        raise StoreError(f"{directory}: journal: there is none here", hint="provstore ingest PATH creates one")
    return directory


def _reading(uri: str, directory: Path, exits: contextlib.ExitStack, progress: Progress | None) -> Opened:
    from provstore.queries.info import behind

    journal = exits.enter_context(Journal.open(existing(directory), writable=False))
    lacking = journal.position
    graph: GraphStore | None = None
    try:
        graph = exits.enter_context(contextlib.closing(open_store(uri, writable=False)))
        lacking = behind(graph, journal)
    except StoreError:
        # No graph file yet, although there is a journal: it can be made from it.
        place = config.embedded_directory(uri)
        if place is None or (place / GRAPH_FILE).exists() or not journal.position:
            raise
    if lacking and _has_caught_up(uri, directory, progress):
        exits.close()
        return _reading(uri, directory, exits, progress)
    if graph is None:
        graph = exits.enter_context(contextlib.closing(open_store(uri, writable=False)))
    return Opened(journal, graph, lacking)


def _writing(uri: str, directory: Path, exits: contextlib.ExitStack, progress: Progress | None) -> Opened:
    from provstore.ingest.upkeep import catch_up

    journal = exits.enter_context(Journal.open(directory, writable=True))
    graph = exits.enter_context(contextlib.closing(open_store(uri, writable=True)))
    _refuse_strangers(uri, journal, graph)
    catch_up(graph, journal, progress)
    return Opened(journal, graph)


def _has_caught_up(uri: str, directory: Path, progress: Progress | None) -> bool:
    """Catch up when nobody else writes; otherwise what is there is read, and said to be behind."""
    try:
        with contextlib.ExitStack() as exits:
            _writing(uri, directory, exits, progress)
    except StoreError as error:
        _LOG.info("%s: the graph is behind its journal: %s", uri, error)
        return False
    return True


def _refuse_strangers(uri: str, journal: Journal, graph: GraphStore) -> None:
    """Refuse to write where graph and journal do not belong together: what one of them lacks would be forgotten."""
    from provstore.queries.info import foreign_journal, lost

    hint = "provstore store rebuild makes the graph anew from the journal, and keeps the old one beside it"
    gone = lost(graph, journal)
    if gone is not None:
        raise StoreError(f"{journal.directory}: acked-lost: {gone}", hint=hint)
    other = foreign_journal(graph, journal)
    if other is not None and config.embedded_directory(uri) is not None:
        raise StoreError(f"{uri}: the graph was made from another journal ({other})", hint=hint)
