"""PROV names and values as graph properties, and back: spelling of names, tags of values, keys of attributes, times."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from provstore.model.block import Value as Property
from provstore.model.prov import BUILT_IN_PREFIXES, PROV, Bundle, QName, Value, qname

TAG = "__t"
"""Ends the name of the property that tells what kind of text its companion is."""

_UNIT = "\x1f"
_LANG_MARK = "\x1e@"
_INT64 = 2**63
_KEY_DIGITS = 12
_LOCAL_LENGTH = 48
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]")
_TERM = re.compile(r"[A-Za-z][A-Za-z0-9]{0,47}")
_TIME = re.compile(r"(-?)(\d{4,})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:(Z)|([+-])(\d\d):(\d\d))?", re.ASCII)

_NATIVE_TAGS = {"string": "", "boolean": "b", "integer": "i", "double": "f"}
_TEXT_TAGS = {"integer": "I", "double": "f", "dateTime": "t", "anyURI": "u"}
_KIND_OF_TAG = {
    "": "string",
    "b": "boolean",
    "i": "integer",
    "f": "double",
    "I": "integer",
    "t": "dateTime",
    "u": "anyURI",
}


def attribute_key(name: QName) -> str:
    """Return the property that holds an attribute: ``prov__role``, else ``<local part>__<12 hex digits>``.

    The digits are the head of the SHA-256 of namespace U+001F local part, so the key is a function of the attribute
    alone: not of the prefix a document chose, nor of what the store holds already.
    """
    if name.namespace == PROV and _TERM.fullmatch(name.local):
        return f"prov__{name.local}"
    digest = hashlib.sha256(f"{name.namespace}{_UNIT}{name.local}".encode()).hexdigest()[:_KEY_DIGITS]
    plain = _NOT_PLAIN.sub("_", name.local)[:_LOCAL_LENGTH]
    return f"{'_' if not plain or plain[0].isdigit() else ''}{plain}__{digest}"


def name_text(name: QName) -> str:
    """Return prefix, namespace and local part as one text.

    Raises:
        ValueError: Prefix or namespace holds U+001F, which separates them.
    """
    if _UNIT in name.prefix or _UNIT in name.namespace:
        raise ValueError(f"the prefix or namespace of {name.iri!a} holds U+001F")
    return f"{name.prefix}{_UNIT}{name.namespace}{_UNIT}{name.local}"


def name_of_text(text: str) -> QName:
    """Return the name that :func:`name_text` wrote."""
    prefix, namespace, local = text.split(_UNIT, 2)
    return QName(prefix, namespace, local)


class Splitter:
    """The default split of an IRI in one bundle: at the longest namespace in force; a prefix before the default one."""

    def __init__(self, document: Bundle, bundle: Bundle) -> None:
        prefixes = {**BUILT_IN_PREFIXES, **dict(document.namespaces), **dict(bundle.namespaces), **BUILT_IN_PREFIXES}
        self._prefix_of: dict[str, str] = {}
        for prefix, namespace in prefixes.items():
            self._prefix_of.setdefault(namespace, prefix)
        default = bundle.default if bundle.default is not None else document.default
        if default is not None:
            self._prefix_of.setdefault(default, "")
        self._namespaces = sorted(self._prefix_of, key=len, reverse=True)
        self._longer = {
            namespace: [other for other in self._namespaces if other != namespace and other.startswith(namespace)]
            for namespace in self._namespaces
        }

    def split(self, iri: str) -> QName:
        """Return the name that ``iri`` has by default."""
        for namespace in self._namespaces:
            if iri.startswith(namespace):
                return QName(self._prefix_of[namespace], namespace, iri[len(namespace) :])
        return QName("ns", iri, "")

    def spelling(self, name: QName) -> str | None:
        """Return what has to be stored beside the IRI of ``name``: nothing when the default split gives it again."""
        if self._prefix_of.get(name.namespace) == name.prefix:
            iri = name.iri
            if not any(iri.startswith(longer) for longer in self._longer[name.namespace]):
                return None
        return name_text(name)

    def attribute(self, namespace: str, local: str) -> QName:
        """Return the name of an attribute, with the prefix that this bundle has for its namespace."""
        return QName(self._prefix_of.get(namespace, "ns"), namespace, local)


def encode(values: Sequence[Value]) -> tuple[Property, str | list[str] | None]:
    """Return (property, tag or tags) for the values of one attribute; ``None`` where no tag is needed.

    A single value is native where an engine gives it back bit for bit, else tagged text; several of one native kind
    are a native list, others a list of texts with a list of tags.
    """
    if len(values) == 1:
        native = _native(values[0])
        if native is not None:
            return native, None
        return _tagged(values[0])
    natives = [_native(value) for value in values]
    kinds = {value.kind for value in values}
    if len(kinds) == 1 and None not in natives:
        return natives, None  # type: ignore[return-value]
    pairs = [
        (value.text, _NATIVE_TAGS[value.kind]) if native is not None else _tagged(value)
        for value, native in zip(values, natives)
    ]
    return [text for text, _ in pairs], [tag for _, tag in pairs]


def _native(value: Value) -> str | bool | int | float | None:
    match value.kind:
        case "string":
            return value.text
        case "boolean":
            return value.text == "true"
        case "integer":
            number = int(value.text)
            return number if -_INT64 <= number < _INT64 else None
        case "double" if value.text not in ("NaN", "INF", "-INF"):
            return float(value.text)
    return None


def _tagged(value: Value) -> tuple[str, str]:
    if value.name is not None:
        return value.name.text, f"q{name_text(value.name)}"
    if value.kind == "literal":
        datatype = name_text(value.datatype) if value.datatype else ""
        return value.text, f"l{datatype}" if value.lang is None else f"l{datatype}{_LANG_MARK}{value.lang}"
    return value.text, _TEXT_TAGS[value.kind]


def decode(item: Property, tags: Property | None) -> Iterable[Value]:
    """Yield the values that :func:`encode` stored, in their order."""
    if not isinstance(item, list):
        yield _plain(item) if tags is None else _decoded(str(item), str(tags))
    elif isinstance(tags, list):
        for text, tag in zip(item, tags):
            yield _decoded(str(text), str(tag))
    else:
        for single in item:
            yield _plain(single)


def _plain(item: str | float | bool) -> Value:
    match item:
        case bool():
            return Value("boolean", "true" if item else "false")
        case int():
            return Value("integer", str(item))
        case float():
            return Value("double", repr(item))
    return Value("string", item)


def _decoded(text: str, tag: str) -> Value:
    if tag.startswith("q"):
        return qname(name_of_text(tag[1:]))
    if tag.startswith("l"):
        datatype, mark, lang = tag[1:].partition(_LANG_MARK)
        return Value("literal", text, name_of_text(datatype) if datatype else None, lang if mark else None)
    return Value(_KIND_OF_TAG[tag], text)


def time_microseconds(text: str) -> tuple[int | None, bool]:
    """Return (microseconds since 1970 UTC, whether no offset was stated and UTC is assumed).

    Integer arithmetic on the proleptic Gregorian calendar, never the machine's zone; digits beyond microseconds drop.
    ``None`` outside 64 bits.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        return None, False
    minus, year, month, day, hour, minute, second, fraction, zulu, sign, offset_hour, offset_minute = found.groups()
    days = _days(int(year) * (-1 if minus else 1), int(month), int(day))
    seconds = days * 86_400 + int(hour) * 3_600 + int(minute) * 60 + int(second)
    if sign:
        seconds -= (int(offset_hour) * 3_600 + int(offset_minute) * 60) * (1 if sign == "+" else -1)
    micros = seconds * 1_000_000 + int((fraction or "")[:6].ljust(6, "0"))
    return (micros if -_INT64 <= micros < _INT64 else None), not (zulu or sign)


def _days(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01; years count from March, so that a leap day is the last."""
    shifted = year - (month <= 2)
    era_day = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + era_day - 719_468
