"""Strict reader of PROV-JSON text: one record at a time, no key twice, every refusal with its place."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import IO, Any, NoReturn

from provstore.errors import InputError
from provstore.model.prov import (
    BUILT_IN_PREFIXES,
    ELEMENTS,
    FORMAL,
    NAME_ROLES,
    PROV,
    TIME_ROLES,
    XSD,
    Bundle,
    Part,
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

FORMAT = "PROV-JSON"

_WINDOW = 1 << 20
"""Characters read at a time."""
_LARGEST_WINDOW = 1 << 28
"""Characters of a single value, or before ``prefix`` of a document that does not begin with it."""
_LONGEST_TOKEN = 16
"""An error so close to the end of the window may come from the cut; strings aside, no token is longer."""
_SPACE = re.compile(r"[ \t\n\r]*")
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE = "holds a lone surrogate, which is not Unicode"
_QNAME_TYPES = frozenset({f"{XSD}QName", f"{PROV}QUALIFIED_NAME"})
_ARGUMENTS = {f"{PROV}{role}": role for role in NAME_ROLES | TIME_ROLES}
_VALUE_KEYS = frozenset({"$", "type", "lang"})
_LANG = re.compile(r"[A-Za-z]+(-[A-Za-z0-9]+)*")


class _RepeatedKeyError(Exception):
    """A JSON object holds one key twice."""


class _RefusedError(Exception):
    """A record cannot be understood; the text says where inside it and why."""


def parse_prov_json(source: IO[str], file: str, warnings: Counter[str] | None = None) -> Iterator[Part]:
    """Yield the parts of the PROV-JSON document in ``source``, in memory that does not grow with it.

    (It grows with a document whose ``prefix`` does not come first: the format allows that, so it is read ahead.)

    Args:
        source: A seekable stream without newline translation, at its start.
        file: What messages call it.
        warnings: Counts of input that is accepted although the format frowns on it, by class.

    Raises:
        InputError: The text is no PROV-JSON; the message gives file, format, line, column and offset.
        UnicodeDecodeError: The stream is not text in its encoding.
    """
    reader = _Reader(source, file, Counter() if warnings is None else warnings)
    yield from reader.document()


class _Names:
    """The prefixes in force in the document or in one bundle of it."""

    def __init__(self, prefixes: Mapping[str, str], default: str | None, parent: _Names | None) -> None:
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


class _Reader:
    """The document, seen through a window of text that moves forward record by record."""

    def __init__(self, source: IO[str], file: str, warnings: Counter[str]) -> None:
        self.text = source.read(_WINDOW).removeprefix("\ufeff")
        self.at = 0
        self.warnings = warnings
        self.names = _Names({}, None, None)
        self._source = source
        self._file = file
        self._base = 0
        self._is_pinned = False
        self._decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_number)

    def fail(self, reason: str, offset: int | None = None) -> NoReturn:
        """Refuse the document at ``offset``, counted in characters from its start."""
        offset = self._base + self.at if offset is None else offset
        self._source.seek(0)
        before = self._source.read(offset + 1).removeprefix("\ufeff")[:offset]
        line = before.count("\n") + 1
        column = offset - before.rfind("\n")
        raise InputError(f"{self._file}: {FORMAT} line {line} column {column} (offset {offset}): {reason}")

    def _more(self) -> bool:
        """Move the window: drop what was read, unless it is pinned, and add text; return whether there was any."""
        added = self._source.read(max(_WINDOW, len(self.text)))
        if added:
            dropped = 0 if self._is_pinned else self.at
            if len(self.text) - dropped > _LARGEST_WINDOW:
                self.fail(f"more than {_LARGEST_WINDOW} characters would have to be held at once")
            self.text = self.text[dropped:] + added
            self._base += dropped
            self.at -= dropped
        return bool(added)

    def document(self) -> Iterator[Part]:
        self._skip()
        if not self.text:
            self.fail("the file is empty")
        self.names, head = self._declarations(None)
        yield head
        yield from self._sections(head)
        self._skip()
        if self.at != len(self.text):
            self.fail("unexpected text after the document")

    def _sections(self, document: Bundle | None) -> Iterator[Part]:
        for key, key_at in self._members():
            if key == "prefix":
                self._skip_value()
            elif key in FORMAL:
                yield from self._records(key)
            elif key == "bundle" and document is not None:
                for bundle, bundle_at in self._members():
                    yield from self._bundle(bundle, bundle_at)
                yield document
            else:
                self.fail(f"{_shown(key)} is no kind of PROV record", key_at)

    def _bundle(self, key: str, key_at: int) -> Iterator[Part]:
        outer = self.names
        self.names, head = self._declarations(outer)
        yield Bundle(self._name(key, key_at, "bundle"), head.namespaces, head.default)
        yield from self._sections(None)
        self.names = outer

    def _declarations(self, parent: _Names | None) -> tuple[_Names, Bundle]:
        """Return what ``prefix`` of the object here declares, wherever in it that stands; stay where we are."""
        start, self._is_pinned, was_pinned = self.at, True, self._is_pinned
        prefixes: dict[str, str] = {}
        for key, _ in self._members():
            if key == "prefix":
                prefixes = self._prefixes()
                break
            if not self._skip_value():
                break  # the value is cut off: reading it will tell where and why
        self.at, self._is_pinned = start, was_pinned
        default = prefixes.pop("default", None)
        declared = tuple(pair for pair in prefixes.items() if pair[0] not in BUILT_IN_PREFIXES)
        return _Names(prefixes, default, parent), Bundle(None, declared, default)

    def _prefixes(self) -> dict[str, str]:
        prefixes: dict[str, str] = {}
        for prefix, key_at in self._members():
            iri = self._value()
            if not isinstance(iri, str) or not iri.strip() or not _is_unicode(prefix + iri):
                self.fail(f"the namespace of prefix {_shown(prefix)} is no IRI", key_at)
            if BUILT_IN_PREFIXES.get(prefix, iri) != iri:
                self.warnings["built_in_prefix_redeclared"] += 1
            prefixes[prefix] = iri
        return prefixes

    def _records(self, kind: str) -> Iterator[Record]:
        for key, key_at in self._members():
            value_at = self._base + self.at
            content = self._value()
            instances = content if isinstance(content, list) else [content]
            if not all(isinstance(instance, dict) for instance in instances):
                self.fail(f"record {_shown(key)} is neither an object nor a list of objects", value_at)
            name = None if key.startswith("_:") and kind not in ELEMENTS else self._name(key, key_at, kind)
            for instance in instances:
                try:
                    yield from _record(kind, name, instance, self)
                except _RefusedError as reason:
                    self.fail(f"{kind} {_shown(key)}: {reason}", value_at)

    def _name(self, text: str, at: int, what: str) -> QName:
        if not _is_unicode(text):
            self.fail(f"{what} {_shown(text)}: {_SURROGATE}", at)
        found = self.names.resolve(text) or self._compact(text)
        if found is None:
            self.fail(f"{what} {_shown(text)}: its prefix is not declared", at)
        return found

    def _compact(self, text: str) -> QName | None:
        found = self.names.compact(text)
        if found is not None:
            self.warnings["iri_instead_of_name"] += 1
        return found

    def name(self, text: object) -> QName:
        """Return the name inside a record that ``text`` stands for."""
        if not isinstance(text, str):
            raise _RefusedError(f"{_shown(text)} is no name")
        found = self.names.resolve(_unicode(text)) or self._compact(text)
        if found is None:
            raise _RefusedError(f"{_shown(text)} does not resolve: its prefix is not declared")
        return found

    def _skip(self) -> None:
        """Move to the next character that is no space; the window then holds it, unless the document ends."""
        while True:
            self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
            if self.at < len(self.text) or not self._more():
                return

    def _members(self) -> Iterator[tuple[str, int]]:
        """Yield (key, its offset) of the object here; the caller consumes the value that follows."""
        self._expect("{", "an object")
        seen: set[str] = set()
        self._skip()
        if self.text.startswith("}", self.at):
            self.at += 1
            return
        while True:
            self._skip()
            key_at = self._base + self.at
            if not self.text.startswith('"', self.at):
                self.fail("expected a key in double quotes")
            key = str(self._value())
            if key in seen:
                self.fail(f"the key {_shown(key)} is repeated", key_at)
            seen.add(key)
            self._expect(":", "':'")
            self._skip()
            yield key, key_at
            self._skip()
            if self.text.startswith("}", self.at):
                self.at += 1
                return
            self._expect(",", "',' or '}'")

    def _expect(self, char: str, what: str) -> None:
        self._skip()
        if not self.text.startswith(char, self.at):
            found = _shown(self.text[self.at]) if self.at < len(self.text) else "the end of the file"
            self.fail(f"expected {what}, found {found}")
        self.at += 1

    def _value(self) -> Any:
        self._skip()
        while True:
            try:
                value, end = self._decoder.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                place, reason = self._base + error.pos, error.msg
                is_cut = len(self.text) - error.pos < _LONGEST_TOKEN or reason.startswith("Unterminated string")
                if is_cut and self._more():
                    continue
                self.fail(reason, place)
            except _RepeatedKeyError:
                at, reason = self._find_repeated()
                self.fail(reason, self._base + at)
            except RecursionError:
                self.fail("the value is nested too deeply")
            except ValueError as error:  # a number out of range, or of more digits than Python reads
                self.fail(str(error))
            if end < len(self.text) or not self._more():
                self.at = end
                return value

    def _skip_value(self) -> bool:
        """Move behind the value here without building it; return whether it has an end."""
        self._skip()
        if self.text[self.at : self.at + 1] not in ("{", "["):
            self._value()
            return True
        while True:
            depth = 0
            for token in _TOKEN.finditer(self.text, self.at):
                char = token[0]
                if char in "{[":
                    depth += 1
                elif char in "}]":
                    depth -= 1
                    if depth == 0:
                        self.at = token.end()
                        return True
            if not self._more():
                return False

    def _find_repeated(self) -> tuple[int, str]:
        """Return the place of the first repeated key in the value here."""
        objects: list[set[str] | None] = []
        for token in _TOKEN.finditer(self.text, self.at):
            text = token[0]
            if text in "{[":
                objects.append(set() if text == "{" else None)
            elif text in "}]":
                objects.pop()
            elif objects[-1] is not None and self.text.startswith(":", _SPACE.match(self.text, token.end()).end()):  # type: ignore[union-attr]
                key = json.loads(text)
                if key in objects[-1]:
                    return token.start(), f"the key {_shown(key)} is repeated"
                objects[-1].add(key)
        return self.at, "a key is repeated"


def _is_unicode(text: str) -> bool:
    return text.isascii() or _LONE_SURROGATE.search(text) is None


def _unicode(text: str) -> str:
    if not _is_unicode(text):
        raise _RefusedError(f"{_shown(text)} {_SURROGATE}")
    return text


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _RepeatedKeyError
    return found


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is out of range")
    return number


def _record(kind: str, name: QName | None, instance: dict[str, Any], reader: _Reader) -> Iterator[Record]:
    """Yield the record, or one per member of a membership with several."""
    roles = FORMAL[kind]
    formal: dict[str, list[QName | str]] = {}
    attributes: list[tuple[QName, Value]] = []
    for key, stated in instance.items():
        attribute = reader.name(key)
        role = _ARGUMENTS.get(attribute.iri)
        try:
            if role in roles:
                formal[role] = list(_arguments(role, stated, reader))
            else:
                items = stated if isinstance(stated, list) else [stated]
                attributes.extend((attribute, value) for item in items if (value := _value(item, role, reader)))
        except _RefusedError as reason:
            raise _RefusedError(f"attribute {_shown(key)}: {reason}") from None
    members = formal.get("entity", []) if kind == "hadMember" else []
    for role, arguments in formal.items():
        if len(arguments) > 1 and not (kind == "hadMember" and role == "entity"):
            raise _RefusedError(f"argument {role} has {len(arguments)} values, but takes one")
    for member in members or (None,):
        chosen = {role: arguments[0] for role, arguments in formal.items() if arguments}
        if member is not None:
            chosen["entity"] = member
        yield Record(kind, name, tuple(chosen.get(role) for role in roles), tuple(attributes))


def _arguments(role: str, stated: Any, reader: _Reader) -> Iterator[QName | str]:
    items = stated if isinstance(stated, list) else [stated]
    if isinstance(stated, list):
        reader.warnings["list_for_one_argument"] += 1
        if not items:
            raise _RefusedError("the list is empty")
    for item in items:
        if item is None:
            reader.warnings["null_dropped"] += 1
        elif role in TIME_ROLES:
            yield _time(item, reader)
        else:
            yield reader.name(item)


def _time(item: Any, reader: _Reader) -> str:
    if isinstance(item, dict) and item.keys() == {"$", "type"} and reader.name(item["type"]).iri == f"{XSD}dateTime":
        item = item["$"]
    if not isinstance(item, str) or not is_time(item.strip()):
        raise _RefusedError(f"{_shown(item)} is no xsd:dateTime")
    return item.strip()


def _value(item: Any, role: str | None, reader: _Reader) -> Value | None:
    """Return an attribute's value, ``None`` for a null; ``role`` when the attribute is an argument elsewhere."""
    if item is None:
        reader.warnings["null_dropped"] += 1
        return None
    if role is not None:
        return Value("dateTime", _time(item, reader)) if role in TIME_ROLES else qname(reader.name(item))
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
            return _typed(item, reader)
    raise _RefusedError(f"{_shown(item)} is no value")


