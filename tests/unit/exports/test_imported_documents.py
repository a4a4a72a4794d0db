"""Imported PROV documents, exported again."""

from __future__ import annotations

import io
import json
import sys
import warnings
from pathlib import Path

import prov
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prov.model import ProvDocument

sys.path.insert(0, str(Path(__file__).parents[1] / "graph"))

from prov_fake_store import FakeStore
from test_prov_mapping import ITEMS, STRINGS, VALUES, records

from provstore import rooms
from provstore.errors import ConfigError, InputError
from provstore.exports import ExportInput, ExportOptions
from provstore.exports.graphs import _prov_document, prov_json
from provstore.graph.prov_compare import strict_diff
from provstore.graph.prov_json_text import parse_prov_json
from provstore.graph.prov_mapping import blocks
from provstore.graph.prov_n_text import parse_prov_n_lines
from provstore.graph.prov_objects import document_parts
from provstore.model.prov import Bundle, Document, Part, QName, Record, Value, integer, literal, string

EX = "http://example.org/"
HEAD = Bundle(None, (("ex", EX), ("deep", f"{EX}deep/")))
STREAM = ExportOptions(library_limit=-1)
FORMS = {"prov-json": "json", "prov-n": "provn"}


def ex(local: str) -> QName:
    return QName("ex", EX, local)


def entity(*attributes: tuple[QName, Value], name: str = "e") -> Record:
    return Record("entity", ex(name), (), attributes)


def stored(*documents: list[Part]) -> ExportInput:
    store = FakeStore()
    for number, parts in enumerate(documents):
        count = sum(isinstance(part, Record) for part in parts)
        store.write(blocks(Document(f"doc{number}", lambda parts=parts: parts, count, 0)))
    return ExportInput(store.statements)


def exported(name: str, document: ExportInput, options: ExportOptions = STREAM) -> str:
    out = io.StringIO()
    rooms.load("exports.graphs", name).export(document, out, options)
    return out.getvalue()


def reread(name: str, text: str) -> list[Part]:
    """By our reader, which keeps every text as it is."""
    if name == "prov-json":
        return list(parse_prov_json(io.StringIO(text), "x"))
    return list(parse_prov_n_lines(io.StringIO(text, newline="\n"), "x"))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_value_survives_the_streaming_writers(name: str, value: Value) -> None:
    parts: list[Part] = [HEAD, entity((ex("v"), value), (ex("v"), integer(7)), (ex("w"), value))]
    if name == "prov-n" and value.datatype is not None and not value.datatype.iri.isprintable():
        with pytest.raises(ConfigError, match=r"entity ex:e: attribute ex:v: the name .*my\\x1ftype> holds"):
            exported(name, stored(parts))
        return
    text = exported(name, stored(parts))
    assert strict_diff(parts, reread(name, text)).holds("multiset")


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("text", STRINGS)
def test_what_the_streaming_writers_make_of_a_string_is_read_by_the_library(name: str, text: str) -> None:
    parts: list[Part] = [HEAD, entity((ex("v"), string(text)))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        back = ProvDocument.deserialize(content=exported(name, stored(parts)), format=FORMS[name])
    assert strict_diff(parts, document_parts(back)).holds("multiset")


@pytest.mark.parametrize("name", FORMS)
def test_what_the_library_would_alter_is_left_to_our_writer(name: str) -> None:
    parts: list[Part] = [
        HEAD,
        entity((ex("v"), literal("1.50", QName("xsd", "http://www.w3.org/2001/XMLSchema#", "double")))),
    ]
    out = io.StringIO()
    report = rooms.load("exports.graphs", name).export(stored(parts), out, ExportOptions())
    assert report.writer == "stream"
    assert report.verified
    assert "1.50" in out.getvalue()


def test_prov_n_keeps_a_name_it_cannot_split_by_declaring_its_whole_iri() -> None:
    parts: list[Part] = [HEAD, entity(name="a\u00d7b"), entity(name="50%")]
    text = exported("prov-n", stored(parts))
    back = ProvDocument.deserialize(content=text, format="provn")
    assert {record.identifier.uri for record in back.get_records()} == {f"{EX}a\u00d7b", f"{EX}50%"}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (entity(name="a b"), "entity ex:a b: the name <http://example.org/a b> holds a character"),
        (entity((ex("x\x00"), string("v"))), r"entity ex:e: attribute ex:x.*: the name .* holds a character"),
        (entity((ex("v"), literal("x", None, "en_US"))), "entity ex:e: attribute ex:v: en_US is no language tag"),
    ],
)
def test_what_prov_n_cannot_write_is_refused_with_its_record_and_nothing_is_written(
    record: Record, reason: str
) -> None:
    out = io.StringIO()
    with pytest.raises(ConfigError, match=reason) as caught:
        rooms.load("exports.graphs", "prov-n").export(stored([HEAD, record]), out)
    assert caught.value.hint == "PROV-JSON can hold it"
    assert out.getvalue() == ""


