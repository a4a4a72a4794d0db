"""Strict reader of PROV-JSON text: one record at a time, no key twice, every refusal with its place."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import IO, Any, NoReturn

from provstore.errors import InputError
from provstore.graph.prov_json_records import SURROGATE, Names, RefusedError, Scope, is_unicode, records, shown
from provstore.model.prov import BUILT_IN_PREFIXES, ELEMENTS, FORMAL, Bundle, Part, QName, Record

FORMAT = "PROV-JSON"

_WINDOW = 1 << 20
"""Characters read at a time."""
_LARGEST_WINDOW = 1 << 28
"""Characters of a single value, or before ``prefix`` of a document that does not begin with it."""
_LONGEST_TOKEN = 16
"""An error so close to the end of the window may come from the cut; strings aside, no token is longer."""
_SPACE = re.compile(r"[ \t\n\r]*")
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


class _RepeatedKeyError(Exception):
    """A JSON object holds one key twice."""


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


class _Reader:
    """The document, seen through a window of text that moves forward record by record."""

    def __init__(self, source: IO[str], file: str, warnings: Counter[str]) -> None:
        self.text = source.read(_WINDOW).removeprefix("\ufeff")
        self.at = 0
        self.scope = Scope(Names({}, None, None), warnings)
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
        self.scope.names, head = self._declarations(None)
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
                self.fail(f"{shown(key)} is no kind of PROV record", key_at)

    def _bundle(self, key: str, key_at: int) -> Iterator[Part]:
        outer = self.scope.names
        self.scope.names, head = self._declarations(outer)
        yield Bundle(self._name(key, key_at, "bundle"), head.namespaces, head.default)
        yield from self._sections(None)
        self.scope.names = outer

    def _declarations(self, parent: Names | None) -> tuple[Names, Bundle]:
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
        return Names(prefixes, default, parent), Bundle(None, declared, default)

    def _prefixes(self) -> dict[str, str]:
        prefixes: dict[str, str] = {}
        for prefix, key_at in self._members():
            iri = self._value()
            if not isinstance(iri, str) or not iri.strip() or not is_unicode(prefix + iri):
                self.fail(f"the namespace of prefix {shown(prefix)} is no IRI", key_at)
            if BUILT_IN_PREFIXES.get(prefix, iri) != iri:
                self.scope.warnings["built_in_prefix_redeclared"] += 1
            prefixes[prefix] = iri
        return prefixes

    def _records(self, kind: str) -> Iterator[Record]:
        for key, key_at in self._members():
            value_at = self._base + self.at
            content = self._value()
            instances = content if isinstance(content, list) else [content]
            if not all(isinstance(instance, dict) for instance in instances):
                self.fail(f"record {shown(key)} is neither an object nor a list of objects", value_at)
            name = None if key.startswith("_:") and kind not in ELEMENTS else self._name(key, key_at, kind)
            for instance in instances:
                try:
                    yield from records(kind, name, instance, self.scope)
                except RefusedError as reason:
                    self.fail(f"{kind} {shown(key)}: {reason}", value_at)

    def _name(self, text: str, at: int, what: str) -> QName:
        if not is_unicode(text):
            self.fail(f"{what} {shown(text)}: {SURROGATE}", at)
        found = self.scope.find(text)
        if found is None:
            self.fail(f"{what} {shown(text)}: its prefix is not declared", at)
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
                self.fail(f"the key {shown(key)} is repeated", key_at)
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
            found = shown(self.text[self.at]) if self.at < len(self.text) else "the end of the file"
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
                    return token.start(), f"the key {shown(key)} is repeated"
                objects[-1].add(key)
        return self.at, "a key is repeated"


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
