"""A graph is compared with the bytes it shows: every property, label and relationship, and nothing beyond."""

from __future__ import annotations

import json

import pytest

from provstore.analysis.evidence import Covers, attributed, differences, projection_differences
from provstore.analysis.evidence.facts import parsed
from provstore.model.block import Block, Nodes, Relations
from provstore.queries.evidence import stored_evidence
from provstore.stores.dump import canonical_dump
from tests.evidence_graphs import against_own_bytes, door, filled
from tests.signed_logs import MemoryLog, signed_run

RECORD = "https://w3id.org/provstore/id/run-1/0/record/"
BUNDLE = "https://w3id.org/provstore/id/run-1/0/epoch/"


@pytest.fixture(scope="module")
def log():
    return signed_run("run-1", (7, 5, 3))


@pytest.fixture
def store(log):
    return filled(log)


def found(store):
    return against_own_bytes(store, "run-1")


def test_an_untouched_graph_is_what_its_bytes_give(store):
    assert against_own_bytes(store, "run-1") == []
    assert len(list(stored_evidence(store, "run-1", 0).listing())) == 15 + 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("leaf", "0" * 64),
        ("leaf_index", 99),
        ("kind", "policy"),
        ("rank", 1),
        ("rank", 0.0),
        ("rank", False),
        ("rank_count", 2),
        ("at_ns", 4.0),
        ("step", 5),
        ("name", "Loss"),
        ("extra", "{}"),
        ("policy_mode", "full"),
        ("file", "x"),
        ("store", ""),
    ],
)
def test_an_edited_or_added_property_of_a_record_is_named_with_its_node(store, name, value):
    # Record 4 is of rank 0, stated at 4 ns, and the second record of its rank.
    door(store)(f"MATCH (r:Record {{leaf_index: 4}}) SET r.{name} = $value", value=value)
    told = found(store)

    assert {finding.code for finding in told} == {"graph-mismatch"}
    assert any(finding.where == f"{RECORD}4 {name}" for finding in told) or name == "leaf_index"
    if name == "leaf_index":
        assert any(finding.where.startswith(f"{RECORD}4") for finding in told)
    elif name != "store":
        assert [(finding.run, finding.attempt, finding.epoch, finding.seq) for finding in told] == [("run-1", 0, 0, 4)]


@pytest.mark.parametrize("name", ["leaf", "kind", "rank", "rank_count", "at_ns", "step", "name", "extra"])
def test_a_removed_property_of_a_record_is_named(store, name):
    door(store)(f"MATCH (r:Record {{leaf_index: 4}}) REMOVE r.{name}")

    assert [finding.where for finding in found(store)] == [f"{RECORD}4 {name}"]


BUNDLE_PROPERTIES = [
    "policy_mode",
    "policy_reason",
    "policy_digest",
    "payload_sha256",
    "prev_sha256",
    "store",
    "first",
    "size",
    "root",
    "subject_sha256",
    "closed",
    "wall",
]


@pytest.mark.parametrize("name", BUNDLE_PROPERTIES)
@pytest.mark.parametrize("change", ["SET b.{} = 'other'", "REMOVE b.{}"])
def test_an_edited_or_removed_property_of_a_bundle_is_named_with_its_node(store, name, change):
    door(store)(f"MATCH (b:EvidenceBundle {{epoch: 1}}) {change.format(name)}")
    told = found(store)

    assert [finding.where for finding in told] == [f"{BUNDLE}1 {name}"]
    assert (told[0].run, told[0].epoch, told[0].keyid) == ("run-1", 1, next(iter(stored_keys(store))))


def stored_keys(store):
    return {
        json.loads(bundle.envelope)["signatures"][0]["keyid"] for bundle in stored_evidence(store, "run-1", 0).bundles()
    }


