"""Every value comes back as it was given, on every store, by every way of writing."""

from __future__ import annotations

from array import array

import pytest

from provstore.cypher import adhoc
from provstore.errors import StoreError
from provstore.model.block import Block, Nodes, Relations
from provstore.stores import GraphStore
from provstore.stores.embedded import BULK_ROWS

TEXTS = [
    *("", " ", "  leading and trailing  ", '"', "'", "\\", "`", "\n", "\r\n", "\t", "\x85", "\u2028", "\ufeff", "\x00"),
    *(
        "a\x00b",
        "\x01",
        "a\x1eb\x1fc",
        "\U0001f600",
        "e\u0301",
        "\u00e9",
        "true",
        "1",
        "1.0",
        "2024-01-01",
        "NaN",
        "null",
    ),
    *(
        "x'}) CREATE (:Secret {name:'pwn",
        "`Person`) DETACH DELETE (n",
        "\\u0060",
        "__proto__",
        "MATCH",
        "a" * 10_000,
        " 007",
    ),
]
DOUBLES = [0.8000692426956483, 0.30000000000000004, -0.0, 0.0, 5e-324, 1.7976931348623157e308, 1e22, 1.0]
DOUBLES += [float("inf"), float("-inf")]
INTEGERS = [0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1]
BOOLEANS = [True, False]
LISTS = [["", "a", " "], ["\x00"], [1, 2**63 - 1], [0.30000000000000004, -0.0], [True, False], []]
KINDS = {"text": TEXTS, "double": DOUBLES, "integer": INTEGERS, "boolean": BOOLEANS, "list": LISTS}


def exactly(value: object) -> tuple[type, str]:
    """Return a form in which 1, 1.0 and True, and 0.0 and -0.0, differ."""
    return type(value), repr(value)


def nodes_of(values: list[object], rows: int) -> Nodes:
    column = [values[at % len(values)] for at in range(rows)]
    return Nodes(("Element", "Entity"), [f"urn:n{at}" for at in range(rows)], {"value": column})


def read_nodes(store: GraphStore) -> list[object]:
    rows = store.run(adhoc("MATCH (n:Entity) RETURN n.iri AS iri, n.value AS value ORDER BY iri"))
    return [row["value"] for row in rows]


@pytest.mark.parametrize("rows", [1, BULK_ROWS])
@pytest.mark.parametrize("kind", KINDS)
def test_a_property_of_a_node_comes_back_unchanged(stores, kind, rows):
    values = KINDS[kind]
    if rows == 1:
        rows = len(values)
    store = stores.open()
    given = nodes_of(values, rows)
    store.write(Block("run", 0, (given,)))
    expected = dict(zip(given.keys, given.columns["value"]))
    assert [exactly(value) for value in read_nodes(store)] == [exactly(expected[key]) for key in sorted(expected)]


def test_values_of_several_types_in_one_column_come_back_unchanged(stores):
    values = [value for group in KINDS.values() for value in group]
    store = stores.open()
    given = nodes_of(values, max(BULK_ROWS, len(values)))
    store.write(Block("run", 0, (given,)))
    expected = dict(zip(given.keys, given.columns["value"]))
    assert [exactly(value) for value in read_nodes(store)] == [exactly(expected[key]) for key in sorted(expected)]


