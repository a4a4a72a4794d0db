"""Imported PROV documents on the embedded engine."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import prov
import pytest
from prov.model import ProvDocument
from test_prov_mapping import EX, HEAD, STRINGS, VALUES, as_document, entity, ex

from provstore.cypher import query
from provstore.graph.prov_compare import strict_diff
from provstore.graph.prov_mapping import blocks
from provstore.graph.prov_objects import document_parts
from provstore.graph.prov_stored import stored_parts
from provstore.model.block import UNIQUE_KEY, Statement
from provstore.model.prov import Part, Record, double, integer, string
from provstore.stores import GraphStore, open_store
from provstore.stores.dump import canonical_dump
from provstore.stores.plain import properties

WHEEL = Path(prov.__file__).parent / "tests"


def statements(store: GraphStore) -> Iterator[Statement]:
    for row in store.run(query("read/store/nodes")):
        facts = properties(row["properties"])
        base = next(label for label in row["labels"] if label in UNIQUE_KEY)
        yield Statement(tuple(row["labels"]), str(facts[UNIQUE_KEY[base]]), properties=facts)
    for row in store.run(query("read/store/relations")):
        yield Statement(("", ""), row["source"], row["type"], row["target"], properties(row["properties"]))


@pytest.fixture
def store() -> Iterator[GraphStore]:
    opened = open_store("memory:", writable=True)
    yield opened
    opened.close()


def test_every_value_and_name_survives_the_engine_in_both_write_paths(store: GraphStore) -> None:
    parts: list[Part] = [HEAD]
    for at, value in enumerate(VALUES):
        for stated in ([value], [value, value], [string("other"), value], [value, integer(7), double(0.1)]):
            attributes = tuple((ex("v"), one) for one in stated)
            parts.append(entity(*attributes, name=f"e{at}"))
            parts.append(Record("used", None, (ex("a"), ex(f"e{at}"), None), attributes))
    parts += [entity((ex(text), string(text)), name=f"n{text}") for text in STRINGS]
    # Alike in labels and columns, so that the bulk writers take them.
    parts += [entity((ex("v"), VALUES[at % 4]), name=f"bulk{at}") for at in range(1200)]
    for block in blocks(as_document(parts)):
        store.write(block)
    assert strict_diff(parts, stored_parts(lambda: statements(store), "doc")).equal_at == "exact"


def test_a_document_taken_in_twice_and_in_other_pieces_leaves_the_same_graph(store: GraphStore) -> None:
    parts: list[Part] = [HEAD]
    parts += [entity((ex("n"), integer(at)), name=f"e{at % 7}") for at in range(30)]
    parts += [Record("wasDerivedFrom", None, (ex(f"e{at}"), ex("e0"), ex("act"), None, None)) for at in range(1, 7)]
    parts += [Record("wasStartedBy", None, (ex("act"), None, ex("starter"), None))] * 2
    for block in blocks(as_document(parts)):
        store.write(block)
    once = list(canonical_dump(store))
    for block in blocks(as_document(parts), batch=3):
        store.write(block)
    assert list(canonical_dump(store)) == once
    assert any(f"{EX}starter" in line for line in once)


@pytest.mark.skipif(not WHEEL.is_dir(), reason="the installed prov has no tests folder")
def test_every_eighth_document_of_the_wheel_comes_back_exactly_from_one_store(store: GraphStore) -> None:
    documents = {}
    for path in sorted((WHEEL / "json").glob("*.json"))[::8]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            documents[path.name] = list(document_parts(ProvDocument.deserialize(source=str(path), format="json")))
    for name, parts in documents.items():
        for block in blocks(as_document(parts, name)):
            store.write(block)
    rows = list(statements(store))
    for name, parts in documents.items():
        assert strict_diff(parts, stored_parts(lambda: rows, name)).equal_at == "exact", name
