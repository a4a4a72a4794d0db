"""Putting a server's graph right: what is not as it was recorded is removed, so that a replay brings it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from provstore.analysis.evidence.facts import NO_ID, Difference, Identity, differences
from provstore.cypher import Query, named, query
from provstore.ingest.upkeep import replay
from provstore.journal import Journal
from provstore.model.block import UNIQUE_KEY
from provstore.queries.info import is_shared
from provstore.stores import GraphStore
from provstore.stores.dump import apart
from provstore.stores.facts import batches

_BATCH_ROWS = 5_000


class AlterableStore(GraphStore, Protocol):
    """A store whose graph can be changed past its journal."""

    def alter(self, query: Query, parameters: Mapping[str, object] = ...) -> object:
        """Run a writing query."""
        ...


def forget_what_differs(store: AlterableStore, journal: Journal, empty: GraphStore) -> list[str]:
    """Remove every node and relationship that is not what the journal gives; return what had to stay, in words.

    What other journals have put into the same server cannot be told from what somebody added, so such a graph is left.

    Args:
        store: The graph.
        journal: Its journal.
        empty: An empty store, filled here.
    """
    if is_shared(store):
        return ["the server holds facts of other journals: what is not as recorded was left as it is"]
    replay(empty, journal, on_problem=lambda _: None)
    both = apart(empty, store)
    found = list(differences(both.left, both.right))
    nodes, relations, left = _sorted(found)
    for label, keys in nodes.items():
        text = named(query("write/forget_nodes"), {"BASE_LABEL": label})
        for batch in batches(keys, _BATCH_ROWS):
            store.alter(text, {"keys": batch})
    for (source, target), rows in relations.items():
        text = named(query("write/forget_relations"), {"SOURCE_LABEL": source, "TARGET_LABEL": target})
        for some in batches(rows, _BATCH_ROWS):
            store.alter(text, {"rows": some})
    return left


def _sorted(
    found: Sequence[Difference],
) -> tuple[dict[str, list[str]], dict[tuple[str, str], list[dict[str, str]]], list[str]]:
    """Return keys by base label, relationships by the labels of their ends, and what has no key to be found by."""
    nodes: dict[str, list[str]] = {}
    relations: dict[tuple[str, str], list[dict[str, str]]] = {}
    left = []
    for identity in dict.fromkeys(one.fact.identity for one in found):
        if not _has_keys(identity):
            left.append("a node or relationship without a key stays: nothing names it")
        elif len(identity) == 2:
            nodes.setdefault(identity[0], []).append(identity[1])
        else:
            kind, source_label, source, target_label, target = identity
            row = {"relation": kind, "source": source, "target": target}
            relations.setdefault((source_label, target_label), []).append(row)
    return nodes, relations, list(dict.fromkeys(left))


def _has_keys(identity: Identity) -> bool:
    labels = identity[:1] if len(identity) == 2 else identity[1::2]
    return NO_ID not in identity and all(label in UNIQUE_KEY for label in labels)
