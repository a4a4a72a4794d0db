"""Facts of the graph as rows, for the exports: a whole attempt, or the elements of a trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from provstore.cypher import query
from provstore.model.block import Statement, Value
from provstore.queries.rows import Row, text, texts
from provstore.stores import GraphStore

_CHUNK = 5_000
_PROPERTY = (str, int, float, bool, list)


def of_attempt(store: GraphStore, run: str, attempt: int) -> Iterator[Statement]:
    """Yield the elements of an attempt, the signatures and stacks they name, and their relationships."""
    scope = {"run": run, "attempt": attempt}
    yield from _elements(store, store.run(query("read/export/elements"), scope))
    for row in store.run(query("read/export/relations"), scope):
        yield _relation(row)


def of_elements(store: GraphStore, iris: Sequence[str]) -> Iterator[Statement]:
    """Yield the given elements, the signatures and stacks they name, and the relationships among them."""
    known = set(iris)
    for chunk in _chunks(iris):
        yield from _elements(store, store.run(query("read/export/elements_by_iri"), {"iris": chunk}))
    for chunk in _chunks(iris):
        for row in store.run(query("read/export/relations_among"), {"iris": chunk}):
            if row["target"] in known:
                yield _relation(row)


def documents(store: GraphStore) -> list[str]:
    """Return the keys of the imported documents."""
    return [text(row, "document") for row in store.run(query("read/documents/list"))]


def of_document(store: GraphStore, document: str) -> Iterator[Statement]:
    """Yield what the graph holds of an imported PROV document."""
    bundles = []
    for row in store.run(query("read/documents/bundles"), {"document": document}):
        bundles.append(text(row, "key"))
        yield Statement(("Bundle",), text(row, "key"), properties=_facts(row))
    for row in store.run(query("read/documents/attribute_keys")):
        yield Statement(("AttributeKey",), text(row, "key"), properties=_facts(row))
    for name, label in (("descriptions", "Description"), ("statements", "Statement")):
        for row in store.run(query(f"read/documents/{name}"), {"bundles": bundles}):
            yield Statement(_labels(row, label), text(row, "key"), properties=_facts(row))
    for row in store.run(query("read/documents/relations"), {"bundles": bundles}):
        yield _relation(row)


def _elements(store: GraphStore, rows: Iterable[Row]) -> Iterator[Statement]:
    named: dict[str, set[str]] = {"signature": set(), "stack": set()}
    for row in rows:
        facts = _facts(row)
        for name, keys in named.items():
            if isinstance(key := facts.get(name), str):
                keys.add(key)
        yield Statement(_labels(row, "Element"), str(facts["iri"]), properties=facts)
    for name, label in (("signature", "Signature"), ("stack", "Stack")):
        for chunk in _chunks(sorted(named[name])):
            for row in store.run(query(f"read/dumps/{name}s"), {"keys": chunk}):
                facts = {key: value for key, value in row.items() if isinstance(value, _PROPERTY)}
                yield Statement((label,), text(row, "key"), properties=facts)


def _relation(row: Row) -> Statement:
    source, relation, target = (text(row, name) for name in ("source", "relation", "target"))
    return Statement(("Element", "Element"), source, relation, target, _facts(row))


def _labels(row: Row, base: str) -> tuple[str, ...]:
    return base, *sorted(label for label in texts(row, "labels") if label != base)


def _facts(row: Row) -> dict[str, Value]:
    facts = row["facts"]
    if not isinstance(facts, dict):
        return {}
    return {str(name): value for name, value in facts.items() if isinstance(value, _PROPERTY)}


def _chunks(keys: Sequence[str]) -> Iterator[list[str]]:
    for at in range(0, len(keys), _CHUNK):
        yield list(keys[at : at + _CHUNK])
