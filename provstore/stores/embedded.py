"""Embedded store (``embedded:DIRECTORY``, ``memory:``): one graph file, in process, no server."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar, cast

import kglite

from provstore.cypher import ADHOC, Query, named, query
from provstore.errors import ConfigError, InputError, StoreError
from provstore.model.block import DERIVED_RELATIONS, UNIQUE_KEY, Block, Nodes, Relations
from provstore.stores import Rows, WriteReport, facts
from provstore.stores.embedded_query import cypher_error, run_in_child
from provstore.stores.plain import plain_row

FILE_NAME = "graph.kgl"
BULK_ROWS = 300
"""From this many rows of one kind on, the bulk writers pay for importing pandas and building a frame."""
HUB_RELATIONS = 1_000
"""From this many relationships of one source on, the engine's merging costs more than asking at their targets."""

_BATCH_ROWS = 10_000
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
"""How the engine tells the number of a failed system call."""
_FREE_SPACE = "free some space and open the store again: what was acknowledged is in the journal"
_REBUILD = "provstore store rebuild recreates it from the journal"
_NO_PARAMETERS: Mapping[str, object] = MappingProxyType({})
_Answer = TypeVar("_Answer")

kglite.set_query_warning_policy("silent")


def connect(directory: str | None, *, writable: bool) -> EmbeddedStore:
    """Open the store in ``directory``, or an empty one in memory for None.

    Raises:
        StoreError: Another process writes the store; or its file is missing, damaged, foreign or of a newer format.
    """
    if directory is None:
        return EmbeddedStore(_seed("default"), None, writable=writable)
    path = Path(directory) / FILE_NAME
    if not writable and not path.is_file():
        raise StoreError(f"{directory}: store: there is none here", hint="provstore ingest PATH creates one")
    if writable:
        _create(path)
    return EmbeddedStore(_open(path, writable=writable), path, writable=writable)


