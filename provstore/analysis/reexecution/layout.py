"""Which elements of which inputs each output of a collective is made of, by what the operation promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from provstore.analysis.reexecution.instance import Instance, StoredTensor
from provstore.analysis.reexecution.verdict import Missing


@dataclass(frozen=True, slots=True)
class Vector:
    """What is read: on each of some ranks the same elements; several ranks are reduced, one is copied."""

    ranks: tuple[int, ...]
    tensors: tuple[int, ...]
    """Which inputs of each rank, one after the other."""
    is_reduced: bool


@dataclass(frozen=True, slots=True)
class Part:
    """Elements of one output that come from one vector."""

    rank: int
    tensor: int
    first: int
    """In the output."""
    count: int
    vector: Vector
    at: int
    """In the vector."""


class UnknownLayoutError(Exception):
    """What would be needed to know where the elements of an output come from."""

    def __init__(self, *missing: Missing) -> None:
        super().__init__(*missing)
        self.missing = missing


_FAMILIES = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "reduce": "reduce",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "reducescatter": "reduce_scatter",
    "allgather": "all_gather",
    "allgather_base": "all_gather",
    "allgather_into_tensor": "all_gather",
    "allgather_coalesced": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather",
    "broadcast": "broadcast",
    "broadcast_coalesced": "broadcast",
    "broadcast_oop": "broadcast",
    "gather": "gather",
    "scatter": "scatter",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "alltoall_single": "all_to_all",
}
REDUCING = ("all_reduce", "reduce", "reduce_scatter")
EQUAL_ON_ALL = ("all_reduce", "all_gather", "broadcast")
"""Families whose outputs are equal on all ranks."""


def family(op: str) -> str | None:
    """Return which kind of collective an operation is; ``None`` when nothing can be recomputed of it."""
    name = op.lower().strip("_")
    for long, short in (("all_reduce", "allreduce"), ("all_gather", "allgather"), ("all_to_all", "alltoall")):
        name = name.replace(long, short)
    return _FAMILIES.get(name)


def parts(instance: Instance) -> list[Part]:
    """Return of what every output is made.

    Raises:
        UnknownLayoutError: The operation, its root, an input or an output is not known, or sizes do not fit.
    """
    kind = family(instance.op)
    if kind is None:
        raise UnknownLayoutError(Missing(None, "op", f"{instance.op} is no collective that can be recomputed"))
    if kind in ("reduce", "broadcast", "gather", "scatter") and instance.root not in instance.members:
        reason = "not recorded" if instance.root is None else f"rank {instance.root} is no member"
        raise UnknownLayoutError(Missing(None, "root", reason))
    _require_sides(instance, kind)
    found = list(_LAYOUTS[kind](instance))
    _require_fit(instance, found)
    return found


def sources(instance: Instance, kind: str) -> tuple[int, ...]:
    """Return the ranks whose inputs are read."""
    return _root(instance) if kind in ("broadcast", "scatter") else instance.members


def destinations(instance: Instance, kind: str) -> tuple[int, ...]:
    """Return the ranks whose outputs the operation defines."""
    return _root(instance) if kind in ("reduce", "gather") else instance.members


def _root(instance: Instance) -> tuple[int, ...]:
    return () if instance.root is None else (instance.root,)


def _require_sides(instance: Instance, kind: str) -> None:
    missing = []
    for rank in instance.members:
        given, got = instance.inputs.get(rank), instance.outputs.get(rank)
        if given is None and got is None:
            missing.append(Missing(rank, "call", "not recorded"))
        elif rank in sources(instance, kind) and (given is None or not given.tensors):
            missing.append(Missing(rank, "input", (given.reason if given else None) or "not recorded"))
        elif rank in destinations(instance, kind) and (got is None or not got.tensors):
            missing.append(Missing(rank, "output", (got.reason if got else None) or "not recorded"))
    if missing:
        raise UnknownLayoutError(*missing)


def _require_fit(instance: Instance, found: Sequence[Part]) -> None:
    """Refuse parts that reach beyond the vector that they are read from, or that do not fill their output."""
    filled: dict[tuple[int, int], int] = {}
    for part in found:
        lengths = {_length(instance, rank, part.vector.tensors) for rank in part.vector.ranks}
        if lengths == {None} or len(lengths) != 1 or part.at + part.count > (lengths.pop() or 0):
            raise UnknownLayoutError(Missing(part.rank, "sizes", "inputs and outputs do not fit each other"))
        kinds = {instance.inputs[rank].tensors[at].dtype for rank in part.vector.ranks for at in part.vector.tensors}
        if kinds != {_output(instance, part).dtype}:
            raise UnknownLayoutError(Missing(part.rank, "dtype", "inputs and outputs are not of one type"))
        key = (part.rank, part.tensor)
        filled[key] = filled.get(key, 0) + part.count
    for (rank, tensor), count in filled.items():
        if count != instance.outputs[rank].tensors[tensor].count:
            raise UnknownLayoutError(Missing(rank, "sizes", "inputs and outputs do not fit each other"))


def _output(instance: Instance, part: Part) -> StoredTensor:
    return instance.outputs[part.rank].tensors[part.tensor]


def _length(instance: Instance, rank: int, tensors: tuple[int, ...]) -> int | None:
    given = instance.inputs[rank].tensors
    return sum(given[at].count for at in tensors) if max(tensors) < len(given) else None


def _all_reduce(instance: Instance) -> Iterator[Part]:
    """All tensors of a coalesced call are one vector."""
    count = len(instance.inputs[instance.members[0]].tensors)
    vector = Vector(instance.members, tuple(range(count)), is_reduced=True)
    for rank in destinations(instance, family(instance.op) or ""):
        at = 0
        for tensor, one in enumerate(instance.outputs[rank].tensors):
            yield Part(rank, tensor, 0, one.count, vector, at)
            at += one.count


def _reduce_scatter(instance: Instance) -> Iterator[Part]:
    """One vector a rank in the list form, one a tensor in the tensor form."""
    for place, rank in enumerate(instance.members):
        given, got = instance.inputs[rank].tensors, instance.outputs[rank].tensors
        is_list = len(got) == 1 and len(given) == len(instance.members) and given[place].count == got[0].count
        for tensor, one in enumerate(got):
            vector = Vector(instance.members, (place if is_list else tensor,), is_reduced=True)
            yield Part(rank, tensor, 0, one.count, vector, 0 if is_list else place * one.count)


def _all_gather(instance: Instance) -> Iterator[Part]:
    for rank in destinations(instance, family(instance.op) or ""):
        yield from _gathered(instance, rank)


def _gathered(instance: Instance, rank: int) -> Iterator[Part]:
    """In the list form each rank fills outputs of its own, else each output holds the ranks' tensors in turn."""
    got, ranks = instance.outputs[rank].tensors, len(instance.members)
    given = len(instance.inputs[instance.members[0]].tensors)
    is_list = len(got) == given * ranks and not (ranks > 1 and len(got) == given)
    for tensor in range(given):
        first = 0
        for place, source in enumerate(instance.members):
            mine = instance.inputs[source].tensors
            count = mine[tensor].count if tensor < len(mine) else 0
            vector = Vector((source,), (tensor,), is_reduced=False)
            if is_list:
                yield Part(rank, place * given + tensor, 0, count, vector, 0)
            elif tensor < len(got):
                yield Part(rank, tensor, first, count, vector, 0)
                first += count


