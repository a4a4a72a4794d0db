"""Collectives of a stored epoch, put together from the snapshots of all ranks and recomputed."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provstore.api.stored_runs import StoredRun
from provstore.api.stored_tables import Unreadable
from provstore.errors import ConfigError, InputError, TrustError
from provstore.evidence.content import tensor_digest
from provstore.evidence.epoch_bundles import HEADERS, SNAPSHOTS_INDEX
from provstore.model.action import Action
from provstore.model.recording import FULL

if TYPE_CHECKING:
    from provstore.analysis.reexecution import Piece, Side, StoredTensor, Verdict

_SPAN = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?:x(\d{1,7}))?)?")
_OPEN_BLOBS = 4
_MOST_RANKS = 1 << 20
_INDEX_LOST = "not known: the table of what was kept cannot be read"

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
    has_elements: bool = True

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
            yield Recomputed(name, first.op, first.step, ranks, verdict, outputs, any(map(_has_elements, actions)))


@dataclass(frozen=True, slots=True)
class Collectives:
    """All collectives of an epoch that have any elements, whether anything was kept of them or not."""

    total: int
    not_kept: tuple[tuple[str, int], ...] = ()
    """Why nothing was kept of any rank's bytes, and of how many."""


def collectives(run: StoredRun, epoch: int) -> Collectives:
    """Return how many collectives an epoch has, and why of some of them nothing was kept."""
    with_bytes = {action for action, _, _ in _index(run, epoch)}
    reasons: dict[str, set[str]] = {}
    having, kept = set[str](), set[str]()
    for one in run.actions(epoch):
        if one.chain is None or "/p2p/" in one.chain:
            continue
        if _has_elements(one):
            having.add(one.chain)
        if one.action_id in with_bytes:
            kept.add(one.chain)
        short = () if one.mode == FULL else one.shortfall or (f"recorded in mode {one.mode}",)
        reasons.setdefault(one.chain, set()).update(short)
    without = having - kept
    if run.unreadable(SNAPSHOTS_INDEX, epoch=epoch):
        return Collectives(len(having), ((_INDEX_LOST, len(without)),) if without else ())
    counts = Counter(", ".join(sorted(reasons[chain])) or "no rank kept any" for chain in without)
    return Collectives(len(having), tuple(sorted(counts.items(), key=lambda one: (-one[1], one[0]))))


def _has_elements(one: Action) -> bool:
    return any(map(math.prod, (*(one.shapes_in or ()), *(one.shapes_out or ()))))


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
    reasons = list[str]()
    for arg, (dtype, shape) in enumerate(zip(dtypes, shapes, strict=False)):
        try:
            size = tensor_digest.size_bytes(dtype, shape)
        except ConfigError:
            return Side((), digest, f"{dtype} has no digest")
        pieces, lost = chunks.of(rows.get((action.action_id, name, arg), ()), dtype, shape)
        tensors.append(StoredTensor(dtype, shape, pieces, size))
        reasons += [one for one in lost if one not in reasons]
    return Side(tuple(tensors), digest, ", ".join(action.shortfall) or None, ", ".join(reasons) or None)


class _Chunks:
    """Reads chunks of snapshots, as far as they can be read; the last few blobs stay in memory."""

    def __init__(self, run: StoredRun) -> None:
        self._run = run
        self._blobs: dict[str, bytes | Unreadable] = {}

    def of(
        self, rows: Iterable[Mapping[str, Any]], dtype: str, shape: Sequence[int]
    ) -> tuple[tuple[Piece, ...], list[str]]:
        """Return the kept pieces of a tensor, and why others that were kept are not used.

        Each piece is proven against the tensor's digest unless all are there.
        """
        from provstore.analysis.reexecution import Piece

        found, lost, is_proven = [], list[str](), True
        for row in sorted(rows, key=lambda one: one["chunk"]):
            blob = self._blob(row["blob"])
            if isinstance(blob, Unreadable):
                lost.append(blob.words)
                continue
            data = blob[row["offset"] : row["offset"] + row["bytes"]]
            fault = _fault(row, dtype, shape, data)
            if fault is not None:
                lost.append(self._run.contradicted(row["blob"], fault).words)
                continue
            is_proven = is_proven and (row["chunks"] == 1 or bool(row["path"]))
            found.append(Piece(row["chunk"] * tensor_digest.CHUNK_BYTES, data))
        # Of a tensor that is not whole, a chunk without a path is proven by nothing.
        return (tuple(found) if is_proven or not lost else ()), lost

    def _blob(self, sha256: str) -> bytes | Unreadable:
        if sha256 not in self._blobs:
            while len(self._blobs) >= _OPEN_BLOBS:
                del self._blobs[next(iter(self._blobs))]
            self._blobs[sha256] = self._run.blob(sha256)
        return self._blobs[sha256]


def _fault(row: Mapping[str, Any], dtype: str, shape: Sequence[int], data: bytes) -> str | None:
    """Return why a chunk is not the one that its path proves; without one the digest of all is compared later."""
    if row["chunks"] == 1 or not row["path"]:
        return None
    try:
        path = [bytes.fromhex(one) for one in row["path"]]
        tensor_digest.check_chunk(row["tensor"], dtype, shape, row["chunk"], data, path)
    except (TrustError, ConfigError, ValueError) as error:
        return f"is altered: {error}"
    return None


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
