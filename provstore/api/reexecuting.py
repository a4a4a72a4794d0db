"""Collectives of a stored epoch, put together from the snapshots of all ranks and recomputed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provstore.api.stored_runs import StoredRun
from provstore.errors import ConfigError, InputError, StoreError, TrustError
from provstore.evidence.content import tensor_digest
from provstore.evidence.epoch_bundles import HEADERS, SNAPSHOTS_INDEX
from provstore.model.action import Action

if TYPE_CHECKING:
    from provstore.analysis.reexecution import Piece, Side, StoredTensor, Verdict

_SPAN = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?:x(\d{1,7}))?)?")
_OPEN_BLOBS = 4
_MOST_RANKS = 1 << 20

Rows = Mapping[tuple[str, str, int], list[Mapping[str, Any]]]
"""Action, side and tensor → chunks that were kept."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What recomputing said of one collective."""

    instance: str
    op: str
    step: int | None
    ranks: tuple[int, ...]
    verdict: Verdict
    outputs: tuple[str, ...] = ()
    """Recorded digests, by rank."""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "instance": self.instance,
            "op": self.op,
            "step": self.step,
            "ranks": list(self.ranks),
            **self.verdict.to_dict(),
        }


def recomputed(
    run: StoredRun, epoch: int, instance: str | None = None, rank: int | None = None
) -> Iterator[Recomputed]:
    """Yield what recomputing says of the collectives of an epoch of which anything was kept.

    Args:
        run: The run.
        epoch: Its training epoch.
        instance: Only this one: its id, or the end of it.
        rank: Only those that this rank takes part in.

    Raises:
        InputError: The epoch has no such instance, or the end names several.
        StoreError: A snapshot is missing or altered.
    """
    from provstore.analysis.reexecution import recompute

    rows = _index(run, epoch)
    with_bytes = {action for action, _, _ in rows}
    chains: dict[str, list[Action]] = {}
    wanted = set[str]()
    for action in run.actions(epoch):
        if action.chain is not None and "/p2p/" not in action.chain:
            chains.setdefault(action.chain, []).append(action)
            if action.action_id in with_bytes:
                wanted.add(action.chain)
    chosen = [_named(chains, instance)] if instance is not None else sorted(wanted, key=lambda one: _place(chains[one]))
    members, chunks = _members(run, epoch), _Chunks(run)
    for name in chosen:
        actions = sorted(chains[name], key=lambda one: one.rank)
        ranks = members.get(actions[0].group or "") or _ranks_of(actions[0].group) or tuple(a.rank for a in actions)
        if rank is None or rank in ranks:
            first = actions[0]
            outputs = tuple(one.digest_out for one in actions if one.digest_out is not None)
            verdict = recompute(_instance(actions, ranks, rows, chunks))
            yield Recomputed(name, first.op, first.step, ranks, verdict, outputs)


def collectives(run: StoredRun, epoch: int) -> int:
    """Return how many collectives of any elements an epoch has, whether anything was kept of them or not."""
    found = {
        one.chain
        for one in run.actions(epoch)
        if one.chain is not None
        and "/p2p/" not in one.chain
        and any(map(math.prod, (*(one.shapes_in or ()), *(one.shapes_out or ()))))
    }
    return len(found)


def _instance(actions: Sequence[Action], ranks: tuple[int, ...], rows: Rows, chunks: _Chunks) -> Any:
    from provstore.analysis.reexecution import Instance

    first = actions[0]
    inputs = {one.rank: _side(one, "in", rows, chunks) for one in actions}
    outputs = {one.rank: _side(one, "out", rows, chunks) for one in actions}
    operators = {one.reduce_op for one in actions if one.reduce_op is not None}
    roots = {one.root for one in actions if one.root is not None}
    return Instance(
        first.op,
        ranks,
        inputs,
        outputs,
        operators.pop() if len(operators) == 1 else None,
        roots.pop() if len(roots) == 1 else None,
        first.backend,
    )


