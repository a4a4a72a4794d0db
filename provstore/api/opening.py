"""Opening a journal and the graph made from it, so that they belong together and the graph is up to date."""

from __future__ import annotations

import contextlib
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from provstore import config
from provstore.errors import StoreError
from provstore.journal import ending
from provstore.stores import GraphStore, open_store

if TYPE_CHECKING:
    from provstore.ingest.given import Progress
    from provstore.journal import Journal
    from provstore.journal.ending import Ending
    from provstore.model.report import StoreInfo

GRAPH_FILE = "graph.kgl"
_WRITER = re.compile(r"is being written by ((?:another )?process(?: [0-9]+)?)")
_RESTORE = "restore the journal's folder from a copy, or name the place where it is with --journal"
_LOG = logging.getLogger("provstore")


@dataclass(frozen=True, slots=True)
class Opened:
    """A journal and its graph."""

    journal: Journal
    graph: GraphStore
    late: str = ""
    """Why the graph lacks something of the journal, in words; empty when it is up to date."""


@dataclass(frozen=True, slots=True)
class OpenedGraph:
    """A graph, and its journal where that had to be read to know whether the graph is up to date."""

    graph: GraphStore
    journal: Journal | None = None
    late: str = ""
    """See :class:`Opened`."""


def open_both(
    uri: str, directory: Path, exits: contextlib.ExitStack, *, read_only: bool, progress: Progress | None
) -> Opened:
    """Return journal and graph; ``exits`` closes them.

    Raises:
        StoreError: One of them is missing, damaged, locked, or does not belong to the other.
    """
    if not read_only:
        return _writing(uri, directory, exits, progress)
    return with_journal(uri, directory, exits, _reading(uri, directory, exits, progress), progress)


def open_graph(uri: str, directory: Path, exits: contextlib.ExitStack, progress: Progress | None) -> OpenedGraph:
    """Return the graph of a store for reading, up to date with its journal, which is read only where that is needed.

    Raises:
        StoreError: As :func:`open_both` does.
    """
    return _reading(uri, directory, exits, progress, ending.known(existing(directory, uri)))


def with_journal(
    uri: str, directory: Path, exits: contextlib.ExitStack, found: OpenedGraph, progress: Progress | None
) -> Opened:
    """Return a graph that is open for reading together with its journal, opened anew where that has more by now.

    Raises:
        StoreError: As :func:`open_both` does.
    """
    from provstore.queries.info import behind

    if found.journal is not None:
        return Opened(found.journal, found.graph, found.late)
    with contextlib.ExitStack() as held:
        journal = held.enter_context(_journal(directory))
        if not behind(found.graph, journal):
            exits.push(held.pop_all())
            return Opened(journal, found.graph)
    # The graph that was open stays so: others may be asking it.
    anew = exits.enter_context(contextlib.ExitStack())
    return with_journal(uri, directory, anew, _reading(uri, directory, anew, progress), progress)


def journal_for_writing(uri: str, directory: Path) -> Journal:
    """Return the journal of a store, opened for writing without its graph; the next reader brings that up to date.

    Raises:
        StoreError: It is locked or damaged, or missing beside a graph that was made from it.
    """
    from provstore.journal import Journal

    if not directory.exists():
        _refuse_orphans(uri, directory)
    return Journal.open(directory, writable=True)


def existing(directory: Path, uri: str) -> Path:
    """Return the directory of a journal that must be there."""
    if not directory.is_dir():
        _refuse_orphans(uri, directory)
        raise StoreError(f"{directory}: journal: there is none here", hint="provstore ingest PATH creates one")
    return directory


