"""A part of the graph as an object of the ``prov`` library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provstore.exports import ExportInput, ExportOptions

if TYPE_CHECKING:
    from prov.model import ProvDocument


def prov_document(document: ExportInput, options: ExportOptions | None = None) -> ProvDocument:
    """Return a part of the graph as a document of the ``prov`` library.

    Raises:
        prov.Error: The library cannot hold a record.
    """
    from provstore.exports.graphs._prov_document import graph_parts
    from provstore.exports.graphs._prov_library import to_prov

    parts, _ = graph_parts(document, options or ExportOptions())
    return to_prov(parts())