def _side(action: Action, name: str, rows: Rows, chunks: _Chunks) -> Side:
    from provstore.analysis.reexecution import Side, StoredTensor

    is_in = name == "in"
    shapes = (action.shapes_in if is_in else action.shapes_out) or ()
    dtypes = (action.dtypes_in if is_in else action.dtypes_out) or ()
    digest = action.digest_in if is_in else action.digest_out
    tensors: list[StoredTensor] = []
    for arg, (dtype, shape) in enumerate(zip(dtypes, shapes, strict=False)):
        try:
            size = tensor_digest.size_bytes(dtype, shape)
        except ConfigError:
            return Side((), digest, f"{dtype} has no digest")
        pieces = chunks.of(rows.get((action.action_id, name, arg), ()), dtype, shape)
        tensors.append(StoredTensor(dtype, shape, pieces, size))
    return Side(tuple(tensors), digest, ", ".join(action.shortfall) or None)


class _Chunks:
    """Reads chunks of snapshots; the last few blobs stay in memory."""

    def __init__(self, run: StoredRun) -> None:
        self._run = run
        self._blobs: dict[str, bytes] = {}

    def of(self, rows: Iterable[Mapping[str, Any]], dtype: str, shape: Sequence[int]) -> tuple[Piece, ...]:
        """Return the kept pieces of a tensor, each proven against the tensor's digest unless all are there."""
        from provstore.analysis.reexecution import Piece

        found = []
        for row in sorted(rows, key=lambda one: one["chunk"]):
            data = self._blob(row["blob"])[row["offset"] : row["offset"] + row["bytes"]]
            if row["chunks"] > 1:
                self._require_proven(row, dtype, shape, data)
            found.append(Piece(row["chunk"] * tensor_digest.CHUNK_BYTES, data))
        return tuple(found)

    @staticmethod
    def _require_proven(row: Mapping[str, Any], dtype: str, shape: Sequence[int], data: bytes) -> None:
        """Prove a chunk by its path; without one all chunks are there, and their digest is compared later."""
        if not row["path"]:
            return
        try:
            path = [bytes.fromhex(one) for one in row["path"]]
            tensor_digest.check_chunk(row["tensor"], dtype, shape, row["chunk"], data, path)
        except (TrustError, ConfigError) as error:
            raise StoreError(f"snapshot of {row['action']}: {error}") from error

    def _blob(self, sha256: str) -> bytes:
        if sha256 not in self._blobs:
            while len(self._blobs) >= _OPEN_BLOBS:
                del self._blobs[next(iter(self._blobs))]
            self._blobs[sha256] = self._run.blob(sha256)
        return self._blobs[sha256]


def _index(run: StoredRun, epoch: int) -> Rows:
    found: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for row in run.rows(epoch, SNAPSHOTS_INDEX):
        found.setdefault((row["action"], row["side"], row["arg"]), []).append(row)
    return found


def _members(run: StoredRun, epoch: int) -> dict[str, tuple[int, ...]]:
    """Return the ranks of the groups that the captures declare, in the order of the group."""
    return {
        str(group["group"]): tuple(group["ranks"])
        for row in run.rows(epoch, HEADERS)
        for group in row.get("groups") or ()
        if group.get("ranks")
    }


def _ranks_of(group: str | None) -> tuple[int, ...]:
    """Return the ranks that a group's key spells; none where it holds only their digest."""
    found = _SPAN.fullmatch((group or "").rpartition("@")[2])
    if found is None:
        return ()
    first, last, step = (int(one or 0) for one in found.groups())
    spelled = range(first, (last or first) + 1, step or 1)
    return tuple(spelled) if len(spelled) <= _MOST_RANKS else ()


def _place(actions: Sequence[Action]) -> tuple[int, int, str]:
    first = actions[0]
    return (-1 if first.step is None else first.step, first.seq or 0, first.group or "")


def _named(chains: Mapping[str, list[Action]], instance: str) -> str:
    found = [
        name for name in chains if name == instance or name.endswith("/" + instance) or instance.endswith("/" + name)
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(f"{instance}: --instance: the epoch has no such collective", hint=_some(chains))
    raise InputError(f"{instance}: --instance: names several: {', '.join(sorted(found)[:8])}")


def _some(chains: Mapping[str, list[Action]]) -> str | None:
    return f"one of them is {next(iter(chains))}" if chains else None
