"""What exports of PROV documents share: which facts they hold, which writer serves, the check of what was written."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, TextIO

from prov.model import ProvDocument

from provstore.errors import ConfigError, InputError, ProvstoreError
from provstore.exports import ExportInput, ExportOptions, ExportReport
from provstore.exports.graphs._captured import captured_parts, is_captured
from provstore.exports.graphs._prov_library import CANNOT_HOLD, to_prov
from provstore.graph.prov_compare import Fingerprint, fingerprint, strict_diff
from provstore.graph.prov_stored import document_keys, stored_parts
from provstore.model.prov import Part, Record

_IN_MEMORY_CHARACTERS = 16 << 20
Parts = Callable[[], Iterable[Part]]


@dataclass(frozen=True, slots=True)
class Format:
    """How one PROV format is written and read back."""

    name: str
    level: str
    """Level at which what is read back must equal what was written: ``exact`` here means records and their order."""
    library_name: str
    write: Callable[[Iterable[Part], IO[str]], None]
    read: Callable[[IO[str], bool], Iterable[Part]]
    """Takes the text and whether the library wrote it."""


def graph_parts(document: ExportInput, options: ExportOptions) -> tuple[Parts, tuple[str, ...]]:
    """Return (the PROV document of a part of the graph, notes about what it leaves out).

    Captured facts are one document; else the input's only imported document, or the one asked for, is.

    Raises:
        InputError: There are several imported documents and none is asked for, or the one asked for is not there.
    """
    has_captured = options.document is None and any(map(is_captured, document.statements()))
    keys = document_keys(document.statements())
    if has_captured or (options.document is None and not keys):
        notes = (f"{len(keys)} imported documents are not part of it",) if keys else ()
        return lambda: captured_parts(document.statements), notes
    wanted = options.document if options.document is not None else keys[0]
    if wanted not in keys or (options.document is None and len(keys) > 1):
        raise InputError(f"{ascii(wanted)[1:-1]}: export: choose one of the imported documents {', '.join(keys)}")
    return lambda: stored_parts(document.statements, wanted), ()


def prov_document(document: ExportInput, options: ExportOptions) -> ProvDocument:
    """Return a part of the graph as a document of the ``prov`` library.

    Raises:
        ConfigError: It has more records than ``options.library_limit``, or the library cannot hold one of them.
        InputError: As :func:`graph_parts`.
    """
    parts, _ = graph_parts(document, options)
    records = sum(isinstance(part, Record) for part in parts())
    if records > options.library_limit:
        raise ConfigError(
            f"{document.title or 'export'}: prov document: {records} records are more than {options.library_limit}",
            hint="export prov-json, which is written as a stream",
        )
    try:
        return to_prov(parts())
    except CANNOT_HOLD as error:
        raise ConfigError(f"{document.title or 'export'}: prov document: {ascii(str(error))[1:-1]}") from error


def export_prov(document: ExportInput, stream: TextIO, options: ExportOptions, form: Format) -> ExportReport:
    """Write a PROV document, read it back and compare, then let it reach the stream."""
    parts, notes = graph_parts(document, options)
    records = sum(isinstance(part, Record) for part in parts())
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_CHARACTERS, "w+", encoding="utf-8", newline="") as spool:
        writer, verified = _write(parts, spool, options, form, records)
        spool.seek(0, 2)
        size = spool.tell()
        spool.seek(0)
        shutil.copyfileobj(spool, stream)
    level = form.level if verified else None
    return ExportReport(form.name, records, size, verified, level, writer, notes=notes)


def _write(parts: Parts, spool: IO[str], options: ExportOptions, form: Format, records: int) -> tuple[str, bool]:
    """Return (the writer that served, whether its text was read back and found equal)."""
    expected = fingerprint(parts()) if options.verify else None
    if records <= options.library_limit and _write_by_library(parts, spool, form, expected):
        return "prov", options.verify
    spool.seek(0)
    spool.truncate()
    form.write(parts(), spool)
    if expected is None:
        return "stream", False
    spool.seek(0)
    if not _is_equal(expected, fingerprint(form.read(spool, False)), form):
        spool.seek(0)
        found = strict_diff(parts(), form.read(spool, False))
        raise ProvstoreError(
            f"{form.name}: export: what was written reads back differently, so nothing was kept: "
            + "; ".join((*found.first[:3], *(f"another order in {bundle!r}" for bundle in found.reordered[:3])))
        )
    return "stream", True


def _write_by_library(parts: Parts, spool: IO[str], form: Format, expected: Fingerprint | None) -> bool:
    """Return whether the library wrote the document as it is; many documents hold something that it alters."""
    try:
        spool.write(to_prov(parts()).serialize(format=form.library_name) or "")
        if expected is None:
            return True
        spool.seek(0)
        return _is_equal(expected, fingerprint(form.read(spool, True)), form)
    except (*CANNOT_HOLD, InputError):
        return False


def _is_equal(one: Fingerprint, other: Fingerprint, form: Format) -> bool:
    same = (one.records, one.bundles, one.content) == (other.records, other.bundles, other.content)
    return same and (form.level != "exact" or one.order == other.order)
