"""PROV documents in the graph and back."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prov.constants import PROV_ATTR_COLLECTION, PROV_ATTR_ENTITY, PROV_MEMBERSHIP
from prov.model import ProvDocument
from prov_fake_store import FakeStore

from provstore.errors import InputError
from provstore.graph.prov_compare import strict_diff
from provstore.graph.prov_mapping import blocks
from provstore.graph.prov_objects import document_parts
from provstore.graph.prov_stored import document_keys, stored_parts
from provstore.graph.prov_values import attribute_key, time_microseconds
from provstore.model.block import Block
from provstore.model.prov import (
    ELEMENTS,
    FORMAL,
    TIME_ROLES,
    XSD,
    Bundle,
    Document,
    Part,
    QName,
    Record,
    Value,
    boolean,
    double,
    integer,
    literal,
    qname,
    string,
)

EX = "http://example.org/"


def ex(local: str, prefix: str = "ex", namespace: str = EX) -> QName:
    return QName(prefix, namespace, local)


def entity(*attributes: tuple[QName, Value], name: str = "e") -> Record:
    return Record("entity", ex(name), (), attributes)


def as_document(parts: list[Part], key: str = "doc") -> Document:
    records = sum(isinstance(part, Record) for part in parts)
    return Document(key, lambda: parts, records, 0)


def through_graph(parts: list[Part], batch: int = 10_000) -> Iterator[Part]:
    store = FakeStore()
    store.write(blocks(as_document(parts), batch=batch))
    return stored_parts(store.statements, "doc")


HEAD = Bundle(None, (("ex", EX), ("deep", f"{EX}deep/")))

# Value acceptance list: doubles of 17 digits, special doubles, integers at and beyond 64 bits, awkward strings.
STRINGS = [
    "",
    "\"'\\`",
    "a\nb\r\nc\td",
    " x ",
    "\x85\u2028",
    "\ufeff",
    "\U0001f600",
    "e\u0301",
    "\x00",
    "\x01",
    "\x1e\x1f",
    "true",
    "1",
]
VALUES = [
    *(double(x) for x in (0.8000692426956483, 0.30000000000000004, float("nan"), float("inf"), float("-inf"), -0.0)),
    *(double(x) for x in (5e-324, 1.7976931348623157e308, 1e22, 1.0)),
    *(integer(x) for x in (1, 0, 2**63 - 1, -(2**63), 2**70)),
    *map(string, STRINGS),
    boolean(True),
    literal("10.00", QName("xsd", XSD, "decimal")),
    literal("10", QName("xsd", XSD, "decimal")),
    literal("05", QName("xsd", XSD, "int")),
    literal("x\x1ey", ex("my\x1ftype")),
    literal("chat", None, "fr"),
    literal("chat", None, "FR"),
    Value("anyURI", "http://example.org/#x"),
    Value("dateTime", "2020-02-29T24:00:00.123456789+14:00"),
    qname(ex("a/b", "ex")),
    qname(QName("", "urn:default:", "x")),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_value_survives_alone_and_in_a_list(value: Value) -> None:
    for stated in ([value], [value, value], [string("other"), value], [value, integer(7), double(float("nan"))]):
        parts: list[Part] = [HEAD, entity(*((ex("v"), one) for one in stated))]
        relation = Record("used", None, (ex("a"), ex("e"), None), tuple((ex("v"), one) for one in stated))
        assert strict_diff([*parts, relation], through_graph([*parts, relation])).equal_at == "exact"


@pytest.mark.parametrize("text", STRINGS[1:])
def test_awkward_text_survives_as_a_name(text: str) -> None:
    parts: list[Part] = [HEAD, entity(name=text), entity((ex(text), string("v")), name=f"n{text}")]
    assert strict_diff(parts, through_graph(parts)).equal_at == "exact"


def test_awkward_attribute_names_stay_apart() -> None:
    names = [
        "_t",
        "foo__t",
        "foo",
        "a-b",
        "a_b",
        "a_b_2",
        "seq",
        "bundleKey",
        "recordKey",
        "id",
        "title",
        "type",
        "",
        "9",
    ]
    attributes = [(ex(name), string(f"value {at}")) for at, name in enumerate([*names, "x" * 10_000])]
    attributes.append((ex("y", "__x", "urn:x:"), string("other prefix")))
    attributes.append((QName("ex", f"{EX}a", "-b"), string("other split of the same IRI")))
    parts: list[Part] = [Bundle(None, (("ex", EX), ("__x", "urn:x:"))), entity(*attributes)]
    assert strict_diff(parts, through_graph(parts)).equal_at == "exact"


def test_an_attribute_key_is_a_legal_name_that_depends_on_the_attribute_alone() -> None:
    names = [ex("a-b"), ex("a_b"), ex("a_b_2"), ex("_t"), ex("foo__t"), ex(""), ex("9"), ex("é"), ex("x" * 10_000)]
    keys = [attribute_key(name) for name in names]
    assert len(set(keys)) == len(keys)
    for key in keys:
        assert key.isascii()
        assert key.isidentifier()
        assert len(key) <= 64
        assert not key.endswith("__t")
    assert attribute_key(ex("a", "other")) == attribute_key(ex("a"))
    assert attribute_key(QName("p", "http://www.w3.org/ns/prov#", "role")) == "prov__role"


def test_a_lone_surrogate_is_refused_with_record_and_attribute() -> None:
    parts: list[Part] = [HEAD, entity((ex("bad"), string("\ud800")))]
    with pytest.raises(InputError, match=r"entity ex:e: attribute ex:bad: holds a lone surrogate"):
        list(blocks(as_document(parts)))


def test_equal_anonymous_relations_stay_two() -> None:
    used = Record("used", None, (ex("a"), ex("e"), None))
    parts: list[Part] = [HEAD, used, used]
    assert strict_diff(parts, through_graph(parts)).equal_at == "exact"


def test_one_id_with_two_times_stays_two_relations() -> None:
    times = ("2020-01-01T00:00:00", "2021-01-01T00:00:00Z")
    parts: list[Part] = [HEAD, *(Record("used", ex("u"), (ex("a"), ex("e"), time)) for time in times)]
    assert strict_diff(parts, through_graph(parts)).equal_at == "exact"


def test_a_membership_of_several_is_one_record_a_member() -> None:
    document = ProvDocument()
    document.add_namespace("ex", EX)
    members = [(PROV_ATTR_ENTITY, "ex:a"), (PROV_ATTR_ENTITY, "ex:b")]
    document.new_record(PROV_MEMBERSHIP, None, [(PROV_ATTR_COLLECTION, "ex:c"), *members])
    parts = list(document_parts(document))
    assert [part.formal[1] for part in parts if isinstance(part, Record)] == [ex("a"), ex("b")]


def test_relations_without_first_or_second_argument_survive() -> None:
    parts: list[Part] = [HEAD]
    for kind, roles in FORMAL.items():
        if kind in ELEMENTS:
            continue
        for present in itertools.product((True, False), repeat=min(len(roles), 3)):
            formal = tuple(
                None
                if at >= len(present) or not present[at]
                else "2020-01-01T00:00:00"
                if role in TIME_ROLES
                else ex(f"{role}{at}")
                for at, role in enumerate(roles)
            )
            parts.append(Record(kind, None, formal))
    assert strict_diff(parts, through_graph(parts)).equal_at == "exact"


def test_traversal_edges_are_added_and_never_become_records() -> None:
    parts: list[Part] = [
        HEAD,
        Record("wasAssociatedWith", None, (ex("a"), ex("ag"), ex("plan"))),
        Record("wasDerivedFrom", None, (ex("e2"), ex("e1"), ex("a"), ex("g"), ex("u"))),
        Record("wasStartedBy", None, (ex("a"), None, ex("starter"), None)),
    ]
    store = FakeStore()
    store.write(blocks(as_document(parts)))
    types = {row.type for row in store.relations.values()}
    assert {"FOLLOWED_PLAN", "VIA_ACTIVITY", "STARTED_BY_ACTIVITY", "SUBJECT", "ARGUMENT"} <= types
    assert not any(key.endswith(("/g", "/u")) for _, key in store.nodes)
    assert strict_diff(parts, stored_parts(store.statements, "doc")).equal_at == "exact"


def test_bundles_keep_their_names_order_scopes_and_emptiness() -> None:
    parts: list[Part] = [
        Bundle(None, (("ex", EX),), "urn:default:"),
        Record("entity", QName("", "urn:default:", "e"), ()),
        entity(name="b1"),
        Bundle(ex("b2"), (("ex", "urn:other:"),), None),
        Record("entity", QName("ex", "urn:other:", "e"), ()),
        Bundle(ex("b1"), (), "urn:inner:"),
        Record("entity", QName("", "urn:inner:", "e"), ()),
        Bundle(ex("b0")),
    ]
    store = FakeStore()
    store.write(blocks(as_document(parts)))
    back = list(stored_parts(store.statements, "doc"))
    assert strict_diff(parts, back).equal_at == "exact"
    assert [part.name.local for part in back if isinstance(part, Bundle) and part.name] == ["b2", "b1", "b0"]
    assert [(row.key, row.target) for row in store.relations.values() if row.type == "IDENTIFIES"] == [
        (f"doc|{EX}b1", f"{EX}b1")
    ]


def test_ingest_is_a_union_whatever_the_order_the_split_and_the_repetitions() -> None:
    documents = [
        as_document(
            [
                Bundle(None, ((prefix, EX),)),
                Record("entity", ex("e", prefix), (), ((ex("a", prefix), integer(number)),)),
                Record("used", None, (ex("act", prefix), ex("e", prefix), None)),
                Record("wasGeneratedBy", None, (ex(f"out{number}", prefix), None, None)),
            ],
            f"doc{number}",
        )
        for number, prefix in enumerate(("ex", "foo", "ex"))
    ]
    first = FakeStore()
    for document in documents:
        first.write(blocks(document))
    for seed in range(5):
        found: list[Block] = [block for document in documents for block in blocks(document, batch=1)] * 2
        random.Random(seed).shuffle(found)
        rows = sorted((row for block in found for row in block.statements()), key=lambda row: row.type is not None)
        other = FakeStore()
        other.write([Block.from_statements(rows)])
        assert other.dump() == first.dump()
    assert document_keys(first.statements()) == ["doc0", "doc1", "doc2"]


def test_no_property_has_a_name_that_the_engine_keeps_for_itself() -> None:
    parts: list[Part] = [HEAD, entity((ex("id"), string("x")), (ex("type"), string("y")), (ex("title"), string("z")))]
    names = {
        name
        for block in blocks(as_document(parts))
        for group in (*block.nodes, *block.relations)
        for name in group.columns
    }
    assert not names & {"id", "title", "type"}


def test_every_column_holds_values_of_one_type() -> None:
    parts: list[Part] = [HEAD, *(entity((ex("v"), value), name=f"e{at}") for at, value in enumerate(VALUES))]
    for block in blocks(as_document(parts)):
        for group in (*block.nodes, *block.relations):
            for column in group.columns.values():
                assert len({type(item) for item in column}) == 1


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_times_count_from_1970_whatever_the_machines_zone(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for text in ("2012-02-29T23:59:59.123456", "1969-12-31T23:59:59.5+05:30", "2400-03-01T00:00:00-12:00"):
            stated = dt.datetime.fromisoformat(text)
            aware = stated if stated.tzinfo else stated.replace(tzinfo=dt.UTC)
            epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
            assert time_microseconds(text) == ((aware - epoch) // dt.timedelta(microseconds=1), stated.tzinfo is None)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_an_hour_of_24_is_midnight_of_the_next_day_and_nanoseconds_drop() -> None:
    assert time_microseconds("1970-01-01T24:00:00Z") == (86_400_000_000, False)
    assert time_microseconds("1970-01-01T00:00:00.123456789Z") == (123456, False)
    assert time_microseconds("99999999-01-01T00:00:00Z")[0] is None


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LOCALS = st.sampled_from(["a", "b", "c", "a-b", "deep/x", ""]) | TEXT
NAMES = st.builds(QName, st.just("ex"), st.just(EX), LOCALS) | st.builds(
    QName, st.just("deep"), st.just(f"{EX}deep/"), LOCALS
)
TIMES = st.datetimes(timezones=st.none() | st.just(dt.UTC)).map(dt.datetime.isoformat)
ITEMS = (
    TEXT.map(string)
    | st.booleans().map(boolean)
    | st.integers().map(integer)
    | st.floats().map(double)
    | NAMES.map(qname)
    | TIMES.map(lambda text: Value("dateTime", text))
    | TEXT.map(lambda text: Value("anyURI", text))
    | st.builds(literal, TEXT, NAMES)
    | st.builds(literal, TEXT, st.none(), st.sampled_from(["en", "EN", "de-AT"]))
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    kind = draw(st.sampled_from(sorted(FORMAL)))
    formal = tuple(draw(st.none() | (TIMES if role in TIME_ROLES else NAMES)) for role in FORMAL[kind])
    name = draw(NAMES if kind in ELEMENTS else st.none() | NAMES)
    return Record(kind, name, formal, tuple(draw(st.lists(st.tuples(NAMES, ITEMS), max_size=4))))


@settings(max_examples=150)
@given(st.lists(records(), max_size=6), st.lists(records(), max_size=3))
def test_any_document_comes_back_exactly(outer: list[Record], inner: list[Record]) -> None:
    parts: list[Part] = [HEAD, *outer, Bundle(ex("bundle"), (("ex", "urn:shadow:"),), "urn:d:"), *inner]
    assert strict_diff(parts, through_graph(parts, batch=2)).equal_at == "exact"
