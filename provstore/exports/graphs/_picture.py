"""What a picture of the graph shows: nodes with short labels, folded and cut to what a reader can take in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from provstore.exports import ExportInput, ExportOptions
from provstore.exports.graphs._captured import CLASSES
from provstore.model.block import CAPTURED_RELATIONS, DERIVED_RELATIONS, Statement
from provstore.model.block import Value as Property

PALETTE = ("#cfe2f3", "#d9ead3", "#fff2cc", "#ead1dc", "#d0e0e3", "#fce5cd", "#d9d2e9", "#e6e6e6")
"""Fill of a rank's nodes: rank modulo eight."""
CULPRIT = "#cc0000"
"""Line of a node that is brought out."""

_SHOWN_RELATIONS = frozenset({*CAPTURED_RELATIONS, *DERIVED_RELATIONS})
_ASSOCIATION = "was associated with"
_SIDES = frozenset({"in", "out", "call"})
_OF_A_GROUP = frozenset({"Call", "Output", "Collective", "PointToPoint"})
# C0 and C1 controls, direction marks and overrides, line and paragraph separators, surrogates, byte order mark.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_LABEL_LENGTH = 80
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Node:
    """One visible node."""

    key: str
    label: str
    shape: str
    """``activity``, ``entity`` or ``agent``."""
    rank: int | None = None
    is_highlighted: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """One visible edge, effect first."""

    source: str
    target: str
    label: str
    is_derived: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture, and what it leaves out."""

    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    hidden_nodes: Mapping[str, int] = field(default_factory=dict)
    """Label → how many nodes are hidden or folded into another."""
    hidden_edges: int = 0
    associations: int = 0
    """Edges from an activity to one of its ranks, which are not drawn: the columns show them."""

    @property
    def hidden(self) -> int:
        """Nodes and edges left out."""
        return sum(self.hidden_nodes.values()) + self.hidden_edges

    def legend(self) -> str:
        """Return the text of the legend node, lines joined by line feeds."""
        lines = [self.title] if self.title else []
        if self.hidden_nodes:
            listed = ", ".join(f"{count:,} {label}" for label, count in sorted(self.hidden_nodes.items()))
            lines.append(f"{sum(self.hidden_nodes.values()):,} nodes hidden: {listed}")
        if self.hidden_edges:
            lines.append(f"{self.hidden_edges:,} edges hidden")
        if self.associations:
            lines.append(f"was associated with: shown as columns ({self.associations:,} edges)")
        return "\n".join(lines or ["nothing hidden"])


def picture(document: ExportInput, options: ExportOptions, max_edges: int | None = None) -> Picture:
    """Return the picture of a part of the graph, of at most ``options.max_nodes`` nodes.

    Too many nodes: what the ranks put into and get from an instance is folded into it. Still too many: those brought
    out stay, then the first ones; the rest is counted.
    """
    rows = _Rows(document, frozenset(options.highlight))
    nodes, hidden, home = rows.nodes, Counter[str](), {key: key for key in rows.nodes}
    if len(nodes) > options.max_nodes:
        home, hidden = rows.fold()
        nodes = rows.folded(home)
    shown = _first(nodes.values(), options.max_nodes, lambda node: node.is_highlighted)
    for key in nodes.keys() - {node.key for node in shown}:
        hidden[rows.class_of(key)] += 1
    visible = {node.key for node in shown}
    bright = {node.key for node in shown if node.is_highlighted}
    edges: dict[tuple[str, str, str], Edge] = {}
    total = associations = 0
    for edge in _edges(document.statements()):
        source, target = home.get(edge.source), home.get(edge.target)
        if source is None or target is None:
            continue
        if rows.is_rank(target) and edge.label == _ASSOCIATION:
            associations += 1
            continue
        total += 1
        is_inside = source == target and edge.source != edge.target
        if source in visible and target in visible and not is_inside:
            edges.setdefault((source, edge.label, target), replace(edge, source=source, target=target))
    limit = len(edges) if max_edges is None else max_edges
    drawn = _first(edges.values(), limit, lambda edge: edge.source in bright or edge.target in bright)
    title = visible_text(document.title)
    return Picture(title, tuple(shown), tuple(drawn), dict(hidden), total - len(drawn), associations)


def visible_text(text: str) -> str:
    """Return ``text`` with every control, direction mark and surrogate written as its code, such as U+202E."""
    return _UNSAFE.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)


def _first(items: Iterable[_Item], limit: int, comes_first: Callable[[_Item], bool]) -> list[_Item]:
    ordered = sorted(items, key=lambda item: not comes_first(item))
    return ordered[:limit]


def _edges(rows: Iterable[Statement]) -> Iterator[Edge]:
    for row in rows:
        if row.type in _SHOWN_RELATIONS and row.target is not None:
            label = row.type.lower().replace("_", " ")
            yield Edge(row.key, row.target, label, row.type in DERIVED_RELATIONS)


class _Rows:
    """The elements of the graph as nodes, in their order."""

    def __init__(self, document: ExportInput, highlight: frozenset[str]) -> None:
        elements: dict[str, Statement] = {}
        signatures: dict[str, Property] = {}
        for row in document.statements():
            if row.type is None and "Element" in row.labels:
                elements.setdefault(row.key, row)
            elif row.type is None and "Signature" in row.labels and "op" in row.properties:
                signatures[row.key] = row.properties["op"]
        self._elements = elements
        self._highlight = highlight
        self._group_names = document.groups
        self._ops: dict[str, str] = dict(document.operations)
        for key, row in elements.items():
            op = signatures.get(str(row.properties.get("signature")))
            if op is not None:
                self._ops[key] = self._ops[_instance(key)] = str(op)
        self.nodes = {key: self._node(row) for key, row in elements.items()}

    def class_of(self, key: str) -> str:
        """Return the most telling label of a node."""
        labels = self._elements[key].labels
        return min(set(labels) - CLASSES, default=min(set(labels) - {"Element"}, default="Element"))

    def is_rank(self, key: str) -> bool:
        """Return whether a node is one of the run's ranks."""
        return "Rank" in self._elements[key].labels

    def fold(self) -> tuple[dict[str, str], Counter[str]]:
        """Return (node → the node it is shown as, label → how many nodes are folded)."""
        home, folded = {}, Counter[str]()
        for key in self._elements:
            instance = _instance(key)
            home[key] = instance if instance in self._elements else key
            if home[key] != key:
                folded[self.class_of(key)] += 1
        return home, folded

    def folded(self, home: Mapping[str, str]) -> dict[str, Node]:
        """Return the nodes that are left, with what they stand for."""
        members: dict[str, list[str]] = {}
        for key, shown in home.items():
            members.setdefault(shown, []).append(key)
        nodes = {}
        for shown, keys in members.items():
            ranks = {self._elements[key].properties.get("rank") for key in keys if key != shown} - {None}
            node = self.nodes[shown]
            label = f"{node.label}\n{len(ranks)} ranks, {len(keys) - 1} tensors" if len(keys) > 1 else node.label
            nodes[shown] = replace(node, label=label, is_highlighted=any(key in self._highlight for key in keys))
        return nodes

    def _node(self, row: Statement) -> Node:
        rank = row.properties.get("rank")
        shape = next((name.lower() for name in ("Activity", "Agent") if name in row.labels), "entity")
        label = "\n".join(_cut(visible_text(line)) for line in (self._label(row), self._group(row)) if line)
        return Node(row.key, label, shape, rank if isinstance(rank, int) else None, row.key in self._highlight)

    def _label(self, row: Statement) -> str:
        facts = row.properties
        op = self._ops.get(row.key) or self._ops.get(_instance(row.key))
        number = facts.get("seq", facts.get("op_id", row.key.rsplit("/", 3)[-3] if _instance(row.key) else ""))
        rank = f"rank {facts['rank']} " if "rank" in facts else ""
        labels = set(row.labels)
        if labels & {"Call", "Output"}:
            return f"{rank}{op or 'call'} #{number} {facts.get('side', '')}".rstrip()
        if labels & {"Collective", "PointToPoint"}:
            return f"{rank}{op or ('collective' if 'Collective' in labels else 'message')} #{number}"
        if "Rank" in labels:
            return rank.strip()
        if "ProcessGroup" in labels:
            return f"group {_group_name(row)}"
        if labels - CLASSES:
            return f"{self.class_of(row.key)} {facts.get('file', row.key.rsplit('/', 1)[-1])}"
        return re.split(r"[/#]", row.key.rstrip("/#"))[-1] or row.key

    def _group(self, row: Statement) -> str:
        """Return what people call the group of a call or its activity, ``""`` when that is not known."""
        if not _OF_A_GROUP.intersection(row.labels):
            return ""
        key = row.key
        while key and key not in self._group_names:
            group = self._elements.get(key)
            if group is not None and "ProcessGroup" in group.labels:
                return _group_name(group)
            key = key.rpartition("/")[0]
        return self._group_names.get(key, "")


def _group_name(group: Statement) -> str:
    desc, name = group.properties.get("desc"), group.properties.get("name")
    return f"{desc} ({name})" if desc and name else str(desc or name or group.key.rsplit("/", 1)[-1])


def _cut(line: str) -> str:
    return line if len(line) <= _LABEL_LENGTH else f"{line[: _LABEL_LENGTH - 1]}…"


def _instance(key: str) -> str:
    """Return the id of the instance whose side ``key`` is, ``""`` when it is none."""
    parts = key.rsplit("/", 2)
    return parts[0] if len(parts) == 3 and parts[2] in _SIDES and parts[1].isdecimal() else ""


def by_rank(nodes: Iterable[Node]) -> list[tuple[int | None, list[Node]]]:
    """Return (rank, its nodes) in the order of ranks, those of no rank first."""
    columns: dict[int | None, list[Node]] = {}
    for node in nodes:
        columns.setdefault(node.rank, []).append(node)
    return sorted(columns.items(), key=lambda column: (column[0] is not None, column[0] or 0))
