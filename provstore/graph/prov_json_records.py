"""What the members of one PROV-JSON record mean: names by their prefixes, arguments, values."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from provstore.model.prov import (
    BUILT_IN_PREFIXES,
    FORMAL,
    NAME_ROLES,
    PROV,
    TIME_ROLES,
    XSD,
    QName,
    Record,
    Value,
    boolean,
    double,
    integer,
    is_time,
    literal,
    qname,
    string,
)

SURROGATE = "holds a lone surrogate, which is not Unicode"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_QNAME_TYPES = frozenset({f"{XSD}QName", f"{PROV}QUALIFIED_NAME"})
_ARGUMENTS = {f"{PROV}{role}": role for role in NAME_ROLES | TIME_ROLES}
_VALUE_KEYS = frozenset({"$", "type", "lang"})
_LANG = re.compile(r"[A-Za-z]+(-[A-Za-z0-9]+)*")


class RefusedError(Exception):
    """A record cannot be understood; the text says where inside it and why."""


class Names:
    """The prefixes in force in the document or in one bundle of it."""

    def __init__(self, prefixes: Mapping[str, str], default: str | None, parent: Names | None) -> None:
        self.prefixes: dict[str, str] = {**(parent.prefixes if parent else {}), **prefixes, **BUILT_IN_PREFIXES}
        self.default: str | None = default if default is not None or parent is None else parent.default
        self._cache: dict[str, QName | None] = {}

    def resolve(self, text: str) -> QName | None:
        """Return the name that ``text`` stands for by its prefix, or by the default namespace."""
        if text not in self._cache:
            self._cache[text] = self._resolve(text)
        return self._cache[text]

    def _resolve(self, text: str) -> QName | None:
        prefix, colon, local = text.partition(":")
        if not colon:
            return QName("", self.default, text) if self.default is not None and text else None
        namespace = self.prefixes.get(prefix)
        return None if namespace is None else QName(prefix, namespace, local)

    def compact(self, text: str) -> QName | None:
        """Return the name whose IRI is ``text``, in the longest declared namespace."""
        known = [(namespace, prefix) for prefix, namespace in self.prefixes.items() if text.startswith(namespace)]
        if not known:
            return None
        namespace, prefix = max(known, key=lambda pair: len(pair[0]))
        return QName(prefix, namespace, text[len(namespace) :])


class Scope:
    """Where a record stands: the prefixes in force there, and the count of what is frowned on."""

    def __init__(self, names: Names, warnings: Counter[str]) -> None:
        self.names = names
        self.warnings = warnings

    def find(self, text: str) -> QName | None:
        """Return the name that ``text`` stands for, also when it is the whole IRI, or ``None``."""
        return self.names.resolve(text) or self._compact(text)

    def name(self, text: object) -> QName:
        """Return the name inside a record that ``text`` stands for.

        Raises:
            RefusedError: It is none.
        """
        if not isinstance(text, str):
            raise RefusedError(f"{shown(text)} is no name")
        found = self.find(_unicode(text))
        if found is None:
            raise RefusedError(f"{shown(text)} does not resolve: its prefix is not declared")
        return found

    def _compact(self, text: str) -> QName | None:
        found = self.names.compact(text)
        if found is not None:
            self.warnings["iri_instead_of_name"] += 1
        return found


def records(kind: str, name: QName | None, instance: dict[str, Any], scope: Scope) -> Iterator[Record]:
    """Yield the record, or one per member of a membership with several.

    Args:
        kind: Of record.
        name: Its own, if it has one.
        instance: Its members.
        scope: Where it stands.

    Raises:
        RefusedError: A member cannot be understood.
    """
    roles = FORMAL[kind]
    formal: dict[str, list[QName | str]] = {}
    attributes: list[tuple[QName, Value]] = []
    for key, stated in instance.items():
        attribute = scope.name(key)
        role = _ARGUMENTS.get(attribute.iri)
        try:
            if role in roles:
                formal[role] = list(_arguments(role, stated, scope))
            else:
                items = stated if isinstance(stated, list) else [stated]
                attributes.extend((attribute, value) for item in items if (value := _value(item, role, scope)))
        except RefusedError as reason:
            raise RefusedError(f"attribute {shown(key)}: {reason}") from None
    members = formal.get("entity", []) if kind == "hadMember" else []
    for role, arguments in formal.items():
        if len(arguments) > 1 and not (kind == "hadMember" and role == "entity"):
            raise RefusedError(f"argument {role} has {len(arguments)} values, but takes one")
    for member in members or (None,):
        chosen = {role: arguments[0] for role, arguments in formal.items() if arguments}
        if member is not None:
            chosen["entity"] = member
        yield Record(kind, name, tuple(chosen.get(role) for role in roles), tuple(attributes))


def _arguments(role: str, stated: Any, scope: Scope) -> Iterator[QName | str]:
    items = stated if isinstance(stated, list) else [stated]
    if isinstance(stated, list):
        scope.warnings["list_for_one_argument"] += 1
        if not items:
            raise RefusedError("the list is empty")
    for item in items:
        if item is None:
            scope.warnings["null_dropped"] += 1
        elif role in TIME_ROLES:
            yield _time(item, scope)
        else:
            yield scope.name(item)


def _time(item: Any, scope: Scope) -> str:
    if isinstance(item, dict) and item.keys() == {"$", "type"} and scope.name(item["type"]).iri == f"{XSD}dateTime":
        item = item["$"]
    if not isinstance(item, str) or not is_time(item.strip()):
        raise RefusedError(f"{shown(item)} is no xsd:dateTime")
    return item.strip()


def _value(item: Any, role: str | None, scope: Scope) -> Value | None:
    """Return an attribute's value, ``None`` for a null; ``role`` when the attribute is an argument elsewhere."""
    if item is None:
        scope.warnings["null_dropped"] += 1
        return None
    if role is not None:
        return Value("dateTime", _time(item, scope)) if role in TIME_ROLES else qname(scope.name(item))
    match item:
        case str():
            return string(_unicode(item))
        case bool():
            return boolean(item)
        case int():
            return integer(item)
        case float():
            return double(item)
        case dict():
            return _typed(item, scope)
    raise RefusedError(f"{shown(item)} is no value")


