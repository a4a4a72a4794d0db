"""What two canonical dumps hold differently: nodes, labels, properties, and relationships with their number."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from provstore.model.block import UNIQUE_KEY

LABELS = "labels"
NO_ID = "a node without an id"
SHOWN_CHARACTERS = 80
Identity = tuple[str, ...]
"""(base label, key) of a node; (type, source label, source, target label, target) of a relationship."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A node, or as many equal relationships as there are."""

    identity: Identity
    labels: tuple[str, ...] = ()
    """Of a node, sorted."""
    properties: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_node(self) -> bool:
        """True for a node."""
        return len(self.identity) == 2

    @property
    def place(self) -> str:
        """The key of a node, or a relationship with both ends."""
        if self.is_node:
            return self.identity[1]
        kind, _, source, _, target = self.identity
        return f"({source})-[:{kind}]->({target})"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which a graph is not what was recorded."""

    fact: Fact
    """The node or relationship, as recorded where it was."""
    name: str | None
    """Property, or ``labels``; None when the whole fact is missing or extra."""
    text: str
    """What differs, in words."""
    is_extra: bool = False
    """True when the graph has more than was recorded."""

    @property
    def where(self) -> str:
        """Node id and property."""
        return self.fact.place if self.name is None else f"{self.fact.place} {self.name}"


def differences(recorded: Iterable[str], graph: Iterable[str]) -> Iterator[Difference]:
    """Yield in which facts a graph differs from the graph that its journal gives.

    Args:
        recorded: Canonical dump of the graph that the journal gives; lines in order, nodes before relationships.
        graph: Canonical dump of the graph that is judged.
    """
    lacking: dict[Identity, list[Fact]] = {}
    extra: dict[Identity, list[Fact]] = {}
    for side, line in compared_lines(iter(recorded), iter(graph)):
        if side is not None:
            fact = parsed(line)
            (lacking if side == "journal" else extra).setdefault(fact.identity, []).append(fact)
    for identity in sorted({*lacking, *extra}):
        yield from between(lacking.get(identity, []), extra.get(identity, []))


def between(recorded: Sequence[Fact], held: Sequence[Fact]) -> Iterator[Difference]:
    """Yield the differences between the facts of one identity on two sides; equal ones are taken off before."""
    for one, other in zip(recorded, held):
        yield from _within(one, other)
    for one in recorded[len(held) :]:
        yield Difference(one, None, "was recorded and is not in the graph" if one.is_node else _LACKS)
    for other in held[len(recorded) :]:
        yield Difference(other, None, _EXTRA, is_extra=True)


_LACKS = "was recorded and is not in the graph, or not as often"
_EXTRA = "is in the graph, or more often there, than what was recorded gives"


def compared_lines(recorded: Iterator[str], graph: Iterator[str]) -> Iterator[tuple[str | None, str]]:
    """Yield (None, line) for equal lines, else (the side that has it, line); nodes and relationships are each sorted.

    Both sides give nodes first; a line that begins as a relationship does ends the nodes.
    """
    left, right = next(recorded, None), next(graph, None)
    while left is not None or right is not None:
        if left == right and left is not None:
            yield None, left
            left, right = next(recorded, None), next(graph, None)
        elif right is None or (left is not None and _order(left) < _order(right)):
            yield "journal", left or ""
            left = next(recorded, None)
        else:
            yield "graph", right
            right = next(graph, None)


def _order(line: str) -> tuple[bool, str]:
    return not line.startswith('{"labels"'), line


def parsed(line: str) -> Fact:
    """Return the fact in a line of a canonical dump."""
    said: dict[str, Any] = json.loads(line)
    if "labels" in said:
        return node(said["labels"], said["properties"])
    source, target = said["from"], said["to"]
    identity = (said["type"], source[0], str(source[1]), target[0], str(target[1]))
    return Fact(identity, properties=said["properties"])


def node(labels: Iterable[str], properties: Mapping[str, object]) -> Fact:
    """Return the fact that a node is."""
    ordered = tuple(sorted(labels))
    bases = [label for label in ordered if label in UNIQUE_KEY]
    keyed = [(label, key) for label in bases if isinstance(key := properties.get(UNIQUE_KEY[label]), str)]
    return Fact(keyed[0] if keyed else (bases[0] if bases else "", NO_ID), ordered, properties)


def spelled(value: object) -> str:
    """Return a value in a spelling that tells every two values apart: 3 and 3.0, 0.0 and -0.0, true and 1."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _within(recorded: Fact, held: Fact) -> Iterator[Difference]:
    if recorded.labels != held.labels:
        yield Difference(recorded, LABELS, f"labels are {_short(held.labels)}, recorded are {_short(recorded.labels)}")
    for name in sorted({*recorded.properties, *held.properties}):
        if name not in held.properties:
            yield Difference(recorded, name, f"is gone; recorded is {_short(recorded.properties[name])}")
        elif name not in recorded.properties:
            yield Difference(recorded, name, f"is {_short(held.properties[name])}, and nothing recorded says so")
        elif spelled(recorded.properties[name]) != spelled(held.properties[name]):
            said, is_now = _short(recorded.properties[name]), _short(held.properties[name])
            yield Difference(recorded, name, f"is {is_now}, recorded is {said}")


def _short(value: object) -> str:
    text = spelled(value)
    if len(text) <= SHOWN_CHARACTERS:
        return text
    return f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters)"


def multiset_differences(recorded: Iterable[Fact], held: Iterable[Fact]) -> Iterator[Difference]:
    """Yield the differences between two heaps of facts in any order."""
    more: Counter[bytes] = Counter()
    known: dict[bytes, Fact] = {}
    for facts, step in ((recorded, 1), (held, -1)):
        for fact in facts:
            spelling = _packed(fact)
            known[spelling] = fact
            more[spelling] += step
    sides: dict[Identity, tuple[list[Fact], list[Fact]]] = {}
    for spelling in sorted(spelling for spelling, count in more.items() if count):
        count, fact = more[spelling], known[spelling]
        sides.setdefault(fact.identity, ([], []))[count < 0].extend([fact] * abs(count))
    for identity in sorted(sides):
        yield from between(*sides[identity])


def _packed(fact: Fact) -> bytes:
    """Return a fact in a spelling that tells every two facts apart; no recorded value is NaN or infinite."""
    return orjson.dumps((fact.identity, fact.labels, fact.properties), option=orjson.OPT_SORT_KEYS, default=repr)
