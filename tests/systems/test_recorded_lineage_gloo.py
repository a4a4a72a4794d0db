"""Lineage of a real job of four gloo ranks: its recording alone gives what its dumps give, and more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from provstore import open as open_store
from provstore.api.recording import record
from provstore.api.store import Store
from provstore.cypher import adhoc
from provstore.ingest.upkeep import check
from provstore.stores import open_store as open_graph
from tests.lineage_facts import FROM_A_RECORDING, Facts, ancestors, lineage_facts
from tests.torch_jobs import needs_hooks, run_script

JOB = Path(__file__).with_name("lineage_job.py")
ROOT = Path(__file__).parents[2]
WORLD, SICK_RANK = 4, 2
BASE = "https://w3id.org/provstore/id/job/0/"

pytestmark = needs_hooks


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    done = run_script(JOB, WORLD, folder)
    assert "codes [0, 0, 0, 0]" in done.stdout, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def recorded(job: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    place = f"embedded:{tmp_path_factory.mktemp('recorded')}"
    record([job / "capture"], store=place)
    with open_store(place) as store:
        yield store


@pytest.fixture(scope="module")
def of_dumps(job: Path) -> Iterator[Store]:
    with open_store("memory:") as store:
        store.ingest(job / "dumps", run="job")
        yield store


def without(facts: Facts, name: str) -> dict[str, dict[str, object]]:
    return {iri: {key: one for key, one in row.items() if key != name} for iri, row in facts.properties.items()}


def test_a_recording_alone_gives_the_calls_the_order_and_the_tensors_of_the_dumps(
    recorded: Store, of_dumps: Store
) -> None:
    found, expected = (lineage_facts(store._graph, BASE) for store in (recorded, of_dumps))

    assert len(expected.labels) > 300
    assert found.labels == expected.labels
    assert found.relations == expected.relations
    for iri, row in without(found, FROM_A_RECORDING).items():
        assert row.items() <= expected.properties[iri].items(), iri


def test_every_output_has_the_same_ancestors(recorded: Store, of_dumps: Store) -> None:
    outputs = [iri for iri, labels in lineage_facts(of_dumps._graph, BASE).labels.items() if iri.endswith("/2/out")]
    known = lineage_facts(of_dumps._graph, BASE).labels.keys()

    assert len(outputs) > 30
    for iri in outputs:
        # A recording knows gradients too.
        assert ancestors(recorded._graph, iri, BASE) & known == ancestors(of_dumps._graph, iri, BASE)


@pytest.mark.parametrize("first", ["capture", "dumps"])
def test_both_together_are_what_the_dumps_are_in_either_order(
    job: Path, of_dumps: Store, tmp_path: Path, first: str
) -> None:
    place = f"embedded:{tmp_path / 's'}"
    if first == "capture":
        record([job / "capture"], store=place)
    with open_store(place) as store:
        store.ingest(job / "dumps", run="job")
    if first == "dumps":
        record([job / "capture"], store=place)
    again = record([job / "capture"], store=place)
    with open_store(place) as store:
        assert store.ingest(job / "dumps", run="job").facts == 0
        assert store.info().position == again.position
        found, expected = (lineage_facts(one._graph, BASE) for one in (store, of_dumps))
        assert (found.labels, found.relations) == (expected.labels, expected.relations)
        assert without(found, FROM_A_RECORDING) == expected.properties
        assert check(store._graph, store.opened.journal, open_graph("memory:", writable=True)).differences == ()


def test_a_gradient_that_is_not_finite_leads_from_its_parameter_to_its_call_and_its_rank(recorded: Store) -> None:
    text = """MATCH (a:Action {op: 'tensor.grad', is_finite_out: false})-[:USED]->(t:TensorState)
              MATCH (t)<-[:WAS_DERIVED_FROM]-(i:Call)<-[:USED]-(c:Collective)
              RETURN DISTINCT t.iri AS iri, t.rank AS rank, t.name AS name, c.iri AS carrier ORDER BY iri, carrier"""
    rows = list(recorded._graph.run(adhoc(text)))

    assert {(row["rank"], row["name"]) for row in rows} == {(SICK_RANK, "weight"), (SICK_RANK, "bias")}
    (call,) = {str(row["carrier"]).removeprefix(BASE) for row in rows}
    down = ancestors(recorded._graph, str(rows[0]["iri"]).removeprefix(BASE), BASE, down=True)
    assert {f"{call}/{rank}/out" for rank in range(WORLD)} <= down
    assert str(rows[0]["iri"]).removeprefix(BASE) in ancestors(recorded._graph, f"{call}/0/out", BASE)