def _reading(
    uri: str, directory: Path, exits: contextlib.ExitStack, progress: Progress | None, known: Ending | None = None
) -> OpenedGraph:
    """Open the graph; ``known`` is how far its journal has got, and where it is ``None`` the journal tells."""
    from provstore.queries.info import behind

    journal: Journal | None = None
    at: Journal | Ending
    if known is not None:
        at = known
    else:
        at = journal = exits.enter_context(_journal(existing(directory, uri)))
    lacking = at.position
    graph: GraphStore | None = None
    try:
        graph = exits.enter_context(contextlib.closing(open_store(uri, writable=False)))
        lacking = behind(graph, at)
    except StoreError:
        # No graph file yet, although there is a journal: it can be made from it.
        if config.embedded_directory(uri) is None or _has_graph(uri) or not at.position:
            raise
    reason = _catches_up(uri, directory, progress) if lacking else ""
    if lacking and reason is None:
        exits.close()
        return _reading(uri, directory, exits, progress)
    if graph is None and reason and not _has_graph(uri):
        raise StoreError(f"{uri}: store: there is no graph yet: it is behind its journal, {reason}")
    if graph is None:
        graph = exits.enter_context(contextlib.closing(open_store(uri, writable=False)))
    batches = "1 batch" if lacking == 1 else f"{lacking} batches"
    return OpenedGraph(graph, journal, f"the graph is {batches} behind its journal, {reason}" if lacking else "")


def _journal(directory: Path) -> Journal:
    from provstore.journal import Journal

    return Journal.open(directory, writable=False)


def _writing(uri: str, directory: Path, exits: contextlib.ExitStack, progress: Progress | None) -> Opened:
    from provstore.ingest.upkeep import catch_up

    journal = exits.enter_context(journal_for_writing(uri, directory))
    # Runs after the graph was saved: what is noted is true of the file.
    exits.callback(ending.keep, journal)
    graph = exits.enter_context(contextlib.closing(open_store(uri, writable=True)))
    _refuse_strangers(uri, journal, graph)
    catch_up(graph, journal, progress)
    return Opened(journal, graph)


def _catches_up(uri: str, directory: Path, progress: Progress | None) -> str | None:
    """Catch up when nobody else writes; otherwise return why not: what is there is read, and said to be behind."""
    try:
        with contextlib.ExitStack() as exits:
            _writing(uri, directory, exits, progress)
    except StoreError as error:
        _LOG.info("%s: the graph is behind its journal: %s", uri, error)
        writer = _WRITER.search(str(error))
        return f"which {writer[1]} is writing" if writer else f"and could not be brought up to date ({error})"
    return None


def _graph_file(uri: str) -> Path | None:
    """Return where the graph of an embedded store is, or would be."""
    place = config.embedded_directory(uri)
    return None if place is None else place / GRAPH_FILE


def _has_graph(uri: str) -> bool:
    path = _graph_file(uri)
    return path is not None and path.exists()


def _refuse_orphans(uri: str, directory: Path) -> None:
    """Refuse to begin a new journal beside a graph that was made from one that is missing."""
    if _has_graph(uri):
        text = f"{directory}: journal: it is missing; a new one is another journal than that of {_graph_file(uri)}"
        raise StoreError(text, hint=_RESTORE + f"; to begin anew, move {GRAPH_FILE} away")


def _refuse_strangers(uri: str, journal: Journal, graph: GraphStore) -> None:
    """Refuse to write where graph and journal do not belong together: what one of them lacks would be forgotten."""
    from provstore.queries.info import foreign_journal, lost

    rebuild = "provstore store rebuild makes the graph anew from the journal, and keeps the old one beside it"
    gone = lost(graph, journal)
    if gone is not None:
        raise StoreError(f"{journal.directory}: acked-lost: {gone}", hint=f"{_RESTORE}; else {rebuild}")
    other = foreign_journal(graph, journal)
    if other is not None and config.embedded_directory(uri) is not None:
        if not journal.position:
            text = (
                f"{uri}: the graph was made from another journal ({other}), and the one in {journal.directory} is empty"
            )
            raise StoreError(text, hint=f"{_RESTORE}; a rebuild from the empty one would hold nothing")
        raise StoreError(
            f"{uri}: the graph was made from another journal ({other})", hint=f"{_RESTORE}; else {rebuild}"
        )


def described(uri: str, graph: GraphStore, journal: Journal) -> StoreInfo:
    """Return what an open store is and holds."""
    from provstore.model.report import StoreInfo
    from provstore.queries.info import applied, node_counts
    from provstore.queries.targets import runs

    return StoreInfo(
        uri=uri,
        **graph.about,
        journal=str(journal.directory),
        journal_id=journal.journal_id,
        position=journal.position,
        applied=applied(graph, journal),
        runs=tuple(runs(graph)),
        counts=node_counts(graph),
    )