@pytest.mark.parametrize(
    ("kind", "type_"), [("text", "USED"), ("double", "USED"), ("integer", "USED"), ("list", "SAME_AS")]
)
@pytest.mark.parametrize("rows", [1, BULK_ROWS])
def test_a_property_of_a_relationship_comes_back_unchanged(stores, kind, type_, rows):
    values = KINDS[kind] * (rows // len(KINDS[kind]) + 1)
    keys = [f"urn:n{at}" for at in range(len(values) + 1)]
    columns = {"value": values, "recordKey": [f"k{at:05}" for at in range(len(values))]}
    if type_ == "SAME_AS":
        columns = {"value": values, "scope": ["run/0"] * len(values)}
    store = stores.open()
    nodes = Nodes(("Element",), keys)
    relations = Relations(type_, keys[1:], keys[:-1], columns=columns)
    store.write(Block("run", 0, (nodes,), (relations,)))
    read = store.run(adhoc(f"MATCH (a)-[r:{type_}]->() RETURN a.iri AS iri, r.value AS value ORDER BY iri"))
    expected = dict(zip(keys[1:], values))
    assert [exactly(row["value"]) for row in read] == [exactly(expected[key]) for key in sorted(expected)]


def test_a_packed_column_and_a_column_with_gaps_come_back_unchanged(stores):
    rows = BULK_ROWS
    keys = [f"urn:n{at:04}" for at in range(rows)]
    stamps = array("q", [1_700_000_000_000_000_000 + at for at in range(rows)])
    times = array("d", [at / 7 for at in range(rows)])
    gaps = [stamp if at % 3 else None for at, stamp in enumerate(stamps)]
    flags = [True if at % 2 else None for at in range(rows)]
    columns = {"stamp": stamps, "time": times, "gap": gaps, "flag": flags, "nothing": [None] * rows}
    store = stores.open()
    store.write(Block("run", 0, (Nodes(("Element", "Call"), keys, columns),)))
    text = "MATCH (n:Call) RETURN n.stamp AS stamp, n.time AS time, n.gap AS gap, n.flag AS flag, n.nothing AS nothing"
    read = list(store.run(adhoc(f"{text} ORDER BY n.iri")))
    assert read == [dict(zip(columns, values)) for values in zip(*columns.values())]


@pytest.mark.parametrize("text", [text for text in TEXTS if text])
def test_a_string_of_any_kind_can_be_a_key_that_finds_its_node(stores, text):
    if stores.kind == "neo4j" and len(text) > 8000:
        pytest.skip("Neo4j keeps no text above 8 KB in an index")
    store = stores.open()
    store.write(
        Block("run", 0, (Nodes(("Element", "Entity"), [text, "other"]),), (Relations("USED", [text], ["other"]),))
    )
    found = store.run(
        adhoc("MATCH (n:Element {iri: $iri})-[:USED]->(m) RETURN n.iri AS iri, m.iri AS other"), {"iri": text}
    )
    assert list(found) == [{"iri": text, "other": "other"}]


@pytest.mark.parametrize(
    "value", [float("nan"), 2**70, -(2**70), "\ud800", b"bytes", {"a": 1}, [1, "a"], [float("nan")], [None]]
)
@pytest.mark.parametrize("rows", [1, BULK_ROWS])
def test_what_no_engine_keeps_is_refused_and_leaves_nothing_behind(stores, value, rows):
    store = stores.open()
    good = Nodes(("Element", "Entity"), ["urn:good"])
    bad = Nodes(("Element", "Entity"), [f"urn:n{at}" for at in range(rows)], {"value": [value] * rows})
    with pytest.raises(StoreError, match=r"Entity\.value"):
        store.write(Block("run", 0, (good, bad)))
    assert read_nodes(store) == []


@pytest.mark.parametrize("name", ["id", "title", "type", "label", "node_type", "iri", "a-b", "`", "", "a" * 65, "ä"])
def test_a_property_name_that_some_engine_claims_is_refused(stores, name):
    with pytest.raises(StoreError, match="not a property name"):
        stores.open().write(Block("run", 0, (Nodes(("Element",), ["urn:a"], {name: [1]}),)))


def test_a_name_is_a_property_like_any_other(stores):
    store = stores.open()
    rows = BULK_ROWS
    keys = [f"urn:n{at:04}" for at in range(rows)]
    store.write(Block("run", 0, (Nodes(("Element",), keys[:2]),)))
    store.write(Block("run", 0, (Nodes(("Element",), keys, {"rank": [7] * rows}),)))
    store.write(Block("run", 0, (Nodes(("Element",), keys[:1], {"name": ["first"]}),)))
    store.write(Block("run", 0, (Nodes(("Element",), keys, {"name": ["second", *[None] * (rows - 1)]}),)))
    read = store.run(adhoc("MATCH (n:Element) RETURN n.name AS name ORDER BY n.iri"))
    assert [row["name"] for row in read] == ["first", *[None] * (rows - 1)]
