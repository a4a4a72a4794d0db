"""The embedded engine and Neo4j hold the same facts and answer every shipped query with the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import provstore
from provstore import cypher
from provstore.stores.dump import canonical_dump
from tests.simulator import Scenario, Shape3D, Style, simulate

_RUN = {"run": "job", "attempt": 0}
_WITH_STAND_INS = {"store/absent"}
"""Templates that a store fills in; they are no questions of their own."""
_OF_EVIDENCE = ("agents/", "evidence/", "evidence_bytes/")
"""Beginnings of the names of questions about what is signed or joined: nothing of this job is."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, neo4j_uri: str) -> Iterator[dict[str, provstore.Store]]:
    place = tmp_path_factory.mktemp("engines")
    scenario = Scenario("megatron", Shape3D(world=8, steps=1, tp=2, pp=2, micro=2), style=Style(prefix="rank_"))
    simulate(scenario).write(place / "dumps")
    _empty(neo4j_uri)
    uris = {"embedded": f"embedded:{place / 'store'}", "neo4j": neo4j_uri}
    stores = {name: provstore.open(uri, journal=place / name) for name, uri in uris.items()}
    for store in stores.values():
        store.ingest(place / "dumps", run="job")
    yield stores
    for store in stores.values():
        store.close()


def _empty(uri: str) -> None:
    import os

    import neo4j

    auth = (os.environ["PROVSTORE_NEO4J_USER"], os.environ["PROVSTORE_NEO4J_PASSWORD"])
    with neo4j.GraphDatabase.driver(uri, auth=auth) as driver:
        driver.execute_query("MATCH (n) DETACH DELETE n")


def _facts(store: provstore.Store) -> list[str]:
    return [line for line in canonical_dump(store._graph) if '"Applied"' not in line]


def test_both_engines_hold_equal_facts(pair: dict[str, provstore.Store]) -> None:
    embedded = _facts(pair["embedded"])
    assert len(embedded) > 500
    assert embedded == _facts(pair["neo4j"])


def _parameters(store: provstore.Store, name: str) -> dict[str, object]:
    """Return values that exist in the store for the parameters of a query."""
    call = store.query("dumps/calls").rows[5]
    output = next(r for r in store.query("dumps/calls").rows if str(r["iri"]).endswith("/in") and r["seq"] is not None)
    out = str(output["iri"]).removesuffix("in") + "out"
    iris = [row["iri"] for row in store.query("dumps/calls").rows[:20]] + [str(out).rsplit("/", 2)[0]]
    values: dict[str, object] = {
        **_RUN,
        "iri": out,
        "call": call["iri"],
        "p2p_seq": next((row["p2p_seq"] for row in store.query("dumps/calls").rows if row["seq"] is None), 0),
        "target": str(output["iri"]),
        "iris": iris,
        "rank": output["rank"],
        "ranks": [output["rank"]],
        "seq": output["seq"],
        "op_id": output["op_id"],
        "sha256": store.query("dumps/headers").rows[0]["sha256"],
        "document": "none",
        "bundles": ["none"],
        "keys": sorted({str(row[name.removeprefix("dumps/")[:-1]]) for row in store.query("dumps/calls").rows})
        if name in ("dumps/signatures", "dumps/stacks")
        else [],
    }
    return {key: values[key] for key in cypher.query(f"read/{name}").params}


_QUERIES = [
    name
    for query in cypher.names("read")
    if (name := query.removeprefix("read/")) not in _WITH_STAND_INS and not name.startswith(_OF_EVIDENCE)
]
_OF_RECORDINGS = {
    "dumps/captured_counts",
    "dumps/captured_messages",
    "lineage/checkpoint_uses",
    "targets/actions_of_call",
    "targets/tensor_states",
}
"""Questions about what was recorded live: of this job there are dumps alone."""
_MAY_BE_EMPTY = {
    *_OF_RECORDINGS,
    "collectives/disagreeing_ranks",
    "collectives/lagging_ranks",
    "collectives/unmatched_sends",
    "documents/attribute_keys",
    "documents/bundles",
    "documents/descriptions",
    "documents/list",
    "documents/relations",
    "documents/statements",
    "dumps/refused",
    "dumps/tensor_values",
    "targets/by_operation",
}


@pytest.mark.parametrize("name", _QUERIES)
def test_every_shipped_query_gives_equal_rows(name: str, pair: dict[str, provstore.Store]) -> None:
    given = _parameters(pair["embedded"], name)
    rows = {engine: _plain(store, name, given) for engine, store in pair.items()}
    assert rows["embedded"] == rows["neo4j"]
    assert rows["embedded"] or name in _MAY_BE_EMPTY


def _plain(store: provstore.Store, name: str, given: dict[str, object]) -> list[object]:
    """Return the rows; labels have no order, and a query that states none is compared as a set."""
    rows = []
    for row in store.query(name, **given).rows:
        if row.get("labels") == ["Applied"]:
            continue  # each store has a journal of its own
        changed = {key: sorted(value) if key.endswith("labels") else value for key, value in row.items()}  # type: ignore[type-var]
        rows.append({key: value for key, value in changed.items() if key != "journal"})
    ordered = "order: none" not in _text(name)
    return rows if ordered else sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def _text(name: str) -> str:
    return (Path(__file__).parents[2] / "cypher" / "read" / f"{name}.cypher").read_text()


def test_traces_and_diagnoses_are_equal(pair: dict[str, provstore.Store]) -> None:
    call = pair["embedded"].query("dumps/calls").rows[-1]
    answers = {}
    for engine, store in pair.items():
        up = store.trace(str(call["iri"])).to_dict()
        down = store.trace(str(call["iri"]), down=True).to_dict()
        told = store.diagnose().to_dict()
        del told["timing"]
        answers[engine] = (up, down, told)
    assert answers["embedded"] == answers["neo4j"]
    assert len(answers["embedded"][0]["nodes"]) > 100  # type: ignore[arg-type]


def test_neo4j_walks_lineage_from_a_unique_index_and_prunes(pair: dict[str, provstore.Store], neo4j_uri: str) -> None:
    import os

    import neo4j

    auth = (os.environ["PROVSTORE_NEO4J_USER"], os.environ["PROVSTORE_NEO4J_PASSWORD"])
    with neo4j.GraphDatabase.driver(neo4j_uri, auth=auth) as driver:
        for name in ("ancestors", "descendants"):
            text = "EXPLAIN " + cypher.query(f"read/lineage/{name}", "neo4j").text
            plan = repr(driver.execute_query(text, {"iri": "x"}).summary.plan)
            assert "NodeUniqueIndexSeek" in plan
            assert "VarLengthExpand(Pruning" in plan
            assert "VarLengthExpand(All)" not in plan
