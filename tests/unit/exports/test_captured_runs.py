"""Captured runs as PROV documents."""

from __future__ import annotations

import io
import sys
import warnings
from pathlib import Path

import pytest
from captured_run import BASE, FIRST, RECV, RUN, SECOND, SEND, statements
from prov.model import ProvDocument

sys.path.insert(0, str(Path(__file__).parents[1] / "graph"))

from prov_fake_store import FakeStore

from provstore import rooms
from provstore.exports import ExportInput, ExportOptions
from provstore.graph.prov_compare import strict_diff
from provstore.graph.prov_mapping import blocks
from provstore.graph.prov_objects import document_parts
from provstore.model.block import Block, Statement
from provstore.sources import prov_document

NS = "https://w3id.org/provstore/ns#"
ID = "https://w3id.org/provstore/id/"
FORMATS = {"prov-json": "json", "prov-n": "provn"}


def exported(name: str, document: ExportInput = RUN, options: ExportOptions | None = None) -> tuple[str, object]:
    out = io.StringIO()
    report = rooms.load("exports.graphs", name).export(document, out, options or ExportOptions())
    return out.getvalue(), report


def read(text: str, name: str) -> ProvDocument:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ProvDocument.deserialize(content=text, format=FORMATS[name])


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_is_read_by_prov_without_any_warning_and_says_that_it_was_verified(name: str) -> None:
    text, report = exported(name)
    document = read(text, name)
    assert report.verified is True
    assert report.records == len(document.get_records()) == 12 + 11


@pytest.mark.parametrize("name", FORMATS)
def test_the_streaming_writer_and_the_library_write_strictly_equal_documents(name: str) -> None:
    by_library, first = exported(name)
    by_stream, second = exported(name, options=ExportOptions(library_limit=0))
    assert (first.writer, second.writer) == ("prov", "stream")
    difference = strict_diff(document_parts(read(by_library, name)), document_parts(read(by_stream, name)))
    assert difference.holds("multiset")
    assert not difference.scopes
    if name == "prov-n":
        assert difference.equal_at == "exact"


def test_both_formats_say_the_same() -> None:
    json_parts, n_parts = (document_parts(read(exported(name)[0], name)) for name in FORMATS)
    assert strict_diff(json_parts, n_parts).holds("multiset")


def test_a_call_carries_what_its_signature_and_stack_say() -> None:
    document = read(exported("prov-json")[0], "prov-json")
    (call,) = (record for record in document.get_records() if str(record.identifier) == f"run:{FIRST[len(ID) :]}/0/in")
    attributes = {name.uri.removeprefix(NS): value for name, value in call.attributes}
    assert attributes["op"] == "all_reduce"
    assert attributes["input_sizes"] == "[[4,2]]"
    assert attributes["user_frame"] == "train.py:17 step"
    assert attributes["created_ns"] == 1700000000000000001
    assert attributes["is_completed"] is True
    assert attributes["duration_ms"] == 0.25
    assert "signature" not in attributes
    assert "frames" not in attributes
    assert {str(kind) for kind in call.get_asserted_types()} == {"provstore:Call"}


def test_only_exactly_paired_messages_leave_the_derived_layer() -> None:
    document = read(exported("prov-n")[0], "prov-n")
    informed = {
        (record.args[0].uri, record.args[1].uri)
        for record in document.get_records()
        if record.get_type().localpart == "Communication"
    }
    assert informed == {(SECOND, FIRST), (RECV, SEND)}


def test_an_element_that_is_only_referred_to_is_no_record() -> None:
    ghost = Statement(("Element", "Entity", "Call"), f"{BASE}/x/1", properties={"declared": False})
    text, report = exported("prov-n", ExportInput(lambda: [ghost]))
    assert report.records == 0
    assert "x/1" not in text


def test_ids_are_written_under_one_prefix_as_they_stand() -> None:
    text, _ = exported("prov-n")
    assert "entity(run:job/0/nccl/0@0-1/0/0/in, [" in text
    assert "prefix run <https://w3id.org/provstore/id/>" in text


def test_an_unverified_export_says_so() -> None:
    text, report = exported("prov-json", options=ExportOptions(verify=False))
    assert report.verified is False
    assert report.level is None
    assert read(text, "prov-json").get_records()


def test_an_export_that_was_taken_in_again_changes_no_later_export() -> None:
    """A store keeps one relationship where a record is imported between the ends of a captured relation."""
    first = read(exported("prov-n")[0], "prov-n")
    store = FakeStore()
    store.write([Block.from_statements(statements()), *blocks(prov_document.read(first))])
    held = list(store.statements())
    records = {(row.type, row.key, row.target) for row in held if row.type and "recordKey" in row.properties}
    kept = [row for row in held if "recordKey" in row.properties or (row.type, row.key, row.target) not in records]
    assert len(kept) < len(held)
    for rows in (held, kept, kept[::-1]):
        text, report = exported("prov-n", ExportInput(lambda rows=rows: rows))
        again = read(text, "prov-n")
        assert strict_diff(document_parts(first), document_parts(again)).holds("multiset")
        assert any("stand in imported documents too" in note for note in report.notes)
