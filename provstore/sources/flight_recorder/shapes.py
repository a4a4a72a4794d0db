"""The part of an entry that many entries share (operation, sizes, group, state …), checked once and given a number."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from math import prod

from provstore.sources.flight_recorder.faults import Odd, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEAD_FIELDS = (
    "profiling_name",
    "state",
    "retired",
    "pg_id",
    "process_group",
    "is_p2p",
    "timeout_ms",
    "thread_id",
    "thread_name",
)
TENSOR_FIELDS = ("input_sizes", "output_sizes", "input_dtypes", "output_dtypes")
FIELDS = (*HEAD_FIELDS, *TENSOR_FIELDS)
STATES = {"scheduled": 0, "started": 1, "completed": 2}
COLLECTIVE, SEND, RECV = 0, 1, 2
ABSENT = -1
LARGEST = (1 << 63) - 1
MOST_ELEMENTS = 1 << 62
"""Of all tensors of one side of an entry, so that their sum stays a 64-bit integer."""
_LISTS, _INTEGER, _STRING = {list, tuple}, {int}, {str}

_PREFIX = re.compile(r"[A-Za-z0-9_.+-]{1,64}:")
_P2P = re.compile(r"i?(send|recv)(?:_?any_?source)?(?: (\d{1,9})(->|<-)(\d{1,9}))?", re.IGNORECASE)
_RESPELLED = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "allgather_base": "_all_gather_base",
    "_allgather_base": "_all_gather_base",
    "allgather_into_tensor_coalesced": "all_gather_into_tensor_coalesced",
    "reducescatter": "reduce_scatter",
    "reduce_scatter_base": "_reduce_scatter_base",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
}


class Caps:
    """The caps of this file, as the request states them."""

    __slots__ = ("dimensions", "frames", "groups", "rank", "ranks", "shapes", "string")

    def __init__(self, limits: Mapping[str, int], rank: int) -> None:
        self.dimensions = limits["dimensions"]
        self.frames = limits["frames"]
        self.groups = limits["groups"]
        self.ranks = limits["ranks"]
        self.shapes = limits["shapes"]
        self.string = limits["string_bytes"]
        self.rank = rank


class Head:
    """One checked combination of the fields that few entries differ in; indexes point into the tables of ``Shapes``."""

    __slots__ = (
        "channel",
        "group",
        "is_p2p",
        "library",
        "local",
        "number",
        "op",
        "pg_id",
        "raw_name",
        "retired",
        "state",
        "thread",
        "timeout",
    )

    number: int
    raw_name: str
    library: str
    op: str
    timeout: int
    group: int
    thread: int
    channel: int
    local: tuple[int, int] | None
    """Of a send or receive: (own, peer) position in the group."""
    is_p2p: bool
    state: int
    retired: int
    pg_id: int


class Shape:
    """A head and the tensors that went with it."""

    __slots__ = (
        "channel",
        "group",
        "is_closing",
        "is_p2p",
        "local",
        "pg_id",
        "retired",
        "signature",
        "state",
        "thread",
    )

    def __init__(self, head: Head, signature: int, *, is_closing: bool) -> None:
        self.channel = head.channel
        self.group = head.group
        self.is_p2p = head.is_p2p
        self.local = head.local
        self.pg_id = head.pg_id
        self.retired = head.retired
        self.state = head.state
        self.thread = head.thread
        self.signature = signature
        self.is_closing = is_closing
        """Ends a coalesced group: named ``…coalesced`` and without tensors."""


class Signatures:
    """Numbers (raw name, library, op, input sizes, output sizes, input dtypes, output dtypes, timeout)."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self._numbers: dict[tuple[Any, ...], int] = {}

    def number(self, row: tuple[Any, ...]) -> int:
        """Return the row's index in ``rows``."""
        number = self._numbers.setdefault(row, len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
        return number


class Shapes:
    """Numbers shapes, and the groups, signatures and threads that they name."""

    def __init__(self, caps: Caps) -> None:
        self.caps = caps
        self.shapes: list[Shape] = []
        self.groups: dict[tuple[str, str, int], int] = {}
        """(name, desc, pg_id) → index."""
        self.signatures = Signatures()
        self.threads: dict[tuple[str, str], int] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self._dtype_names: dict[str, str] = {}
        self._heads = 0

    def head(self, fields: Mapping[str, object]) -> Head:
        """Return a new head made from the head fields of one entry.

        Raises:
            Odd: A field does not fit the schema.
        """
        head = Head()
        head.raw_name = self._text(fields, "profiling_name")
        if not head.raw_name:
            raise Odd("profiling_name", "missing or empty")
        head.library, op = split_name(head.raw_name)
        head.op = plain_op(op)
        head.channel, head.local = _channel(op)
        head.is_p2p = _flag(fields, "is_p2p") == 1 or head.channel != COLLECTIVE
        head.state = self._state(fields)
        head.retired = _flag(fields, "retired")
        head.pg_id = count(fields.get("pg_id"), "pg_id")
        head.timeout = count(fields.get("timeout_ms"), "timeout_ms")
        thread = self._text(fields, "thread_id"), self._text(fields, "thread_name")
        group = self._group(fields, head.pg_id)
        head.thread = ABSENT if thread == ("", "") else self.threads.setdefault(thread, len(self.threads))
        head.group = self.groups.setdefault(group, len(self.groups))
        head.number = self._heads
        self._heads += 1
        return head

    def number(self, head: Head, tensors: Sequence[object]) -> int:
        """Return the number of a head with the tensor fields of one entry.

        Raises:
            Odd: A tensor field does not fit the schema.
        """
        inputs, outputs, input_dtypes, output_dtypes = tensors
        row = (
            head.raw_name,
            head.library,
            head.op,
            self._sizes(inputs, "input_sizes"),
            self._sizes(outputs, "output_sizes"),
            self._dtypes(input_dtypes, "input_dtypes"),
            self._dtypes(output_dtypes, "output_dtypes"),
            head.timeout,
        )
        signature = self.signatures.number(row)
        number = self._numbers.setdefault((head.number, signature), len(self.shapes))
        if number == len(self.shapes):
            is_closing = head.op.endswith("coalesced") and not row[3] and not row[4]
            self.shapes.append(Shape(head, signature, is_closing=is_closing))
        return number

    def _text(self, fields: Mapping[str, object], name: str) -> str:
        value = fields.get(name)
        return "" if value is None else text(value, name, self.caps.string)

    def _state(self, fields: Mapping[str, object]) -> int:
        value = fields.get("state")
        if type(value) is not str or value not in STATES:
            raise Odd("state", f"{shown(value)} is not scheduled, started or completed")
        return STATES[value]

    def _group(self, fields: Mapping[str, object], pg_id: int) -> tuple[str, str, int]:
        pair = fields.get("process_group")
        if pair is None:
            if pg_id == ABSENT:
                raise Odd("process_group", "missing, and pg_id too")
            return str(pg_id), "", pg_id
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise Odd("process_group", f"{shown(pair)} is not a name and a description")
        name, desc = (text(part, "process_group", self.caps.string) for part in pair)
        if len(self.groups) >= self.caps.groups and (name, desc, pg_id) not in self.groups:
            raise Odd("process_group", f"more than {self.caps.groups} groups in one file")
        return name, desc, pg_id

    def _sizes(self, value: object, name: str) -> tuple[tuple[int, ...], ...]:
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or not {*map(type, value)} <= _LISTS:
            raise Odd(name, f"{shown(value)} is not a list of shapes")
        if len(value) > self.caps.shapes:
            raise Odd(name, f"{len(value)} shapes, more than {self.caps.shapes}")
        if value and max(map(len, value)) > self.caps.dimensions:
            raise Odd(name, f"{max(map(len, value))} dimensions, more than {self.caps.dimensions}")
        flat = value[0] if len(value) == 1 else [*chain.from_iterable(value)]
        if flat and ({*map(type, flat)} != _INTEGER or min(flat) < 0 or max(flat) > LARGEST):
            raise _bad_shape(name, value)
        if flat and sum(map(prod, value)) > MOST_ELEMENTS:
            raise Odd(name, f"{shown(value)} holds more than 2**62 elements")
        return tuple(map(tuple, value))

    def _dtypes(self, value: object, name: str) -> tuple[str, ...]:
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or len(value) > self.caps.shapes or not {*map(type, value)} <= _STRING:
            raise Odd(name, f"{shown(value)} is not a list of at most {self.caps.shapes} type names")
        return tuple([self._dtype(item, name) for item in value])

    def _dtype(self, value: str, name: str) -> str:
        known = self._dtype_names.get(value)
        if known is None:
            known = self._dtype_names[value] = text(value, name, self.caps.string)
        return known


def _bad_shape(name: str, shapes: Sequence[Sequence[object]]) -> Odd:
    for shape in shapes:
        if not all(type(item) is int and 0 <= item <= LARGEST for item in shape):
            return Odd(name, f"{shown(shape)} is not a list of non-negative integers")
    return Odd(name, f"{shown(shapes)} is not a list of shapes")


def text(value: object, name: str, longest: int) -> str:
    """Return ``value`` if it is a string within the cap that UTF-8 can carry."""
    if type(value) is not str:
        raise Odd(name, f"{shown(value)} is not a string")
    if len(value) > longest:
        raise Odd(name, f"a string of {len(value)} characters, more than {longest}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Odd(name, "a string with half a character (a lone surrogate)") from None
    return value


def count(value: object, name: str) -> int:
    """Return a non-negative 64-bit integer, or ``ABSENT`` for ``None``."""
    if value is None:
        return ABSENT
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise Odd(name, f"{shown(value)} is not a non-negative 64-bit integer")
    return value


def _flag(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name)
    if value is not None and type(value) is not bool and (type(value) is not int or value not in (0, 1)):
        raise Odd(name, f"{shown(value)} is not true or false")
    return 1 if value else 0


def split_name(raw_name: str) -> tuple[str, str]:
    """Return library prefix and operation of a recorded name, such as ``nccl`` and ``send 0->3``."""
    prefix = _PREFIX.match(raw_name)
    if prefix is None or prefix.end() == len(raw_name):
        return "unknown", raw_name
    return raw_name[: prefix.end() - 1], raw_name[prefix.end() :]


def plain_op(op: str) -> str:
    """Return the operation without ranks, in its usual spelling."""
    p2p = _P2P.fullmatch(op)
    if p2p is not None:
        return p2p[1].lower()
    bare = op.rstrip("_") or op
    return _RESPELLED.get(bare, bare)


def _channel(op: str) -> tuple[int, tuple[int, int] | None]:
    p2p = _P2P.fullmatch(op)
    if p2p is None:
        return COLLECTIVE, None
    channel = SEND if p2p[1].lower() == "send" else RECV
    return channel, None if p2p[2] is None else (int(p2p[2]), int(p2p[4]))