def test_text_and_property_changed_alike_agree_with_each_other_except_for_the_leaf(store):
    text = "MATCH (r:Record {leaf_index: 4}) SET r.step = 5, r.record = replace(r.record, '\"step\":4', '\"step\":5')"
    door(store)(text)

    assert [finding.where for finding in found(store)] == [f"{RECORD}4 leaf"]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ("MATCH (r:Record {leaf_index: 4}) SET r:Evil", f"{RECORD}4 labels"),
        ("MATCH (r:Record {leaf_index: 4}) REMOVE r:Entity", f"{RECORD}4 labels"),
        ("MATCH (r:Record {leaf_index: 4})<-[m:HAD_MEMBER]-() DELETE m", f"({BUNDLE}0)-[:HAD_MEMBER]->({RECORD}4)"),
        (
            "MATCH (b:EvidenceBundle {epoch: 1})-[m:WAS_DERIVED_FROM]->() DELETE m",
            f"({BUNDLE}1)-[:WAS_DERIVED_FROM]->({BUNDLE}0)",
        ),
        (
            "MATCH (a:Record {leaf_index: 4}), (b:Record {leaf_index: 5}) CREATE (a)-[:WAS_DERIVED_FROM]->(b)",
            f"({RECORD}4)-[:WAS_DERIVED_FROM]->({RECORD}5)",
        ),
        (
            "MATCH (a)-[:HAD_MEMBER]->(b:Record {leaf_index: 8}) CREATE (a)-[:HAD_MEMBER]->(b)",
            f"({BUNDLE}1)-[:HAD_MEMBER]->({RECORD}8)",
        ),
        (
            "MATCH (a:EvidenceBundle {epoch: 1})-[m:HAD_MEMBER]->(b:Record {leaf_index: 8}) SET m.scope = 'x'",
            f"({BUNDLE}1)-[:HAD_MEMBER]->({RECORD}8) scope",
        ),
        (
            "MATCH (b:Record {leaf_index: 8}) CREATE (:Element {iri: 'mine'})-[:WAS_DERIVED_FROM]->(b)",
            f"(mine)-[:WAS_DERIVED_FROM]->({RECORD}8)",
        ),
        ("CREATE (:Element:Entity:Record {iri: 'mine', run: 'run-1', attempt: 0})", "mine leaf_index"),
        ("CREATE (:Element:Entity:EvidenceBundle {iri: 'mine', run: 'run-1', attempt: 0})", "mine"),
        ("MATCH (k:SigningKey) SET k.keyid = 'x'", "key/"),
        (
            "MATCH (k:SigningKey), (b:Record {leaf_index: 1}) CREATE (k)-[:ACTED_ON_BEHALF_OF]->(b)",
            "ACTED_ON_BEHALF_OF",
        ),
        ("MATCH (k:SigningKey) DETACH DELETE k", "key/"),
    ],
)
def test_a_changed_label_or_relationship_is_named_with_its_ends(store, change, place):
    door(store)(change)
    told = found(store)

    assert any(place in finding.where for finding in told), [finding.where for finding in told]
    assert {finding.code for finding in told} == {"graph-mismatch"}


def test_a_bundle_that_claims_two_million_records_costs_no_memory_for_them(store):
    import base64
    import tracemalloc

    held = next(
        bundle for bundle in stored_evidence(store, "run-1", 0).bundles() if b'"epoch":2' not in bundle.envelope
    )
    payload = base64.b64decode(json.loads(held.envelope)["payload"])
    claimed = base64.b64encode(payload.replace(b'"size":7', b'"size":1900000')).decode()
    door(store)("MATCH (b:EvidenceBundle {epoch: 0}) SET b.payload = $payload", payload=claimed)
    tracemalloc.start()
    told = found(store)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert any(finding.where == f"{BUNDLE}0 size" for finding in told)
    assert most < 20_000_000


def test_the_cover_of_a_bundle_that_cannot_be_read_says_so(store):
    door(store)("MATCH (b:EvidenceBundle {epoch: 1}) REMOVE b.sig")

    assert any("bundle 1 of run run-1, which cannot be read" in finding.text for finding in found(store))


def test_a_bundle_whose_payload_says_nothing_leaves_its_node_without_bytes(store):
    door(store)("MATCH (b:EvidenceBundle {epoch: 1}) SET b.payload = 'AAAA'")
    texts = {finding.where: finding.text for finding in found(store)}

    assert "no recorded bytes give it; nothing that was recorded covers it" in texts[f"{BUNDLE}1"]
    # SHA-256 of three zero bytes.
    unread = f"{BUNDLE}unread-709e80c88487a2411e1ee4dfb9f22a861492d20c4765150c0c794abd70f8147c"
    assert texts[unread].endswith("is not in the graph; no record is known that covers it")


def test_the_same_graph_gives_the_same_findings_whatever_the_order_of_its_changes(log):
    changes = [
        "MATCH (r:Record {leaf_index: 4}) SET r.step = 9",
        "MATCH (b:EvidenceBundle {epoch: 2}) SET b.wall = 'x'",
    ]
    told = []
    for order in (changes, changes[::-1]):
        store = filled(log)
        for change in order:
            door(store)(change)
        told.append(found(store))

    assert told[0] == told[1]
    assert len(told[0]) == 2


# --- facts against facts ---


def block(**columns: object) -> Block:
    nodes = Nodes(("Element", "Entity"), ["a", "b"], {"rank": [1, 2], "name": ["x", "y"]})
    return Block("run-1", 0, (nodes,), (Relations("WAS_DERIVED_FROM", ["a"], ["b"]),))


def dump_after(*changes: str) -> list[str]:
    from provstore.stores import open_store

    store = open_store("memory:", writable=True)
    store.write(block())
    for change in changes:
        door(store)(change)
    return list(canonical_dump(store))


def told(*changes: str) -> list[tuple[str, str]]:
    return [(one.where, one.text) for one in differences(dump_after(), dump_after(*changes))]


def test_equal_dumps_do_not_differ():
    assert told() == []


