"""The waist into the graph: facts in columns (``Block``), and their row view (``Statement``).

A block is what one source file states. Every fact in it is idempotent: writing a block twice changes nothing, and the
order of blocks does not matter. A value that is absent never erases one that is present.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Scalar = str | int | float | bool
Value = Scalar | list[str] | list[int] | list[float] | list[bool]
Column: TypeAlias = "Sequence[Value | None] | array[int] | array[float]"

UNIQUE_KEY: Mapping[str, str] = {
    "Element": "iri",
    "Description": "recordKey",
    "Statement": "recordKey",
    "Bundle": "key",
    "AttributeKey": "key",
    "Signature": "key",
    "Stack": "key",
    "Run": "key",
    "Applied": "key",
}
"""Base label → the property that identifies its nodes. Every node has exactly one base label."""

CAPTURED_RELATIONS = (
    "WAS_GENERATED_BY",
    "USED",
    "WAS_INFORMED_BY",
    "WAS_STARTED_BY",
    "WAS_ENDED_BY",
    "WAS_INVALIDATED_BY",
    "WAS_DERIVED_FROM",
    "WAS_ATTRIBUTED_TO",
    "WAS_ASSOCIATED_WITH",
    "ACTED_ON_BEHALF_OF",
    "WAS_INFLUENCED_BY",
    "ALTERNATE_OF",
    "SPECIALIZATION_OF",
    "MENTION_OF",
    "HAD_MEMBER",
)
"""PROV relations, always effect → cause."""

STRUCTURE_RELATIONS = ("CALL_OF", "DESCRIBES", "SUBJECT", "OBJECT", "ARGUMENT", "IDENTIFIES")
"""Never exported as records: ``CALL_OF`` leads from a call whose record sits on its output to its activity; the others
are parts of the mapping of imported PROV documents."""

DERIVED_RELATIONS = (
    "SAME_AS",
    "DERIVED_MESSAGE",
    "DERIVED_GENERATED_BY",
    "DERIVED_PROGRAM_ORDER",
    "DERIVED_STARTED_BY",
    "DERIVED_INFLUENCED_BY",
    "VIA_ACTIVITY",
    "FOLLOWED_PLAN",
    "IN_ACTIVITY",
    "STARTED_BY_ACTIVITY",
    "ENDED_BY_ACTIVITY",
)
"""What more than one file is needed to see; recomputed, never journalled (except ``VIA_ACTIVITY`` and after)."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """Many nodes of one kind: the same labels, the same columns."""

    labels: tuple[str, ...]
    """Base label first: a key of ``UNIQUE_KEY``; then the others, such as ``Entity``, ``Call``."""
    keys: Sequence[str]
    """Value of the base label's unique key, one a node; a key may repeat, the facts are then merged."""
    columns: Mapping[str, Column] = field(default_factory=dict)
    """Property → values, one a node, ``None`` = absent. One type a column."""

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, slots=True)
class Relations:
    """Many relationships of one type between nodes of two base labels, effect first."""

    type: str
    sources: Sequence[str]
    targets: Sequence[str]
    source_label: str = "Element"
    target_label: str = "Element"
    columns: Mapping[str, Column] = field(default_factory=dict)
    """Properties. Empty for captured facts, whose identity is (type, from, to); an imported record has ``recordKey``
    among them, which is then its identity, so that two equal records stay two."""

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True, slots=True)
class Statement:
    """One fact as a row: a node when ``target`` is ``None``, else a relationship."""

    labels: tuple[str, ...]
    """Of the node; for a relationship (source base label, target base label)."""
    key: str
    type: str | None = None
    target: str | None = None
    properties: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Block:
    """One accepted batch of facts."""

    run: str
    attempt: int
    nodes: tuple[Nodes, ...] = ()
    relations: tuple[Relations, ...] = ()
    replaces: str | None = None
    """Set on a derived block only: the scope (``run/attempt``) whose derived relationships it replaces. Its relations
    then carry the column ``scope`` with this value, and it is never journalled."""

    def __len__(self) -> int:
        return sum(map(len, self.nodes)) + sum(map(len, self.relations))

    def statements(self) -> Iterator[Statement]:
        """Yield the block's facts row by row, nodes first."""
        for nodes in self.nodes:
            for at, key in enumerate(nodes.keys):
                yield Statement(nodes.labels, key, properties=_row(nodes.columns, at))
        for relations in self.relations:
            ends = (relations.source_label, relations.target_label)
            for at, (source, target) in enumerate(zip(relations.sources, relations.targets)):
                yield Statement(ends, source, relations.type, target, _row(relations.columns, at))

    @staticmethod
    def from_statements(statements: Iterable[Statement], run: str = "", attempt: int = 0) -> Block:
        """Return the block that holds ``statements``; rows with the same labels, type and properties share columns."""
        kinds: dict[tuple[tuple[str, ...], str | None, tuple[str, ...]], list[Statement]] = {}
        for row in statements:
            kinds.setdefault((row.labels, row.type, tuple(sorted(row.properties))), []).append(row)
        nodes, relations = [], []
        for (labels, kind, names), rows in kinds.items():
            columns = {name: [row.properties[name] for row in rows] for name in names}
            if kind is None:
                nodes.append(Nodes(labels, [row.key for row in rows], columns))
            else:
                targets = [row.target or "" for row in rows]
                relations.append(Relations(kind, [row.key for row in rows], targets, labels[0], labels[1], columns))
        return Block(run, attempt, tuple(nodes), tuple(relations))


def _row(columns: Mapping[str, Column], at: int) -> dict[str, Value]:
    row = {}
    for name, column in columns.items():
        value = column[at]
        if value is not None:
            row[name] = value
    return row
