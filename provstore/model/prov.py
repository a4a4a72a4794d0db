"""PROV statements: names, values, records and bundles, their one canonical form, and the hash of their content.

A document is an iterable of parts: a ``Bundle`` head, then the ``Record``s that belong to it, then the next head. The
head of the document itself has no name. A head may come again when more of its records follow.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import hashlib
import math
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import orjson

PROV = "http://www.w3.org/ns/prov#"
XSD = "http://www.w3.org/2001/XMLSchema#"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
BUILT_IN_PREFIXES: Mapping[str, str] = {"prov": PROV, "xsd": XSD, "xsi": XSI}
"""Prefixes that need no declaration; PROV-N knows the first two only."""

ELEMENTS = ("entity", "activity", "agent")

FORMAL: Mapping[str, tuple[str, ...]] = {
    "entity": (),
    "activity": ("startTime", "endTime"),
    "agent": (),
    "wasGeneratedBy": ("entity", "activity", "time"),
    "used": ("activity", "entity", "time"),
    "wasInformedBy": ("informed", "informant"),
    "wasStartedBy": ("activity", "trigger", "starter", "time"),
    "wasEndedBy": ("activity", "trigger", "ender", "time"),
    "wasInvalidatedBy": ("entity", "activity", "time"),
    "wasDerivedFrom": ("generatedEntity", "usedEntity", "activity", "generation", "usage"),
    "wasAttributedTo": ("entity", "agent"),
    "wasAssociatedWith": ("activity", "agent", "plan"),
    "actedOnBehalfOf": ("delegate", "responsible", "activity"),
    "wasInfluencedBy": ("influencee", "influencer"),
    "alternateOf": ("alternate1", "alternate2"),
    "specializationOf": ("specificEntity", "generalEntity"),
    "mentionOf": ("specificEntity", "generalEntity", "bundle"),
    "hadMember": ("collection", "entity"),
}
"""Kind of record → its formal arguments in PROV-N order. Source: PROV-N, table of component 1 to 6; PROV-LINKS."""

TIME_ROLES = frozenset({"time", "startTime", "endTime"})
NAME_ROLES = frozenset(role for roles in FORMAL.values() for role in roles) - TIME_ROLES

_XSD_DATETIME = re.compile(
    r"-?\d{4,}-\d\d-\d\dT(?:[01]\d|2[0-4]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?", re.ASCII
)
_TIME_PARTS = re.compile(r"(.*?)(\.\d+)?(Z|[+-]\d\d:\d\d)?")
_INT32 = 2**31
_INT64 = 2**63


@dataclass(frozen=True, slots=True)
class QName:
    """A qualified name; what it names is the IRI, the prefix is how it was written."""

    prefix: str
    """Empty for a name in the default namespace."""
    namespace: str
    local: str

    @property
    def iri(self) -> str:
        """The name's identity."""
        return self.namespace + self.local

    @property
    def text(self) -> str:
        """The name as written, without escapes; for display."""
        return f"{self.prefix}:{self.local}" if self.prefix else self.local


@dataclass(frozen=True, slots=True)
class Value:
    """One attribute value, held as text so that nothing depends on how a language prints it."""

    kind: str
    """``string``, ``boolean``, ``integer``, ``double``, ``dateTime``, ``anyURI``, ``qname`` or ``literal``."""
    text: str
    """Lexical form: ``true``/``false``; shortest decimal digits; the IRI of a ``qname``."""
    datatype: QName | None = None
    """Of a ``literal``: any datatype that no other kind stands for."""
    lang: str | None = None
    """Of a ``literal``."""
    name: QName | None = None
    """Of a ``qname``."""


@dataclass(frozen=True, slots=True)
class Record:
    """One PROV statement."""

    kind: str
    """A key of ``FORMAL``."""
    name: QName | None
    formal: tuple[QName | str | None, ...]
    """Arguments in the order of ``FORMAL[kind]``; a time is its lexical text."""
    attributes: tuple[tuple[QName, Value], ...] = ()
    """In the order of assertion; a name may come several times."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The head of a named bundle, or of the document itself."""

    name: QName | None = None
    namespaces: tuple[tuple[str, str], ...] = ()
    """(prefix, namespace) in the order of declaration; the default namespace is not among them."""
    default: str | None = None


Part: TypeAlias = Bundle | Record


