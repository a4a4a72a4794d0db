"""PROV-JSON, grouped by record kind; read back equal but for the order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, TextIO

from prov.model import ProvDocument

from provstore.exports import DEFAULTS, ExportInput, ExportOptions, ExportReport
from provstore.exports.graphs._prov_document import Format, export_prov, prov_document
from provstore.exports.graphs._prov_json_writer import write_prov_json
from provstore.graph.prov_json_text import parse_prov_json
from provstore.model.prov import Part


def export(document: ExportInput, stream: TextIO, options: ExportOptions = DEFAULTS) -> ExportReport:
    """Write a run or an imported document as PROV-JSON."""
    return export_prov(document, stream, options, _FORMAT)


def to_prov(document: ExportInput, options: ExportOptions = DEFAULTS) -> ProvDocument:
    """Return a run or an imported document as a ``prov.model.ProvDocument``.

    Raises:
        ConfigError: It has too many records for the library, or holds one that the library cannot.
    """
    return prov_document(document, options)


def _read(text: IO[str], _: int | None) -> Iterable[Part]:
    return parse_prov_json(text, "the export")


_FORMAT = Format("prov-json", "multiset", "json", write_prov_json, _read)
