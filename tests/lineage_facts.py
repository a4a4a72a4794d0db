"""What a store holds of the lineage of calls: nodes with labels and properties, and what leads from one to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from provstore.cypher import adhoc
from provstore.queries.lineage import trace
from provstore.stores import GraphStore

KINDS = ("Collective", "PointToPoint", "Call", "Output", "Rank", "ProcessGroup")
FROM_A_RECORDING = "captured"
"""The one property that only a recording gives."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Ids are without what they all begin with."""

    labels: Mapping[str, tuple[str, ...]]
    properties: Mapping[str, Mapping[str, object]]
    relations: frozenset[tuple[str, str, str]]
    """What more than one dump is needed to see counts as if one had shown it."""

    def relations_of(self, kind: str) -> set[tuple[str, str]]:
        return {(source, target) for source, found, target in self.relations if found == kind}


def lineage_facts(store: GraphStore, base: str) -> Facts:
    labels, properties = {}, {}
    for kind in KINDS:
        text = f"MATCH (n:{kind}) RETURN n.iri AS iri, labels(n) AS labels, properties(n) AS facts ORDER BY iri"
        for row in store.run(adhoc(text)):
            iri = str(row["iri"]).removeprefix(base)
            labels[iri], properties[iri] = tuple(sorted(row["labels"])), dict(row["facts"])  # type: ignore[call-overload]
    text = "MATCH (a:Element)-[r]->(b:Element) RETURN a.iri AS a, type(r) AS kind, b.iri AS b ORDER BY a, kind, b"
    rows = [tuple(str(row[name]).removeprefix(base) for name in ("a", "kind", "b")) for row in store.run(adhoc(text))]
    told = {(a, kind.replace("DERIVED_GENERATED_BY", "WAS_GENERATED_BY"), b) for a, kind, b in rows}
    return Facts(labels, properties, frozenset(one for one in told if one[0] in labels and one[2] in labels))


def ancestors(store: GraphStore, iri: str, base: str, *, down: bool = False) -> set[str]:
    return {node.iri.removeprefix(base) for node in trace(store, base + iri, down=down).nodes}
