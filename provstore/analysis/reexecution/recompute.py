"""Recomputing one collective and comparing what was recorded with it, output by output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from provstore.analysis.reexecution import copies, layout, order_free, sums
from provstore.analysis.reexecution.instance import Instance, Side
from provstore.analysis.reexecution.judged import Judged, Reading
from provstore.analysis.reexecution.layout import Part, UnknownLayoutError
from provstore.analysis.reexecution.numbers import KINDS, combination
from provstore.analysis.reexecution.orders import COPY, ORDER_FREE, Reduction
from provstore.analysis.reexecution.verdict import (
    EXACT,
    EXPLAINED,
    MISMATCH,
    NOT_RECOMPUTABLE,
    SEVERITY,
    Difference,
    Missing,
    Verdict,
)
from provstore.errors import ConfigError
from provstore.evidence.content import tensor_digest

_CHUNK_BYTES = tensor_digest.CHUNK_BYTES


def recompute(instance: Instance) -> Verdict:
    """Return what the stored inputs of all ranks say of the recorded outputs."""
    kind = layout.family(instance.op) or ""
    try:
        found = layout.parts(instance)
        how = _reduction(instance, kind, found)
        _require_unaltered(instance.inputs, layout.sources(instance, kind), "input")
        _require_unaltered(instance.outputs, layout.destinations(instance, kind), "output")
        reading = Reading(instance)
        _require_bytes(instance, found)
    except UnknownLayoutError as error:
        return Verdict(NOT_RECOMPUTABLE, missing=error.missing, minority=_minority(instance, kind))
    with np.errstate(all="ignore"):
        judged, missing = _judge(instance, found, how, reading)
    return _verdict(instance, kind, judged, missing)


def _reduction(instance: Instance, kind: str, found: Sequence[Part]) -> Reduction | None:
    """Return how operands are combined; ``None`` for an operation that copies."""
    if kind not in layout.REDUCING:
        return None
    if instance.reduce_op is None:
        raise UnknownLayoutError(Missing(None, "reduce-op", "not recorded"))
    dtype = instance.outputs[found[0].rank].tensors[found[0].tensor].dtype
    number = KINDS.get(dtype)
    combine = combination(number, instance.reduce_op) if number else None
    if number is None or combine is None:
        raise UnknownLayoutError(Missing(None, "reduce-op", f"{instance.reduce_op} of {dtype} cannot be recomputed"))
    return Reduction(number, instance.reduce_op, combine, instance.backend)


def _require_unaltered(sides: Mapping[int, Side], ranks: Iterable[int], what: str) -> None:
    """Refuse bytes whose digest is not the recorded one: they are not what was recorded."""
    reason = "the stored bytes do not have the recorded digest"
    altered = [Missing(rank, what, reason) for rank in ranks if _is_altered(sides[rank])]
    if altered:
        raise UnknownLayoutError(*altered)


def _is_altered(side: Side) -> bool:
    if side.digest is None or not all(tensor.is_whole for tensor in side.tensors):
        return False
    return _digest(side, [b"".join(piece.data for piece in tensor.pieces) for tensor in side.tensors]) != side.digest


def _digest(side: Side, contents: Sequence[bytes]) -> str | None:
    """Return the digest that the tensors of a side would have with these bytes."""
    pairs = zip(side.tensors, contents, strict=True)
    try:
        found = tensor_digest.of_side([tensor_digest.digest_of(one.dtype, one.shape, data) for one, data in pairs])
    except ConfigError:
        return None
    return found[0] if found else None


def _require_bytes(instance: Instance, found: Sequence[Part]) -> None:
    lacking = {}
    for rank, tensors in {(rank, part.vector.tensors) for part in found for rank in part.vector.ranks}:
        side = instance.inputs[rank]
        if any(not side.tensors[at].pieces and side.tensors[at].count for at in tensors):
            lacking[rank] = Missing(rank, "input", side.lost or side.reason or "input-bytes-missing")
    if lacking:
        raise UnknownLayoutError(*(lacking[rank] for rank in sorted(lacking)))


def _judge(
    instance: Instance, found: Sequence[Part], how: Reduction | None, reading: Reading
) -> tuple[list[Judged], list[Missing]]:
    """Return what is to be said of each output, and what could not be compared."""
    by_rank: dict[int, list[Part]] = {}
    for part in found:
        by_rank.setdefault(part.rank, []).append(part)
    lacking = [rank for rank in by_rank if not _has_bytes(instance.outputs[rank])]
    judged = _by_bytes([part for part in found if part.rank not in lacking], how, reading)
    missing: list[Missing] = []
    for rank in lacking:
        one = _by_digest(instance, rank, by_rank[rank], how, reading)
        if isinstance(one, Missing):
            missing.append(one)
        else:
            judged.append(one)
    return judged, missing


def _has_bytes(side: Side) -> bool:
    return all(tensor.pieces or not tensor.count for tensor in side.tensors)


def _by_bytes(parts: Sequence[Part], how: Reduction | None, reading: Reading) -> list[Judged]:
    if how is None:
        return copies.judge(parts, reading)
    return sums.judge(parts, how, reading) if _depends_on_order(how) else order_free.judge(parts, how, reading)


def _whole(parts: Sequence[Part], how: Reduction | None, reading: Reading) -> Iterable[tuple[str, Mapping[int, bytes]]]:
    if how is None:
        return copies.whole(parts, reading)
    return sums.whole(parts, how, reading) if _depends_on_order(how) else order_free.whole(parts, how, reading)


def _depends_on_order(how: Reduction) -> bool:
    return how.kind.is_float and how.reduce_op in ("sum", "avg", "product")


def _by_digest(
    instance: Instance, rank: int, parts: Sequence[Part], how: Reduction | None, reading: Reading
) -> Judged | Missing:
    """Return what the digest alone says of the outputs of a rank."""
    side = instance.outputs[rank]
    if side.digest is None:
        return Missing(rank, "output", side.lost or side.reason or "neither bytes nor a digest")
    if not all(reading.is_whole(part) for part in parts):
        return Missing(rank, "output", side.lost or "output-bytes-missing")
    for order, contents in _whole(parts, how, reading):
        if _digest(side, [contents[at] for at in range(len(side.tensors))]) == side.digest:
            return Judged(rank, EXACT, order, whole=True)
    if how is not None and (_depends_on_order(how) or order_free.has_silent(parts, how, reading)):
        return Missing(rank, "output", side.lost or "output-bytes-missing")
    order = COPY if how is None else ORDER_FREE
    return Judged(rank, MISMATCH, order, differences=(Difference(rank, 0, None, 1, None),), whole=True)


def _verdict(instance: Instance, kind: str, judged: Sequence[Judged], missing: Sequence[Missing]) -> Verdict:
    names = [one.name for one in judged] + [NOT_RECOMPUTABLE] * bool(missing)
    chunks, compared = _coverage(instance, kind, judged)
    if not compared and chunks and not missing:
        missing = [Missing(None, "output", "no range was kept of inputs and outputs alike")]
        names.append(NOT_RECOMPUTABLE)
    name = max(names, key=SEVERITY.index)
    if name == MISMATCH and kind == "all_to_all" and _is_single(instance):
        # Shares of unequal size are not recorded; what does not fit equal ones may well fit those.
        return Verdict(NOT_RECOMPUTABLE, missing=(Missing(None, "splits", "not recorded, and equal ones do not fit"),))
    orders = {one.order for one in judged if one.name == name} or {None}
    silent: dict[str, int] = {}
    for one in judged:
        for reason, count in one.silent.items():
            silent[reason] = silent.get(reason, 0) + count
    return Verdict(
        name,
        orders.pop() if len(orders) == 1 else "mixed" if name == EXPLAINED else None,
        compared,
        chunks,
        tuple(difference for one in judged for difference in one.differences),
        _minority(instance, kind),
        tuple(missing),
        silent,
    )


def _is_single(instance: Instance) -> bool:
    return any(len(side.tensors) == 1 for side in instance.outputs.values()) and len(instance.members) > 1


def _coverage(instance: Instance, kind: str, judged: Sequence[Judged]) -> tuple[int, int]:
    """Return how many chunks the outputs have, and how many of them were compared in full."""
    chunks = compared = 0
    whole = {one.rank for one in judged if one.whole}
    for rank in layout.destinations(instance, kind):
        for at, tensor in enumerate(instance.outputs[rank].tensors):
            ranges = sorted(span for one in judged if one.rank == rank for span in one.compared.get(at, ()))
            count = max(1, -(-tensor.size_bytes // _CHUNK_BYTES))
            chunks += count
            is_whole = rank in whole or not tensor.count
            compared += count if is_whole else _covered(ranges, tensor.item_bytes, tensor.size_bytes)
    return chunks, compared


def _covered(ranges: Sequence[tuple[int, int]], item_bytes: int, size_bytes: int) -> int:
    joined: list[tuple[int, int]] = []
    for first, end in ranges:
        if joined and joined[-1][1] >= first:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((first, end))
    found = 0
    for chunk in range(-(-size_bytes // _CHUNK_BYTES)):
        low, high = chunk * _CHUNK_BYTES, min((chunk + 1) * _CHUNK_BYTES, size_bytes)
        found += any(first * item_bytes <= low and high <= end * item_bytes for first, end in joined)
    return found


def _minority(instance: Instance, kind: str) -> tuple[int, ...]:
    """Return the ranks whose output differs from that of more than half of all."""
    if kind not in layout.EQUAL_ON_ALL:
        return ()
    groups: dict[str, list[int]] = {}
    for rank in instance.members:
        side = instance.outputs.get(rank)
        known = None if side is None else side.digest
        if known is None and side is not None and side.tensors and all(one.is_whole for one in side.tensors):
            known = _digest(side, [b"".join(piece.data for piece in one.pieces) for one in side.tensors])
        if known is not None:
            groups.setdefault(known, []).append(rank)
    largest = max(groups.values(), key=len, default=[])
    if len(groups) < 2 or len(largest) * 2 <= len(instance.members):
        return ()
    return tuple(sorted(rank for group in groups.values() if group is not largest for rank in group))
