"""Streaming writer of PROV-N: one statement a line, in order, in bounded memory; what PROV-N cannot hold is refused."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from typing import IO

from provstore.errors import ConfigError
from provstore.exports.graphs._containers import sorted_into
from provstore.exports.graphs._names import Scope
from provstore.model.prov import (
    ELEMENTS,
    PROV,
    XSD,
    Bundle,
    Part,
    QName,
    Record,
    Value,
    integer_type,
    record_label,
)

_IN_MEMORY_CHARACTERS = 1 << 20
_BUILT_IN = {"prov": PROV, "xsd": XSD}
_KEYWORDS = frozenset({"document", "endDocument", "bundle", "endBundle", "prefix", "default"})

# PN_CHARS_U and PN_CHARS of PROV-N [53] to [55], without U+1680, which its reader takes for a space.
_START = (
    "A-Za-z_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u167f\u1681-\u1fff\u200c\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_CHARS = _START + "0-9\u00b7\u0300-\u036f\u203f\u2040\\-"
_OTHER = "/@~&+*?#$!"
_META = "='(),:;\\[\\]"
_LOCAL = re.compile(
    rf"(?:[{_START}0-9{_OTHER}{_META}.\-]|%[0-9A-Fa-f]{{2}})(?:[{_CHARS}{_OTHER}{_META}.]|%[0-9A-Fa-f]{{2}})*+"
)
_ESCAPED = re.compile(rf"[{_META}]|\A[.\-]|\.\Z")
_PREFIX = re.compile(rf"[{_START.replace('_', '', 1)}](?:[{_CHARS}.]*[{_CHARS}])?")
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_IN_IRI = re.compile(r'[<>"{}|^`\\\x00-\x20\ud800-\udfff]')
_LANG = re.compile(r"[a-zA-Z]+(-[a-zA-Z0-9]+)*")
_TO_ESCAPE = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]')
_SHORT_ESCAPES = {"\t": "\\t", "\b": "\\b", "\n": "\\n", "\r": "\\r", "\f": "\\f", '"': '\\"', "\\": "\\\\"}
_DATATYPES = {"boolean": "boolean", "double": "double", "dateTime": "dateTime", "anyURI": "anyURI"}


def write_prov_n(parts: Iterable[Part], out: IO[str], remark: str = "") -> None:
    """Write ``parts`` as one PROV-N document, bundles after the document's own statements.

    Raises:
        ConfigError: PROV-N cannot write a name, a namespace or a language tag; the message names the record.

    Source: PROV-N: The Provenance Notation, W3C Recommendation of 30 April 2013.
    """
    with ExitStack() as spools:
        document, bundles = sorted_into(
            parts, lambda head, within: _Container(head, within.scope if within else None, spools)
        )
        out.write(f"document{f' // {remark}' if remark else ''}\n")
        document.copy_to(out)
        for bundle in bundles:
            out.write(f"  bundle {bundle.title()}\n")
            bundle.copy_to(out)
            out.write("  endBundle\n")
        out.write("endDocument\n")


class _Container:
    """The statements of the document itself or of one bundle, spooled until the prefixes are known."""

    def __init__(self, head: Bundle, parent: Scope | None, spools: ExitStack) -> None:
        writable = tuple(pair for pair in head.namespaces if not _NOT_IN_IRI.search(pair[1]))
        default = None if head.default is None or _NOT_IN_IRI.search(head.default) else head.default
        self.scope = Scope(Bundle(head.name, writable, default), parent, _BUILT_IN, _is_prefix, _is_bare)
        self.is_opened = bool(head.namespaces or head.default)
        self._name = head.name
        self._indent = "  " if parent is None else "    "
        self._spool = spools.enter_context(
            tempfile.SpooledTemporaryFile(_IN_MEMORY_CHARACTERS, "w+", encoding="utf-8", newline="")  # noqa: SIM115
        )

    def add(self, record: Record) -> None:
        self.is_opened = True
        try:
            self._spool.write(f"{self._indent}{self._statement(record)}\n")
        except _CannotWriteError as reason:
            message = ascii(f"PROV-N: {record_label(record)}: {reason}")[1:-1]
            raise ConfigError(message, hint="PROV-JSON can hold it") from None

    def title(self) -> str:
        """Return the bundle's name, spelled so that it resolves inside the bundle."""
        return self._text(self._name) if self._name else ""

    def copy_to(self, out: IO[str]) -> None:
        """Write the declarations, then the statements."""
        if self.scope.default is not None:
            out.write(f"{self._indent}default <{self.scope.default}>\n")
        for prefix, namespace in self.scope.prefixes.items():
            out.write(f"{self._indent}prefix {prefix} <{namespace}>\n")
        self._spool.seek(0)
        shutil.copyfileobj(self._spool, out)

    def _statement(self, record: Record) -> str:
        items = [self._argument(argument) for argument in record.formal]
        identifier = ""
        if record.name is not None:
            if record.kind in ELEMENTS:
                items.insert(0, self._text(record.name))
            else:
                identifier = f"{self._text(record.name)}; "
        if record.attributes:
            items.append(f"[{', '.join(self._pair(name, value) for name, value in record.attributes)}]")
        return f"{record.kind}({identifier}{', '.join(items)})"

    def _argument(self, argument: QName | str | None) -> str:
        if argument is None:
            return "-"
        return argument if isinstance(argument, str) else self._text(argument)

    def _pair(self, name: QName, value: Value) -> str:
        try:
            return f"{self._text(name)}={self._value(value)}"
        except _CannotWriteError as reason:
            raise _CannotWriteError(f"attribute {name.text}: {reason}") from None

    def _value(self, value: Value) -> str:
        if value.name is not None:
            return f"'{self._text(value.name)}'"
        text = _quoted(value.text)
        if value.lang is not None:
            if not _LANG.fullmatch(value.lang):
                raise _CannotWriteError(f"{value.lang} is no language tag of PROV-N")
            return f"{text}@{value.lang}"
        if value.kind == "string":
            return text
        if value.kind == "integer":
            datatype = integer_type(value.text)
            return value.text if datatype == f"{XSD}int" else f"{text} %% xsd:{datatype.removeprefix(XSD)}"
        return f"{text} %% {self._text(value.datatype) if value.datatype else f'xsd:{_DATATYPES[value.kind]}'}"

    def _text(self, name: QName) -> str:
        local = _local(name.local)
        if local is None:
            # The whole IRI as a namespace keeps the name: only its split changes.
            name, local = QName("ns", name.iri, ""), ""
        if _NOT_IN_IRI.search(name.namespace):
            raise _CannotWriteError(f"the name <{name.iri}> holds a character that PROV-N cannot write")
        prefix = self.scope.prefix_for(name)
        return local if prefix is None else f"{prefix}:{local}"


class _CannotWriteError(Exception):
    """PROV-N has no spelling for something."""


def _local(text: str) -> str | None:
    """Return a local part with its escapes, ``None`` when PROV-N cannot write it."""
    if not text:
        return ""
    if _LOCAL.fullmatch(text) is None:
        return None
    return _ESCAPED.sub(lambda found: f"\\{found[0]}", text)


def _quoted(text: str) -> str:
    return f'"{_TO_ESCAPE.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    return _SHORT_ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04X}"


def _is_prefix(prefix: str) -> bool:
    return _PREFIX.fullmatch(prefix) is not None


def _is_bare(local: str) -> bool:
    return _BARE.fullmatch(local) is not None and local not in _KEYWORDS
