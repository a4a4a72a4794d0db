"""PROV records as facts of the graph, without loss: any documents in one store, in any order, any number of times.

An element record is a ``:Description`` of its ``:Element``; a relation is a relationship; a relation that lacks its
first or second argument is a ``:Statement``. The way back is ``graph.prov_stored``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from provstore.errors import InputError
from provstore.graph.prov_values import TAG, Splitter, attribute_key, encode, name_text, time_microseconds
from provstore.graph.spill import sorted_lines
from provstore.model.block import Block, Column, Nodes, Relations
from provstore.model.block import Value as Property
from provstore.model.prov import (
    ELEMENTS,
    FORMAL,
    Bundle,
    Document,
    QName,
    Record,
    Value,
    canonical,
    content_hash,
    record_label,
)

BATCH_RECORDS = 10_000

TYPE_OF_RELATION: Mapping[str, str] = {
    "wasGeneratedBy": "WAS_GENERATED_BY",
    "used": "USED",
    "wasInformedBy": "WAS_INFORMED_BY",
    "wasStartedBy": "WAS_STARTED_BY",
    "wasEndedBy": "WAS_ENDED_BY",
    "wasInvalidatedBy": "WAS_INVALIDATED_BY",
    "wasDerivedFrom": "WAS_DERIVED_FROM",
    "wasAttributedTo": "WAS_ATTRIBUTED_TO",
    "wasAssociatedWith": "WAS_ASSOCIATED_WITH",
    "actedOnBehalfOf": "ACTED_ON_BEHALF_OF",
    "wasInfluencedBy": "WAS_INFLUENCED_BY",
    "alternateOf": "ALTERNATE_OF",
    "specializationOf": "SPECIALIZATION_OF",
    "mentionOf": "MENTION_OF",
    "hadMember": "HAD_MEMBER",
}
"""Kind of PROV relation → relationship type."""

KIND_OF_RELATION: Mapping[str, str] = {name: kind for kind, name in TYPE_OF_RELATION.items()}

LABEL_OF_STATEMENT: Mapping[str, str] = {
    "wasGeneratedBy": "Generation",
    "used": "Usage",
    "wasInformedBy": "Communication",
    "wasStartedBy": "Start",
    "wasEndedBy": "Ending",
    "wasInvalidatedBy": "Invalidation",
    "wasDerivedFrom": "Derivation",
    "wasAttributedTo": "Attribution",
    "wasAssociatedWith": "Association",
    "actedOnBehalfOf": "Delegation",
    "wasInfluencedBy": "Influence",
    "alternateOf": "Alternate",
    "specializationOf": "Specialization",
    "mentionOf": "Mention",
    "hadMember": "Membership",
}
"""Kind of PROV relation → second label of its ``:Statement``; ``Ending``, because Cypher reserves ``END``."""

CLASS_OF_ROLE: Mapping[str, str] = {
    "entity": "Entity",
    "trigger": "Entity",
    "generatedEntity": "Entity",
    "usedEntity": "Entity",
    "plan": "Entity",
    "alternate1": "Entity",
    "alternate2": "Entity",
    "specificEntity": "Entity",
    "generalEntity": "Entity",
    "collection": "Entity",
    "activity": "Activity",
    "informed": "Activity",
    "informant": "Activity",
    "starter": "Activity",
    "ender": "Activity",
    "agent": "Agent",
    "delegate": "Agent",
    "responsible": "Agent",
    "influencee": "",
    "influencer": "",
}
"""Role → class of the element it names, ``""`` when any; roles that name records or bundles are missing."""

_DERIVED = {
    "wasDerivedFrom": ("VIA_ACTIVITY", "activity"),
    "wasAssociatedWith": ("FOLLOWED_PLAN", "plan"),
    "actedOnBehalfOf": ("IN_ACTIVITY", "activity"),
    "wasStartedBy": ("STARTED_BY_ACTIVITY", "starter"),
    "wasEndedBy": ("ENDED_BY_ACTIVITY", "ender"),
}
"""Kind of relation → (relationship for traversal, role at its end); it starts at the first argument."""

_HELD_RECORDS = 100_000
_TYPE_MARKS = ((bool, "b"), (int, "i"), (float, "f"), (str, "s"))


def blocks(document: Document, run: str = "", attempt: int = 0, batch: int = BATCH_RECORDS) -> Iterator[Block]:
    """Yield the facts of ``document``, at most ``batch`` records a block; the first holds its ``:Bundle`` nodes.

    Raises:
        InputError: A value or name cannot be stored; the message names record and attribute. Nothing was yielded
            then, so nothing of the document is stored.
    """
    if document.records <= _HELD_RECORDS:
        yield from [facts.block(run, attempt) for facts in _batches(document, batch)]
        return
    for _ in _batches(document, batch):
        pass
    for facts in _batches(document, batch):
        yield facts.block(run, attempt)


def bundle_key(document: str, bundle: str) -> str:
    """Return the key of a document's bundle; ``bundle`` is its IRI, ``""`` for the document itself."""
    return f"{document}|{bundle}" if bundle else document