@dataclass(frozen=True, slots=True)
class Document:
    """One PROV document as a reader gives it: whole and valid, so that nothing half-read is ever stored."""

    key: str
    """Its id in the graph: made from the bytes (or the content) it was read from, or given."""
    parts: Callable[[], Iterable[Part]]
    """Gives the parts; may be called several times."""
    records: int
    bundles: int
    """Named ones."""
    kinds: Mapping[str, int] = field(default_factory=dict)
    """Kind of record → how many."""
    warnings: Mapping[str, int] = field(default_factory=dict)
    """Class of warning → how often: input that was taken although its format frowns on it, or that lost precision."""
    digest: str | None = None
    """SHA-256 of the file's bytes, when it came from a file."""
    size_bytes: int | None = None


def survey(parts: Iterable[Part]) -> tuple[dict[str, int], int]:
    """Return (kind of record → how many, number of named bundles)."""
    kinds: dict[str, int] = {}
    bundles: set[str] = set()
    for part in parts:
        if isinstance(part, Record):
            kinds[part.kind] = kinds.get(part.kind, 0) + 1
        elif part.name is not None:
            bundles.add(part.name.iri)
    return kinds, len(bundles)


def string(text: str) -> Value:
    """Return a plain string."""
    return Value("string", text)


def boolean(flag: bool) -> Value:
    """Return a truth value."""
    return Value("boolean", "true" if flag else "false")


def integer(number: int) -> Value:
    """Return an integer; its datatype follows from its magnitude (``integer_type``)."""
    return Value("integer", str(number))


def double(number: float) -> Value:
    """Return a double in the shortest text that gives its bits again; ``NaN``, ``INF`` and ``-INF`` as in XSD."""
    if math.isnan(number):
        return Value("double", "NaN")
    if math.isinf(number):
        return Value("double", "INF" if number > 0 else "-INF")
    return Value("double", repr(number))


def qname(name: QName) -> Value:
    """Return a name used as a value."""
    return Value("qname", name.iri, name=name)


def literal(text: str, datatype: QName | None, lang: str | None = None) -> Value:
    """Return a typed or language-tagged literal, as the plainest kind that keeps its text.

    ``"5" %% xsd:int`` is the integer 5; ``"05" %% xsd:int`` and ``"5" %% xsd:short`` stay literals.
    """
    if lang is not None:
        return Value("literal", text, None, lang)
    kind = _plain_kind(text, datatype.iri) if datatype else "string"
    return Value("literal", text, datatype) if kind is None else Value(kind, text)


def _plain_kind(text: str, datatype: str) -> str | None:
    kind = _KIND_OF_DATATYPE.get(datatype)
    if kind is None or not _IS_PLAIN[kind](text, datatype):
        return None
    return kind


def integer_type(text: str) -> str:
    """Return the XSD datatype that a plain integer of this magnitude has."""
    number = int(text)
    if -_INT32 <= number < _INT32:
        return f"{XSD}int"
    return f"{XSD}long" if -_INT64 <= number < _INT64 else f"{XSD}integer"


def _is_plain_integer(text: str, datatype: str) -> bool:
    digits = text.removeprefix("-")
    if not digits.isdecimal() or not digits.isascii() or (digits[0] == "0" and text != "0") or len(digits) > 4000:
        return False
    return integer_type(text) == datatype


def _is_plain_double(text: str, _: str) -> bool:
    if text in ("NaN", "INF", "-INF"):
        return True
    try:
        number = float(text)
    except ValueError:
        return False
    return math.isfinite(number) and repr(number) == text


def is_time(text: str) -> bool:
    """Return whether ``text`` is an ``xsd:dateTime``."""
    return _XSD_DATETIME.fullmatch(text) is not None


_KIND_OF_DATATYPE = {
    f"{XSD}string": "string",
    f"{XSD}boolean": "boolean",
    f"{XSD}int": "integer",
    f"{XSD}long": "integer",
    f"{XSD}integer": "integer",
    f"{XSD}double": "double",
    f"{XSD}dateTime": "dateTime",
    f"{XSD}anyURI": "anyURI",
}
_IS_PLAIN: Mapping[str, Callable[[str, str], bool]] = {
    "string": lambda _, __: True,
    "boolean": lambda text, _: text in ("true", "false"),
    "integer": _is_plain_integer,
    "double": _is_plain_double,
    "dateTime": lambda text, _: is_time(text),
    "anyURI": lambda _, __: True,
}


def _typed(text: str, local: str) -> Value:
    return Value("literal", text, QName("xsd", XSD, local))


