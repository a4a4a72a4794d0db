"""Several dumps of one recorder become one: the union of their calls, each in its most advanced state."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

from provstore.model.dump import ABSENT, Calls, Dump, Frame, Group, Signature

_LATEST = ("state", "retired", "started_ns", "completed_ns", "last_record_id", "batch", "parts", "peer", "stack")


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two dumps of one rank that cannot both belong to one attempt."""

    first: Dump
    second: Dump
    reason: str


@dataclass(frozen=True, slots=True)
class Merged:
    """At most one dump for each rank and backend, and the pairs that contradict each other."""

    dumps: list[Dump]
    contradictions: list[Contradiction]


def merge(dumps: Iterable[Dump]) -> Merged:
    """Return one dump for each (rank, backend), or the contradictions that forbid it.

    All dumps that take part in a contradiction are left out. A dump without entries says nothing of its backend: it is
    left out when its rank has another dump.
    """
    of_recorder: dict[tuple[int, str], list[Dump]] = {}
    for dump in dumps:
        of_recorder.setdefault((dump.rank, dump.backend), []).append(dump)
    with_entries = {rank for rank, backend in of_recorder if backend}
    merged, contradictions = [], []
    for (rank, backend), several in sorted(of_recorder.items()):
        if not backend and rank in with_entries:
            continue
        distinct = list({(dump.digest, dump.sidecar.digest if dump.sidecar else ""): dump for dump in several}.values())
        found = [
            c for at, dump in enumerate(distinct) for other in distinct[at + 1 :] if (c := contradict(dump, other))
        ]
        contradictions += found
        refused = {id(side) for c in found for side in (c.first, c.second)}
        kept = [dump for dump in distinct if id(dump) not in refused]
        if kept:
            merged.append(kept[0] if len(kept) == 1 else _union(kept))
    return Merged(merged, contradictions)


def contradict(first: Dump, second: Dump) -> Contradiction | None:
    """Return why two dumps of one recorder cannot belong to one attempt, or None.

    The same record, or the same number in a group, with another creation time is another call: the process was
    restarted, or the file belongs to another run.
    """
    for keys, thing in ((_record_keys, "record"), (_number_keys, "call")):
        created = dict(zip(keys(first), first.calls.created_ns))
        for key, created_ns in zip(keys(second), second.calls.created_ns):
            known = created.get(key, created_ns)
            if known != created_ns and ABSENT not in (known, created_ns):
                return Contradiction(first, second, f"{thing} {key} was created at {known} and at {created_ns} ns")
    return None


def _record_keys(dump: Dump) -> Iterable[object]:
    return dump.calls.record_id if dump.record_ids_stated else ()


def _number_keys(dump: Dump) -> Iterable[object]:
    calls = dump.calls
    names = [group.name for group in dump.groups]
    return (
        f"{names[group]} #{op_id if op_id != ABSENT else seq}"
        for group, op_id, seq in zip(calls.group, calls.op_id, calls.seq)
    )


def _union(dumps: Sequence[Dump]) -> Dump:
    ordered = sorted(dumps, key=_progress)
    latest = ordered[-1]
    tables = _Tables()
    rows: dict[object, dict[str, int | float]] = {}
    for dump in ordered:
        for key, row in tables.rows(dump):
            known = rows.setdefault(key, row)
            if known is not row:
                _advance(known, row)
    calls = Calls()
    for row in sorted(rows.values(), key=lambda row: row["record_id"]):
        for name, value in row.items():
            getattr(calls, name).append(value)
    return replace(
        latest,
        calls=calls,
        groups=tuple(tables.groups),
        signatures=tuple(tables.signatures),
        stacks=tuple(tables.stacks),
        threads=tuple(tables.threads),
        entry_count=len(calls),
        wrapped=bool(len(calls)) and calls.record_id[0] > 0,
        active_only=all(dump.active_only for dump in dumps),
        quarantined=tuple(entry for dump in ordered for entry in dump.quarantined),
        warnings=tuple(dict.fromkeys(warning for dump in ordered for warning in dump.warnings)),
        sidecar=next((dump.sidecar for dump in reversed(ordered) if dump.sidecar), None),
    )


def _progress(dump: Dump) -> tuple[int, int, int, str]:
    calls = dump.calls
    dumped = dump.sidecar.dumped_at_ns if dump.sidecar and dump.sidecar.dumped_at_ns else ABSENT
    last = calls.record_id[-1] if len(calls) else ABSENT
    return last, dumped, sum(calls.retired) + sum(calls.state), dump.digest


def _advance(known: dict[str, int | float], newer: dict[str, int | float]) -> None:
    for name in _LATEST:
        known[name] = max(known[name], newer[name])
    if math.isnan(known["duration_ms"]):
        known["duration_ms"] = newer["duration_ms"]


class _Tables:
    """The groups, signatures, stacks and threads of several dumps under common numbers."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.signatures: list[Signature] = []
        self.stacks: list[tuple[Frame, ...]] = []
        self.threads: list[tuple[str, str]] = []
        self._known: dict[object, int] = {}

    def rows(self, dump: Dump) -> Iterable[tuple[object, dict[str, int | float]]]:
        """Yield (key, columns) of each call of the dump, its indexes turned into the common ones."""
        maps = {
            "group": [self._group(group) for group in dump.groups],
            "signature": [self._number(self.signatures, signature) for signature in dump.signatures],
            "stack": [self._number(self.stacks, stack) for stack in dump.stacks],
            "thread": [self._number(self.threads, thread) for thread in dump.threads],
        }
        names = [column.name for column in fields(Calls)]
        columns: list[array[int] | array[float]] = [getattr(dump.calls, name) for name in names]
        for values in zip(*columns):
            row = dict(zip(names, values))
            for name, numbers in maps.items():
                if row[name] != ABSENT:
                    row[name] = numbers[int(row[name])]
            stated = dump.record_ids_stated
            yield (row["record_id"] if stated else (row["group"], row["seq"], row["created_ns"])), row

    def _group(self, group: Group) -> int:
        """Return the number of a group; an undeclared one is the only declared one of its name."""
        same_name = [at for at, known in enumerate(self.groups) if known.name == group.name]
        for at in same_name:
            known = self.groups[at]
            if group.ranks in (None, known.ranks) or (known.ranks is None and len(same_name) == 1):
                self.groups[at] = _later_status(known, group)
                return at
        self.groups.append(group)
        return len(self.groups) - 1

    def _number(
        self, table: list[object] | list[Signature] | list[tuple[Frame, ...]] | list[tuple[str, str]], value: object
    ) -> int:
        key = (id(table), value)
        if key not in self._known:
            self._known[key] = len(table)
            table.append(value)  # type: ignore[arg-type]
        return self._known[key]


def _later_status(known: Group, newer: Group) -> Group:
    declares = newer if newer.ranks is not None else known
    return replace(
        newer,
        ranks=declares.ranks,
        declared_by=declares.declared_by,
        desc=newer.desc or known.desc,
        backend=newer.backend or known.backend,
        batched_p2p=known.batched_p2p or newer.batched_p2p,
        last_enqueued=max(known.last_enqueued, newer.last_enqueued),
        last_started=max(known.last_started, newer.last_started),
        last_completed=max(known.last_completed, newer.last_completed),
    )