def _typed(item: dict[str, Any], scope: Scope) -> Value:
    if "$" not in item:
        raise RefusedError('a value object lacks its "$"')
    if not item.keys() <= _VALUE_KEYS:
        raise RefusedError(f"a value object has the unknown key {shown(min(item.keys() - _VALUE_KEYS))}")
    text, lang = item["$"], item.get("lang")
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise RefusedError(f'the "$" of a value object is {shown(text)}, not a string')
    if not isinstance(text, str):
        scope.warnings["number_in_value_object"] += 1
        text = double(text).text if isinstance(text, float) else str(text)
    if lang is not None:
        if not isinstance(lang, str) or not lang:
            raise RefusedError(f"{shown(lang)} is no language tag")
        if not _LANG.fullmatch(lang):
            scope.warnings["language_tag"] += 1
        return literal(_unicode(text), None, lang)
    datatype = scope.name(item["type"]) if "type" in item else None
    if datatype is not None and datatype.iri in _QNAME_TYPES:
        return _name_value(_unicode(text), datatype, scope)
    return literal(_unicode(text), datatype)


def _name_value(text: str, datatype: QName, scope: Scope) -> Value:
    found = scope.names.resolve(text)
    if found is None:
        found = scope.names.compact(text)
        scope.warnings["iri_instead_of_name" if found else "unresolved_name_value"] += 1
    return qname(found) if found else literal(text, datatype)


def shown(item: object) -> str:
    """Return ``item`` as ASCII JSON of bounded length, safe on a terminal."""
    text = json.dumps(item) if not isinstance(item, float) else repr(item)
    return text if len(text) <= 80 else f"{text[:77]}..."


def is_unicode(text: str) -> bool:
    """Return whether a text holds no half of a character."""
    return text.isascii() or _LONE_SURROGATE.search(text) is None


def _unicode(text: str) -> str:
    if not is_unicode(text):
        raise RefusedError(f"{shown(text)} {SURROGATE}")
    return text
