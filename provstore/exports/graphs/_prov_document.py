"""What exports of PROV documents share: which facts they hold, which writer serves, the check of what was written."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, TextIO

from prov.model import ProvDocument

from provstore.errors import ConfigError, InputError, ProvstoreError
from provstore.exports import ExportInput, ExportOptions, ExportReport
from provstore.exports.graphs._captured import captured_parts, catalogue
from provstore.exports.graphs._prov_library import CANNOT_HOLD, library_text, to_prov
from provstore.graph.prov_compare import Difference, Fingerprint, Fingerprinting, fingerprint, strict_diff
from provstore.graph.prov_stored import stored_parts
from provstore.model.prov import Part

_IN_MEMORY_CHARACTERS = 16 << 20
_COPIED_CHARACTERS = 1 << 20
Parts = Callable[[], Iterable[Part]]


@dataclass(frozen=True, slots=True)
class Format:
    """How one PROV format is written and read back."""

    name: str
    level: str
    """Level at which what is read back must equal what was written: ``exact`` here means records and their order."""
    library_name: str
    write: Callable[[Iterable[Part], IO[str], str], None]
    """Takes the parts, where to write, and a remark for formats that have comments."""
    read: Callable[[IO[str], int | None], Iterable[Part]]
    """Takes the text, and the number of its records when the library wrote it."""


@dataclass(frozen=True, slots=True)
class _Content:
    """The PROV document of a part of the graph."""

    parts: Parts
    records: int
    """At most so many."""
    notes: tuple[str, ...] = ()


def _content(document: ExportInput, options: ExportOptions) -> _Content:
    """Return the captured facts as one document; without any, the only imported document, or the one asked for.

    Raises:
        InputError: There are several imported documents and none is asked for, or the one asked for is not there.
    """
    shared = catalogue(document.statements)
    keys = shared.documents
    if options.document is None and (shared.captured or not keys):
        notes = [f"{len(keys)} imported documents are not part of it"] if keys else []
        if shared.stated:
            notes.append(f"{len(shared.stated)} relations between captured elements stand in imported documents too")
        records = shared.captured + shared.relations
        return _Content(lambda: captured_parts(document.statements(), shared), records, tuple(notes))
    wanted = options.document if options.document is not None else keys[0]
    if wanted not in keys or (options.document is None and len(keys) > 1):
        raise InputError(f"{ascii(wanted)[1:-1]}: export: choose one of the imported documents {', '.join(keys)}")
    heads = (row.properties for row in document.statements() if row.type is None and "Bundle" in row.labels)
    counts = [facts.get("recordCount") for facts in heads if facts.get("documentId") == wanted]
    records = sum(count for count in counts if isinstance(count, int))
    return _Content(lambda: stored_parts(document.statements, wanted), records)


def prov_document(document: ExportInput, options: ExportOptions) -> ProvDocument:
    """Return a part of the graph as a document of the ``prov`` library.

    Raises:
        ConfigError: It has more records than ``options.library_limit``, or the library cannot hold one of them.
        InputError: There are several imported documents and none is asked for, or the one asked for is not there.
    """
    content = _content(document, options)
    if content.records > options.library_limit:
        raise ConfigError(
            f"{document.title or 'export'}: prov document: more than {options.library_limit} records",
            hint="export prov-json, which is written as a stream",
        )
    try:
        return to_prov(content.parts())
    except CANNOT_HOLD as error:
        raise ConfigError(f"{document.title or 'export'}: prov document: {ascii(str(error))[1:-1]}") from error


def export_prov(document: ExportInput, stream: TextIO, options: ExportOptions, form: Format) -> ExportReport:
    """Write a PROV document, read it back and compare, then let it reach the stream."""
    content = _content(document, options)
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_CHARACTERS, "w+", encoding="utf-8", newline="") as spool:
        by_library = content.records <= options.library_limit
        written = _write_by_library(content.parts, spool, options, form) if by_library else None
        writer = "stream" if written is None else "prov"
        if written is None:
            spool.seek(0)
            spool.truncate()
            written = _write_by_stream(content.parts, spool, options, form)
        spool.seek(0)
        size = 0
        while chunk := spool.read(_COPIED_CHARACTERS):
            size += len(chunk)
            stream.write(chunk)
    level = form.level if options.verify else None
    return ExportReport(form.name, written.records, size, options.verify, level, writer, notes=content.notes)


def _write_by_library(parts: Parts, spool: IO[str], options: ExportOptions, form: Format) -> Fingerprint | None:
    """Return what was written, ``None`` when the library cannot write it as it is."""
    stated = Fingerprinting()
    try:
        spool.write(library_text(stated.passing(parts()), form.library_name))
        spool.seek(0)
        written = stated.result()
        if options.verify and not _is_equal(written, fingerprint(form.read(spool, written.records)), form):
            return None
    except (*CANNOT_HOLD, InputError):
        return None
    return written


def _write_by_stream(parts: Parts, spool: IO[str], options: ExportOptions, form: Format) -> Fingerprint:
    """Return what was written.

    Raises:
        ProvstoreError: It reads back differently.
    """
    stated = Fingerprinting()
    form.write(stated.passing(parts()), spool, "" if options.verify else "not verified")
    written = stated.result()
    if options.verify:
        spool.seek(0)
        if not _is_equal(written, fingerprint(form.read(spool, None)), form):
            spool.seek(0)
            raise _altered(form, strict_diff(parts(), form.read(spool, None)))
    return written


def _altered(form: Format, found: Difference) -> ProvstoreError:
    orders = (f"another order in {bundle or 'document'}" for bundle in found.reordered[:3])
    differences = "; ".join((*found.first[:3], *orders))
    return ProvstoreError(
        f"{form.name}: export: what was written reads back differently, so nothing was kept: {differences}"
    )


def _is_equal(one: Fingerprint, other: Fingerprint, form: Format) -> bool:
    same = (one.records, one.bundles, one.content) == (other.records, other.bundles, other.content)
    return same and (form.level != "exact" or one.order == other.order)