@pytest.mark.parametrize("name", FORMS)
def test_a_bundle_that_redeclares_the_prefix_of_its_own_name_keeps_its_iri(name: str) -> None:
    parts: list[Part] = [
        Bundle(None, (("ex", EX),)),
        Bundle(ex("b"), (("ex", "urn:other:"),)),
        Record("entity", QName("ex", "urn:other:", "e"), ()),
    ]
    for options in (STREAM, ExportOptions()):
        back = ProvDocument.deserialize(content=exported(name, stored(parts), options), format=FORMS[name])
        assert strict_diff(parts, document_parts(back)).holds("multiset")


@pytest.mark.parametrize("name", FORMS)
def test_an_empty_bundle_and_an_unused_namespace_stay(name: str) -> None:
    parts: list[Part] = [Bundle(None, (("ex", EX), ("unused", "urn:u:"))), entity(), Bundle(ex("b"))]
    for options in (STREAM, ExportOptions()):
        assert strict_diff(parts, reread(name, exported(name, stored(parts), options))).equal_at == "exact"


def test_one_of_several_documents_has_to_be_chosen() -> None:
    document = stored([HEAD, entity(name="first")], [HEAD, entity(name="second")])
    with pytest.raises(InputError, match="choose one of the imported documents doc0, doc1"):
        exported("prov-n", document)
    with pytest.raises(InputError, match="none: export: choose one"):
        exported("prov-n", document, ExportOptions(document="none"))
    text = exported("prov-n", document, ExportOptions(document="doc1"))
    assert "ex:second" in text
    assert "ex:first" not in text


def test_an_export_that_reads_back_differently_reaches_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    def losing(parts, out, remark="") -> None:
        out.write(json.dumps({"prefix": {"ex": EX}, "entity": {"ex:e": {}}}))

    form = _prov_document.Format("prov-json", "multiset", "json", losing, prov_json._read)
    monkeypatch.setattr(prov_json, "_FORMAT", form)
    out = io.StringIO()
    with pytest.raises(prov_json_error(), match="reads back differently, so nothing was kept: left document"):
        prov_json.export(stored([HEAD, entity(), entity(name="lost")]), out, STREAM)
    assert out.getvalue() == ""


def prov_json_error() -> type[Exception]:
    from provstore.errors import ProvstoreError

    return ProvstoreError


def test_an_unverified_prov_n_says_so_in_a_comment() -> None:
    options = ExportOptions(verify=False, library_limit=-1)
    text = exported("prov-n", stored([HEAD, entity()]), options)
    assert text.splitlines()[0] == "document // not verified"
    assert ProvDocument.deserialize(content=text, format="provn").get_records()


def test_a_document_becomes_an_object_of_the_library() -> None:
    made = prov_json.to_prov(stored([HEAD, entity((ex("n"), integer(1)))]))
    assert isinstance(made, ProvDocument)
    assert made.get_record("ex:e")[0].get_attribute("ex:n") == {1}
    with pytest.raises(ConfigError, match="more than 0 records"):
        prov_json.to_prov(stored([HEAD, entity()]), ExportOptions(library_limit=0))


def test_our_prov_json_is_valid_against_the_schema_of_the_submission() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    path = Path(prov.__file__).parent / "tests" / "schemas" / "prov-json.schema.json"
    if not path.is_file():
        pytest.skip("the installed prov has no schemas folder")
    parts: list[Part] = [HEAD, entity(*((ex(f"v{at}"), value) for at, value in enumerate(VALUES)))]
    parts.append(Record("used", None, (ex("a"), ex("e"), "2020-01-01T00:00:00")))
    parts += [Bundle(ex("b")), entity()]
    jsonschema.validate(json.loads(exported("prov-json", stored(parts))), json.loads(path.read_text()))


@settings(max_examples=60)
@given(st.lists(records(), max_size=5), st.lists(records(), max_size=2), ITEMS)
def test_any_document_is_exported_without_loss_or_refused(
    outer: list[Record], inner: list[Record], item: Value
) -> None:
    parts: list[Part] = [HEAD, *outer, entity((ex("v"), item)), Bundle(ex("bundle"), (("ex", "urn:s:"),)), *inner]
    document = stored(parts)
    assert strict_diff(parts, reread("prov-json", exported("prov-json", document))).holds("multiset")
    try:
        text = exported("prov-n", document)
    except ConfigError:
        return
    back = strict_diff(parts, reread("prov-n", text))
    assert back.holds("multiset")
    assert not back.reordered
