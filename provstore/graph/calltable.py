"""The calls of many dumps side by side: one numpy column a field, one row a call, groups and signatures told apart.

Rows keep their order: dump after dump, and inside a dump as it lists them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from provstore.model.dump import COLLECTIVE, Dump, Group, Signature

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_SEQ_BITS = 40


@dataclass(frozen=True, slots=True)
class JobGroup:
    """A process group of the job: what all dumps state about it, folded."""

    backend: str
    name: str
    desc: str
    ranks: tuple[int, ...]
    """Global ranks in group order when declared; else the ranks seen in it, ascending."""
    declared: bool
    has_p2p: bool
    """A send or receive is recorded in it, or counters of its calls show that there were some."""

    def __contains__(self, rank: int) -> bool:
        return rank in self.ranks


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """What one dump states about one group beside its calls; ``ABSENT`` where it says nothing."""

    last_enqueued: int
    last_completed: int
    batched_p2p: bool


@dataclass(frozen=True, slots=True)
class CallTable:
    """Columns over all calls of all dumps; equal indices belong together."""

    dumps: tuple[Dump, ...]
    groups: tuple[JobGroup, ...]
    signatures: tuple[Signature, ...]
    """Distinct by operation, sizes and element types; the recorded name and the timeout of the first one seen."""
    status: dict[tuple[int, int], GroupStatus]
    """(dump index, group) → what the dump states about a group it knows."""
    first_row: Integers
    """Index of each dump's first row, and the number of rows at the end."""
    dump: Integers
    rank: Integers
    group: Integers
    seq: Integers
    p2p_seq: Integers
    op_id: Integers
    channel: Integers
    peer: Integers
    signature: Integers
    stack: Integers
    """Index into the stacks of the row's own dump."""
    state: Integers
    retired: Integers
    created: Integers
    completed: Integers
    batch: Integers
    record_id: Integers
    turn: Integers
    """Program order on one rank: its recorders are merged by creation time."""

    def __len__(self) -> int:
        return len(self.rank)

    def rows_of_dump(self, at: int) -> slice:
        """Return the rows of one dump."""
        return slice(int(self.first_row[at]), int(self.first_row[at + 1]))


def instance_keys(group: Integers, number: Integers) -> Integers:
    """Return one integer a call that is equal for the calls of one instance; sorted by group, then number."""
    return (group << _SEQ_BITS) | (number & ((1 << _SEQ_BITS) - 1))


def build(dumps: Iterable[Dump]) -> CallTable:
    """Return the table of ``dumps``, which hold at most one dump for each rank and backend."""
    ordered = tuple(sorted(dumps, key=lambda dump: (dump.rank, dump.backend, dump.digest)))
    sizes = [len(dump.calls) for dump in ordered]
    first_row = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).astype(np.int64)
    dump = np.repeat(np.arange(len(ordered), dtype=np.int64), sizes)
    rank = np.repeat(np.array([item.rank for item in ordered], dtype=np.int64), sizes)
    columns = {name: _joined([getattr(item.calls, name) for item in ordered]) for name in _COLUMNS}
    resolved = _GroupBook(ordered)
    group = _relabelled(columns.pop("group"), first_row, resolved.local)
    local_signatures, signatures = _signatures(ordered)
    signature = _relabelled(columns.pop("signature"), first_row, local_signatures)
    columns["created"] = columns.pop("created_ns")
    columns["completed"] = columns.pop("completed_ns")
    return CallTable(
        dumps=ordered,
        groups=resolved.groups(_p2p_groups(group, columns)),
        signatures=signatures,
        status=resolved.status,
        first_row=first_row,
        dump=dump,
        rank=rank,
        group=group,
        signature=signature,
        turn=_turns(ordered, first_row, columns["created"]),
        **columns,
    )


_COLUMNS = (
    "group",
    "seq",
    "p2p_seq",
    "op_id",
    "channel",
    "peer",
    "signature",
    "stack",
    "state",
    "retired",
    "created_ns",
    "completed_ns",
    "batch",
    "record_id",
)


def _joined(parts: Sequence[array[int]]) -> Integers:
    views = [np.frombuffer(part, dtype=np.int64) for part in parts if len(part)]
    return np.concatenate(views) if views else np.empty(0, dtype=np.int64)


def _relabelled(column: Integers, first_row: Integers, labels: Sequence[Sequence[int]]) -> Integers:
    """Return ``column`` with each dump's local indices replaced by the job's."""
    starts = np.concatenate(([0], np.cumsum([len(part) for part in labels], dtype=np.int64)))[:-1]
    flat = np.array([label for part in labels for label in part], dtype=np.int64)
    if not len(column):
        return column
    return np.asarray(flat[column + np.repeat(starts, np.diff(first_row))], dtype=np.int64)


