"""Documents of the ``prov`` library as PROV parts, read through their public attributes; ``prov`` is not imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from provstore.errors import InputError
from provstore.model.prov import (
    BUILT_IN_PREFIXES,
    FORMAL,
    PROV,
    TIME_ROLES,
    XSD,
    Bundle,
    Part,
    QName,
    Record,
    Value,
    from_python,
    literal,
    qname,
)

KIND_OF_TYPE: Mapping[str, str] = {
    f"{PROV}Entity": "entity",
    f"{PROV}Activity": "activity",
    f"{PROV}Agent": "agent",
    f"{PROV}Generation": "wasGeneratedBy",
    f"{PROV}Usage": "used",
    f"{PROV}Communication": "wasInformedBy",
    f"{PROV}Start": "wasStartedBy",
    f"{PROV}End": "wasEndedBy",
    f"{PROV}Invalidation": "wasInvalidatedBy",
    f"{PROV}Derivation": "wasDerivedFrom",
    f"{PROV}Attribution": "wasAttributedTo",
    f"{PROV}Association": "wasAssociatedWith",
    f"{PROV}Delegation": "actedOnBehalfOf",
    f"{PROV}Influence": "wasInfluencedBy",
    f"{PROV}Alternate": "alternateOf",
    f"{PROV}Specialization": "specializationOf",
    f"{PROV}Mention": "mentionOf",
    f"{PROV}Membership": "hadMember",
}
"""IRI of the type that the library gives a record → kind."""

_QNAME_TYPES = frozenset({f"{XSD}QName", f"{PROV}QUALIFIED_NAME"})
_Resolve = Callable[[str], QName | None]


def document_parts(document: Any) -> Iterator[Part]:
    """Yield the parts of a ``prov.model.ProvDocument``, in its order; a several-member ``hadMember`` is one each.

    Raises:
        InputError: A value has no PROV form; the message names record and attribute.
    """
    yield from _container_parts(document, None)
    for bundle in document.bundles:
        yield from _container_parts(bundle, document)


def _container_parts(container: Any, document: Any | None) -> Iterator[Part]:
    name = _name(container.identifier) if document is not None else None
    default = container.get_default_namespace()
    declared = tuple((found.prefix, found.uri) for found in container.get_registered_namespaces())
    yield Bundle(name, declared, default.uri if default is not None else None)
    resolve = _resolver((container, document) if document is not None else (container,))
    for record in container.get_records():
        yield from _records(record, resolve)


def _resolver(containers: Iterable[Any]) -> _Resolve:
    """Return a function that resolves ``prefix:local`` text as the records of the innermost container would."""
    prefixes: dict[str, str] = {}
    default: str | None = None
    for container in containers:
        for found in container.get_registered_namespaces():
            prefixes.setdefault(found.prefix, found.uri)
        own = container.get_default_namespace()
        default = default or (own.uri if own is not None else None)
    prefixes.update(BUILT_IN_PREFIXES)

    def resolve(text: str) -> QName | None:
        prefix, colon, local = text.partition(":")
        namespace = prefixes.get(prefix) if colon else default
        if namespace is None:
            return None
        return QName(prefix, namespace, local) if colon else QName("", namespace, text)

    return resolve


def _records(record: Any, resolve: _Resolve) -> Iterator[Record]:
    kind = KIND_OF_TYPE[record.get_type().uri]
    roles = FORMAL[kind]
    formal: dict[str, list[QName | str]] = {}
    attributes: list[tuple[QName, Value]] = []
    for attribute, item in record.attributes:
        role = attribute.localpart if attribute.namespace.uri == PROV else None
        if role in roles:
            formal.setdefault(role, []).append(item.isoformat() if role in TIME_ROLES else _name(item))
        else:
            value = _value(item, resolve)
            if value is None:
                raise InputError(
                    f"PROV document: {kind} {record.identifier or ''} attribute {attribute}: "
                    f"a value of type {type(item).__name__} has no PROV form"
                )
            attributes.append((_name(attribute), value))
    name = None if record.identifier is None else _name(record.identifier)
    members = formal.pop("entity", []) if kind == "hadMember" else []
    single = {role: arguments[0] for role, arguments in formal.items()}
    for member in members or (None,):
        chosen = {**single, "entity": member} if member is not None else single
        yield Record(kind, name, tuple(chosen.get(role) for role in roles), tuple(attributes))


def _name(name: Any) -> QName:
    return QName(name.namespace.prefix, name.namespace.uri, name.localpart)


def _value(item: Any, resolve: _Resolve) -> Value | None:
    plain = from_python(item)
    if plain is not None:
        return plain
    if hasattr(item, "localpart"):
        return qname(_name(item))
    if hasattr(item, "langtag"):
        if item.langtag is not None:
            return literal(item.value, None, item.langtag) if item.langtag else None
        if item.datatype is None:
            return literal(item.value, None)
        if item.datatype.uri in _QNAME_TYPES:
            found = resolve(item.value)
            if found is not None:
                return qname(found)
        return literal(item.value, _name(item.datatype))
    return Value("anyURI", item.uri) if hasattr(item, "uri") else None
