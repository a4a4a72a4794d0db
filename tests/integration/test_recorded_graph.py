"""What was recorded stands in the graph of every engine alike, and never among the ancestors of a tensor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from captures import FULL, RankCapture, floats

from provstore.analysis.evidence import projection_differences
from provstore.analysis.evidence.facts import Difference
from provstore.api.recording import record
from provstore.cypher import query
from provstore.ingest.upkeep import replay
from provstore.journal import Journal
from provstore.queries.describe import describe
from provstore.queries.evidence import stored_evidence
from provstore.queries.lineage import trace
from provstore.stores import GraphStore
from tests.conftest import Place
from tests.evidence_graphs import door

BASE = "https://w3id.org/provstore/id/job/0"
SCOPE = {"run": "job", "attempt": 0}
ESCALATION = {
    "t": "escalation", "event": "opened", "epoch": 0, "number": 0, "trigger": "non-finite", "source": "rank:0",
    "scope": "group:0", "rule": "P2", "opened_ns": 5, "opened_step": 1,
}  # fmt: skip
CLOSED = ESCALATION | {"event": "closed", "closed_ns": 9, "closed_step": 70, "close_reason": "clear"}


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journal]:
    """One rank: a call, one that is escalated and kept whole, a gradient that it carries, a checkpoint."""
    place = tmp_path_factory.mktemp("recorded")
    capture = RankCapture(place / "c", world=2, header={"trace": {"trace_id": "abc"}})
    capture.begin(0)
    capture.call(0, **{"in": None})
    said = capture.call(0, policy=FULL, mode="full", escalations=["rank:0/esc-0"], finite_out=False)
    for side in ("in", "out"):
        capture.snapshot(said, side, floats(1.0, 2.0))
    capture.lines += [
        {"t": "tensor", "ordinal": 2, "epoch": 0, "step": 1, "at_ns": 7, "op": "tensor.grad", "name": "w.0",
         "class": "read", "policy": FULL, "mode": "validation", "shortfall": ["time-budget"], "finite": True,
         "shape": [2], "dtype": "float32", "carried_by": ["gloo/0@0-1/1/0"]},
        {"t": "checkpoint", "epoch": 0, "step": 1, "at_ns": 8, "action": "save", "uri": "s3://b/x",
         "files": [{"path": "a", "bytes": 1, "sha256": "a" * 64}]},
        ESCALATION,
        CLOSED,
    ]  # fmt: skip
    capture.end(0)
    record([capture.write()], journal=place / "journal", store="memory:")
    with Journal.open(place / "journal", writable=False) as opened:
        yield opened


@pytest.fixture
def graph(stores: Place, journal: Journal) -> GraphStore:
    store = stores.open()
    replay(store, journal)
    return store


def altered(graph: GraphStore, journal: Journal) -> list[Difference]:
    return list(projection_differences(journal.evidence("job", 0), stored_evidence(graph, "job", 0)))


def test_what_was_recorded_in_full_and_why(graph: GraphStore) -> None:
    rows = list(graph.run(query("read/evidence/recorded_in_full"), SCOPE))

    assert [(row["op"], row["seq"], row["policy_reason"], row["escalations"]) for row in rows] == [
        ("all_reduce", 1, "external escalation signal", ["rank:0/esc-0"]),
        ("checkpoint.save", None, "external mutation", None),
    ]


def test_recorded_modes_tells_of_actions_what_was_demanded_what_was_recorded_and_why(graph: GraphStore) -> None:
    rows = list(graph.run(query("read/evidence/recorded_modes"), SCOPE))
    told = {
        (row["policy_mode"], row["recorded_mode"], row["policy_reason"], row["rank"], row["records"])
        for row in rows
        if row["kind"] == "action"
    }

    assert told == {
        ("delta", "validation", "local mutation, low risk", 0, 1),
        ("full", "full", "external escalation signal", 0, 1),
        ("full", "validation", "external escalation signal", 0, 1),
        ("full", "full", "external mutation", 0, 1),
    }
    (bundle,) = [row for row in rows if row["kind"] == "epoch-bundle"]
    assert (bundle["policy_mode"], bundle["recorded_mode"]) == ("full", "validation")


def test_escalations_with_their_end_and_the_actions_that_they_deepened(graph: GraphStore) -> None:
    (row,) = graph.run(query("read/evidence/escalations"), SCOPE)

    assert (row["source"], row["trigger"], row["escalated"], row["opened_step"]) == (
        "rank:0",
        "non-finite",
        "group:0",
        1,
    )
    assert (row["closed_step"], row["close_reason"], row["actions"]) == (70, "clear", 1)


def test_a_trace_names_runs_and_what_was_recorded_of_them_in_words(graph: GraphStore) -> None:
    (above,) = trace(graph, "https://w3id.org/provstore/id/checkpoint/s3%3A%2F%2Fb%2Fx").nodes
    assert (above.label, above.run, above.attempt) == ("run job, attempt 0", "job", 0)

    more = [f"{BASE}/bundle/3", f"{BASE}/bundle/3/1", "https://w3id.org/provstore/id/agent/run/a%2Fb"]
    assert [one.label for one in describe(graph, more, {})] == [
        "recorded epoch 3 of run job, attempt 0", "recorded epoch 3 of run job, attempt 0, part 1", "agent run a/b",
    ]  # fmt: skip


def test_the_epochs_of_a_run(graph: GraphStore) -> None:
    (row,) = graph.run(query("read/evidence/epochs"), SCOPE)

    assert (row["train_epoch"], row["actions"], row["recorded_mode"], row["policy_mode"]) == (
        0,
        4,
        "validation",
        "full",
    )
    assert (row["missing_ranks"], row["is_ended"], row["trace_id"]) == ([1], True, "abc")
    assert set(row["shortfall"]) == {"capture-fault", "time-budget"}


def test_where_less_was_recorded_than_demanded(graph: GraphStore) -> None:
    rows = list(graph.run(query("read/evidence/shortfalls"), SCOPE))

    assert [
        (row["op"], row["policy_mode"], row["recorded_mode"], row["shortfall"], row["actions"]) for row in rows
    ] == [
        ("all_reduce", "delta", "validation", ["capture-fault"], 1),
        ("tensor.grad", "full", "validation", ["time-budget"], 1),
    ]


def test_an_action_leads_to_its_tensor_instance_rank_and_predecessor(graph: GraphStore) -> None:
    rows = graph.run(query("read/evidence_bytes/edges"), {"iris": [f"{BASE}/action/gloo/0@0-1/1/0"]})

    assert {(row["relation"], str(row["target"]).removeprefix(BASE)) for row in rows} == {
        ("USED", "/gloo/0@0-1/1/0/in"),
        ("WAS_INFLUENCED_BY", "/gloo/0@0-1/1"),
        ("WAS_INFLUENCED_BY", "/escalation/rank%3A0/esc-0"),
        ("WAS_INFORMED_BY", "/action/gloo/0@0-1/0/0"),
        ("WAS_ASSOCIATED_WITH", "/rank/0"),
    }


def test_a_gradient_is_an_ancestor_of_the_tensor_that_carries_it_and_no_action_is(graph: GraphStore) -> None:
    rows = list(graph.run(query("read/lineage/ancestors"), {"iri": f"{BASE}/gloo/0@0-1/1/0/in"}))

    found = [str(row["iri"]).removeprefix(BASE) for row in rows]

    assert "/tensor/0/1/w.0/grad" in found
    assert not any(iri.startswith("/action/") for iri in found)


def test_a_checkpoint_is_of_the_run(graph: GraphStore) -> None:
    rows = graph.run(
        query("read/evidence_bytes/edges"), {"iris": ["https://w3id.org/provstore/id/checkpoint/s3%3A%2F%2Fb%2Fx"]}
    )

    assert [(row["relation"], row["target"]) for row in rows] == [("WAS_GENERATED_BY", f"{BASE}/run")]


def test_the_graph_is_what_its_records_give(graph: GraphStore, journal: Journal) -> None:
    assert altered(graph, journal) == []


@pytest.mark.parametrize(
    "change",
    [
        "MATCH (a:Action {seq: 0}) SET a.recorded_mode = 'full'",
        "MATCH (a:Action {seq: 0}) REMOVE a.shortfall",
        "MATCH (a:Action {seq: 1})-[r:WAS_INFORMED_BY]->() DELETE r",
        "MATCH (a:Action {seq: 1}), (b:Action {seq: 0}) CREATE (b)-[:WAS_INFORMED_BY]->(a)",
        "MATCH (b:EpochBundle) SET b.actions = 5",
        "MATCH (a:Action {seq: 0}) DETACH DELETE a",
        "CREATE (a:Element:Activity:Action {iri: 'https://w3id.org/provstore/id/x', run: 'job', attempt: 0})",
    ],
)
def test_an_action_that_was_altered_in_the_graph_is_found(graph: GraphStore, journal: Journal, change: str) -> None:
    door(graph)(change)

    assert altered(graph, journal)
