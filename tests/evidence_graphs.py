"""Evidence put into a graph, and changed there by whoever can write to it: raw Cypher through the engine's own door."""

from __future__ import annotations

import os
from collections.abc import Callable

from provstore.analysis.evidence import Covers, attributed, differences, projection_differences
from provstore.graph.evidence_facts import bundle_block, record_block
from provstore.ingest.upkeep import replay
from provstore.journal import Journal
from provstore.model.evidence import EvidenceLog
from provstore.model.verification import EvidenceFinding
from provstore.queries.evidence import stored_evidence
from provstore.stores import GraphStore, open_store
from provstore.stores.dump import canonical_dump

Change = Callable[..., None]
"""Takes one statement of Cypher and its parameters."""


def put(store: GraphStore, log: EvidenceLog, *, journal: str = "") -> None:
    """Write the nodes that a log's bytes give, as ingest and seal do."""
    lines = [record.line for record in log.records()]
    store.write(record_block(log.run, log.attempt, 0, lines, journal_ref=journal and f"{journal}/1"))
    for bundle in log.bundles():
        block = bundle_block(
            log.run, log.attempt, bundle.envelope, bundle.checkpoint, journal_ref=journal and f"{journal}/2"
        )
        store.write(block)


def filled(log: EvidenceLog) -> GraphStore:
    """Return a graph in memory that holds a log."""
    store = open_store("memory:", writable=True)
    put(store, log)
    return store


def door(store: GraphStore) -> Change:
    """Return a function that runs writing Cypher in a store, past everything that provstore checks."""
    if store.about["engine"] == "Neo4j":
        return _server_door(store)
    graph = store._graph

    def change(text: str, **parameters: object) -> None:
        graph.cypher(text, params=parameters)
        store._is_dirty = True

    return change


def _server_door(store: GraphStore) -> Change:
    import neo4j

    uri = store._uri
    auth = (os.environ["PROVSTORE_NEO4J_USER"], os.environ["PROVSTORE_NEO4J_PASSWORD"])

    def change(text: str, **parameters: object) -> None:
        with neo4j.GraphDatabase.driver(uri, auth=auth) as driver:
            driver.execute_query(text, parameters)

    return change


def against_own_bytes(store: GraphStore, run: str, attempt: int = 0) -> list[EvidenceFinding]:
    """Compare the nodes of evidence with the signed bytes that the same graph holds."""
    log = stored_evidence(store, run, attempt)
    covers = Covers()
    covers.add(log)
    return attributed(projection_differences(log, log), (), covers)


def against_journal(store: GraphStore, journal: Journal) -> list[EvidenceFinding]:
    """Compare all facts of a graph, derived ones included, with those that its journal gives."""
    empty = open_store("memory:", writable=True)
    replay(empty, journal)
    covers = Covers()
    for scope in journal.scopes():
        covers.add(journal.evidence(*scope))
    return attributed(differences(canonical_dump(empty), canonical_dump(store)), journal.blocks(), covers)
