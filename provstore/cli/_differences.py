"""What a check found to differ, in words: node and property where both sides know a node, else which side has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from provstore.model.dump_lines import DumpLine
    from provstore.model.report import Difference

_VALUE_CHARACTERS = 80


def differing(found: Sequence[Difference], *, is_cut: bool) -> Iterator[str]:
    """Yield a line for each property, node or relationship that differs.

    Args:
        found: What differs; what both sides say of one node stands together.
        is_cut: More differ than are given, so that the other side of the last one may be missing.
    """
    from provstore.model.dump_lines import read

    at = 0
    while at < len(found):
        one, line = found[at], read(found[at].line)
        other = found[at + 1] if at + 1 < len(found) else None
        if other is not None and other.side != one.side and line.is_node and read(other.line).subject == line.subject:
            graph, journal = (line, read(other.line)) if one.side == "graph" else (read(other.line), line)
            yield from _properties(graph, journal)
            at += 2
            continue
        at += 1
        if is_cut and other is None and line.is_node:
            return
        yield f"only in the {one.side}: {'node ' if line.is_node else ''}{line.subject}"


def _properties(graph: DumpLine, journal: DumpLine) -> Iterator[str]:
    head = f"node {graph.subject}: "
    if graph.labels != journal.labels:
        yield f"{head}labels are {_short(graph.labels)} in the graph, {_short(journal.labels)} in the journal"
    for name in sorted({*graph.properties, *journal.properties}):
        if name not in journal.properties:
            yield f"{head}{name} is {_short(graph.properties[name])} in the graph, and not in the journal"
        elif name not in graph.properties:
            yield f"{head}{name} is not in the graph, and {_short(journal.properties[name])} in the journal"
        elif _spelled(graph.properties[name]) != _spelled(journal.properties[name]):
            sides = graph.properties[name], journal.properties[name]
            yield f"{head}{name} is {_short(sides[0])} in the graph, {_short(sides[1])} in the journal"


def _spelled(value: object) -> str:
    return orjson.dumps(value).decode()


def _short(value: object) -> str:
    text = _spelled(value)
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[:_VALUE_CHARACTERS]}… ({len(text)} characters)"
