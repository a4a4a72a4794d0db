"""One signed journal, two engines: equal facts, equal evidence byte for byte, equal answers about who signed what."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import provstore
from provstore import cypher
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.model.evidence import AgreedDigest, Observation
from provstore.queries.evidence import scopes, stored_evidence
from provstore.stores.dump import canonical_dump
from tests.evidence_graphs import against_journal, against_own_bytes, door
from tests.simulator import Scenario, Shape3D, Style, simulate

ENGINES = ("embedded", "neo4j")


@dataclass
class Pair:
    """The same journal in both engines."""

    stores: dict[str, provstore.Store]
    keyid: str
    place: Path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, neo4j_uri: str) -> Iterator[Pair]:
    place = tmp_path_factory.mktemp("engines")
    scenario = Scenario("megatron", Shape3D(world=8, steps=1, tp=2, pp=2, micro=2), style=Style(prefix="rank_"))
    simulate(scenario).write(place / "dumps")
    (place / "dumps" / "rank_8").write_bytes(b"not a dump")
    key = PrivateKey.generate()
    with provstore.open(f"embedded:{place / 'store'}", journal=place / "journal") as store:
        store.ingest(place / "dumps", run="job")
        store.seal(signer=key, run="job")
        store.record(
            [
                Observation("loss", {"value": float("nan"), "emoji": "\U0001f600\0"}, rank=3, step=7, at_ns=-1),
                AgreedDigest("parameters", "ab" * 32, rank=3, ranks=[3, 4], step=7),
            ],
            run="job",
        )
        store.seal(signer=key, run="job")
        store.record([Observation("late", {"value": 1})], run="job")
    _empty(neo4j_uri)
    with contextlib.ExitStack() as open_stores:
        with provstore.open(neo4j_uri, journal=place / "journal"):
            pass  # catches up with the journal, and gives it back
        uris = {"embedded": f"embedded:{place / 'store'}", "neo4j": neo4j_uri}
        stores = {
            name: open_stores.enter_context(provstore.open(uri, journal=place / "journal", read_only=True))
            for name, uri in uris.items()
        }
        yield Pair(stores, fingerprint(key.public_key), place)


def _empty(uri: str) -> None:
    import neo4j

    auth = (os.environ["PROVSTORE_NEO4J_USER"], os.environ["PROVSTORE_NEO4J_PASSWORD"])
    with neo4j.GraphDatabase.driver(uri, auth=auth) as driver:
        driver.execute_query("MATCH (n) DETACH DELETE n")


def test_both_engines_hold_equal_facts_of_a_signed_journal(pair: Pair) -> None:
    dumps = {engine: list(canonical_dump(store._graph)) for engine, store in pair.stores.items()}

    assert dumps["embedded"] == dumps["neo4j"]
    assert sum('"EvidenceBundle"' in line for line in dumps["neo4j"]) == 2
    assert any('"SigningKey"' in line for line in dumps["neo4j"])


def test_the_evidence_read_from_either_graph_is_that_of_the_journal_byte_for_byte(pair: Pair) -> None:
    journal = pair.stores["embedded"].opened.journal.evidence("job", 0)
    lines = [record.line for record in journal.records()]
    signed = [(bundle.envelope, bundle.checkpoint) for bundle in journal.bundles()]
    for store in pair.stores.values():
        held = stored_evidence(store._graph, "job", 0)
        assert scopes(store._graph) == [("job", 0)]
        assert held.store == journal.store
        assert [record.line for record in held.records()] == lines
        assert [(bundle.envelope, bundle.checkpoint) for bundle in held.bundles()] == signed
    assert len(signed) == 2
    assert len(lines) == 12


@pytest.mark.parametrize("engine", ENGINES)
def test_an_untouched_graph_is_what_its_journal_and_its_own_bytes_give(engine: str, pair: Pair) -> None:
    store = pair.stores[engine]

    assert against_journal(store._graph, store.opened.journal) == []
    assert against_own_bytes(store._graph, "job") == []


def _given(pair: Pair, name: str) -> list[dict[str, object]]:
    """Return parameters under which a question has an answer."""
    store = pair.stores["embedded"]
    if "iri" in cypher.query(f"read/{name}").params:
        call = str(store.query("dumps/calls").rows[-1]["iri"])
        dump = str(store.query("dumps/headers").rows[0]["iri"])
        if name == "evidence/records_of_dump":
            return [{"iri": dump}]
        record = "https://w3id.org/provstore/id/job/0/record/9"
        found = [{"iri": call}, {"iri": dump}, {"iri": record}]
        return found if name == "evidence/signers_of" else [*found, {"iri": call.rsplit("/", 2)[0]}]
    values: dict[str, object] = {"run": "job", "attempt": 0, "index": 9, "first": 2, "end": 8}
    values["iris"] = [f"https://w3id.org/provstore/id/job/0/{end}" for end in ("record/1", "epoch/0", "epoch/1")]
    return [{key: values[key] for key in cypher.query(f"read/{name}").params}]


_QUERIES = [
    name.removeprefix("read/") for topic in ("evidence", "evidence_bytes") for name in cypher.names(f"read/{topic}")
]
# No training was recorded here: test_recorded_graph.py asks these of a run that was, on every engine.
_OF_TRAINING = {
    f"evidence/{name}" for name in ("epochs", "escalations", "recorded_in_full", "shortfalls", "signals", "why_in_full")
}
_MAY_BE_EMPTY = {
    "evidence/stored_findings",
    "evidence_bytes/strays",
    "evidence_bytes/edges_from_outside",
} | _OF_TRAINING


@pytest.mark.parametrize("name", _QUERIES)
def test_every_question_about_evidence_gives_equal_rows(name: str, pair: Pair) -> None:
    for given in _given(pair, name):
        rows = {engine: _sorted(store.query(name, **given).rows) for engine, store in pair.stores.items()}

        assert rows["embedded"] == rows["neo4j"]
        assert rows["embedded"] or name in _MAY_BE_EMPTY


def _sorted(rows: tuple[dict[str, object], ...]) -> list[dict[str, object]]:
    return [{key: sorted(value) if key == "labels" else value for key, value in row.items()} for row in rows]  # type: ignore[type-var]


@pytest.mark.parametrize("engine", ENGINES)
def test_questions_about_evidence_tell_what_happened(engine: str, pair: Pair) -> None:
    ask = pair.stores[engine].query
    dump = ask("dumps/headers").rows[3]
    call = next(row for row in ask("dumps/calls").rows if row["rank"] == dump["rank"])
    signers = ask("evidence/signers_of", iri=call["iri"]).rows
    covering = ask("evidence/covered_by", iri=call["iri"]).rows

    assert [(row["first"], row["size"], row["records"]) for row in ask("evidence/bundles").rows] == [
        (0, 9, 9),
        (9, 11, 2),
    ]
    assert [(row["what"], row["leaf_index"]) for row in ask("evidence/unsigned").rows] == [("record", 11)]
    assert {row["keyid"] for row in signers} == {pair.keyid}
    assert dump["rank"] in {row["rank"] for row in signers}
    assert [row["dump"] for row in covering] == [dump["iri"]]
    assert [row["record"] for row in ask("evidence/records_of_dump", iri=f"sha256:{dump['sha256']}").rows] == [
        row["record"] for row in covering
    ]
    assert ask("evidence/record_at", index=9).rows[0]["name"] == "loss"
    assert {row["policy_mode"] for row in ask("evidence/recorded_modes").rows} == {"validation", None}


def test_neo4j_walks_to_signers_from_a_unique_index_and_prunes(pair: Pair, neo4j_uri: str) -> None:
    import neo4j

    auth = (os.environ["PROVSTORE_NEO4J_USER"], os.environ["PROVSTORE_NEO4J_PASSWORD"])
    with neo4j.GraphDatabase.driver(neo4j_uri, auth=auth) as driver:
        text = "EXPLAIN " + cypher.query("read/evidence/signers_of", "neo4j").text
        plan = repr(driver.execute_query(text, {"iri": "x"}).summary.plan)

    assert "NodeUniqueIndexSeek" in plan
    assert "VarLengthExpand(Pruning" in plan
    assert "VarLengthExpand(All)" not in plan


@pytest.mark.parametrize("engine", ENGINES)
def test_an_edited_fact_is_attributed_to_record_epoch_and_key_on_either_engine(engine: str, pair: Pair) -> None:
    store = pair.stores[engine]
    graph, journal = store._graph, store.opened.journal
    call = store.query("dumps/calls").rows[-1]
    record = store.query("evidence/covered_by", iri=call["iri"]).rows[0]
    if engine == "embedded":
        graph._graph.read_only(False)
    change = door(graph)
    change("MATCH (c:Call {iri: $iri}) SET c.created_ns = 5", iri=call["iri"])
    try:
        (finding,) = against_journal(graph, journal)
    finally:
        change("MATCH (c:Call {iri: $iri}) SET c.created_ns = $was", iri=call["iri"], was=call["created_ns"])

    assert finding.where == f"{call['iri']} created_ns"
    assert (finding.code, finding.run, finding.attempt, finding.rank) == ("graph-mismatch", "job", 0, call["rank"])
    assert (finding.seq, finding.epoch, finding.keyid) == (record["leaf_index"], 0, pair.keyid)
