"""Streaming writer of PROV-JSON: any number of records in bounded memory, none altered."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import IO

import orjson

from provstore.exports.graphs._containers import sorted_into
from provstore.exports.graphs._names import Scope
from provstore.graph.spill import sorted_lines
from provstore.model.prov import (
    BUILT_IN_PREFIXES,
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
    integer_type,
)

_IN_MEMORY_BYTES = 1 << 20
_ARGUMENTS = frozenset(f"{PROV}{role}" for role in NAME_ROLES | TIME_ROLES)
_DATATYPES = {"double": f"{XSD}double", "dateTime": f"{XSD}dateTime", "anyURI": f"{XSD}anyURI", "qname": f"{XSD}QName"}


def write_prov_json(parts: Iterable[Part], out: IO[str], remark: str = "") -> None:  # noqa: ARG001 - see below
    """Write ``parts`` as one PROV-JSON document, grouped by bundle and kind as the format demands.

    JSON has no comments, so ``remark`` is not written.

    Source: The PROV-JSON Serialization, W3C Member Submission of 24 April 2013.
    """
    with ExitStack() as spools:
        document, bundles = sorted_into(
            parts, lambda head, within: _Container(head, within.scope if within else None, spools)
        )
        _write_object(document.sections(bundles), out)


class _Container:
    """The records of the document itself or of one bundle, spooled by kind until the prefixes are known."""

    def __init__(self, head: Bundle, parent: Scope | None, spools: ExitStack) -> None:
        self.head = head
        self.scope = Scope(head, parent, BUILT_IN_PREFIXES, _is_prefix, _is_bare)
        self.is_opened = bool(head.namespaces or head.default)
        self._anonymous: dict[str, IO[bytes]] = {}
        self._named: dict[str, IO[bytes]] = {}
        self._number = itertools.count(1)
        self._spools = spools

    def add(self, record: Record) -> None:
        self.is_opened = True
        body = orjson.dumps(self._body(record))
        if record.name is None:
            key, spools = f"_:id{next(self._number)}", self._anonymous
        else:
            key, spools = self._text(record.name), self._named
        spool = spools.get(record.kind)
        if spool is None:
            spool = self._spools.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES))  # noqa: SIM115
            spools[record.kind] = spool
        spool.write(b"%b\t%b\n" % (orjson.dumps(key), body))

    def sections(self, bundles: Iterable[_Container] = ()) -> Iterator[tuple[str, Iterator[str]]]:
        """Yield (key, chunks of its value) of each member of the container's JSON object."""
        inner = [(container.key(), container) for container in bundles]
        prefixes = dict(self.scope.prefixes)
        if self.scope.default is not None:
            prefixes["default"] = self.scope.default
        if prefixes:
            yield "prefix", iter((_json(prefixes),))
        for kind in FORMAL:
            if kind in self._named or kind in self._anonymous:
                yield kind, _object(self._members(kind))
        if inner:
            yield "bundle", _object((_json(key), _object(_keyed(found.sections()))) for key, found in inner)

    def key(self) -> str:
        """Return the bundle's name, spelled so that it resolves inside the bundle."""
        return self._text(self.head.name) if self.head.name else ""

    def _members(self, kind: str) -> Iterator[tuple[str, Iterator[str]]]:
        named = self._named.pop(kind, None)
        if named is not None:
            lines = (line.split(b"\t", 1) for line in sorted_lines(_lines(named)))
            for key, same in itertools.groupby(lines, key=lambda pair: pair[0]):
                bodies = [body.decode() for _, body in same]
                yield key.decode(), iter((bodies[0] if len(bodies) == 1 else f"[{','.join(bodies)}]",))
        anonymous = self._anonymous.pop(kind, None)
        if anonymous is not None:
            for line in _lines(anonymous):
                key, body = line.split(b"\t", 1)
                yield key.decode(), iter((body.decode(),))

    def _body(self, record: Record) -> dict[str, object]:
        body: dict[str, object] = {}
        for role, argument in zip(FORMAL[record.kind], record.formal):
            if argument is not None:
                body[f"prov:{role}"] = self._text(argument) if isinstance(argument, QName) else argument
        lists: dict[str, list[object]] = {}
        for name, value in record.attributes:
            lists.setdefault(self._text(name), []).append(self._value(name, value))
        body.update((key, items[0] if len(items) == 1 else items) for key, items in lists.items())
        return body

    def _value(self, name: QName, value: Value) -> object:
        if value.kind == "string":
            return value.text
        if value.kind == "boolean":
            return value.text == "true"
        text = self._text(value.name) if value.name else value.text
        if name.iri in _ARGUMENTS and value.kind in ("qname", "dateTime"):
            return text
        if value.lang is not None:
            return {"$": text, "lang": value.lang}
        return {"$": text, "type": self._datatype(value)}

    def _datatype(self, value: Value) -> str:
        if value.datatype is not None:
            return self._text(value.datatype)
        iri = integer_type(value.text) if value.kind == "integer" else _DATATYPES[value.kind]
        return f"xsd:{iri.removeprefix(XSD)}"

    def _text(self, name: QName) -> str:
        prefix = self.scope.prefix_for(name)
        return name.local if prefix is None else f"{prefix}:{name.local}"


def _is_prefix(prefix: str) -> bool:
    return bool(prefix) and prefix not in ("default", "_") and ":" not in prefix


def _is_bare(local: str) -> bool:
    return bool(local) and ":" not in local


def _lines(spool: IO[bytes]) -> Iterator[bytes]:
    spool.seek(0)
    for line in spool:
        yield line[:-1]


def _keyed(sections: Iterable[tuple[str, Iterator[str]]]) -> Iterator[tuple[str, Iterator[str]]]:
    return ((_json(key), chunks) for key, chunks in sections)


def _object(members: Iterable[tuple[str, Iterator[str]]]) -> Iterator[str]:
    """Yield the chunks of a JSON object; the keys are JSON already."""
    comma = "{"
    for key, chunks in members:
        yield f"{comma}{key}:"
        yield from chunks
        comma = ",\n"
    yield "}" if comma != "{" else "{}"


def _write_object(sections: Iterable[tuple[str, Iterator[str]]], out: IO[str]) -> None:
    out.writelines(_object(_keyed(sections)))
    out.write("\n")


def _json(item: object) -> str:
    return orjson.dumps(item).decode()
