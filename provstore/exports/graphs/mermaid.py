"""Mermaid flowchart, small enough for the renderers of Git hosts: one column a rank, culprits in red."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TextIO

from provstore.exports import DEFAULTS, ExportInput, ExportOptions, ExportReport
from provstore.exports.graphs._picture import CULPRIT, PALETTE, Node, Picture, by_rank, picture

MAX_CHARACTERS = 50_000
"""Renderers refuse a longer text by default."""

_SHAPES = {"activity": ("[", "]"), "entity": ("([", "])"), "agent": ("[/", "/]")}
_NOT_PLAIN = re.compile(r"[^\w ]")


def export(document: ExportInput, stream: TextIO, options: ExportOptions = DEFAULTS) -> ExportReport:
    """Draw a part of the graph as a Mermaid flowchart; too large a part is folded and cut, and says so."""
    drawn = picture(document, options, options.max_edges)
    text = _text(drawn)
    while len(text) > MAX_CHARACTERS and len(drawn.nodes) > 1:
        options = replace(options, max_nodes=max(1, len(drawn.nodes) * 3 // 4))
        drawn = picture(document, options, options.max_edges)
        text = _text(drawn)
    stream.write(text)
    return ExportReport("mermaid", len(drawn.nodes), len(text), None, hidden=drawn.hidden)


def _text(drawn: Picture) -> str:
    names = {node.key: f"n{number}" for number, node in enumerate(drawn.nodes)}
    lines = ["flowchart BT", *_nodes(drawn.nodes, names)]
    for edge in drawn.edges:
        arrow = "-.->" if edge.is_derived else "-->"
        lines.append(f'  {names[edge.source]} {arrow}|"{_escaped(edge.label)}"| {names[edge.target]}')
    lines.append(f'  legend["{"<br/>".join(map(_escaped, drawn.legend().splitlines()))}"]')
    ranks = sorted({node.rank % len(PALETTE) for node in drawn.nodes if node.rank is not None})
    lines += [f"  classDef rank{rank} fill:{PALETTE[rank]}" for rank in ranks]
    lines.append(f"  classDef culprit stroke:{CULPRIT},stroke-width:4px")
    bright = [names[node.key] for node in drawn.nodes if node.is_highlighted]
    if bright:
        lines.append(f"  class {','.join(bright)} culprit")
    return "\n".join(lines) + "\n"


def _nodes(nodes: tuple[Node, ...], names: dict[str, str]) -> Iterator[str]:
    for rank, of_rank in by_rank(nodes):
        if rank is None:
            yield from (f"  {_node(node, names)}" for node in of_rank)
        else:
            yield f'  subgraph column{rank}["rank {rank}"]'
            yield from (f"    {_node(node, names)}:::rank{rank % len(PALETTE)}" for node in of_rank)
            yield "  end"


def _node(node: Node, names: dict[str, str]) -> str:
    left, right = _SHAPES[node.shape]
    return f'{names[node.key]}{left}"{"<br/>".join(map(_escaped, node.label.split(chr(10))))}"{right}'


def _escaped(text: str) -> str:
    """Return ``text`` with everything but letters, digits, ``_`` and spaces as a numeric entity of Mermaid."""
    return _NOT_PLAIN.sub(lambda found: f"#{ord(found[0])};", text)
