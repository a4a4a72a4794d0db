"""DOT, the picture language of Graphviz: one column a rank, causes above effects, culprits in red."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from provstore.exports import DEFAULTS, ExportInput, ExportOptions, ExportReport
from provstore.exports.graphs._picture import CULPRIT, PALETTE, Edge, Node, by_rank, picture

_SHAPES = {"activity": "box", "entity": "ellipse", "agent": "house"}
_ESCAPES = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "&#96;", "]": "&#93;", "\n": "\\n"}
)


def export(document: ExportInput, stream: TextIO, options: ExportOptions = DEFAULTS) -> ExportReport:
    """Draw a part of the graph as a DOT digraph; too large a part is folded and cut, and says so."""
    drawn = picture(document, options)
    names = {node.key: f"n{number}" for number, node in enumerate(drawn.nodes)}
    text = "\n".join(
        (
            "digraph provstore {",
            # Without newrank, Graphviz 2 fails on edges between columns.
            '  newrank=true; nodesep=0.3; ranksep=0.4; fontname="sans-serif";',
            '  node [style=filled, fillcolor=white, fontname="sans-serif"];',
            '  edge [fontname="sans-serif", fontsize=9, fontcolor="#555555", color="#555555", dir=back];',
            *_nodes(drawn.nodes, names),
            *(_edge(edge, names) for edge in drawn.edges),
            f"  legend [shape=note, label={_quoted(drawn.legend())}];",
            "}\n",
        )
    )
    stream.write(text)
    return ExportReport("dot", len(drawn.nodes), len(text), None, hidden=drawn.hidden)


def _nodes(nodes: tuple[Node, ...], names: dict[str, str]) -> Iterator[str]:
    for rank, of_rank in by_rank(nodes):
        if rank is None:
            continue
        yield f'  subgraph cluster_{rank} {{ label="rank {rank}"; color="{PALETTE[rank % len(PALETTE)]}";'
        yield from (f"    {_node(node, names)}" for node in of_rank)
        yield "  }"
    yield from (f"  {_node(node, names)}" for node in nodes if node.rank is None)


def _node(node: Node, names: dict[str, str]) -> str:
    fill = "" if node.rank is None else f', fillcolor="{PALETTE[node.rank % len(PALETTE)]}"'
    line = f', color="{CULPRIT}", penwidth=3' if node.is_highlighted else ""
    return f"{names[node.key]} [label={_quoted(node.label)}, shape={_SHAPES[node.shape]}{fill}{line}];"


def _edge(edge: Edge, names: dict[str, str]) -> str:
    """Return an edge from cause to effect drawn backwards: causes stand above, below the name of their column."""
    style = ", style=dashed" if edge.is_derived else ""
    return f"  {names[edge.target]} -> {names[edge.source]} [label={_quoted(edge.label)}{style}];"


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
