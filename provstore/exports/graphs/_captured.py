"""Captured facts as PROV records: columns become attributes, what repeats is joined back to each call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import orjson

from provstore.graph.prov_mapping import KIND_OF_RELATION
from provstore.model import ids
from provstore.model.block import Statement
from provstore.model.block import Value as Property
from provstore.model.prov import (
    FORMAL,
    PROV,
    Bundle,
    Part,
    QName,
    Record,
    Value,
    boolean,
    double,
    integer,
    qname,
    string,
)

NS = "https://w3id.org/provstore/ns#"
ID_PREFIX = "run"
NS_PREFIX = "provstore"
CLASSES = frozenset({"Element", "Entity", "Activity", "Agent"})

_HEAD = Bundle(namespaces=((ID_PREFIX, ids.BASE), (NS_PREFIX, NS)))
_PROV_TYPE = QName("prov", PROV, "type")
_JOINED = ("op", "raw_name", "channel", "input_sizes", "output_sizes", "input_dtypes", "output_dtypes", "timeout_ms")
_NOT_ATTRIBUTES = frozenset({"iri", "declared", "signature", "stack"})
_MESSAGE = "DERIVED_MESSAGE"
_Triple = tuple[str, str, str]


@dataclass(slots=True)
class Catalogue:
    """What one look at the rows tells: what several nodes share, and which documents are there."""

    signatures: dict[str, Mapping[str, Property]] = field(default_factory=dict)
    stacks: dict[str, Property] = field(default_factory=dict)
    """Key of a stack → the line of user code."""
    documents: list[str] = field(default_factory=list)
    """Keys of the imported documents, sorted."""
    captured: int = 0
    """Captured elements."""
    relations: int = 0
    """Relationships without a record key."""
    stated: frozenset[_Triple] = frozenset()
    """(type, from, to) of the imported relations between captured elements."""


def catalogue(statements: Callable[[], Iterable[Statement]]) -> Catalogue:
    """Return what a look at the rows tells; a second look is taken only when there are imported relations."""
    found = Catalogue()
    has_records = False
    for row in statements():
        if row.type is not None:
            is_record = "recordKey" in row.properties
            has_records = has_records or is_record
            found.relations += not is_record
        elif is_captured(row):
            found.captured += 1
        elif "Signature" in row.labels:
            found.signatures[row.key] = row.properties
        elif "Stack" in row.labels and "user_frame" in row.properties:
            found.stacks[row.key] = row.properties["user_frame"]
        elif "Bundle" in row.labels and row.properties.get("isDocument"):
            found.documents.append(row.key)
    found.documents.sort()
    if has_records and found.captured:
        found.stated = _stated(statements)
        found.relations += len(found.stated)
    return found


def _stated(statements: Callable[[], Iterable[Statement]]) -> frozenset[_Triple]:
    """Return the imported relations that stand for captured ones: a store keeps one relationship for both.

    A message that an export of ours stated, and that came back, is still known as a derived one.
    """
    captured = {row.key for row in statements() if is_captured(row)}
    found: set[_Triple] = set()
    messages: set[_Triple] = set()
    for row in statements():
        if row.type is None or row.target is None:
            continue
        if row.type == _MESSAGE:
            messages.add(("WAS_INFORMED_BY", row.key, row.target))
        elif (
            "recordKey" in row.properties
            and row.type in KIND_OF_RELATION
            and captured.issuperset((row.key, row.target))
        ):
            found.add((row.type, row.key, row.target))
    return frozenset(found - messages)


def is_captured(row: Statement) -> bool:
    """Return whether ``row`` is an element that a capture stated, not one that only a PROV document names."""
    return row.type is None and "Element" in row.labels and not CLASSES.issuperset(row.labels)


def captured_parts(rows: Iterable[Statement], shared: Catalogue) -> Iterator[Part]:
    """Yield the PROV document of captured facts: elements and captured relations, in the order of the rows.

    Derived relations are left out, except messages whose pairing is exact; so are structure and shared nodes, whose
    content is put on the calls.
    """
    yield _HEAD
    pending = set(shared.stated)
    for row in rows:
        if row.type is None or row.target is None:
            record = _element(row, shared)
        else:
            triple = (row.type, row.key, row.target)
            is_first = triple in pending if triple in shared.stated else "recordKey" not in row.properties
            pending.discard(triple)
            record = _relation(row, row.type, row.target) if is_first else None
        if record is not None:
            yield record


def _element(row: Statement, shared: Catalogue) -> Record | None:
    if not is_captured(row) or row.properties.get("declared") is False:
        return None
    kind = next((name.lower() for name in ("Activity", "Agent", "Entity") if name in row.labels), None)
    if kind is None:
        return None
    attributes = [(_PROV_TYPE, qname(_term(label))) for label in sorted(set(row.labels) - CLASSES)]
    if kind == "agent":
        attributes.append((_PROV_TYPE, qname(QName("prov", PROV, "SoftwareAgent"))))
    properties = {name: item for name, item in row.properties.items() if name not in _NOT_ATTRIBUTES}
    signature = shared.signatures.get(str(row.properties.get("signature")), {})
    properties.update((name, signature[name]) for name in _JOINED if name in signature)
    line = shared.stacks.get(str(row.properties.get("stack")))
    if line is not None:
        properties["user_frame"] = line
    attributes.extend((_term(name), _value(properties[name])) for name in sorted(properties))
    return Record(kind, id_name(row.key), (None,) * len(FORMAL[kind]), tuple(attributes))


def _relation(row: Statement, name: str, target: str) -> Record | None:
    kind = KIND_OF_RELATION.get(name)
    attributes: tuple[tuple[QName, Value], ...] = ()
    if kind == "wasInfluencedBy":
        attributes = ((_PROV_TYPE, qname(_term("ProgramOrder"))),)
    elif name == _MESSAGE and row.properties.get("basis") == "exact":
        kind = "wasInformedBy"
        attributes = ((_PROV_TYPE, qname(_term("Message"))), (_term("basis"), string("exact")))
    if kind is None:
        return None
    rest = (None,) * (len(FORMAL[kind]) - 2)
    return Record(kind, None, (id_name(row.key), id_name(target), *rest), attributes)


def id_name(iri: str) -> QName:
    """Return the qualified name of an id of ours, or of any other IRI split after its last ``/`` or ``#``."""
    if iri.startswith(ids.BASE):
        return QName(ID_PREFIX, ids.BASE, iri[len(ids.BASE) :])
    cut = max(iri.rfind("/"), iri.rfind("#"), iri.rfind(":")) + 1
    return QName("ns", iri[:cut] or iri, iri[cut:])


@functools.cache
def _term(local: str) -> QName:
    return QName(NS_PREFIX, NS, local)


def _value(item: Property) -> Value:
    match item:
        case bool():
            return boolean(item)
        case int():
            return integer(item)
        case float():
            return double(item)
        case str():
            return string(item)
    return string(orjson.dumps(list(item)).decode())
