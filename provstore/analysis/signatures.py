"""What must be equal on the members of one collective, operation by operation, as one number a signature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from provstore.graph.calltable import Integers
from provstore.model.dump import Signature

NOT_COMPARED = -1
_MOST_ELEMENTS = 1 << 62
"""What does not fit a column is not told apart."""

ROOTED = frozenset({"broadcast", "_broadcast_oop", "reduce", "_reduce_oop", "gather", "scatter"})
"""One rank can finish these before another has entered."""

BARRIERS = frozenset({"barrier", "monitored_barrier", "all_reduce_barrier"})
"""They move no data: programs end with one."""

_INPUTS_EQUAL = frozenset(
    {
        "all_reduce",
        "allreduce_coalesced",
        "broadcast",
        "reduce",
        "_reduce_oop",
        "all_gather",
        "_all_gather_base",
        "all_gather_single",
        "all_gather_into_tensor_coalesced",
        "reduce_scatter",
        "_reduce_scatter_base",
        "reduce_scatter_single",
        "reduce_scatter_tensor_coalesced",
        "REDUCE_SCATTER_coalesced",
        "gather",
    }
)
_OUTPUTS_EQUAL = frozenset(
    {
        "all_reduce",
        "allreduce_coalesced",
        "broadcast",
        "_broadcast_oop",
        "all_gather",
        "_all_gather_base",
        "all_gather_single",
        "all_gather_into_tensor_coalesced",
        "ALLGATHER_coalesced",
        "reduce_scatter",
        "_reduce_scatter_base",
        "reduce_scatter_single",
        "reduce_scatter_tensor_coalesced",
        "scatter",
    }
)
_BARRIERS = frozenset({"barrier", "all_reduce_barrier", "monitored_barrier"})
SUMS_EQUAL = frozenset({"all_to_all", "all_to_all_single"})
"""Only the sums over all members are bound: what goes in comes out."""


@dataclass(frozen=True, slots=True)
class Demands:
    """One value a signature in each column; ``NOT_COMPARED`` where that side says nothing about the other members."""

    op: Integers
    dtype: Integers
    inputs: Integers
    """Elements put in, where they must be equal on all members."""
    outputs: Integers
    sent: Integers
    """Elements put in, whatever the operation; 0 for none."""
    received: Integers
    ops: tuple[str, ...]
    """Distinct operations; ``op`` counts into it."""


def demands(signatures: Sequence[Signature]) -> Demands:
    """Return what each signature demands of the other members of its instance."""
    ops: dict[str, int] = {}
    dtypes: dict[frozenset[str], int] = {}
    rows = [_row(signature, ops, dtypes) for signature in signatures]
    table = np.array(rows, dtype=np.int64).reshape(len(rows), 6)
    op, dtype, inputs, outputs, sent, received = (np.ascontiguousarray(column) for column in table.T)
    return Demands(op, dtype, inputs, outputs, sent, received, tuple(ops))


def _row(signature: Signature, ops: dict[str, int], dtypes: dict[frozenset[str], int]) -> tuple[int, ...]:
    op = signature.op
    sent, received = elements(signature.input_sizes), elements(signature.output_sizes)
    kinds = frozenset(signature.input_dtypes if signature.input_sizes else signature.output_dtypes)
    compared = bool(kinds) and op not in _BARRIERS
    return (
        ops.setdefault(op, len(ops)),
        dtypes.setdefault(kinds, len(dtypes)) if compared else NOT_COMPARED,
        sent if op in _INPUTS_EQUAL and signature.input_sizes else NOT_COMPARED,
        received if op in _OUTPUTS_EQUAL and signature.output_sizes else NOT_COMPARED,
        sent,
        received,
    )


def elements(sizes: Sequence[Sequence[int]]) -> int:
    """Return how many elements tensors of these shapes hold together; a scalar's shape is empty and holds one."""
    return min(max(sum(prod(shape) for shape in sizes), 0), _MOST_ELEMENTS)