class EmbeddedStore:
    """One graph file; written in memory, saved once at ``close``."""

    def __init__(self, graph: kglite.KnowledgeGraph, path: Path | None, *, writable: bool) -> None:
        self.about: Mapping[str, str] = {"engine": "KGLite", "version": kglite.__version__, "edition": "embedded"}
        self._graph: kglite.KnowledgeGraph | None = graph
        self._path = path
        self._writable = writable
        self._is_dirty = False
        self._is_broken = False
        self._bulk_rows = BULK_ROWS
        self._mutex = threading.RLock()
        """Held while the engine works: threads take turns."""

    def write(self, block: Block, position: tuple[str, int] | None = None) -> WriteReport:
        """Add a block's facts; see ``GraphStore.write``."""
        with self._mutex:
            return self._write(block, position)

    def _write(self, block: Block, position: tuple[str, int] | None) -> WriteReport:
        graph = self._usable()
        if not self._writable:
            raise StoreError(f"{self._place}: store: opened for reading only")
        facts.check(block)
        self._check_ends(graph, block)
        self._is_dirty = True
        # Everything that can be refused has been; a failure from here on leaves a part in memory, which is never saved.
        self._is_broken = True
        if block.replaces is not None:
            self._forget(graph, block.replaces)
        for nodes in block.nodes:
            self._write_nodes(graph, nodes)
        for relations in block.relations:
            self._write_relations(graph, relations)
        if position is not None:
            self._cypher(graph, query("write/applied"), {"journal": position[0], "jseq": position[1]})
        self._is_broken = False
        return WriteReport(sum(map(len, block.nodes)), sum(map(len, block.relations)))

    def run(self, query: Query, parameters: Mapping[str, object] = _NO_PARAMETERS) -> Rows:
        """Answer a reading query; a user's own text runs in a child process that can be killed."""
        missing = sorted(set(query.params) - set(parameters))
        if missing:
            raise ConfigError(f"{query.name}: {missing[0]}: this parameter is missing")
        with self._mutex:
            graph = self._usable()
            if query.name != ADHOC or self._path is None:
                return self._read(graph, query, parameters)
            if self._is_dirty:
                self._checkpoint(graph.save)
        return run_in_child(self._path, query, parameters)

    def alter(self, query: Query, parameters: Mapping[str, object] = _NO_PARAMETERS) -> list[dict[str, object]]:
        """Run a writing query past the journal, as whoever can write the file could; for demonstrations and tests."""
        with self._mutex:
            self._is_dirty = True
            return self._cypher(self._usable(), query, parameters)

    def close(self) -> None:
        """Save what was written and let go of the file."""
        with self._mutex:
            self._close()

    def _close(self) -> None:
        graph, self._graph = self._graph, None
        if graph is None or self._path is None:
            return
        try:
            if self._is_dirty and not self._is_broken:
                self._checkpoint(graph.close)
        finally:
            # Leaves without a checkpoint, as after an exception: what is to be saved has been.
            graph.__exit__(StoreError, None, None)

    @property
    def _place(self) -> str:
        return str(self._path.parent) if self._path else "memory"

    def _usable(self) -> kglite.KnowledgeGraph:
        if self._graph is None:
            raise StoreError(f"{self._place}: store: closed already")
        if self._is_broken:
            raise StoreError(f"{self._place}: store: an earlier write failed half-way; open the store again")
        return self._graph

    def _checkpoint(self, action: Callable[[], None]) -> None:
        def save() -> None:
            try:
                action()
            except kglite.WriterLeaseHeldError as error:
                raise self._lease_lost(error) from error

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # says which columns a reader decodes instead of mapping
            _guarded(self._place, "cannot be saved", save)
        self._is_dirty = False

    def _lease_lost(self, error: kglite.WriterLeaseHeldError) -> StoreError:
        """Return why the engine takes the file that it holds itself for one that somebody else writes.

        It names its own process in a file beside the graph; where that could not be written it knows nobody.
        """
        what = f"{self._place}: cannot be saved"
        if error.holder.get("pid") is not None or self._path is None:
            return StoreError(f"{what}: {error}")
        try:
            with tempfile.TemporaryFile(dir=self._path.parent) as probe:
                probe.write(b"\0")
        except OSError as full:
            reason = f"disk full ({full.strerror})" if _is_full(full) else str(full.strerror)
            return StoreError(f"{what}: {reason}", hint=_FREE_SPACE if _is_full(full) else None)
        text = f"{self._path.name}.lock-owner does not say which process writes: the disk may have been full"
        return StoreError(f"{what}: {text}", hint="repeat the command")

    def _read(self, graph: kglite.KnowledgeGraph, query: Query, parameters: Mapping[str, object]) -> Rows:
        limit = None if query.max_rows is None else query.max_rows + 1
        milliseconds = None if query.timeout_seconds is None else max(1, int(query.timeout_seconds * 1000))
        try:
            answer = graph.cypher(
                query.text,
                params=dict(parameters),
                timeout_ms=milliseconds,
                row_limit=limit,
                hide_structural_keys=True,
            )
        except kglite.CypherTimeoutError:
            return Rows((), "timeout")
        except OverflowError as error:
            raise InputError(f"query: {error}") from error
        except kglite.KgError as error:
            if query.name == ADHOC:
                raise cypher_error(str(error)) from error
            raise StoreError(f"{query.name}: {self._place}: {error}") from error
        view = _view(answer)
        is_cut = query.max_rows is not None and len(view) > query.max_rows
        return Rows(_plain_rows(view, query.max_rows if is_cut else None), "max_rows" if is_cut else None)

    def _check_ends(self, graph: kglite.KnowledgeGraph, block: Block) -> None:
        for label, keys in facts.outside_ends(block).items():
            missing = next((key for key in sorted(keys) if not graph.exists(label, key)), None)
            if missing is not None:
                raise facts.missing_end(block, label, missing)

    def _forget(self, graph: kglite.KnowledgeGraph, scope: str) -> None:
        for kind in DERIVED_RELATIONS:
            self._cypher(graph, named(query("write/forget_derived"), {"RELATION_TYPE": kind}), {"scope": scope})

    def _write_nodes(self, graph: kglite.KnowledgeGraph, nodes: Nodes) -> None:
        if len(nodes) >= self._bulk_rows:
            from provstore.stores import embedded_write

            if embedded_write.fits_nodes(nodes):
                # Text that a statement changes after such a write is kept in a form that readers have to decode.
                self._bulk_rows = 1
                _guarded(self._place, "cannot be written", lambda: embedded_write.write_nodes(graph, nodes))
                return
        text = named(query("write/nodes"), {"BASE_LABEL": nodes.labels[0], "LABELS": nodes.labels[1:] or nodes.labels})
        for batch in facts.batches(facts.node_rows(nodes), _BATCH_ROWS):
            self._write_rows(graph, text, batch)

    def _write_relations(self, graph: kglite.KnowledgeGraph, relations: Relations) -> None:
        if len(relations) >= self._bulk_rows:
            from provstore.stores import embedded_write

            if embedded_write.fits_relations(relations):
                of_hubs, others = facts.of_hubs(relations, HUB_RELATIONS)
                if others:
                    _guarded(self._place, "cannot be written", lambda: embedded_write.write_relations(graph, others))
                for batch in facts.batches(facts.relation_rows(of_hubs), _BATCH_ROWS):
                    self._cypher(graph, _relating("write/relations_of_hubs", relations), {"rows": batch})
                return
        text = _relating("write/records" if facts.is_record(relations) else "write/relations", relations)
        for batch in facts.batches(facts.relation_rows(relations), _BATCH_ROWS):
            self._write_rows(graph, text, batch)

    def _write_rows(self, graph: kglite.KnowledgeGraph, text: Query, rows: list[dict[str, object]]) -> None:
        for row in self._cypher(graph, text, {"rows": rows}):
            if row["written"] != len(rows):
                raise StoreError(f"{text.name}: {self._place}: {row['written']} of {len(rows)} facts were written")

    def _cypher(
        self, graph: kglite.KnowledgeGraph, query: Query, parameters: Mapping[str, object]
    ) -> list[dict[str, object]]:
        def run() -> list[dict[str, object]]:
            return _view(graph.cypher(query.text, params=dict(parameters), hide_structural_keys=True)).to_list()

        return _guarded(f"{query.name}: {self._place}", "the engine refuses it", run)


