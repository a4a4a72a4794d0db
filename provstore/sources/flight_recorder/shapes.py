"""The part of an entry that many entries share (operation, sizes, group, state …), checked once and given a number."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain

from provstore.sources.flight_recorder.faults import Odd, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FIELDS = (
    "profiling_name",
    "state",
    "retired",
    "pg_id",
    "process_group",
    "is_p2p",
    "timeout_ms",
    "thread_id",
    "thread_name",
    "input_sizes",
    "output_sizes",
    "input_dtypes",
    "output_dtypes",
)
STATES = {"scheduled": 0, "started": 1, "completed": 2}
COLLECTIVE, SEND, RECV = 0, 1, 2
ABSENT = -1
LARGEST = (1 << 63) - 1

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


class Shape:
    """One checked combination of the shared fields; indexes point into the tables of :class:`Shapes`."""

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

    group: int
    signature: int
    thread: int
    channel: int
    local: tuple[int, int] | None
    """Of a send or receive: (own, peer) position in the group."""
    is_p2p: bool
    is_closing: bool
    """Ends a coalesced group: named ``…coalesced`` and without tensors."""
    state: int
    retired: int
    pg_id: int


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

    def add(self, fields: Mapping[str, object]) -> int:
        """Return the number of a new shape made from the shared fields of one entry.

        Raises:
            Odd: A field does not fit the schema.
        """
        shape = Shape()
        raw_name = self._text(fields, "profiling_name")
        if not raw_name:
            raise Odd("profiling_name", "missing or empty")
        library, op = split_name(raw_name)
        shape.channel, shape.local = _channel(op)
        shape.is_p2p = _flag(fields, "is_p2p") == 1 or shape.channel != COLLECTIVE
        shape.state = self._state(fields)
        shape.retired = _flag(fields, "retired")
        shape.pg_id = count(fields.get("pg_id"), "pg_id")
        sizes = self._sizes(fields, "input_sizes"), self._sizes(fields, "output_sizes")
        dtypes = self._dtypes(fields, "input_dtypes"), self._dtypes(fields, "output_dtypes")
        shape.is_closing = op.endswith("coalesced") and not sizes[0] and not sizes[1]
        signature = (raw_name, library, plain_op(op), *sizes, *dtypes, count(fields.get("timeout_ms"), "timeout_ms"))
        thread = self._text(fields, "thread_id"), self._text(fields, "thread_name")
        group = self._group(fields, shape.pg_id)
        shape.signature = self.signatures.number(signature)
        shape.thread = ABSENT if thread == ("", "") else self.threads.setdefault(thread, len(self.threads))
        shape.group = self.groups.setdefault(group, len(self.groups))
        self.shapes.append(shape)
        return len(self.shapes) - 1

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

    def _sizes(self, fields: Mapping[str, object], name: str) -> tuple[tuple[int, ...], ...]:
        value = fields.get(name)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or not {*map(type, value)} <= {list, tuple}:
            raise Odd(name, f"{shown(value)} is not a list of shapes")
        if len(value) > self.caps.shapes:
            raise Odd(name, f"{len(value)} shapes, more than {self.caps.shapes}")
        if value and max(map(len, value)) > self.caps.dimensions:
            raise Odd(name, f"{max(map(len, value))} dimensions, more than {self.caps.dimensions}")
        kinds = {*map(type, chain.from_iterable(value))}
        if kinds and kinds != {int}:
            raise _bad_shape(name, value)
        if kinds and not 0 <= min(chain.from_iterable(value)) <= max(chain.from_iterable(value)) <= LARGEST:
            raise _bad_shape(name, value)
        return tuple(map(tuple, value))

    def _dtypes(self, fields: Mapping[str, object], name: str) -> tuple[str, ...]:
        value = fields.get(name)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or len(value) > self.caps.shapes or not {*map(type, value)} <= {str}:
            raise Odd(name, f"{shown(value)} is not a list of at most {self.caps.shapes} type names")
        return tuple([text(item, name, self.caps.string) for item in value])


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
