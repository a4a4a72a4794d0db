"""One journal of agents' evidence and a recorded run, two engines: equal facts, equal joins, equal answers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import provstore
from provstore import cypher
from provstore.api.recording import record
from provstore.graph.recorded_ids import checkpoint_iri
from provstore.stores.dump import canonical_dump
from tests.agent_records import Emitter, action, lines, linked

TRACE = "463ac35c9f6413ad48485a3953bb6124"
CHECKPOINT = "file:///checkpoints/step-10"
QUERIES = [name.removeprefix("read/") for name in cypher.names("read/agents")]


def _agents() -> bytes:
    emitter = Emitter("agent-key-01")
    head = {"schema_version": "aep/v0.5", "run_id": "agent-run-7", "trace_id": TRACE}
    told = [action(0), action(1, "submit", parent_action_id="action-0", evidence_refs=["train-run://run-42"])]
    context = {"agent_id": "launcher", "delegation_chain": ["gateway"]}
    records = [
        {**head, "created_at_ms": at, "run_context": context, "actions": told[: at + 1], "input_refs": [{"uri": "d:1"}]}
        for at in range(2)
    ]
    return lines([emitter.signed(one) for one in linked(records)])


def _capture(folder: Path) -> Path:
    """Return what a live job of one rank left behind."""
    said: list[dict[str, object]] = [
        {"t": "header", "schema": "provstore-capture/1", "run": "run-42", "attempt": 0, "rank": 0, "world_size": 1,
         "trace": {"trace_id": TRACE}},
        {"t": "epoch", "epoch": 0, "step": 0, "at_ns": 1},
        {"t": "checkpoint", "epoch": 0, "step": 10, "at_ns": 2, "uri": CHECKPOINT, "action": "save"},
        {"t": "epoch-end", "epoch": 0, "step": 10, "at_ns": 3, "closed": True, "reason": "end"},
        {"t": "end", "reason": "end", "at_ns": 4},
    ]  # fmt: skip
    folder.mkdir()
    (folder / "capture-rank0.jsonl").write_text("".join(json.dumps(one) + "\n" for one in said))
    return folder


def _legacy() -> str:
    one = {
        "action_id": "r0:seq0", "rank": 0, "step": 0, "collective_type": "all_reduce", "recording_mode": "full",
        "tensor_input_digest": "0123456789abcdef", "tensor_output_digest": None, "delta_stats": {"mean": 0.5},
        "timestamp_ns": 1, "causal_chain_id": None, "parent_action_id": None,
    }  # fmt: skip
    head = {"schema_version": "train-aep/v0.1", "run_id": "run-42", "epoch": 0, "signature": None}
    return json.dumps({**head, "actions": [one, one]})


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, neo4j_uri: str) -> Iterator[dict[str, provstore.Store]]:
    import neo4j

    place = tmp_path_factory.mktemp("agents")
    (place / "agent.jsonl").write_bytes(_agents())
    (place / "legacy.json").write_text(_legacy())
    journal, embedded = place / "journal", f"embedded:{place / 'store'}"
    record([_capture(place / "capture")], store=embedded, journal=journal)
    with provstore.open(embedded, journal=journal) as store:
        store.ingest(place / "agent.jsonl", place / "legacy.json")
    auth = (os.environ["PROVSTORE_NEO4J_USER"], os.environ["PROVSTORE_NEO4J_PASSWORD"])
    with neo4j.GraphDatabase.driver(neo4j_uri, auth=auth) as driver:
        driver.execute_query("MATCH (n) DETACH DELETE n")
    with provstore.open(neo4j_uri, journal=journal):
        pass  # catches up with the journal, and gives it back
    uris = {"embedded": embedded, "neo4j": neo4j_uri}
    stores = {name: provstore.open(uri, journal=journal, read_only=True) for name, uri in uris.items()}
    yield stores
    for store in stores.values():
        store.close()


def test_both_engines_hold_equal_facts_and_joins(pair: dict[str, provstore.Store]) -> None:
    dumps = {engine: list(canonical_dump(store._graph)) for engine, store in pair.items()}
    assert dumps["embedded"] == dumps["neo4j"]
    assert sum("DERIVED_STARTED_BY" in line for line in dumps["neo4j"]) == 1
    assert sum("DERIVED_INFLUENCED_BY" in line for line in dumps["neo4j"]) == 1


@pytest.mark.parametrize("name", QUERIES)
def test_every_question_about_agents_gives_equal_rows(name: str, pair: dict[str, provstore.Store]) -> None:
    values: dict[str, object] = {
        "run": "run-42",
        "attempt": 0,
        "agent_run": "agent-run-7",
        "trace_id": TRACE,
        "iri": checkpoint_iri(CHECKPOINT),
    }
    given = {key: values[key] for key in cypher.query(f"read/{name}").params}
    answers = {engine: store.query(name, **given).rows for engine, store in pair.items()}
    assert answers["embedded"] == answers["neo4j"]
    assert answers["embedded"]


def test_every_question_about_agents_says_what_an_empty_answer_means() -> None:
    assert QUERIES
    assert all(cypher.query(f"read/{name}").none for name in QUERIES)