def from_python(item: object) -> Value | None:
    """Return the value of a plain Python object, ``None`` when PROV has no form for its type.

    ``Decimal``, ``date``, ``time`` and ``bytes`` become ``xsd:decimal``, ``xsd:date``, ``xsd:time`` and
    ``xsd:base64Binary``; a ``UUID`` becomes the ``xsd:anyURI`` ``urn:uuid:…``.
    """
    match item:
        case bool():
            return boolean(item)
        case str():
            return string(str(item))
        case int():
            return integer(int(item))
        case float():
            return double(float(item))
        case dt.datetime():
            return Value("dateTime", item.isoformat())
        case uuid.UUID():
            return Value("anyURI", item.urn)
    return _from_python_typed(item)


def _from_python_typed(item: object) -> Value | None:
    match item:
        case decimal.Decimal():
            return _typed(str(item), "decimal")
        case dt.date():
            return _typed(item.isoformat(), "date")
        case dt.time():
            return _typed(item.isoformat(), "time")
        case bytes() | bytearray() | memoryview():
            return _typed(base64.b64encode(bytes(item)).decode(), "base64Binary")
    return None


def time_key(text: str) -> str:
    """Return a time's spelling for comparison: ``Z`` and ``-00:00`` are ``+00:00``, zeros that end a fraction drop.

    Another offset, an offset against none, ``24:00:00`` and every stated digit stay different.
    """
    found = _TIME_PARTS.fullmatch(text)
    if found is None:
        return text
    fraction = (found[2] or "").rstrip("0").rstrip(".")
    offset = "+00:00" if found[3] in ("Z", "-00:00") else found[3] or ""
    return f"{found[1]}{fraction}{offset}"


def canonical(record: Record, bundle: str = "") -> bytes:
    """Return the canonical form of one record: a line of JSON, UTF-8, without line feed.

    ``[bundle IRI or "", kind, IRI or null, {role: IRI}, {time role: text}, [[attribute IRI, kind of value, text,
    datatype IRI or null, language or null]…]]``; attributes sorted, no JSON numbers.

    Raises:
        ValueError: A text holds a lone surrogate, which is not Unicode; the message names the attribute.
    """
    names: dict[str, str] = {}
    times: dict[str, str] = {}
    for role, argument in zip(FORMAL[record.kind], record.formal):
        if isinstance(argument, str):
            times[role] = time_key(argument)
        elif argument is not None:
            names[role] = argument.namespace + argument.local
    rows = [_canonical_attribute(name, value) for name, value in record.attributes]
    try:
        rows.sort()
    except TypeError:  # a None against a text: in that place None comes first
        rows.sort(key=_attribute_order)
    name = record.name.iri if record.name else None
    try:
        return orjson.dumps([bundle, record.kind, name, names, times, rows], option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise ValueError(f"{_not_unicode(record, bundle)}: holds a lone surrogate, which is not Unicode") from error


def _canonical_attribute(name: QName, value: Value) -> list[str | None]:
    text = time_key(value.text) if value.kind == "dateTime" else value.text
    datatype = None if value.datatype is None else value.datatype.iri
    return [name.namespace + name.local, value.kind, text, datatype, value.lang]


def _attribute_order(row: list[str | None]) -> list[str]:
    return [item or "" for item in row]


def _not_unicode(record: Record, bundle: str) -> str:
    for name, value in record.attributes:
        texts = (name.iri, value.text, value.datatype.iri if value.datatype else "", value.lang or "")
        if any(not _is_unicode(text) for text in texts):
            return ascii(f"attribute {name.text}")[1:-1]
    return ascii(f"a name{' in ' + bundle if bundle else ''}")[1:-1]


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def record_label(record: Record) -> str:
    """Return a short text that tells people which record is meant."""
    if record.name is not None:
        return f"{record.kind} {record.name.text}"
    shown = [argument.text if isinstance(argument, QName) else argument or "-" for argument in record.formal]
    return f"{record.kind}({', '.join(shown)})"


def canonical_lines(parts: Iterable[Part]) -> Iterator[tuple[str, bytes]]:
    """Yield (bundle IRI, canonical form) of each record in the given order."""
    bundle = ""
    for part in parts:
        if isinstance(part, Bundle):
            bundle = part.name.iri if part.name else ""
        else:
            yield bundle, canonical(part, bundle)


def content_hash(sorted_lines: Iterable[bytes]) -> str:
    """Return the SHA-256, in hex, of canonical records already sorted as bytes, one a line.

    It is the hash of what is said, whatever the order and the prefixes: equal on every engine and after every round
    trip.
    """
    digest = hashlib.sha256()
    for line in sorted_lines:
        digest.update(line)
        digest.update(b"\n")
    return digest.hexdigest()
