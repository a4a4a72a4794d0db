"""PROV parts as documents of the ``prov`` library."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import prov
from prov.constants import PROV_RECORD_IDS_MAP
from prov.identifier import Identifier, Namespace, QualifiedName
from prov.model import Literal, ProvBundle, ProvDocument

from provstore.model.prov import FORMAL, PROV, XSD, Bundle, Part, QName, Record, Value

CANNOT_HOLD = (prov.Error, Warning, ValueError, TypeError, AttributeError, RecursionError)
"""What the library raises for a document that it cannot hold or write as it is."""


def to_prov(parts: Iterable[Part]) -> ProvDocument:
    """Return ``parts`` as a document of the ``prov`` library.

    Raises:
        prov.Error: The library cannot hold a record.
        Warning: It can, but announces that a later release will not.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        document = ProvDocument()
        builder = _Builder(document)
        for part in parts:
            if isinstance(part, Record):
                builder.add(part)
            else:
                builder.enter(part)
    return document


def library_text(parts: Iterable[Part], form: str) -> str:
    """Return ``parts`` as the library writes them in one of its formats.

    Raises:
        prov.Error: The library cannot hold or write a record.
        Warning: It would alter one, or announces that a later release will not take it.
    """
    document = to_prov(parts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return document.serialize(format=form) or ""


class _Builder:
    def __init__(self, document: ProvDocument) -> None:
        self._document = document
        self._bundle: ProvBundle = document
        self._bundles: dict[str, ProvBundle] = {}
        self._namespaces: dict[tuple[str, str], Namespace] = {}

    def enter(self, head: Bundle) -> None:
        """Go to the document or bundle that ``head`` opens."""
        if head.name is None:
            self._bundle = self._document
        elif head.name.iri in self._bundles:
            self._bundle = self._bundles[head.name.iri]
            return
        else:
            self._bundle = ProvBundle(document=self._document)
        if head.default is not None and self._bundle.get_default_namespace() is None:
            self._bundle.set_default_namespace(head.default)
        for prefix, namespace in head.namespaces:
            self._bundle.add_namespace(prefix, namespace)
        if head.name is not None:
            self._document.add_bundle(self._bundle, self._qualified(head.name))
            self._bundles[head.name.iri] = self._bundle

    def add(self, record: Record) -> None:
        """Add ``record`` to the current bundle."""
        formal: list[tuple[QualifiedName, Any]] = [
            (_term(role), argument if isinstance(argument, str) else self._qualified(argument))
            for role, argument in zip(FORMAL[record.kind], record.formal)
            if argument is not None
        ]
        others: list[tuple[QualifiedName, Any]] = [
            (self._qualified(name), self._value(value)) for name, value in record.attributes
        ]
        name = self._qualified(record.name) if record.name else None
        self._bundle.new_record(PROV_RECORD_IDS_MAP[record.kind], name, formal, others)

    def _qualified(self, name: QName) -> QualifiedName:
        key = (name.prefix, name.namespace)
        found = self._namespaces.get(key)
        if found is None:
            found = self._namespaces[key] = Namespace(name.prefix, name.namespace)
        return found[name.local]

    def _value(self, value: Value) -> object:
        if value.kind == "qname" and value.name is not None:
            return self._qualified(value.name)
        if value.kind == "literal":
            return Literal(value.text, self._qualified(value.datatype) if value.datatype else None, value.lang)
        return _FROM_TEXT[value.kind](value.text)


def _time(text: str) -> Literal:
    return Literal(text, _XSD["dateTime"])


_XSD = Namespace("xsd", XSD)
_PROV = Namespace("prov", PROV)
_FROM_TEXT: dict[str, Callable[[str], object]] = {
    "string": str,
    "boolean": lambda text: text == "true",
    "integer": int,
    "double": float,
    "dateTime": _time,
    "anyURI": Identifier,
}


def _term(role: str) -> QualifiedName:
    return _PROV[role]
