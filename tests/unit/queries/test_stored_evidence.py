"""Evidence read from the graph alone is, byte for byte, the evidence that was put there."""

from __future__ import annotations

import pytest

from provstore.evidence import dsse
from provstore.model.block import Block
from provstore.queries import evidence
from provstore.queries.evidence import GraphEvidence, scopes, stored_evidence
from provstore.stores import open_store
from tests.evidence_graphs import door, filled, put
from tests.signed_logs import signed_run


@pytest.fixture(scope="module")
def log():
    return signed_run("run-1", (7, 5, 3))


def read(store, run="run-1") -> GraphEvidence:
    return stored_evidence(store, run, 0)


def test_bundles_come_back_byte_for_byte_in_the_order_of_their_epochs(log):
    held = list(read(filled(log)).bundles())

    assert [bundle.envelope for bundle in held] == [bundle.envelope for bundle in log.signed]
    assert [bundle.checkpoint for bundle in held] == [bundle.checkpoint for bundle in log.signed]


def test_records_come_back_byte_for_byte_with_index_and_node(log, monkeypatch):
    monkeypatch.setattr(evidence, "PAGE", 4)
    held = list(read(filled(log)).records())

    assert [record.line for record in held] == log.lines
    assert [record.index for record in held] == list(range(15))
    assert held[3].where == "https://w3id.org/provstore/id/run-1/0/record/3"


def test_records_behind_the_tenth_stand_in_the_order_of_numbers_not_of_text():
    many = signed_run("run-1", (120,))

    assert [record.index for record in read(filled(many)).records()] == list(range(120))


def test_each_attempt_has_its_own_evidence(log):
    store = filled(log)
    put(store, signed_run("run-2", (3,), attempt=1))
    put(store, signed_run("", (2,)))

    assert scopes(store) == [("", 0), ("run-1", 0), ("run-2", 1)]
    assert len(list(stored_evidence(store, "run-2", 1).records())) == 3
    assert list(stored_evidence(store, "run-2", 0).records()) == []
    assert [record.line for record in read(store).records()] == log.lines


def test_an_empty_graph_has_no_evidence():
    store = open_store("memory:", writable=True)

    assert scopes(store) == []
    assert list(read(store).bundles()) == list(read(store).records()) == list(read(store).listing()) == []


def test_the_journal_of_a_graph_is_told_only_when_it_is_one(log):
    store = filled(log)
    assert read(store).store == ""
    store.write(Block("", 0), ("j-1", 3))
    assert read(store).store == "j-1"
    store.write(Block("", 0), ("j-2", 3))
    assert read(store).store == ""


def test_a_bundle_without_signature_is_an_envelope_without_signature(log):
    store = filled(log)
    door(store)("MATCH (b:EvidenceBundle {epoch: 1}) REMOVE b.sig")
    held = list(read(store).bundles())

    assert held[1].envelope.endswith(b'"signatures":[]}')
    assert dsse.parse(held[0].envelope) == dsse.parse(log.signed[0].envelope)


@pytest.mark.parametrize("value", [3, 2.5, True, ["a"], ""])
@pytest.mark.parametrize("name", ["payload", "payload_type", "sig", "keyid", "checkpoint", "epoch"])
def test_a_bundle_with_values_of_another_type_is_passed_on_and_not_fatal(log, name, value):
    store = filled(log)
    door(store)(f"MATCH (b:EvidenceBundle {{epoch: 1}}) SET b.{name} = $value", value=value)
    held = [bundle.envelope for bundle in read(store).bundles()]

    assert len(held) == 3
    changed = set(held) - {bundle.envelope for bundle in log.signed}
    assert len(changed) == (0 if name in ("checkpoint", "epoch") else 1)


@pytest.mark.parametrize("value", ["3", 2.5, True, [3], None])
def test_a_record_whose_index_is_no_number_comes_last_and_without_index(log, value):
    store = filled(log)
    door(store)("MATCH (r:Record {leaf_index: 3}) SET r.leaf_index = $value", value=value)
    held = list(read(store).records())

    assert [record.index for record in held] == [*range(3), *range(4, 15), None]
    assert held[-1].line == log.lines[3]


def test_a_record_made_by_hand_without_id_is_read_too(log):
    store = filled(log)
    door(store)("CREATE (:Record {run: 'run-1', attempt: 0, leaf_index: 3, record: 'x'})")
    held = list(read(store).records())

    assert len(held) == 16
    assert {record.line for record in held if record.index == 3} == {log.lines[3], b"x"}


def test_a_record_without_text_is_an_empty_line(log):
    store = filled(log)
    door(store)("MATCH (r:Record {leaf_index: 3}) REMOVE r.record")

    assert [record.line for record in read(store).records()][3] == b""
