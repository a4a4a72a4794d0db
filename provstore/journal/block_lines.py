"""A small block as canonical JSON lines: one line a group of facts, then one line a fact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from provstore.errors import InputError
from provstore.journal import columns
from provstore.journal.columns import Group, Kind
from provstore.model import canonical
from provstore.model.block import Block, Column, Nodes, Relations
from provstore.model.canonical import Json

NAME = "lines"
MAX_FACTS = 1_000


def encode(parts: Sequence[Group]) -> list[bytes] | None:
    """Return the lines of a block, without line ends; ``None`` when one is longer than a record may be.

    Raises:
        InputError: A value cannot be kept; the message names the property.
    """
    lines: list[bytes] = []
    for part in parts:
        _require_text(part)
        lines.append(canonical.encode(_head(part)))
        for at in range(len(part)):
            row: list[Json] = [end[at] for end in part.ends]
            row += [columns.cell(kind, column[at]) for kind, column in part.columns]
            lines.append(canonical.encode(row))
    return lines if max(map(len, lines), default=0) <= canonical.MAX_RECORD_BYTES else None


def decode(lines: Sequence[bytes], run: str, attempt: int) -> Block:
    """Return the block whose lines these are.

    Raises:
        InputError: They are not such lines.
    """
    nodes: list[Nodes] = []
    relations: list[Relations] = []
    rest = iter(lines)
    for line in rest:
        try:
            part = _part(canonical.parse(line), rest)
        except (KeyError, TypeError, ValueError, StopIteration) as error:
            raise InputError("record: group: not a group of facts") from error
        if isinstance(part, Nodes):
            nodes.append(part)
        else:
            relations.append(part)
    return Block(run, attempt, tuple(nodes), tuple(relations))


def _head(part: Group) -> Json:
    kinds: list[Json] = [{"a": kind.array, "n": kind.name, "t": kind.type} for kind, _ in part.columns]
    head: dict[str, Json] = {"columns": kinds, "labels": list(part.labels), "rows": len(part)}
    if part.type is not None:
        head["type"] = part.type
    return head


def _require_text(part: Group) -> None:
    for name, end in zip(("key",) if part.type is None else ("source", "target"), part.ends):
        columns.utf8(name, end)
    for kind, column in part.columns:
        columns.utf8(kind.name, list(columns.strings(column)))


def _part(head: Any, rest: Iterator[bytes]) -> Nodes | Relations:
    kinds = [Kind(said["n"], said["t"], said["a"]) for said in head["columns"]]
    ends = 1 if "type" not in head else 2
    rows: list[Any] = [canonical.parse(next(rest)) for _ in range(head["rows"])]
    table: list[list[Any]] = [list(cells) for cells in zip(*rows, strict=True)] or [
        [] for _ in range(ends + len(kinds))
    ]
    if len(table) != ends + len(kinds) or not all(isinstance(key, str) for key in chain(*table[:ends])):
        raise InputError("record: row: has another number of cells than its group says")
    found: dict[str, Column] = {}
    for kind, cells in zip(kinds, table[ends:]):
        found[kind.name] = columns.restore(kind, [columns.uncell(kind.type, said) for said in cells])
    return columns.build(tuple(head["labels"]), head.get("type"), table[:ends], found)
