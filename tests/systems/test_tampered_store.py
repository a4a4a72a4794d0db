"""A signed store whose graph was written to behind its back: found, named, attributed, and put right by a rebuild."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import kglite
import pytest

import provstore
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.model.evidence import Observation
from provstore.model.verification import Verification
from provstore.stores.dump import canonical_dump
from tests.evidence_graphs import door
from tests.simulator import Scenario, Shape3D, simulate

CALL = "MATCH (c:Call {rank: 2}) WITH c ORDER BY c.iri LIMIT 1 "


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVSTORE_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PROVSTORE_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PrivateKey]:
    """A sealed store of four ranks, which tests copy."""
    place, key = tmp_path_factory.mktemp("signed"), PrivateKey.generate()
    simulate(Scenario("ddp", Shape3D(world=4, steps=3))).write(place / "job")
    with provstore.open(f"embedded:{place / 'store'}") as store:
        store.ingest(place / "job")
        store.record([Observation("loss", {"value": 0.5}, rank=1, step=1)], run="job")
        store.seal(signer=key)
    (place / "key.hex").write_text(key.public_key.hex())
    return place, key


@pytest.fixture
def store_of(signed: tuple[Path, PrivateKey], tmp_path: Path) -> Path:
    import shutil

    shutil.copytree(signed[0] / "store", tmp_path / "store")
    return tmp_path / "store"


def change(store: Path, *texts: str) -> None:
    """Write to the graph file by the engine alone, as another program would."""
    graph = kglite.open(str(store / "graph.kgl"), storage="mapped", durable="off")
    for text in texts:
        graph.cypher(text)
    graph.close()


@pytest.fixture
def judged(signed: tuple[Path, PrivateKey]) -> Callable[..., Verification]:
    belief = provstore.belief(public_keys=[signed[0] / "key.hex"])

    def verify(store: Path, source: str = "both") -> Verification:
        with provstore.open(f"embedded:{store}", read_only=True) as opened:
            (answer,) = opened.verify("job", belief=belief, source=source, refresh=False)
        return answer

    return verify


def mismatches(answer: Verification) -> list[tuple[str, int | None, int | None]]:
    return [(one.where, one.epoch, one.seq) for one in answer.findings if one.code == "graph-mismatch"]


def facts(store: Path) -> list[str]:
    with provstore.open(f"embedded:{store}", read_only=True) as opened:
        return list(canonical_dump(opened._graph))


def test_an_untouched_store_has_no_mismatch_from_either_place(
    store_of: Path, judged: Callable[..., Verification]
) -> None:
    for source in ("both", "graph", "journal"):
        answer = judged(store_of, source)
        assert {one.code for one in answer.findings} == {"unanchored", "not-closed"}
        assert answer.exit_code == 3


CHANGES = {
    "a bundle's policy mode": ("MATCH (b:EvidenceBundle) SET b.policy_mode = 'full'", "epoch/0 policy_mode", True),
    "a record's step": ("MATCH (r:Record {name: 'loss'}) SET r.step = 2", "step", True),
    "a bundle's reference": ("MATCH (b:EvidenceBundle) SET b.journal_ref = 'x/1'", "epoch/0 journal_ref", False),
    "a call's time": (CALL + "SET c.created_ns = 5", "created_ns", False),
    "a call's type of number": (CALL + "SET c.record_id = toFloat(c.record_id)", "record_id", False),
    "a call's label": (CALL + "SET c:Suspicious", "labels", False),
    "a signature": ("MATCH (s:Signature) WITH s ORDER BY s.key LIMIT 1 SET s.op = 'x'", "op", False),
    "an edge that goes": ("MATCH (a)-[u:USED]->(:Call {rank: 2}) WITH u LIMIT 1 DELETE u", "[:USED]", False),
    "an edge that comes": (CALL + "MATCH (d:Dump {rank: 0}) CREATE (c)-[:WAS_DERIVED_FROM]->(d)", "DERIVED", False),
    "an edge twice": ("MATCH (a)-[:USED]->(b) WITH a, b LIMIT 1 CREATE (a)-[:USED]->(b)", "[:USED]", False),
    "a node that goes": (CALL + "DETACH DELETE c", "job", False),
    "a node that comes": ("CREATE (:Element {iri: 'mine', run: 'job', attempt: 0})", "mine", False),
    "an alias that comes": (CALL + "MATCH (d:Dump {rank: 0}) CREATE (c)-[:SAME_AS {scope: ''}]->(d)", "SAME_AS", False),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_by_cypher_is_named_attributed_and_undone_by_a_rebuild(
    name: str, store_of: Path, judged: Callable[..., Verification], signed: tuple[Path, PrivateKey]
) -> None:
    text, place, is_seen_alone = CHANGES[name]
    before = facts(store_of)
    change(store_of, text)
    answer = judged(store_of)
    told = [one for one in answer.findings if one.code == "graph-mismatch"]

    assert (answer.exit_code, answer.verdict, answer.axes["graph"]) == (1, "fault", "fault")
    assert any(place in one.where for one in told), mismatches(answer)
    assert {(one.run, one.attempt) for one in told} == {("job", 0)}
    if "comes" not in name:
        assert all("covered by" in one.text for one in told)
        keyid = fingerprint(signed[1].public_key)
        assert {(one.epoch, one.keyid) for one in told} == {(0, keyid)}
    else:
        assert all(one.text.endswith("nothing that was recorded covers it") for one in told)
    assert bool(mismatches(judged(store_of, "graph"))) == is_seen_alone
    assert mismatches(judged(store_of, "journal")) == []
    provstore.rebuild(f"embedded:{store_of}")
    assert {one.code for one in judged(store_of).findings} == {"unanchored", "not-closed"}
    assert facts(store_of) == before


def test_the_text_of_a_record_in_the_graph_must_be_that_of_the_journal(
    store_of: Path, judged: Callable[..., Verification]
) -> None:
    change(store_of, "MATCH (r:Record {name: 'loss'}) SET r.record = replace(r.record, '\"step\":1', '\"step\":2')")
    codes = {one.code for one in judged(store_of).findings}

    assert {"graph-mismatch", "root-mismatch", "subject-mismatch"} <= codes
    assert {one.code for one in judged(store_of, "journal").findings} == {"unanchored", "not-closed"}


def test_a_node_behind_all_others_is_one_difference_and_moves_no_relationship(store_of: Path) -> None:
    change(store_of, "CREATE (:Stack {key: 'zzz'})")
    with provstore.open(f"embedded:{store_of}", read_only=True) as opened:
        checked = opened.check()

    assert checked.difference_count == 1


def test_two_verifications_of_one_tampered_store_are_equal(store_of: Path, judged: Callable[..., Verification]) -> None:
    change(store_of, *(text for text, _, _ in CHANGES.values()))

    assert judged(store_of).to_dict() == judged(store_of).to_dict()
    assert len(mismatches(judged(store_of))) > 5


def test_a_graph_that_another_process_is_writing_is_not_compared_and_that_is_said(
    store_of: Path, judged: Callable[..., Verification], signed: tuple[Path, PrivateKey]
) -> None:
    with provstore.open(f"embedded:{store_of}") as writer:
        writer.record([Observation("later", {"value": 1})], run="job")
        writer.seal(signer=signed[1], run="job")
        answers = {source: judged(store_of, source) for source in ("both", "journal", "graph")}
        (own,) = writer.verify("job", belief=provstore.belief(public_keys=[signed[0] / "key.hex"]), refresh=False)

    limits = {"unanchored", "not-closed"}
    assert {one.code for one in answers["journal"].findings} == limits
    assert {one.code for one in answers["both"].findings} == limits | {"check-unfinished"}
    assert {one.code for one in answers["graph"].findings} == limits | {"check-unfinished"}
    assert (answers["both"].exit_code, answers["both"].axes["graph"]) == (4, "unknown")
    assert {one.code for one in own.findings} == limits
    assert {one.code for one in judged(store_of).findings} == limits


@pytest.fixture
def on_server(empty_neo4j: str, store_of: Path) -> Iterator[provstore.Store]:
    with provstore.open(empty_neo4j, journal=store_of / "journal") as opened:
        yield opened


ON_SERVER = ("a bundle's policy mode", "a call's time", "an edge that goes", "an edge twice", "a node that comes")


def test_changes_on_a_server_are_named_and_undone_by_a_rebuild(
    on_server: provstore.Store, signed: tuple[Path, PrivateKey], store_of: Path, empty_neo4j: str
) -> None:
    belief = provstore.belief(public_keys=[signed[0] / "key.hex"])
    run = door(on_server._graph)
    for name in ON_SERVER:
        run(CHANGES[name][0])
    (answer,) = on_server.verify("job", belief=belief, refresh=False)
    told = [one.where for one in answer.findings if one.code == "graph-mismatch"]
    on_server.close()
    report = provstore.rebuild(empty_neo4j, journal=store_of / "journal")

    for name in ON_SERVER:
        assert any(CHANGES[name][1] in where for where in told), (name, told)
    assert report.problems == ()
    with provstore.open(empty_neo4j, journal=store_of / "journal") as again:
        (answer,) = again.verify("job", belief=belief, refresh=False)
        assert {one.code for one in answer.findings} == {"unanchored", "not-closed"}
        assert list(canonical_dump(again._graph)) == facts(store_of)


def test_the_facts_of_another_journal_on_the_same_server_are_no_mismatch(
    on_server: provstore.Store, signed: tuple[Path, PrivateKey], empty_neo4j: str, tmp_path: Path
) -> None:
    other_key = PrivateKey.generate()
    (tmp_path / "other.hex").write_text(other_key.public_key.hex())
    simulate(Scenario("ddp", Shape3D(world=2, steps=1))).write(tmp_path / "other")
    with provstore.open(empty_neo4j, journal=tmp_path / "other-journal") as other:
        other.ingest(tmp_path / "other")
        other.seal(signer=other_key)
        answers = [
            store.verify(run, belief=provstore.belief(public_keys=[path]), refresh=False)[0]
            for store, run, path in (
                (on_server, "job", signed[0] / "key.hex"),
                (other, "other", tmp_path / "other.hex"),
            )
        ]
        door(other._graph)("CREATE (:Element {iri: 'mine', run: 'job', attempt: 0})")
        (changed,) = on_server.verify(
            "job", belief=provstore.belief(public_keys=[signed[0] / "key.hex"]), refresh=False
        )
    report = provstore.rebuild(empty_neo4j, journal=tmp_path / "other-journal")

    for answer in answers:
        assert mismatches(answer) == []
        assert {one.code for one in answer.findings} == {"unanchored", "not-closed"}
    assert mismatches(changed) == [("mine", None, None)]
    assert "other journals" in report.problems[0]
