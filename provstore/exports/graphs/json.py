"""JSON of nodes and relations with all their properties, as the graph holds them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TextIO

import orjson

from provstore.exports import DEFAULTS, ExportInput, ExportOptions, ExportReport
from provstore.model.block import Statement

_CONTROLS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""What JSON allows raw and a terminal obeys."""

SCHEMA = "provstore-graph/1"


def export(document: ExportInput, stream: TextIO, options: ExportOptions = DEFAULTS) -> ExportReport:
    """Write a part of the graph as one JSON object, a node or relation a line."""
    size = records = 0
    head = {"schema": SCHEMA, "title": document.title, "highlight": sorted(options.highlight)}
    for chunk, is_fact in _chunks(document, orjson.dumps(head).decode()[:-1]):
        text = _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", chunk)
        stream.write(text)
        size += len(text)
        records += is_fact
    return ExportReport("json", records, size, None)


def _chunks(document: ExportInput, head: str) -> Iterator[tuple[str, bool]]:
    """Yield (text, whether it is a fact)."""
    yield head, False
    for name, is_node in (("nodes", True), ("relations", False)):
        comma = f',"{name}":[\n'
        for row in document.statements():
            if (row.type is None) == is_node:
                yield comma + orjson.dumps(_node(row) if is_node else _relation(row)).decode(), True
                comma = ",\n"
        yield "]" if comma == ",\n" else f"{comma}]", False
    yield "}\n", False


def _node(row: Statement) -> dict[str, object]:
    return {"key": row.key, "labels": list(row.labels), "properties": dict(row.properties)}


def _relation(row: Statement) -> dict[str, object]:
    return {"type": row.type, "source": row.key, "target": row.target, "properties": dict(row.properties)}
