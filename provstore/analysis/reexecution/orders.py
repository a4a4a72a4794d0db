"""Orders in which a reduction may add up its ranks.

A fold takes the operands of all ranks over some elements of the reduced vector, in the order of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from provstore.analysis.reexecution.numbers import Combine, Kind, Values

GLOO_RING, RANK_ORDER, TREE, ORDER_FREE, COPY = "gloo-ring", "rank-order", "tree", "order-free", "copy"
NAMED = (GLOO_RING, RANK_ORDER, TREE)
_OF_BACKENDS = {"gloo": (GLOO_RING,)}

_SEGMENT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Reduction:
    """What is done with two operands, and with the result of all."""

    kind: Kind
    reduce_op: str
    combine: Combine
    backend: str | None = None

    @property
    def orders(self) -> tuple[str, ...]:
        """Orders that the backend may have used: what is known to use one is exact under no other."""
        return _OF_BACKENDS.get(self.backend or "", NAMED)

    def pair(self, left: Values, right: Values) -> Values:
        """Return two operands combined, as the type rounds."""
        return self.kind.rounded(self.combine(left, right))

    def finished(self, values: Values, ranks: int) -> Values:
        """Return the result of all ranks: an average divides once at the end."""
        if self.reduce_op != "avg":
            return values
        return self.kind.rounded(values / np.dtype(self.kind.working).type(ranks))


def ring_bounds(count: int, item_bytes: int, ranks: int) -> list[int]:
    """Return where the chunks of a ring begin, in elements, and where the last one ends.

    Segments = max(⌈bytes / 1 MiB⌉, twice the ranks), rounded up to a multiple of the ranks; bytes of a segment = ⌈bytes
    / segments⌉, rounded up to whole elements; a chunk is as many segments as each rank has.
    """
    size = count * item_bytes
    segments = max(_quotient(size, _SEGMENT_BYTES), 2 * ranks)
    segments = _quotient(segments, ranks) * ranks
    items = _quotient(_quotient(size, segments), item_bytes)
    chunk = segments // ranks * items
    return [min(at * chunk, count) for at in range(ranks)] + [count]


def _quotient(size: int, of: int) -> int:
    """Return how many pieces of a size are needed."""
    return -(-size // of)


def ring_fold(how: Reduction, operands: Sequence[Values], chunk: int) -> Values:
    """Return what a ring gives for elements of one chunk: folded from the rank before it downwards."""
    ranks = len(operands)
    result = operands[(chunk - 1) % ranks]
    for back in range(2, ranks + 1):
        result = how.pair(result, operands[(chunk - back) % ranks])
    return how.finished(result, ranks)


def fold(order: str, how: Reduction, operands: Sequence[Values], first: int, count: int) -> Values:
    """Return the result under a named order.

    Args:
        order: One of ``NAMED``.
        how: The reduction.
        operands: Elements of each rank from ``first`` on.
        first: Where they stand in the reduced vector.
        count: Length of the reduced vector.
    """
    if order == TREE:
        return how.finished(_tree(how, list(operands)), len(operands))
    if order == RANK_ORDER:
        result = operands[0]
        for operand in operands[1:]:
            result = how.pair(result, operand)
        return how.finished(result, len(operands))
    return _ring(how, operands, first, count)


def _ring(how: Reduction, operands: Sequence[Values], first: int, count: int) -> Values:
    bounds = ring_bounds(count, how.kind.size_bytes, len(operands))
    result = np.empty_like(operands[0])
    for chunk in range(len(operands)):
        low = max(bounds[chunk] - first, 0)
        high = min(bounds[chunk + 1] - first, len(result))
        if low < high:
            result[low:high] = ring_fold(how, [operand[low:high] for operand in operands], chunk)
    return result


def _tree(how: Reduction, row: list[Values]) -> Values:
    while len(row) > 1:
        pairs = [how.pair(row[at], row[at + 1]) for at in range(0, len(row) - 1, 2)]
        row = pairs + row[len(pairs) * 2 :]
    return row[0]
