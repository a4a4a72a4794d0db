"""Dumps built by hand, without any file: a few calls stated row by row."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, fields

from provstore.model.dump import ABSENT, COLLECTIVE, COMPLETED, Calls, Dump, Frame, Group, Sidecar, Signature

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """One call."""

    seq: int
    op: str = "all_reduce"
    state: int = COMPLETED
    channel: int = COLLECTIVE
    peer: int = ABSENT
    inputs: tuple[tuple[int, ...], ...] = ((8,),)
    outputs: tuple[tuple[int, ...], ...] = ((8,),)
    group: int = 0
    retired: int = 1
    record_id: int | None = None
    created_ns: int | None = None
    op_id: int | None = None
    batch: int = ABSENT
    line: int = 10


def world(ranks: int, name: str = "0", desc: str = "default_pg", backend: str = "nccl") -> Group:
    """Return the group of all ranks."""
    return Group(name, desc, tuple(range(ranks)), backend, "pg_config", pg_id=0)


def dump(
    rank: int,
    rows: Sequence[Row],
    groups: Sequence[Group] | None = None,
    *,
    ranks: int = 4,
    backend: str = "nccl",
    eventless: bool = False,
    seq_comparable: bool = True,
    sidecar: Sidecar | None = None,
    name: str = "",
) -> Dump:
    """Return the dump of one rank; records count from 0 and are created a second apart unless a row says otherwise."""
    groups = tuple(groups or [world(ranks, backend=backend)])
    signatures = [
        Signature(f"{backend}:{row.op}", backend, row.op, row.inputs, row.outputs, ("Float",), ("Float",))
        for row in rows
    ]
    stacks = [(Frame("train", "/workspace/train.py", row.line),) for row in rows]
    calls = Calls()
    for at, row in enumerate(rows):
        record = at if row.record_id is None else row.record_id
        stated = {
            "record_id": record,
            "last_record_id": record,
            "group": row.group,
            "seq": row.seq,
            "op_id": record if row.op_id is None else row.op_id,
            "channel": row.channel,
            "peer": row.peer,
            "signature": at,
            "stack": at,
            "state": row.state,
            "retired": row.retired,
            "created_ns": (record + 1) * SECOND + rank if row.created_ns is None else row.created_ns,
            "batch": row.batch,
            "parts": 1,
        }
        for column in fields(Calls):
            values: array[int] | array[float] = getattr(calls, column.name)
            values.append(float("nan") if column.name == "duration_ms" else stated.get(column.name, ABSENT))  # type: ignore[arg-type]
    label = name or f"rank_{rank}"
    return Dump(
        file=label,
        digest=hashlib.sha256(f"{label}{rows}{eventless}{[g.ranks for g in groups]}".encode()).hexdigest(),
        size_bytes=1,
        form="pickle",
        version="2.10",
        rank=rank,
        backend=backend,
        calls=calls,
        groups=tuple(groups),
        signatures=tuple(signatures),
        stacks=stacks,
        entry_count=len(rows),
        eventless=eventless,
        seq_comparable=seq_comparable,
        sidecar=sidecar,
    )


def ring(ranks: int = 4, calls: int = 5) -> list[Dump]:
    """Return a healthy job: ``calls`` all_reduces of all ranks, numbered from 0."""
    return [dump(rank, [Row(seq) for seq in range(calls)], ranks=ranks) for rank in range(ranks)]
