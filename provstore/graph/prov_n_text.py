"""Reader of the PROV-N that our streaming writer makes: one statement a line, read back to check what was written.

It is no reader of PROV-N at large; documents of others are read through the ``prov`` library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NoReturn

from provstore.errors import InputError
from provstore.model.prov import (
    ELEMENTS,
    FORMAL,
    PROV,
    TIME_ROLES,
    XSD,
    Bundle,
    Part,
    QName,
    Record,
    Value,
    integer,
    literal,
    qname,
    string,
)

FORMAT = "PROV-N"

_RUN = r"(?:[^\\,;()\[\]='\"\s]|\\.)+"
_HEADER = re.compile(r"\s*(?:default <([^>]*)>|prefix (\S+) <([^>]*)>|bundle (\S+))$")
_STATEMENT = re.compile(r"\s*([A-Za-z]+)\((.*)\)$")
_ARGUMENT = re.compile(rf"({_RUN})(; |, |$)")
_ATTRIBUTE = re.compile(
    rf"({_RUN})=(?:'({_RUN})'|\"((?:[^\"\\]++|\\.)*+)\"(?:@([A-Za-z0-9-]+)| %% ({_RUN}))?|(-?[0-9]+))(?:, |$)"
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))")
_SHORT_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_PREFIX = re.compile(r"((?:[^\\:])*):(.*)")
_BUILT_IN = {"prov": PROV, "xsd": XSD}


def parse_prov_n_lines(lines: Iterable[str], file: str) -> Iterator[Part]:
    """Yield the parts of a PROV-N document with one statement a line.

    Raises:
        InputError: A line is not as our writer makes it; the message gives file, format and line.
    """
    reader = _Reader(file)
    for line in lines:
        yield from reader.line(line.rstrip("\n"))
    if not reader.is_closed:
        reader.fail("the document has no end")


class _Reader:
    def __init__(self, file: str) -> None:
        self.is_closed = False
        self._file = file
        self._number = 0
        self._document = Bundle()
        self._head = Bundle()
        self._prefixes: dict[str, str] = {}
        self._bundle: str | None = None
        self._is_open = False
        self._names: dict[str, QName] = {}

    def fail(self, reason: str) -> NoReturn:
        raise InputError(f"{self._file}: {FORMAT} line {self._number}: {reason}")

    def line(self, text: str) -> Iterator[Part]:
        self._number += 1
        word = text.strip()
        if self.is_closed or not word or (self._number == 1 and word.split(" // ")[0] == "document"):
            return
        header = _HEADER.match(text)
        if header is not None:
            yield from self._header(header)
        elif word in ("endBundle", "endDocument"):
            yield from self._open()
            self.is_closed = word == "endDocument"
            self._bundle, self._head, self._is_open = None, self._document, True
            self._enter()
        else:
            yield from self._open()
            yield self._record(text)

    def _header(self, found: re.Match[str]) -> Iterator[Part]:
        default, prefix, namespace, bundle = found.groups()
        if bundle is not None:
            yield from self._open()
            self._bundle, self._head, self._is_open = bundle, Bundle(), False
        elif prefix is not None:
            self._head = Bundle(None, (*self._head.namespaces, (prefix, namespace)), self._head.default)
        else:
            self._head = Bundle(None, self._head.namespaces, default)
        self._enter()

    def _enter(self) -> None:
        self._prefixes = {**dict(self._document.namespaces), **dict(self._head.namespaces), **_BUILT_IN}
        self._names = {}

    def _open(self) -> Iterator[Part]:
        """Yield the head, once its declarations are complete."""
        if self._is_open:
            return
        self._is_open = True
        if self._bundle is None:
            self._document = self._head
            yield self._head
        else:
            yield Bundle(self._name(self._bundle), self._head.namespaces, self._head.default)

    def _record(self, text: str) -> Record:
        found = _STATEMENT.match(text)
        if found is None or found[1] not in FORMAL:
            self.fail("expected a statement")
        kind, body = found.groups()
        roles = FORMAL[kind]
        name: QName | None = None
        arguments: list[str] = []
        at = 0
        while at < len(body) and body[at] != "[":
            argument = _ARGUMENT.match(body, at)
            if argument is None:
                self.fail("expected an argument")
            at = argument.end()
            if argument[2] == "; " or (kind in ELEMENTS and name is None):
                name = self._name(argument[1])
            else:
                arguments.append(argument[1])
        if len(arguments) != len(roles):
            self.fail(f"{kind} has {len(arguments)} arguments, not {len(roles)}")
        formal = tuple(self._formal(role, argument) for role, argument in zip(roles, arguments))
        return Record(kind, name, formal, tuple(self._attributes(body[at + 1 : -1])) if at < len(body) else ())

    def _formal(self, role: str, text: str) -> QName | str | None:
        if text == "-":
            return None
        return text if role in TIME_ROLES else self._name(text)

    def _attributes(self, text: str) -> Iterator[tuple[QName, Value]]:
        at = 0
        while at < len(text):
            found = _ATTRIBUTE.match(text, at)
            if found is None:
                self.fail("expected an attribute")
            at = found.end()
            name, named, quoted, lang, datatype, number = found.groups()
            yield self._name(name), self._value(named, quoted, lang, datatype, number)

    def _value(
        self, named: str | None, quoted: str | None, lang: str | None, datatype: str | None, number: str | None
    ) -> Value:
        if named is not None:
            return qname(self._name(named))
        if number is not None:
            return integer(int(number))
        text = _unescaped(quoted or "")
        if lang is not None:
            return literal(text, None, lang)
        return string(text) if datatype is None else literal(text, self._name(datatype))

    def _name(self, text: str) -> QName:
        found = self._names.get(text)
        if found is None:
            found = self._names[text] = self._resolve(text)
        return found

    def _resolve(self, text: str) -> QName:
        parts = _PREFIX.match(text)
        if parts is None:
            default = self._head.default if self._head.default is not None else self._document.default
            if default is None:
                self.fail(f"{text!a} has no prefix and there is no default namespace")
            return QName("", default, _unescaped_name(text))
        namespace = self._prefixes.get(parts[1])
        if namespace is None:
            self.fail(f"the prefix of {text!a} is not declared")
        return QName(parts[1], namespace, _unescaped_name(parts[2]))


def _unescaped_name(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text) if "\\" in text else text


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(
        lambda found: chr(int(found[1], 16)) if found[1] else _SHORT_ESCAPES.get(found[2], found[2]), text
    )