def _batches(document: Document, batch: int) -> Iterator[_Facts]:
    survey = _survey(document)
    facts = _Facts()
    heads: dict[str, _Place] = {}
    place = heads[""] = _Place(document.key, "", Splitter(Bundle(), Bundle()))
    facts.bundle(document.key, 0, survey.heads[""], survey.totals.get("", (0, content_hash(()))))
    for number, (iri, head) in enumerate(survey.heads.items()):
        heads[iri] = _Place(bundle_key(document.key, iri), iri, Splitter(survey.heads[""], head))
        if iri:
            facts.bundle(document.key, number, head, survey.totals.get(iri, (0, content_hash(()))))
    place = heads[""]
    for part in document.parts():
        if isinstance(part, Bundle):
            place = heads[part.name.iri if part.name else ""]
            continue
        facts.record(part, place, survey.heads)
        place.seq += 1
        if facts.records == batch:
            yield facts
            facts = _Facts(facts.keys)
    yield facts


@dataclass(slots=True)
class _Survey:
    heads: dict[str, Bundle] = field(default_factory=lambda: {"": Bundle()})
    """IRI of each bundle, the document's ``""`` first → its head."""
    totals: dict[str, tuple[int, str]] = field(default_factory=dict)
    """IRI of each bundle that has records → (how many, their content hash)."""


def _survey(document: Document) -> _Survey:
    survey = _Survey()
    numbers = {"": 0}

    def lines() -> Iterator[bytes]:
        bundle = ""
        for part in document.parts():
            if isinstance(part, Bundle):
                bundle = part.name.iri if part.name else ""
                survey.heads[bundle] = part
                numbers.setdefault(bundle, len(numbers))
            else:
                yield b"%08d%b" % (numbers[bundle], _canonical(part, bundle))

    totals: dict[int, tuple[int, str]] = {}
    for number, same in itertools.groupby(sorted_lines(lines()), key=lambda line: int(line[:8])):
        count = itertools.count()
        totals[number] = (0, content_hash(line[8:] for line, _ in zip(same, count)))
        totals[number] = (next(count), totals[number][1])
    survey.totals = {iri: totals[number] for iri, number in numbers.items() if number in totals}
    return survey


def _canonical(record: Record, bundle: str) -> bytes:
    try:
        return canonical(record, bundle)
    except ValueError as error:
        raise InputError(f"{_shown(record)}: {error}") from error


def _shown(record: Record) -> str:
    return ascii(record_label(record))[1:-1]


@dataclass(slots=True)
class _Place:
    """Where records are put: one bundle, with the number of the next record in it."""

    key: str
    iri: str
    splitter: Splitter
    seq: int = 0


_Shape = tuple[tuple[str, str], ...]
_Rows = list[tuple[str, str, dict[str, Property]]]


