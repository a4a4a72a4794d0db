"""A worker's reply → ``Dump`` or ``Refusal``: columns from raw bytes, what many dumps share held once."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import orjson

from provstore.model.dump import (
    ABSENT,
    INTEGER_COLUMNS,
    Calls,
    Dump,
    Frame,
    Group,
    Quarantined,
    Refusal,
    Sidecar,
    Signature,
)
from provstore.sources.flight_recorder.discovery import Candidate
from provstore.sources.flight_recorder.pool import Reply

_DUMP_FIELDS = (
    "version",
    "backend",
    "comm_lib_version",
    "entry_count",
    "wrapped",
    "active_only",
    "eventless",
    "seq_comparable",
    "record_ids_stated",
    "extra",
)


class Stacks(Sequence[tuple[Frame, ...]]):
    """Stacks of one or more dumps, built on first use from the worker's JSON."""

    __slots__ = ("_built", "_size", "_text")

    def __init__(self, text: bytes, size: int) -> None:
        self._text = text
        self._size = size
        self._built: tuple[tuple[Frame, ...], ...] | None = None

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> tuple[Frame, ...]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[tuple[Frame, ...]]: ...
    def __getitem__(self, at: int | slice) -> tuple[Frame, ...] | Sequence[tuple[Frame, ...]]:
        return self._all()[at]

    def __iter__(self) -> Iterator[tuple[Frame, ...]]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())

    def _all(self) -> tuple[tuple[Frame, ...], ...]:
        if self._built is None:
            tables = orjson.loads(self._text)
            frames = [Frame(*frame) for frame in tables["frames"]]
            self._built = tuple(tuple([frames[number] for number in stack]) for stack in tables["stacks"])
            self._text = b""
        return self._built


class Builder:
    """Builds dumps from replies; equal ranks and equal stacks of many dumps become one object."""

    def __init__(self) -> None:
        self._ranks: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._stacks: dict[bytes, Stacks] = {}

    def dump(self, candidate: Candidate, reply: Reply) -> Dump:
        """Return the dump that an accepted file holds."""
        header: Mapping[str, Any] = reply.header
        sidecar = self._sidecar(candidate, header)
        return Dump(
            **{name: header[name] for name in _DUMP_FIELDS},
            file=candidate.file,
            path=str(candidate.path),
            digest=header["sha256"],
            size_bytes=header["size_bytes"],
            form=candidate.form,
            rank=candidate.rank if candidate.rank is not None else ABSENT,
            calls=_calls(header, reply.body),
            groups=tuple([self._group(row) for row in header["groups"]]),
            signatures=tuple([_signature(row) for row in header["signatures"]]),
            stacks=self._stack_table(header, reply.body),
            threads=tuple([(number, name) for number, name in header["threads"]]),
            host=candidate.host or (sidecar.host if sidecar else None),
            quarantined=tuple([Quarantined(*row) for row in header["quarantined"]]),
            warnings=tuple(header["warnings"]),
            sidecar=sidecar,
        )

    def _group(self, row: Sequence[Any]) -> Group:
        name, desc, ranks, *rest = row
        return Group(name, desc, self._shared(ranks), *rest)

    def _shared(self, ranks: list[int] | None) -> tuple[int, ...] | None:
        if ranks is None:
            return None
        members = tuple(ranks)
        return self._ranks.setdefault(members, members)

    def _stack_table(self, header: Mapping[str, Any], body: bytes) -> Stacks:
        text = body[len(body) - header["stack_bytes"] :]
        return self._stacks.setdefault(text, Stacks(text, header["stack_count"]))

    def _sidecar(self, candidate: Candidate, header: Mapping[str, Any]) -> Sidecar | None:
        facts = header.get("sidecar")
        if facts is None or candidate.sidecar is None:
            return None
        path, file = candidate.sidecar
        groups = tuple(
            [
                Group(name, desc, self._shared(ranks), "", "sidecar" if ranks else "nothing")
                for name, desc, ranks in facts["groups"]
            ]
        )
        rest = {name: value for name, value in facts.items() if name not in ("groups", "errors")}
        return Sidecar(**rest, groups=groups, errors=tuple(facts.get("errors", ())), file=file, path=str(path))


def _calls(header: Mapping[str, Any], body: bytes) -> Calls:
    size = header["row_count"]
    view = memoryview(body)
    columns: dict[str, Any] = {}
    at = 0
    for name, stated in header["columns"].items():
        code = "d" if name == "duration_ms" else "q"
        if isinstance(stated, list):
            same = stated[0]
            columns[name] = columns[same][:] if isinstance(same, str) else array(code, stated) * size
            continue
        column: array[Any] = array(code)
        column.frombytes(view[at : at + 8 * stated])
        at += 8 * stated
        columns[name] = column
    if size:
        columns.setdefault("duration_ms", array("d", [float("nan")]) * size)
        missing = {*INTEGER_COLUMNS} - {*columns}
        if missing or any(len(column) != size for column in columns.values()):
            raise AssertionError(f"a worker's reply lacks columns: {sorted(missing)}")
    return Calls(**columns)


def _signature(row: Sequence[Any]) -> Signature:
    raw_name, library, op, inputs, outputs, *rest = row
    input_dtypes, output_dtypes, timeout = rest
    return Signature(
        sys.intern(raw_name),
        sys.intern(library),
        sys.intern(op),
        tuple(map(tuple, inputs)),
        tuple(map(tuple, outputs)),
        tuple(input_dtypes),
        tuple(output_dtypes),
        timeout,
    )


def refusal(candidate: Candidate, reply: Reply) -> Refusal:
    """Return why a file was refused, or skipped as something else than a dump."""
    header: Mapping[str, Any] = reply.header
    is_stray = header["status"] == "foreign" and not candidate.is_meant
    return Refusal(
        candidate.file,
        header["reason"],
        header.get("sha256"),
        header.get("size_bytes", candidate.size_bytes),
        candidate.rank,
        str(candidate.path),
        is_stray,
    )
