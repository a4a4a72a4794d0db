"""A graph against the bytes it was made from: its own evidence, or everything that its journal holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from provstore.analysis.evidence import Covers, attributed, differences, projection_differences
from provstore.ingest.upkeep import replay
from provstore.journal import Journal, Problem
from provstore.model.verification import EvidenceFinding
from provstore.queries.evidence import stored_evidence
from provstore.stores import GraphStore
from provstore.stores.dump import canonical_dump


@dataclass(slots=True)
class GraphCheck:
    """What a comparison found."""

    findings: list[EvidenceFinding]
    """``graph-mismatch`` each, with node id and property, sorted."""
    compared: int = 0
    """Nodes and relationships of the graph that were looked at."""


def against_journal(store: GraphStore, journal: Journal, empty: GraphStore) -> GraphCheck:
    """Compare all facts of a graph, derived ones included, with those that its journal gives.

    Each difference names the record, epoch and key that cover the fact, or says that nothing does.

    Args:
        store: The graph.
        journal: Its journal, with which the graph is up to date.
        empty: An empty store, filled here.
    """
    unreadable: list[Problem] = []
    replay(empty, journal, on_problem=unreadable.append)
    covers = Covers()
    for scope in journal.scopes():
        covers.add(journal.evidence(*scope))
    checked = GraphCheck([])
    found = differences(canonical_dump(empty), _counted(canonical_dump(store), checked))
    checked.findings = attributed(found, journal.blocks(on_problem=unreadable.append), covers)
    return checked


def against_own_bytes(store: GraphStore, run: str, attempt: int) -> GraphCheck:
    """Compare the nodes of evidence of one attempt with the signed bytes that the same graph holds."""
    log = stored_evidence(store, run, attempt)
    covers = Covers()
    covers.add(log)
    findings = attributed(projection_differences(log, log), (), covers)
    return GraphCheck(findings, sum(1 for _ in log.listing()))


def _counted(lines: Iterable[str], checked: GraphCheck) -> Iterator[str]:
    for line in lines:
        checked.compared += 1
        yield line