def _broadcast(instance: Instance) -> Iterator[Part]:
    for rank in instance.members:
        for tensor, one in enumerate(instance.outputs[rank].tensors):
            yield Part(rank, tensor, 0, one.count, Vector(_root(instance), (tensor,), is_reduced=False), 0)


def _scatter(instance: Instance) -> Iterator[Part]:
    for place, rank in enumerate(instance.members):
        vector = Vector(_root(instance), (place,), is_reduced=False)
        yield Part(rank, 0, 0, instance.outputs[rank].tensors[0].count, vector, 0)


def _all_to_all(instance: Instance) -> Iterator[Part]:
    """Each rank sends its n-th share to the n-th rank; shares of one tensor are taken as equal."""
    ranks = len(instance.members)
    for place, rank in enumerate(instance.members):
        got = instance.outputs[rank].tensors
        for other, source in enumerate(instance.members):
            given = instance.inputs[source].tensors
            if len(given) == ranks and len(got) == ranks:
                vector = Vector((source,), (place,), is_reduced=False)
                yield Part(rank, other, 0, got[other].count, vector, 0)
            else:
                share = got[0].count // ranks
                yield Part(rank, 0, other * share, share, Vector((source,), (0,), is_reduced=False), place * share)


_LAYOUTS: dict[str, Callable[[Instance], Iterator[Part]]] = {
    "all_reduce": _all_reduce,
    "reduce": _all_reduce,
    "reduce_scatter": _reduce_scatter,
    "all_gather": _all_gather,
    "gather": _all_gather,
    "broadcast": _broadcast,
    "scatter": _scatter,
    "all_to_all": _all_to_all,
}
