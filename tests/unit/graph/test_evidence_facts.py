"""Records and bundles as nodes: every property follows from the bytes, and no bytes make the projection fail."""

from __future__ import annotations

import base64
import hashlib

import orjson
from hypothesis import example, given, settings
from hypothesis import strategies as st

from provstore.graph.evidence_facts import bundle_block, record_block, record_blocks
from provstore.graph.recorded_ids import bundle_iri, key_iri, record_iri
from provstore.stores import facts

VALUES = [{"n": "value", "t": "f", "v": "f64:0x1.0000000000000p-1"}]


def _line(**members):
    known = {
        "at": None,
        "attempt": 0,
        "kind": "observation",
        "n": 4,
        "name": "loss",
        "rank": 2,
        "run": "job",
        "schema": 1,
    }
    return orjson.dumps(known | {"step": 7, "values": VALUES} | members, option=orjson.OPT_SORT_KEYS)


def _node(block, labels):
    (nodes,) = [one for one in block.nodes if one.labels[-1] == labels and one.columns]
    return [{name: column[at] for name, column in nodes.columns.items()} for at in range(len(nodes))]


def _envelope(**predicate):
    said = {"epoch": 1, "first": 2, "size": 4, "run": "job", "attempt": 0, "store": "s", "root": "ab", "prev": "cd"}
    statement = {"predicate": said | predicate, "subject": [{"digest": {"sha256": "ef"}, "name": "job/0/epoch-1"}]}
    payload = base64.b64encode(orjson.dumps(statement, option=orjson.OPT_SORT_KEYS)).decode()
    outer = {"payload": payload, "payloadType": "t", "signatures": [{"keyid": "SHA256:k", "sig": "c2ln"}]}
    return orjson.dumps(outer, option=orjson.OPT_SORT_KEYS), payload


def test_a_record_shows_what_it_says_and_its_exact_text():
    line = _line(at="i64:1796000000000000000")
    (row,) = _node(record_block("job", 0, 9, [line]), "Record")
    assert row["record"] == line.decode()
    assert row["leaf"] == hashlib.sha256(b"\0" + line).hexdigest()
    expected = {"run": "job", "attempt": 0, "leaf_index": 9, "kind": "observation", "rank": 2, "rank_count": 4}
    assert expected.items() <= row.items()
    assert (row["step"], row["name"], row["at_ns"]) == (7, "loss", 1796000000000000000)
    assert orjson.loads(row["extra"]) == {"values": [{"n": "value", "t": "f", "v": "f64:0x1.0000000000000p-1"}]}


def test_a_record_of_a_file_is_linked_to_the_element_that_describes_it():
    element = "https://w3id.org/provstore/id/job/0/dump/2/ab"
    source = {"element": element, "kept": True, "reader": "r", "sha256": "ab", "size": 5, "version": "1"}
    line = _line(
        kind="ingest", source=source, facts={"sha256": "cd", "rows": 3}, policy={"mode": "full", "reason": "x"}, batch=4
    )
    block = record_block("job", 0, 0, [line])
    assert [(one.sources, one.targets) for one in block.relations] == [([record_iri("job", 0, 0)], [element])]
    (row,) = _node(block, "Record")
    assert (row["sha256"], row["facts_sha256"], row["journal_batch"], row["policy_mode"]) == ("ab", "cd", 4, "full")


def test_an_element_outside_the_scheme_is_not_linked():
    line = _line(kind="ingest", source={"element": "https://example.org/x"})
    assert record_block("job", 0, 0, [line]).relations == ()


def test_a_bundle_is_linked_to_its_records_its_predecessor_and_its_key():
    envelope, payload = _envelope()
    block = bundle_block("job", 0, envelope, b"note", journal_ref="j/7")
    row = next(row for row in _node(block, "EvidenceBundle"))
    assert (row["payload"], row["sig"], row["keyid"], row["checkpoint"]) == (payload, "c2ln", "SHA256:k", "note")
    assert row["payload_sha256"] == hashlib.sha256(base64.b64decode(payload)).hexdigest()
    own = bundle_iri("job", 0, 1)
    assert [(one.type, one.sources[0], list(one.targets)) for one in block.relations] == [
        ("WAS_ATTRIBUTED_TO", own, [key_iri("SHA256:k")]),
        ("WAS_DERIVED_FROM", own, [bundle_iri("job", 0, 0)]),
        ("HAD_MEMBER", own, [record_iri("job", 0, 2), record_iri("job", 0, 3)]),
    ]


def test_a_bundle_that_claims_more_records_than_can_be_is_linked_to_none():
    envelope, _ = _envelope(size=2**53 - 1)
    assert "HAD_MEMBER" not in {one.type for one in bundle_block("job", 0, envelope, None).relations}


_VALUES = st.integers(-(2**63), 2**63 - 1) | st.text(max_size=9) | st.none() | st.lists(st.text(max_size=3), max_size=2)
_NAMES = st.sampled_from(("kind", "source", "payload", "signatures", "rank", "at", "values", "predicate"))


@given(st.binary(max_size=300) | st.dictionaries(_NAMES | st.text(max_size=8), _VALUES).map(orjson.dumps))
@example(data=b'{"kind":[]}')
@settings(max_examples=200)
def test_any_bytes_become_nodes_that_every_store_can_keep(data):
    facts.check(record_block("job", 0, 0, [data.replace(b"\n", b"")]))
    facts.check(bundle_block("job", 0, data, data))


def test_a_record_whose_kind_is_no_text_is_shown_as_no_action():
    (block,) = record_blocks("job", 0, 0, [b'{"kind":[]}'])

    assert [nodes.labels[-1] for nodes in block.nodes if "Record" in nodes.labels] == ["Record"]
