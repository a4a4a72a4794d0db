"""The canonical dump: all facts of a store as sorted canonical JSON lines, equal on every engine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from provstore.cypher import query
from provstore.model.block import UNIQUE_KEY
from provstore.stores import GraphStore
from provstore.stores.plain import properties


def canonical_dump(store: GraphStore) -> Iterator[str]:
    """Yield one line a node, then one a relationship, each in order of its text; journal positions are left out.

    All lines are held in memory to sort them: about 1 KiB a fact.
    """
    nodes = (_node(row) for row in store.run(query("read/store/nodes")) if "Applied" not in _labels(row["labels"]))
    yield from sorted(nodes)
    yield from sorted(_relation(row) for row in store.run(query("read/store/relations")))


def _node(row: Mapping[str, object]) -> str:
    return _line({"labels": _labels(row["labels"]), "properties": _properties(row["properties"])})


def _relation(row: Mapping[str, object]) -> str:
    ends = {
        "from": [_base(row["source_labels"]), row["source"]],
        "to": [_base(row["target_labels"]), row["target"]],
    }
    return _line({"type": row["type"], **ends, "properties": _properties(row["properties"])})


def _labels(held: object) -> list[str]:
    return sorted(map(str, held)) if isinstance(held, list) else []


def _base(labels: object) -> str:
    return next((label for label in _labels(labels) if label in UNIQUE_KEY), "")


def _properties(held: object) -> dict[str, object]:
    return properties(held) if isinstance(held, dict) else {}


def _line(fact: Mapping[str, object]) -> str:
    return json.dumps(fact, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
