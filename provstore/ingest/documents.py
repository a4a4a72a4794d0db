"""PROV documents, from files or as objects of the ``prov`` library, into journal and graph."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from provstore import rooms
from provstore.errors import InputError
from provstore.graph.prov_mapping import blocks
from provstore.ingest.flow import Ingest
from provstore.ingest.given import Request
from provstore.journal import Journal, Origin
from provstore.model.block import Block
from provstore.model.prov import Document
from provstore.model.report import KNOWN, NEW, REFUSED, FileReport, IngestReport
from provstore.stores import GraphStore

_RUN, _ATTEMPT = "", 0
"""Imported documents belong to no run of their own: what they say about runs stands in their ids."""


def ingest_file(path: Path, reader: str, request: Request, journal: Journal, store: GraphStore) -> IngestReport:
    """Take in a PROV-JSON or PROV-N file; a file that is no such document is refused and named."""
    source = rooms.load("sources", reader)
    try:
        document: Document = source.read(path)
    except InputError as error:
        return IngestReport(files=(FileReport(str(path), reader, REFUSED, str(error)),), position=journal.position)
    size = document.size_bytes or 0
    origin = Origin(document.digest or "", size, reader, source.READER_VERSION, path, request.keep_source)
    return _ingest(document, str(path), reader, origin, journal, store)


def ingest_object(document: object, journal: Journal, store: GraphStore) -> IngestReport:
    """Take in a ``prov.model.ProvDocument``.

    Raises:
        InputError: It is no such object, or holds a value without PROV form.
    """
    source = rooms.load("sources", "prov_document")
    read: Document = source.read(document)
    digest = read.key.removeprefix("sha256-")
    origin = Origin(digest, 0, "prov-document", source.READER_VERSION, None, keep_source=False)
    return _ingest(read, read.key, "prov-document", origin, journal, store)


def _ingest(
    document: Document, name: str, reader: str, origin: Origin, journal: Journal, store: GraphStore
) -> IngestReport:
    going = Ingest(journal, store)
    known = going.is_known((_RUN, _ATTEMPT), origin)
    if not known:
        # The source is named with the last batch, so that a document that was cut off is taken in again.
        for block, is_last in _with_last(blocks(document, _RUN, _ATTEMPT)):
            going.accept(block, origin if is_last else None)
        going.finish(Block(_RUN, _ATTEMPT))
    warnings = tuple(f"{kind}: {count}" for kind, count in document.warnings.items())
    file = FileReport(name, reader, KNOWN if known else NEW, records=document.records, warnings=warnings)
    return IngestReport(files=(file,), facts=going.facts, position=journal.position)


def _with_last(found: Iterator[Block]) -> Iterator[tuple[Block, bool]]:
    """Yield each block with whether it is the last; one block is held at a time."""
    held: Block | None = None
    for block in found:
        if held is not None:
            yield held, False
        held = block
    if held is not None:
        yield held, True
