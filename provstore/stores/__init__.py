"""The graph as an index: the three-method store contract, and ``open_store``, which finds the engine by URI scheme."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from provstore import config, rooms
from provstore.cypher import Query
from provstore.model.block import Block

DEFAULT_URI = "embedded:.provstore"


@dataclass(frozen=True, slots=True)
class WriteReport:
    """How many facts one or more writes handed over; facts that were there already count too."""

    nodes: int = 0
    relations: int = 0

    def __add__(self, other: WriteReport) -> WriteReport:
        """Return the sum of two reports."""
        return WriteReport(self.nodes + other.nodes, self.relations + other.relations)


class Rows(Iterator[dict[str, object]]):
    """The rows of one answer, and, once they are read, whether they are all there are.

    A node is a mapping of ``labels`` and ``properties``, a relationship of ``type`` and ``properties``, a path of
    ``nodes`` and ``relationships``; the same on every engine.
    """

    def __init__(self, rows: Iterable[dict[str, object]], reason: str | None = None) -> None:
        self._rows = iter(rows)
        self.reason = reason
        """Why rows are missing: ``max_rows``, ``timeout`` or ``max_bytes``; None when none are."""

    @property
    def complete(self) -> bool:
        """False when the answer was cut."""
        return self.reason is None

    def __iter__(self) -> Rows:
        """Return the rows themselves."""
        return self

    def __next__(self) -> dict[str, object]:
        """Return the next row."""
        return next(self._rows)


class GraphStore(Protocol):
    """What every store can do."""

    @property
    def about(self) -> Mapping[str, str]:
        """``engine``, ``version`` and ``edition`` of what serves it."""
        ...

    def write(self, block: Block, position: tuple[str, int] | None = None) -> WriteReport:
        """Add a block's facts, or with ``block.replaces`` exchange the derived relationships of that scope.

        Args:
            block: Facts; writing them twice changes nothing, and a value that is there stays.
            position: (journal id, jseq) up to which the graph holds the journal once the block is in; becomes
                visible together with the block.

        Raises:
            StoreError: An end point of a relationship does not exist, a value cannot be stored, or the store is
                read-only, full or away. Nothing of the block is kept then.
        """
        ...

    def run(self, query: Query, parameters: Mapping[str, object] = ...) -> Rows:
        """Answer a reading query within the limits it carries."""
        ...

    def close(self) -> None:
        """Save what was written and let go of the store; a second call does nothing."""
        ...


def open_store(
    uri: str = DEFAULT_URI,
    *,
    writable: bool,
    user: str | None = None,
    password: str | None = None,
    database: str | None = None,
) -> GraphStore:
    """Open the store that ``uri`` names.

    Args:
        uri: ``embedded:DIRECTORY``, ``memory:``, or a Neo4j address such as ``neo4j://host:7687``.
        writable: False opens for reading only: no lock is taken and nothing on disk changes.
        user: For Neo4j; else ``PROVSTORE_NEO4J_USER``.
        password: For Neo4j; else ``PROVSTORE_NEO4J_PASSWORD``.
        database: For Neo4j; else ``PROVSTORE_NEO4J_DATABASE``, else the server's default.

    Raises:
        ConfigError: No store serves such a URI, or it holds a user or password.
        StoreError: The store is missing, damaged, locked by another process, or does not answer.
    """
    scheme = config.checked_address(uri).partition(":")[0]
    if scheme in ("memory", "embedded"):
        directory = config.embedded_directory(uri)
        place = None if directory is None else str(directory)
        store: GraphStore = rooms.load("stores", "embedded").connect(place, writable=writable)
        return store
    settings = {
        "user": user or os.environ.get("PROVSTORE_NEO4J_USER"),
        "password": password or os.environ.get("PROVSTORE_NEO4J_PASSWORD"),
        "database": database or os.environ.get("PROVSTORE_NEO4J_DATABASE"),
    }
    server: GraphStore = rooms.load("stores", "neo4j").connect(uri, writable=writable, **settings)
    return server