class _Facts:
    """The facts of some records, in groups that share labels and columns.

    Args:
        keys: Attribute keys given so far, with what they stand for.
    """

    def __init__(self, keys: dict[str, tuple[str, str]] | None = None) -> None:
        self.keys = {} if keys is None else keys
        self.records = 0
        self._nodes: dict[tuple[tuple[str, ...], _Shape], _Rows] = {}
        self._relations: dict[tuple[str, str, str, _Shape], _Rows] = {}
        self._seen: set[tuple[str, str, bool]] = set()

    def bundle(self, document: str, number: int, head: Bundle, total: tuple[int, str]) -> None:
        """Add the node of one bundle or of the document."""
        iri = head.name.iri if head.name else ""
        properties: dict[str, Property] = {
            "documentId": document,
            "isDocument": not iri,
            "seq": number,
            "recordCount": total[0],
            "contentHash": total[1],
        }
        if head.name is not None:
            properties |= {"iri": iri, "nameQ": _name_text(head.name, f"bundle {head.name.text}")}
        if head.namespaces:
            properties["prefixes"] = [prefix for prefix, _ in head.namespaces]
            properties["namespaces"] = [namespace for _, namespace in head.namespaces]
        if head.default is not None:
            properties["defaultNamespace"] = head.default
        self._node(("Bundle",), bundle_key(document, iri), properties)

    def record(self, record: Record, place: _Place, bundles: Mapping[str, Bundle]) -> None:
        """Add one record, the elements it names, and what traversals need of it."""
        self.records += 1
        base = f"{place.key}#{place.seq}"
        digest = content_hash((_canonical(record, place.iri),))
        key = f"{base}~{digest[:12]}"
        properties: dict[str, Property] = {
            "recordKey": key,
            "baseKey": base,
            "bundleKey": place.key,
            "seq": place.seq,
        }
        if record.name is not None:
            properties["recordIri"] = record.name.iri
            self._spell(properties, "record", record.name, place, record)
        self._attributes(properties, record)
        if record.kind in ELEMENTS:
            self._description(record, key, properties)
            if record.kind == "entity" and record.name is not None and record.name.iri in bundles:
                document = place.key.split("|", 1)[0]
                self._relation("IDENTIFIES", bundle_key(document, record.name.iri), record.name.iri, {}, "Bundle")
        else:
            self._relation_record(record, key, properties, place)

    def _description(self, record: Record, key: str, properties: dict[str, Property]) -> None:
        assert record.name is not None  # noqa: S101 - an element has a name: the readers see to it
        for role, time in zip(FORMAL[record.kind], record.formal):
            if isinstance(time, str):
                _put_time(properties, role, time)
        del properties["recordKey"]
        self._node(("Description",), key, properties | {"recordType": record.kind})
        self._element(record.name.iri, record.kind.capitalize(), declared=True)
        self._relation("DESCRIBES", key, record.name.iri, {}, "Description")

    def _relation_record(self, record: Record, key: str, properties: dict[str, Property], place: _Place) -> None:
        roles = FORMAL[record.kind]
        names: dict[str, QName] = {}
        for role, argument in zip(roles, record.formal):
            if isinstance(argument, str):
                _put_time(properties, role, argument)
            elif argument is not None:
                names[role] = argument
                self._spell(properties, role, argument, place, record)
                if role in CLASS_OF_ROLE:
                    self._element(argument.iri, CLASS_OF_ROLE[role])
        first, second = names.get(roles[0]), names.get(roles[1])
        if first is not None and second is not None:
            properties |= {f"{role}Iri": name.iri for role, name in names.items() if role not in roles[:2]}
            self._relation(TYPE_OF_RELATION[record.kind], first.iri, second.iri, properties)
        else:
            properties |= {f"{role}Iri": name.iri for role, name in names.items()}
            self._statement(record.kind, key, properties, names)
        if first is not None and record.kind in _DERIVED:
            name, role = _DERIVED[record.kind]
            if role in names:
                marks: dict[str, Property] = {"recordKey": key, "bundleKey": place.key, "derived": True}
                self._relation(name, first.iri, names[role].iri, marks)

    def _statement(self, kind: str, key: str, properties: dict[str, Property], names: Mapping[str, QName]) -> None:
        roles = FORMAL[kind]
        del properties["recordKey"]
        self._node(("Statement", LABEL_OF_STATEMENT[kind]), key, properties | {"recordType": kind})
        for role, name in names.items():
            if role in CLASS_OF_ROLE:
                type_ = {roles[0]: "SUBJECT", roles[1]: "OBJECT"}.get(role, "ARGUMENT")
                marks: dict[str, Property] = {"role": role, "recordKey": f"{key}/{role}"} if type_ == "ARGUMENT" else {}
                self._relation(type_, key, name.iri, marks, "Statement")

    def _attributes(self, properties: dict[str, Property], record: Record) -> None:
        values: dict[QName, list[Value]] = {}
        for name, value in record.attributes:
            # One attribute under two prefixes is one attribute; the split of its IRI counts.
            values.setdefault(QName("", name.namespace, name.local), []).append(value)
        for name, stated in values.items():
            key = attribute_key(name)
            try:
                properties[key], tags = encode(stated)
            except ValueError as error:
                raise InputError(f"{_shown(record)}: attribute {ascii(name.iri)[1:-1]}: {error}") from error
            if tags is not None:
                properties[key + TAG] = tags
            self._attribute_key(key, name, record)

    def _attribute_key(self, key: str, name: QName, record: Record) -> None:
        meaning = self.keys.get(key)
        if meaning == (name.namespace, name.local):
            return
        if meaning is not None:
            raise InputError(f"{_shown(record)}: attribute {ascii(name.iri)[1:-1]}: its key {key} is another's too")
        self.keys[key] = (name.namespace, name.local)
        self._node(("AttributeKey",), key, {"iri": name.iri, "namespace": name.namespace, "local": name.local})

    def _spell(self, properties: dict[str, Property], role: str, name: QName, place: _Place, record: Record) -> None:
        try:
            spelling = place.splitter.spelling(name)
        except ValueError as error:
            raise InputError(f"{_shown(record)}: {role}: {error}") from error
        if spelling is not None:
            properties[f"{role}Q"] = spelling

    def _element(self, iri: str, label: str, declared: bool = False) -> None:
        if (iri, label, declared) not in self._seen:
            self._seen.add((iri, label, declared))
            self._node(("Element", label) if label else ("Element",), iri, {"declared": True} if declared else {})

    def _node(self, labels: tuple[str, ...], key: str, properties: dict[str, Property]) -> None:
        self._nodes.setdefault((labels, _shape(properties)), []).append((key, "", properties))

    def _relation(
        self, name: str, source: str, target: str, properties: dict[str, Property], source_label: str = "Element"
    ) -> None:
        group = (name, source_label, "Element", _shape(properties))
        self._relations.setdefault(group, []).append((source, target, properties))

    def block(self, run: str, attempt: int) -> Block:
        """Return the facts in columns; every column of a group holds values of one type."""
        nodes = [
            Nodes(labels, [key for key, _, _ in rows], _columns(shape, rows))
            for (labels, shape), rows in self._nodes.items()
        ]
        relations = [
            Relations(
                name,
                [source for source, _, _ in rows],
                [target for _, target, _ in rows],
                source_label,
                target_label,
                _columns(shape, rows),
            )
            for (name, source_label, target_label, shape), rows in self._relations.items()
        ]
        return Block(run, attempt, tuple(nodes), tuple(relations))


def _name_text(name: QName, where: str) -> str:
    try:
        return name_text(name)
    except ValueError as error:
        raise InputError(f"{ascii(where)[1:-1]}: {error}") from error


def _put_time(properties: dict[str, Property], role: str, text: str) -> None:
    properties[role] = text
    micros, is_naive = time_microseconds(text)
    if micros is not None:
        properties[f"{role}Us"] = micros
    if is_naive:
        properties["timeNaive"] = True


def _columns(shape: _Shape, rows: _Rows) -> dict[str, Column]:
    return {name: [properties[name] for _, _, properties in rows] for name, _ in shape}


def _shape(properties: Mapping[str, Property]) -> _Shape:
    return tuple((name, _mark(properties[name])) for name in sorted(properties))


def _mark(item: Property) -> str:
    if isinstance(item, list):
        return f"list {_mark(item[0])}"
    return next(mark for types, mark in _TYPE_MARKS if isinstance(item, types))
