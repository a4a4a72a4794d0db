"""PROV-N, the notation for people; read back equal, order included."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import IO, TextIO

from prov.model import ProvDocument

from provstore.exports import DEFAULTS, ExportInput, ExportOptions, ExportReport
from provstore.exports.graphs._prov_document import Format, export_prov
from provstore.exports.graphs._prov_n_writer import write_prov_n
from provstore.graph.prov_n_text import parse_prov_n_lines
from provstore.graph.prov_objects import document_parts
from provstore.model.prov import Part


def export(document: ExportInput, stream: TextIO, options: ExportOptions = DEFAULTS) -> ExportReport:
    """Write a run or an imported document as PROV-N."""
    return export_prov(document, stream, options, _FORMAT)


def _read(text: IO[str], by_library: int | None) -> Iterable[Part]:
    """Read with the library what it wrote, but not much: its parser takes 10 kB of memory a record.

    Where the library wrote a string over several lines, our reader refuses, and our writer takes over.
    """
    if by_library is None or by_library > _PARSED_RECORDS:
        return parse_prov_n_lines(text, "the export")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return document_parts(ProvDocument.deserialize(content=text.read(), format="provn"))


_PARSED_RECORDS = 5_000
_FORMAT = Format("prov-n", "exact", "provn", write_prov_n, _read)
