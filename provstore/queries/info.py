"""What a store holds, counted."""

from __future__ import annotations

from collections import Counter

from provstore.cypher import query
from provstore.queries.rows import integer, texts
from provstore.stores import GraphStore


def node_counts(store: GraphStore) -> dict[str, int]:
    """Return how many nodes there are, by their labels joined with ``:`` in alphabetical order."""
    counts: Counter[str] = Counter()
    for row in store.run(query("read/store/counts")):
        counts[":".join(sorted(texts(row, "labels")))] += integer(row, "nodes")
    return dict(sorted(counts.items()))
