"""The dumps of a stored run, rebuilt from the graph as the analysis wants them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson

from provstore.cypher import query
from provstore.graph.dump_facts import dump_from_facts
from provstore.model import ids
from provstore.model.dump import (
    ABSENT,
    CHANNEL_NAMES,
    COMPLETED,
    SCHEDULED,
    STARTED,
    Calls,
    Dump,
    Frame,
    Refusal,
    Signature,
    TensorRecord,
)
from provstore.queries.rows import Row, integer, integers, optional_integer, optional_text, text
from provstore.stores import GraphStore

_STATED = (
    "record_id",
    "op_id",
    "p2p_seq",
    "peer",
    "created_ns",
    "started_ns",
    "completed_ns",
    "batch",
)


def stored_dumps(store: GraphStore, run: str, attempt: int) -> list[Dump]:
    """Return the dumps of one attempt, each with the calls it states; merge them before an analysis.

    A call that two dumps state is given to the one that saw most; the others bring their header only.
    """
    headers = stored_headers(store, run, attempt)
    scope = {"run": run, "attempt": attempt}
    rows = list(store.run(query("read/dumps/calls"), scope))
    asked = _signatures(store, {text(row, "signature") for row in rows})
    homes = _homes(headers)
    of_dump: dict[int, list[Row]] = {}
    for row in rows:
        facts = asked[text(row, "signature")]
        home = homes.get((integer(row, "rank"), text(facts, "backend"), text(facts, "group")))
        if home is not None:
            of_dump.setdefault(home, []).append(row)
    stacks = _stacks(store, {text(row, "stack") for row in rows if row["stack"] is not None})
    return [_filled(header, of_dump.get(at, []), asked, stacks) for at, header in enumerate(headers)]


def stored_headers(store: GraphStore, run: str, attempt: int) -> list[Dump]:
    """Return the dumps of one attempt without their calls."""
    scope = {"run": run, "attempt": attempt}
    ranks = {
        text(row, "group"): tuple(integers(row, "ranks")) if row["ranks"] is not None else None
        for row in store.run(query("read/dumps/groups"), scope)
    }
    return [dump_from_facts(row, ranks) for row in store.run(query("read/dumps/headers"), scope)]


def stored_refusals(store: GraphStore, run: str, attempt: int) -> list[Refusal]:
    """Return the files of one attempt that were refused."""
    rows = store.run(query("read/dumps/refused"), {"run": run, "attempt": attempt})
    return [
        Refusal(
            file=text(row, "file"),
            reason=text(row, "reason"),
            digest=optional_text(row, "sha256"),
            size_bytes=optional_integer(row, "size_bytes"),
            rank=optional_integer(row, "rank"),
        )
        for row in rows
    ]


def stored_tensors(store: GraphStore, run: str, attempt: int) -> list[TensorRecord]:
    """Return which values of one attempt were finite."""
    rows = store.run(query("read/dumps/tensor_values"), {"run": run, "attempt": attempt})
    return [
        TensorRecord(
            rank=integer(row, "rank"),
            group=text(row, "name"),
            seq=integer(row, "seq"),
            side=text(row, "side"),
            finite=bool(row["is_finite"]),
            nan_count=integer(row, "nan_count"),
            inf_count=integer(row, "inf_count"),
        )
        for row in rows
    ]


def _homes(headers: Sequence[Dump]) -> dict[tuple[int, str, str], int]:
    """Return (rank, backend, group) → the dump that gets its calls: of those that know it, the one that saw most."""
    homes: dict[tuple[int, str, str], int] = {}
    order = sorted(range(len(headers)), key=lambda at: _progress(headers[at]))
    for at in order:
        header = headers[at]
        for group in header.groups:
            homes[header.rank, group.backend or header.backend, ids.group_key(group.name, group.ranks)] = at
    return homes


def _progress(header: Dump) -> tuple[int, int, str]:
    dumped = header.sidecar.dumped_at_ns if header.sidecar and header.sidecar.dumped_at_ns else ABSENT
    return header.entry_count, dumped, header.digest


def _filled(
    header: Dump, rows: Sequence[Row], asked: Mapping[str, Row], stacks: Mapping[str, tuple[Frame, ...]]
) -> Dump:
    calls = Calls()
    group_at = {ids.group_key(group.name, group.ranks): at for at, group in enumerate(header.groups)}
    signatures: dict[str, int] = {}
    used_stacks: dict[str, int] = {}
    threads = {" ".join(thread): at for at, thread in enumerate(header.threads)}
    for row in rows:
        key = text(row, "signature")
        facts = asked[key]
        for name in _STATED:
            _append(calls, name, row, name)
        _append(calls, "last_record_id", row, "last_record_id" if row["last_record_id"] is not None else "record_id")
        calls.group.append(group_at[text(facts, "group")])
        _append(calls, "seq", row, "seq" if row["seq"] is not None else "after_seq")
        calls.channel.append(CHANNEL_NAMES.index(text(facts, "channel")))
        calls.signature.append(signatures.setdefault(key, len(signatures)))
        stack = row["stack"]
        calls.stack.append(ABSENT if stack is None else used_stacks.setdefault(str(stack), len(used_stacks)))
        calls.state.append(COMPLETED if row["is_completed"] else STARTED if row["is_started"] else SCHEDULED)
        calls.retired.append(1 if row["is_retired"] else 0)
        calls.pg_id.append(header.groups[calls.group[-1]].pg_id)
        calls.thread.append(threads.get(optional_text(row, "thread") or "", ABSENT))
        calls.parts.append(integer(row, "parts") if row["parts"] is not None else 1)
        calls.duration_ms.append(row["duration_ms"] if isinstance(row["duration_ms"], float) else float("nan"))
    return replace(
        header,
        calls=calls,
        signatures=tuple(_signature(asked[key]) for key in signatures),
        stacks=tuple(stacks[key] for key in used_stacks),
    )


def _append(calls: Calls, name: str, row: Row, stated: str) -> None:
    column: array[int] = getattr(calls, name)
    column.append(ABSENT if row[stated] is None else integer(row, stated))


def _signatures(store: GraphStore, keys: set[str]) -> dict[str, Row]:
    return {text(row, "key"): row for row in store.run(query("read/dumps/signatures"), {"keys": sorted(keys)})}


def _stacks(store: GraphStore, keys: set[str]) -> dict[str, tuple[Frame, ...]]:
    return {
        text(row, "key"): tuple(Frame(name, file, line) for name, file, line in orjson.loads(text(row, "frames")))
        for row in store.run(query("read/dumps/stacks"), {"keys": sorted(keys)})
    }


def _signature(row: Row) -> Signature:
    return Signature(
        raw_name=text(row, "raw_name"),
        library=text(row, "library"),
        op=text(row, "op"),
        input_sizes=_shapes(text(row, "input_sizes")),
        output_sizes=_shapes(text(row, "output_sizes")),
        input_dtypes=tuple(orjson.loads(text(row, "input_dtypes"))),
        output_dtypes=tuple(orjson.loads(text(row, "output_dtypes"))),
        timeout_ms=ABSENT if row["timeout_ms"] is None else integer(row, "timeout_ms"),
    )


def _shapes(value: str) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(shape) for shape in orjson.loads(value))
