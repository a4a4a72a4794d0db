"""Facts of the graph as the PROV document they were imported from: the inverse of ``graph.prov_mapping``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import orjson

from provstore.graph.prov_mapping import KIND_OF_RELATION, LABEL_OF_STATEMENT
from provstore.graph.prov_values import TAG, Splitter, decode, name_of_text
from provstore.graph.spill import sorted_lines
from provstore.model.block import Statement
from provstore.model.block import Value as Property
from provstore.model.prov import ELEMENTS, FORMAL, TIME_ROLES, Bundle, Part, QName, Record, Value

Rows = Callable[[], Iterable[Statement]]


def document_keys(statements: Iterable[Statement]) -> list[str]:
    """Return the keys of the imported documents among ``statements``, sorted."""
    return sorted(
        row.key
        for row in statements
        if row.type is None and "Bundle" in row.labels and row.properties.get("isDocument")
    )


def stored_parts(statements: Rows, document: str) -> Iterator[Part]:
    """Yield the imported document with this key, bundle by bundle, its records in their order.

    The records are sorted on disk when they are many. Reference-only elements and derived relationships give none.
    """
    heads, keys = _heads(statements(), document)
    places = list(heads.values())
    opened = 0
    for line in sorted_lines(_lines(statements(), heads)):
        number = int(line[:8])
        while opened <= number:
            yield places[opened].head
            opened += 1
        yield _record(orjson.loads(line[20:]), places[number].splitter, keys)
    for place in places[opened:]:
        yield place.head


@dataclass(frozen=True, slots=True)
class _Place:
    number: int
    head: Bundle
    splitter: Splitter


def _heads(statements: Iterable[Statement], document: str) -> tuple[dict[str, _Place], dict[str, tuple[str, str]]]:
    """Return (bundle key → where its records go, attribute key → what it stands for)."""
    bundles: dict[str, Mapping[str, Property]] = {}
    keys: dict[str, tuple[str, str]] = {}
    for row in statements:
        if row.type is not None:
            continue
        if "AttributeKey" in row.labels:
            keys[row.key] = (str(row.properties["namespace"]), str(row.properties["local"]))
        elif "Bundle" in row.labels and row.properties.get("documentId") == document:
            bundles[row.key] = row.properties
    ordered = sorted(bundles.items(), key=lambda pair: (not pair[1].get("isDocument"), _number(pair[1]), pair[0]))
    outer = _head(ordered[0][1]) if ordered else Bundle()
    places: dict[str, _Place] = {}
    for number, (key, properties) in enumerate(ordered):
        head = _head(properties)
        places[key] = _Place(number, head, Splitter(outer, head))
    return places, keys


def _number(properties: Mapping[str, Property]) -> int:
    seq = properties.get("seq", 0)
    return seq if isinstance(seq, int) else 0


def _head(properties: Mapping[str, Property]) -> Bundle:
    name = name_of_text(str(properties["nameQ"])) if "nameQ" in properties else None
    prefixes, namespaces = properties.get("prefixes", []), properties.get("namespaces", [])
    pairs = zip(prefixes, namespaces) if isinstance(prefixes, list) and isinstance(namespaces, list) else ()
    default = properties.get("defaultNamespace")
    declared = tuple((str(prefix), str(namespace)) for prefix, namespace in pairs)
    return Bundle(name, declared, None if default is None else str(default))


def _lines(statements: Iterable[Statement], heads: Mapping[str, _Place]) -> Iterator[bytes]:
    """Yield one sortable line a record: number of its bundle, its number there, the rest as JSON."""
    for row in statements:
        kind = _kind(row)
        place = heads.get(str(row.properties.get("bundleKey"))) if kind is not None else None
        if place is not None:
            body = orjson.dumps([kind, row.key, row.target, dict(row.properties)])
            yield b"%08d%012d%b" % (place.number, _number(row.properties), body)


def _kind(row: Statement) -> str | None:
    if row.type is not None:
        return KIND_OF_RELATION.get(row.type) if "recordKey" in row.properties else None
    if "Description" in row.labels or "Statement" in row.labels:
        kind = row.properties.get("recordType")
        return kind if isinstance(kind, str) and (kind in ELEMENTS or kind in LABEL_OF_STATEMENT) else None
    return None


def _record(
    stored: tuple[str, str, str | None, dict[str, Property]],
    splitter: Splitter,
    keys: Mapping[str, tuple[str, str]],
) -> Record:
    kind, source, target, properties = stored
    iris = {f"{role}Iri": role for role in FORMAL[kind]}
    found = {iris[name]: str(iri) for name, iri in properties.items() if name in iris}
    if target is not None:
        found[FORMAL[kind][0]], found[FORMAL[kind][1]] = source, target
    formal: list[QName | str | None] = []
    for role in FORMAL[kind]:
        if role in TIME_ROLES:
            formal.append(str(properties[role]) if role in properties else None)
        else:
            formal.append(_name(role, found[role], properties, splitter) if role in found else None)
    iri = properties.get("recordIri")
    name = None if iri is None else _name("record", str(iri), properties, splitter)
    return Record(kind, name, tuple(formal), tuple(_attributes(properties, splitter, keys)))


def _name(role: str, iri: str, properties: Mapping[str, Property], splitter: Splitter) -> QName:
    spelling = properties.get(f"{role}Q")
    return splitter.split(iri) if spelling is None else name_of_text(str(spelling))


def _attributes(
    properties: Mapping[str, Property], splitter: Splitter, keys: Mapping[str, tuple[str, str]]
) -> Iterator[tuple[QName, Value]]:
    named = ((splitter.attribute(*keys[key]), key) for key in properties if key in keys)
    for name, key in sorted(named, key=lambda pair: pair[0].iri):
        for value in decode(properties[key], properties.get(key + TAG)):
            yield name, value
