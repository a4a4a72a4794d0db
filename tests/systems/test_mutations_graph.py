"""The 23 mutations of signed evidence, done by Cypher in the graph, are found from the graph alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provstore.evidence.verify.walk import verify
from provstore.model.verification import EXIT_OF, EvidenceFinding
from provstore.queries.evidence import stored_evidence
from provstore.stores import GraphStore, open_store
from tests.evidence_graphs import against_own_bytes, door, put
from tests.graph_mutations import statements
from tests.mutations import ANCHORS, MUTATIONS, Edit, Model, Mutation, build
from tests.sealing import RUN

LONG = os.environ.get("PROVSTORE_LONG") == "1"
ON_SERVER = {1, 6, 16, 23}
"""Mutations that every run does on a server too; the long run does all."""


@pytest.fixture(scope="module")
def model() -> Model:
    return build()


def named(mutation: Mutation) -> str:
    return f"{mutation.number} {mutation.name}"


@contextlib.contextmanager
def embedded(tmp_path: Path, model: Model, edits: list[Edit]) -> Iterator[GraphStore]:
    """A graph file that was filled, closed, changed by another program through the engine, and opened for reading."""
    import kglite

    uri = f"embedded:{tmp_path / 'store'}"
    with contextlib.closing(open_store(uri, writable=True)) as store:
        put(store, model.log)
    graph = kglite.open(str(tmp_path / "store" / "graph.kgl"), storage="mapped", durable="off")
    for text, given in statements(edits):
        graph.cypher(text, params=given)
    graph.close()
    with contextlib.closing(open_store(uri, writable=False)) as store:
        yield store


@contextlib.contextmanager
def on_server(uri: str, model: Model, edits: list[Edit]) -> Iterator[GraphStore]:
    """The same in a Neo4j database, changed through the official driver."""
    with contextlib.closing(open_store(uri, writable=True)) as store:
        put(store, model.log)
        change = door(store)
        for text, given in statements(edits):
            change(text, **given)
        yield store


def judged(store: GraphStore, model: Model) -> dict[str, list[EvidenceFinding]]:
    """Return what is found with each anchor, the nodes compared with their bytes included."""
    nodes = against_own_bytes(store, RUN)
    found = {}
    for setting in ANCHORS:
        checked = verify(stored_evidence(store, RUN, 0), model.trust, model.anchors(setting), source="graph")
        found[setting] = [*checked.findings, *nodes]
    return found


def require(mutation: Mutation, found: dict[str, list[EvidenceFinding]]) -> None:
    """Every code of the table appears in each setting, each finding names the run, and where it is."""
    for setting, findings in found.items():
        codes = {finding.code for finding in findings}
        assert mutation.expected(setting) <= codes, (setting, codes)
        assert {finding.run for finding in findings} <= {RUN}
        if setting in mutation.finds_nothing:
            faults = {code for code in codes if EXIT_OF.get(code, 1) in (1, 5, 7)}
            assert faults == set(), (setting, faults)
    if mutation.epoch is not None:
        placed = [finding for finding in found["none"] if finding.code in mutation.none]
        assert mutation.epoch in {finding.epoch for finding in placed}


def require_mismatch(name: str, found: dict[str, list[EvidenceFinding]]) -> None:
    """A property that its text does not give is named with node, run, epoch and number; nothing else is a fault."""
    for findings in found.values():
        (told,) = [finding for finding in findings if EXIT_OF.get(finding.code, 1) == 1]
        assert told.code == "graph-mismatch"
        assert told.where == f"https://w3id.org/provstore/id/{RUN}/0/record/70 {name}"
        assert (told.run, told.attempt, told.epoch, told.seq) == (RUN, 0, 1, 70)


NAMES_OF_PROPERTIES = {1: "name", 2: "at_ns", 3: "step", 4: "extra", 5: "step"}
ALONE = [mutation for mutation in MUTATIONS if mutation.properties is not None]


def test_the_untouched_model_is_clean_in_both_engines(tmp_path: Path, model: Model, empty_neo4j: str) -> None:
    for place in (embedded(tmp_path, model, []), on_server(empty_neo4j, model, [])):
        with place as store:
            for findings in judged(store, model).values():
                assert {finding.code for finding in findings} <= {"unanchored", "anchor-partial", "not-closed"}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=named)
def test_a_mutation_by_cypher_in_the_graph_file_gives_its_codes(
    mutation: Mutation, model: Model, tmp_path: Path
) -> None:
    with embedded(tmp_path, model, mutation.edits(model)) as store:
        require(mutation, judged(store, model))


@pytest.mark.parametrize("mutation", ALONE, ids=named)
def test_a_property_changed_alone_in_the_graph_file_is_a_mismatch(
    mutation: Mutation, model: Model, tmp_path: Path
) -> None:
    with embedded(tmp_path, model, _alone(mutation, model)) as store:
        require_mismatch(NAMES_OF_PROPERTIES[mutation.number], judged(store, model))


@pytest.mark.parametrize("mutation", [one for one in MUTATIONS if LONG or one.number in ON_SERVER], ids=named)
def test_a_mutation_by_cypher_on_a_server_gives_its_codes(mutation: Mutation, model: Model, empty_neo4j: str) -> None:
    with on_server(empty_neo4j, model, mutation.edits(model)) as store:
        require(mutation, judged(store, model))


@pytest.mark.parametrize("mutation", [one for one in ALONE if LONG or one.number in ON_SERVER], ids=named)
def test_a_property_changed_alone_on_a_server_is_a_mismatch(mutation: Mutation, model: Model, empty_neo4j: str) -> None:
    with on_server(empty_neo4j, model, _alone(mutation, model)) as store:
        require_mismatch(NAMES_OF_PROPERTIES[mutation.number], judged(store, model))


def _alone(mutation: Mutation, model: Model) -> list[Edit]:
    edits: Callable[[Model], list[Edit]] | None = mutation.properties
    assert edits is not None
    return edits(model)
