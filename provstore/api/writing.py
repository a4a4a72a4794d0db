"""Writing a document where the caller wants it: a file appears whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from provstore import rooms
from provstore.errors import InputError
from provstore.exports import ExportInput, ExportOptions, ExportReport
from provstore.model.trace import Trace
from provstore.queries import statements
from provstore.queries.targets import runs
from provstore.stores import GraphStore

if TYPE_CHECKING:
    from prov.model import ProvDocument


def write(
    form: str, document: ExportInput, to: str | Path | TextIO | None, options: ExportOptions | None = None
) -> ExportReport:
    """Write ``document`` in the format ``form`` to a file, an open stream, or standard output.

    Raises:
        ConfigError: No such format; those there are stand in the message.
        InputError: The file cannot be written.
    """
    module = rooms.load("exports.graphs", form)
    with _stream(to) as stream:
        report: ExportReport = module.export(document, stream, options or ExportOptions())
    return report


def document(
    graph: GraphStore,
    run: str | None,
    attempt: int | None,
    scope_of: Callable[[str | None, int | None], tuple[str, int]],
) -> ExportInput:
    """Return what an export of a run, or of an imported document, writes; ``scope_of`` completes what is left out."""
    imported = statements.documents(graph)
    if run in imported or (run is None and len(imported) == 1 and not runs(graph)):
        key = run or imported[0]
        return ExportInput(lambda: statements.of_document(graph, key), key)
    scope = scope_of(run, attempt)
    return ExportInput(lambda: statements.of_attempt(graph, *scope), f"{scope[0]}, attempt {scope[1]}")


class TraceWriter:
    """Writes traces with the facts of one store."""

    def __init__(self, graph: GraphStore) -> None:
        self._graph = graph

    def text(self, trace: Trace, form: str) -> str:
        """Return a trace in an export format."""
        stream = io.StringIO()
        write(form, self._document(trace), stream)
        return stream.getvalue()

    def prov(self, trace: Trace) -> ProvDocument:
        """Return a trace as a document of the ``prov`` library."""
        from provstore.exports.graphs.prov_json import to_prov

        return to_prov(self._document(trace))

    def _document(self, trace: Trace) -> ExportInput:
        iris = [trace.target, *(node.iri for node in trace.nodes)]
        nodes = (trace.root, *trace.nodes)
        return ExportInput(
            lambda: statements.of_elements(self._graph, iris),
            f"{trace.direction} of {trace.root.label}",
            operations={node.iri: node.op for node in nodes if node.op},
            groups={node.iri: node.group_name for node in nodes if node.group_name},
        )


@contextlib.contextmanager
def _stream(to: str | Path | TextIO | None) -> Iterator[TextIO]:
    """Give a text stream; a file appears whole or not at all."""
    if not isinstance(to, str | Path):
        yield to or sys.stdout
        return
    path = Path(to).resolve()
    try:
        if path.exists() and not path.is_file():
            # A pipe or a device is written to, never replaced.
            with path.open("w", encoding="utf-8") as file:
                yield file
            return
        beside = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with beside.open("w", encoding="utf-8") as file:
                yield file
            if path.exists():
                shutil.copymode(path, beside)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{to}: cannot be written: {error.strerror or error}") from error
