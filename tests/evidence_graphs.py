"""Evidence put into a graph, and changed there by whoever can write to it: raw Cypher through the engine's own door."""

from __future__ import annotations

import os
from collections.abc import Callable

from provstore.graph.evidence_facts import bundle_block, record_block
from provstore.model.evidence import EvidenceLog
from provstore.stores import GraphStore, open_store

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
