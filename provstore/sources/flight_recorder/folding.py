"""Coalesced groups: many entries that are one collective become one row; batched sends and receives keep their own.

A coalesced group is a run of entries of one process group with the same numbers, ended by a closing entry that carries
the real state. Source: PyTorch, ``ProcessGroupNCCL::startCoalescing`` and ``endCoalescing``.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from operator import attrgetter

from provstore.sources.flight_recorder.entries import Entries
from provstore.sources.flight_recorder.shapes import ABSENT, COLLECTIVE, Shapes


class Rows:
    """The calls of a dump as lists, one row a call; what coalescing changes is changed in place."""

    def __init__(self, entries: Entries) -> None:
        shapes = [entries.shapes.shapes[number] for number in entries.shape]
        self.kept: list[int] | None = None
        """Entries that stay rows; ``None`` = all."""
        self.batched_groups: set[int] = set()
        self.last_record = list(entries.record)
        self.state = [shape.state for shape in shapes]
        self.retired = [shape.retired for shape in shapes]
        self.started = list(entries.started)
        self.completed = list(entries.completed)
        self.duration = list(entries.duration)
        self.signature = [shape.signature for shape in shapes]
        self.joined: dict[tuple[int, ...], int] = {}
        """Signatures of the parts → signature of the whole."""
        self.batch = [ABSENT] * len(shapes)
        self.parts = [1] * len(shapes)

    def take_state(self, row: int, source: int) -> None:
        """Give ``row`` the progress of the entry ``source``."""
        for column in (self.state, self.retired, self.started, self.completed):
            column[row] = column[source]
        self.duration[row] = self.duration[source]


def fold(entries: Entries) -> Rows | None:
    """Return the folded rows, or ``None`` when every entry is a call of its own."""
    if not _has_coalesced(entries):
        return None
    rows = Rows(entries)
    dropped: set[int] = set()
    runs: dict[int, list[int]] = {}
    for at, number in enumerate(entries.shape):
        shape = entries.shapes.shapes[number]
        run = runs.setdefault(shape.group, [])
        if shape.is_closing:
            _close(entries, rows, run, at, dropped)
            run.clear()
        elif run and _continues(entries, run[-1], at):
            run.append(at)
        else:
            _join_unclosed(entries, rows, run, dropped)
            run[:] = [at]
    for run in runs.values():
        _join_unclosed(entries, rows, run, dropped)
    if dropped:
        rows.kept = [at for at in range(len(entries.shape)) if at not in dropped]
    return rows


def _has_coalesced(entries: Entries) -> bool:
    shapes = entries.shapes.shapes
    if any(shape.is_closing for shape in shapes):
        return True
    groups = [shape.group for shape in shapes]
    are_p2p = [shape.is_p2p for shape in shapes]
    last: dict[int, int] = {}
    for number, seq, p2p_seq in zip(entries.shape, entries.seq, entries.p2p_seq):
        group = groups[number]
        key = p2p_seq if are_p2p[number] else ~seq
        if last.get(group, ABSENT) == key != ABSENT:
            return True
        last[group] = key
    return False


def _continues(entries: Entries, before: int, at: int) -> bool:
    """Return whether the entry has the numbers of the one before it in its process group."""
    shapes, numbers = entries.shapes.shapes, entries.shape
    if shapes[numbers[before]].is_p2p != shapes[numbers[at]].is_p2p or entries.seq[before] != entries.seq[at]:
        return False
    is_numbered = entries.p2p_seq[at] != ABSENT or not shapes[numbers[at]].is_p2p
    return is_numbered and entries.p2p_seq[before] == entries.p2p_seq[at]


def _close(entries: Entries, rows: Rows, run: list[int], closing: int, dropped: set[int]) -> None:
    """End a coalesced group with its closing entry."""
    shapes = entries.shapes.shapes
    closing_shape = shapes[entries.shape[closing]]
    inner = [
        at for at in run if entries.seq[at] == entries.seq[closing] and entries.p2p_seq[at] == entries.p2p_seq[closing]
    ]
    sent = [at for at in inner if shapes[entries.shape[at]].channel != COLLECTIVE]
    folded = [at for at in inner if shapes[entries.shape[at]].channel == COLLECTIVE]
    for at in sent:
        rows.batch[at] = entries.record[closing]
        rows.take_state(at, closing)
    if sent or (closing_shape.is_p2p and not folded):
        rows.batched_groups.add(closing_shape.group)
    if folded:
        _join(entries, rows, folded, dropped)
        rows.take_state(folded[0], closing)
        rows.last_record[folded[0]] = entries.record[closing]
    if inner or closing_shape.is_p2p:
        dropped.add(closing)


def _join_unclosed(entries: Entries, rows: Rows, run: list[int], dropped: set[int]) -> None:
    """End a run without closing entry: collectives become one row with the least advanced state."""
    if len(run) < 2:
        return
    shape = entries.shapes.shapes[entries.shape[run[0]]]
    if shape.channel != COLLECTIVE:
        # All zeros may also mean that the recorder counts no sends.
        if entries.p2p_seq[run[0]] > 0:
            rows.batched_groups.add(shape.group)
        return
    behind = min(run, key=lambda at: (rows.state[at], rows.retired[at]))
    _join(entries, rows, run, dropped)
    rows.take_state(run[0], behind)
    rows.last_record[run[0]] = entries.record[run[-1]]


def _join(entries: Entries, rows: Rows, members: Sequence[int], dropped: set[int]) -> None:
    """Make the first member stand for all: sizes and dtypes joined in order."""
    first = members[0]
    dropped.update(members[1:])
    rows.parts[first] = len(members)
    if len(members) > 1:
        joined = tuple([rows.signature[at] for at in members])
        known = rows.joined.get(joined, ABSENT)
        if known == ABSENT:
            known = rows.joined[joined] = _joined_signature(entries.shapes, joined)
        rows.signature[first] = known


def _joined_signature(shapes: Shapes, numbers: Sequence[int]) -> int:
    parts = [shapes.signatures.rows[number] for number in numbers]
    raw_name, library, op, *_, timeout = parts[0]
    if any(part[2] != op for part in parts):
        op = "coalesced"
    sides = [tuple([item for part in parts for item in part[at]]) for at in (3, 4, 5, 6)]
    return shapes.signatures.number((raw_name, library, op, *sides, timeout))


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Column: TypeAlias = array[int] | array[float] | int | str


def columns(entries: Entries, rows: Rows | None, peers: Sequence[int]) -> dict[str, Column]:
    """Return the columns of ``Calls``; a number stands for a column that holds only it, a name for a column like it.

    Args:
        entries: The entries as read.
        rows: What folding made of them, ``None`` when every entry is a row.
        peers: Global rank of the other end, one a shape.
    """
    shapes = entries.shapes.shapes
    own: dict[str, Sequence[int]] = {
        "record_id": entries.record,
        "seq": entries.seq,
        "p2p_seq": entries.p2p_seq,
        "op_id": entries.op,
        "created_ns": entries.created,
        "started_ns": rows.started if rows else entries.started,
        "completed_ns": rows.completed if rows else entries.completed,
        "stack": entries.stack,
    }
    if rows:
        own |= {"batch": rows.batch, "parts": rows.parts, "signature": rows.signature}
        own |= {"state": rows.state, "retired": rows.retired, "last_record_id": rows.last_record}
    shared: dict[str, list[int]] = {name: list(map(attrgetter(name), shapes)) for name in _SHARED if name not in own}
    shared["peer"] = list(peers)
    kept = rows.kept if rows else None
    numbers = entries.shape if kept is None else [entries.shape[at] for at in kept]
    out: dict[str, Column] = {"batch": ABSENT, "parts": 1}
    for name, values in own.items():
        out[name] = _packed(values if kept is None else [values[at] for at in kept])
    for name, by_shape in shared.items():
        out[name] = by_shape[0] if len({*by_shape}) == 1 else array("q", [by_shape[at] for at in numbers])
    out.setdefault("last_record_id", "record_id")
    if entries.has_durations:
        duration = rows.duration if rows else entries.duration
        out["duration_ms"] = array("d", duration if kept is None else [duration[at] for at in kept])
    return out


_SHARED = ("group", "signature", "channel", "state", "retired", "pg_id", "thread")


def _packed(values: Sequence[int]) -> array[int] | int:
    if values and values[0] == values[-1] and values.count(values[0]) == len(values):
        return values[0]
    return values if isinstance(values, array) else array("q", values)
