"""Imports of ``train-aep`` files: their bytes are kept, and their actions stand in the graph as what they claim."""

from __future__ import annotations

from pathlib import Path

from provstore.errors import InputError
from provstore.graph.legacy_facts import ATTEMPT, file_iri, legacy_block
from provstore.ingest.flow import Ingest
from provstore.ingest.given import Request
from provstore.journal import Journal, Origin
from provstore.model.block import Block
from provstore.model.report import KNOWN, NEW, REFUSED, FileReport, IngestReport
from provstore.sources import train_aep
from provstore.stores import GraphStore

READER = "train-aep"


def ingest_file(path: Path, request: Request, journal: Journal, store: GraphStore) -> IngestReport:
    """Take in one file; one that cannot be used is refused and named, and nothing has changed.

    Raises:
        ConfigError: It is CBOR, and the extra ``cbor`` is not installed.
        StoreError: The journal or the graph cannot be written.
    """
    going = Ingest(journal, store)
    try:
        found = train_aep.read(path)
        origin = Origin(
            found.sha256,
            found.size_bytes,
            READER,
            train_aep.READER_VERSION,
            path,
            element=file_iri(found.run, found.sha256),
        )
        is_new = not going.is_known((found.run, ATTEMPT), origin)
        if is_new:
            going.accept(legacy_block(found), origin)
    except InputError as error:
        file = FileReport(str(path), READER, REFUSED, str(error).replace(f"{path}: ", ""))
        return IngestReport(files=(file,), position=journal.position)
    if is_new:
        going.finish(Block(found.run, ATTEMPT))
    warnings = found.warnings
    if not request.keep_source:
        warnings = (*warnings, "its bytes are kept all the same: its actions are claims, and only they show whose")
    status = NEW if is_new else KNOWN
    file = FileReport(
        str(path), READER, status, None, found.run, ATTEMPT, records=len(found.actions), warnings=warnings
    )
    return IngestReport(files=(file,), facts=going.facts, position=journal.position)