def _typed(item: dict[str, Any], reader: _Reader) -> Value:
    if "$" not in item:
        raise _RefusedError('a value object lacks its "$"')
    if not item.keys() <= _VALUE_KEYS:
        raise _RefusedError(f"a value object has the unknown key {_shown(min(item.keys() - _VALUE_KEYS))}")
    text, lang = item["$"], item.get("lang")
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise _RefusedError(f'the "$" of a value object is {_shown(text)}, not a string')
    if not isinstance(text, str):
        reader.warnings["number_in_value_object"] += 1
        text = double(text).text if isinstance(text, float) else str(text)
    if lang is not None:
        if not isinstance(lang, str) or not lang:
            raise _RefusedError(f"{_shown(lang)} is no language tag")
        if not _LANG.fullmatch(lang):
            reader.warnings["language_tag"] += 1
        return literal(_unicode(text), None, lang)
    datatype = reader.name(item["type"]) if "type" in item else None
    if datatype is not None and datatype.iri in _QNAME_TYPES:
        return _name_value(_unicode(text), datatype, reader)
    return literal(_unicode(text), datatype)


def _name_value(text: str, datatype: QName, reader: _Reader) -> Value:
    found = reader.names.resolve(text)
    if found is None:
        found = reader.names.compact(text)
        reader.warnings["iri_instead_of_name" if found else "unresolved_name_value"] += 1
    return qname(found) if found else literal(text, datatype)


def _shown(item: object) -> str:
    """Return ``item`` as ASCII JSON of bounded length, safe on a terminal."""
    text = json.dumps(item) if not isinstance(item, float) else repr(item)
    return text if len(text) <= 80 else f"{text[:77]}..."