def _p2p_groups(group: Integers, columns: dict[str, Integers]) -> set[int]:
    shows = (columns["channel"] != COLLECTIVE) | (columns["p2p_seq"] > 0)
    return {int(found) for found in np.unique(group[shows])}


def _turns(dumps: Sequence[Dump], first_row: Integers, created: Integers) -> Integers:
    turn = np.arange(len(created), dtype=np.int64)
    of_rank: dict[int, list[int]] = {}
    for at, dump in enumerate(dumps):
        of_rank.setdefault(dump.rank, []).append(at)
    for several in of_rank.values():
        if len(several) > 1:
            rows = np.concatenate([np.arange(first_row[at], first_row[at + 1]) for at in several])
            turn[rows[np.argsort(created[rows], kind="stable")]] = np.sort(rows)
    return turn


def _signatures(dumps: Sequence[Dump]) -> tuple[list[list[int]], tuple[Signature, ...]]:
    known: dict[tuple[object, ...], int] = {}
    first: list[Signature] = []
    labels = []
    for dump in dumps:
        local = []
        for item in dump.signatures:
            key = (item.op, item.input_sizes, item.output_sizes, item.input_dtypes, item.output_dtypes)
            at = known.setdefault(key, len(first))
            if at == len(first):
                first.append(item)
            local.append(at)
        labels.append(local)
    return labels, tuple(first)


_Key = tuple[str, str, tuple[int, ...] | None]


class _GroupBook:
    """Tells the groups of all dumps apart: by backend, name and set of ranks, with undeclared ones folded in."""

    def __init__(self, dumps: Sequence[Dump]) -> None:
        self._dumps = dumps
        self._declared: dict[_Key, Group] = {}
        self._by_name: dict[str, list[_Key]] = {}
        for dump in dumps:
            for group in dump.groups:
                self._declare(dump, group)
        self._at: dict[_Key, int] = {}
        self._seen: dict[int, set[int]] = {}
        self._desc: dict[int, str] = {}
        self.status: dict[tuple[int, int], GroupStatus] = {}
        self.local = [[self._place(at, dump, group) for group in dump.groups] for at, dump in enumerate(dumps)]

    def _declare(self, dump: Dump, group: Group) -> None:
        if group.ranks is not None:
            key = (group.backend or dump.backend, group.name, tuple(sorted(group.ranks)))
            if key not in self._declared:
                self._declared[key] = group
                self._by_name.setdefault(group.name, []).append(key)

    def _place(self, at: int, dump: Dump, group: Group) -> int:
        backend = group.backend or dump.backend
        ranks = None if group.ranks is None else tuple(sorted(group.ranks))
        key = self._folded((backend, group.name, ranks), dump.rank)
        if key[2] is None and not dump.seq_comparable and group.pg_id > 0:
            # Without names a group is known by its process-local number only: it is this rank's alone.
            key = (backend, f"{group.name}\0{dump.rank}", None)
        number = self._at.setdefault(key, len(self._at))
        self._seen.setdefault(number, set()).add(dump.rank)
        if group.desc and not self._desc.get(number):
            self._desc[number] = group.desc
        said = GroupStatus(group.last_enqueued, group.last_completed, group.batched_p2p)
        known = self.status.get((at, number))
        if known is None or said.last_enqueued > known.last_enqueued:
            self.status[at, number] = said
        return number

    def _folded(self, key: _Key, rank: int) -> _Key:
        backend, name, ranks = key
        if ranks is not None and backend:
            return key
        fitting = [
            other
            for other in self._by_name.get(name, ())
            if (not backend or other[0] in (backend, ""))
            and (other[2] == ranks if ranks is not None else rank in (other[2] or ()))
        ]
        real = [other for other in fitting if other[0]] or fitting
        return real[0] if len(real) == 1 else key

    def groups(self, with_p2p: set[int]) -> tuple[JobGroup, ...]:
        """Return the job's groups in the order of their numbers."""
        found = []
        for key, number in self._at.items():
            backend, name, ranks = key
            stated = self._declared.get(key)
            members = tuple(sorted(self._seen[number])) if stated is None or stated.ranks is None else stated.ranks
            desc = self._desc.get(number, "")
            found.append(JobGroup(backend, name.split("\0")[0], desc, members, ranks is not None, number in with_p2p))
        return tuple(found)