def _relating(name: str, relations: Relations) -> Query:
    """Return a writing query for relationships of this type between nodes of these labels."""
    names = {"SOURCE_LABEL": relations.source_label, "TARGET_LABEL": relations.target_label}
    return named(query(name), {"RELATION_TYPE": relations.type, **names})


def _create(path: Path) -> None:
    """Put an empty graph file at ``path`` unless there is one; two creators cannot overwrite each other."""
    if path.exists():
        return
    fresh = path.with_name(f"{FILE_NAME}.{secrets.token_hex(8)}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _guarded(str(path.parent), "cannot be created", lambda: _seed("mapped").save(str(fresh)))
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
    except OSError as error:
        raise StoreError(f"{path.parent}: store: cannot be created: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()


def _seed(storage: str) -> kglite.KnowledgeGraph:
    """Return an empty graph that knows each base label's key; the engine learns a key from a first node only.

    ``name`` is declared as the display field, so that it is a property like any other: undeclared, the engine answers
    it with the key on nodes that have no name.
    """
    nodes = [
        {"type": label, "id_field": key, "title_field": "name", "records": [{key: "seed", "name": "seed"}]}
        for label, key in UNIQUE_KEY.items()
    ]
    graph = kglite.from_records({"nodes": nodes, "connections": []}, storage=storage)
    graph.cypher(query("schema/embedded/forget_seed").text)
    return graph


def _open(path: Path, *, writable: bool) -> kglite.KnowledgeGraph:
    place = str(path.parent)
    try:
        if not writable:
            # Left to itself, the engine reads numbers and relationships from the file without checking them.
            graph = kglite.load(str(path), verify="eager")
            graph.read_only(True)
            return graph
        graph = kglite.open(str(path), storage="mapped", durable="off")
    except kglite.WriterLeaseHeldError as error:
        raise StoreError(f"{place}: store: process {error.holder['pid']} is writing it") from error
    except kglite.FileFormatError as error:
        raise StoreError(f"{path}: graph file: not readable here: {error}", hint=_REBUILD) from error
    except (kglite.KgError, OSError, ValueError, MemoryError) as error:
        lacks_memory = isinstance(error, MemoryError) or os.strerror(errno.ENOMEM) in str(error)
        hint = None if lacks_memory else _REBUILD
        raise StoreError(f"{path}: graph file: cannot be opened: {error}", hint=hint) from error
    # Opening for writing leaves that to saving, and by then something was worked out from the damaged part.
    damage = next((part["error"] for part in graph.verify_integrity()["sections"] if part["error"]), None)
    if damage is not None:
        graph.__exit__(StoreError, None, None)
        raise StoreError(f"{path}: graph file: not readable here: {damage}", hint=_REBUILD)
    return graph


def _guarded(place: str, what: str, action: Callable[[], _Answer]) -> _Answer:
    try:
        return action()
    except (kglite.KgError, OSError, ValueError, OverflowError, UserWarning) as error:
        if _is_full(error):
            raise StoreError(f"{place}: {what}: disk full ({error})", hint=_FREE_SPACE) from error
        raise StoreError(f"{place}: {what}: {error}") from error


def _is_full(error: Exception) -> bool:
    told = _OS_ERROR.search(str(error))
    number = int(told[1]) if told else getattr(error, "errno", None)
    return number in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def _plain_rows(answer: kglite.ResultView, at_most: int | None) -> Iterator[dict[str, object]]:
    for at, row in enumerate(answer):
        if at_most is not None and at >= at_most:
            return
        yield plain_row(row)


def _view(answer: object) -> kglite.ResultView:
    return cast("kglite.ResultView", answer)