@pytest.mark.parametrize(
    ("change", "where", "text"),
    [
        ("MATCH (n {iri: 'a'}) SET n.rank = 3", "a rank", "is 3, recorded is 1"),
        ("MATCH (n {iri: 'a'}) SET n.rank = 1.0", "a rank", "is 1.0, recorded is 1"),
        ("MATCH (n {iri: 'a'}) SET n.rank = true", "a rank", "is true, recorded is 1"),
        ("MATCH (n {iri: 'a'}) REMOVE n.name", "a name", 'is gone; recorded is "x"'),
        ("MATCH (n {iri: 'a'}) SET n.file = 'f'", "a file", 'is "f", and nothing recorded says so'),
        (
            "MATCH (n {iri: 'a'}) SET n:Call",
            "a labels",
            'labels are ["Call", "Element", "Entity"], recorded are ["Element", "Entity"]',
        ),
        ("MATCH (n {iri: 'b'}) DETACH DELETE n", "b", "was recorded and is not in the graph"),
        ("CREATE (:Element {iri: 'zz'})", "zz", "is in the graph, or more often there, than what was recorded gives"),
        ("CREATE (:Element {iri: 'A'})", "A", "is in the graph, or more often there, than what was recorded gives"),
        (
            "MATCH (n {iri: 'a'}), (m {iri: 'b'}) CREATE (n)-[:WAS_DERIVED_FROM]->(m)",
            "(a)-[:WAS_DERIVED_FROM]->(b)",
            "is in the graph, or more often there, than what was recorded gives",
        ),
        (
            "MATCH ()-[r]->() SET r.scope = 's'",
            "(a)-[:WAS_DERIVED_FROM]->(b) scope",
            'is "s", and nothing recorded says so',
        ),
        (
            "MATCH ()-[r]->() DELETE r",
            "(a)-[:WAS_DERIVED_FROM]->(b)",
            "was recorded and is not in the graph, or not as often",
        ),
    ],
)
def test_each_kind_of_change_is_told_once_and_in_words(change, where, text):
    assert (where, text) in told(change)
    assert len(told(change)) == (2 if "DETACH" in change else 1)


def test_nodes_end_where_relationships_begin_although_their_lines_sort_the_other_way():
    lines = dump_after()
    last = '{"labels":["Stack"],"properties":{"key":"zzz"}}'

    assert [one.where for one in differences(lines, [*lines[:2], last, lines[2]])] == ["zzz"]
    assert [one.where for one in differences([*lines[:2], last, lines[2]], lines)] == ["zzz"]


def test_an_empty_graph_lacks_everything_and_an_emptied_record_explains_nothing():
    lines = dump_after()

    assert len(list(differences(lines, []))) == len(list(differences([], lines))) == 3


def test_a_fact_is_attributed_to_the_batch_that_states_it_and_says_when_nobody_signed_it(log):
    changed = list(differences(dump_after(), dump_after("MATCH (n {iri: 'a'}) SET n.rank = 3")))
    (finding,) = attributed(changed, [(7, block())], Covers())

    assert (
        finding.text == "node a: rank is 3, recorded is 1; covered by batch 7 of the journal, which nobody has signed"
    )
    assert (finding.run, finding.attempt, finding.epoch, finding.seq) == ("run-1", 0, None, None)


def test_a_fact_that_no_batch_states_is_covered_by_nothing_and_says_so():
    changed = list(differences(dump_after(), dump_after("CREATE (:Element {iri: 'zz', rank: 4})")))
    (finding,) = attributed(changed, [(7, block())], Covers())

    assert finding.text.endswith("nothing that was recorded covers it")
    assert (finding.where, finding.rank) == ("zz", 4)


def test_a_graph_that_is_another_one_altogether_is_counted_and_not_listed(monkeypatch):
    from provstore.analysis.evidence import covering

    monkeypatch.setattr(covering, "MAX_FINDINGS", 2)
    findings = attributed(differences(dump_after(), []), [(7, block())], Covers())

    assert len(findings) == 3
    assert any("1 more differences" in finding.text for finding in findings)


def test_differences_that_are_not_listed_are_those_of_their_attempt_and_follow_from_what_it_lost(monkeypatch):
    from provstore.analysis.evidence import covering

    monkeypatch.setattr(covering, "MAX_FINDINGS", 2)
    ids = [
        f"https://w3id.org/provstore/id/{run}/0/x{n}" for run, count in (("lost", 5), ("kept", 1)) for n in range(count)
    ]
    extra = dump_after(*(f"CREATE (:Element {{iri: '{iri}'}})" for iri in ids))
    causes = {("lost", 0): "journal-damaged"}
    findings = attributed(differences(dump_after(), extra), [(7, block())], Covers(), causes.get)

    assert [one.text for one in findings if one.where == "the graph"] == ["3 more differences are not listed"]
    assert {(one.run, one.cause) for one in findings} == {("lost", "journal-damaged"), ("kept", None)}


def test_a_log_of_another_place_can_be_compared_with_the_nodes_too(log, store):
    other = MemoryLog(log.run, log.attempt, log.store, list(log.lines[:-1]), log.signed)

    assert list(projection_differences(log, stored_evidence(store, "run-1", 0))) == []
    (extra,) = projection_differences(other, stored_evidence(store, "run-1", 0))
    assert extra.where == f"{RECORD}14"


def test_a_node_without_an_id_is_a_fact_too():
    fact = parsed('{"labels":["Element"],"properties":{"rank":3}}')

    assert fact.identity == ("Element", "a node without an id")
