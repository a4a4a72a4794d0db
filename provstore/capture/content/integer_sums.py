"""Sums over integers of up to 64 bits: counts, smallest, largest and mean exact, in cache-sized pieces."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from provstore.evidence.content.statistics_line import Statistics
from provstore.model.canonical import INT64_MAX, INT64_MIN

UNSIGNED_OFFSET = 2**63
"""What was taken off an unsigned 64-bit integer to make it one with sign, in the same order."""
_SUMMED_WHOLE = 1 << 45
"""Up to this size the integers of a piece are added without running over."""


def ordered_int64(torch: Any, part: Any) -> Any:
    """Return integers or booleans as int64; unsigned ones of 64 bits with ``UNSIGNED_OFFSET`` taken off."""
    if part.dtype is torch.uint64:
        return part.view(torch.int64).bitwise_xor(INT64_MIN)
    return part.to(torch.int64)


def integer_statistics(torch: Any, pieces: Iterable[Any], offset: int) -> Statistics:
    """Return the statistics of some int64 values, each plus ``offset``, without percentiles."""
    count, zero, low, high = 0, 0, INT64_MAX, INT64_MIN
    parts: list[tuple[int, int, float]] = []
    for values in pieces:
        if not values.numel():
            continue
        least, most = (int(end) for end in torch.aminmax(values))
        low, high, count = min(low, least), max(high, most), count + values.numel()
        zero += values.numel() - int(torch.count_nonzero(values if not offset else values.bitwise_xor(INT64_MIN)))
        total = _total(values, max(abs(least), abs(most)))
        parts.append((values.numel(), total, _about(values, total // values.numel(), most - least)))
    if not parts:
        return Statistics(0)
    total = sum(one for _, one, _ in parts) + offset * count
    mean = total / count
    # Division of integers rounds once, however large they are.
    apart = [((one + offset * n) * count - total * n) / (n * count) for n, one, _ in parts]
    about = math.fsum(m2 + n * far**2 for (n, _, m2), far in zip(parts, apart, strict=True))
    smallest, largest = low + offset, high + offset
    return Statistics(
        count,
        zero=zero,
        mean=mean,
        variance=about / count,
        min=smallest,
        max=largest,
        abs_max=max(abs(smallest), abs(largest)),
        l2=math.sqrt(about + count * mean**2),
    )


def integer_delta(torch: Any, pairs: Iterable[tuple[Any, Any]]) -> tuple[int, float]:
    """Return (largest absolute difference, L2 norm of the differences) of pairs of int64 vectors."""
    most, squares = 0, []
    for one, other in pairs:
        if not one.numel():
            continue
        # The difference of two int64 has 64 bits without sign; in an int64 it wraps to the same bits.
        apart = torch.where(one > other, one - other, other - one)
        most = max(most, int(apart.bitwise_xor(INT64_MIN).max()) + UNSIGNED_OFFSET)
        as_doubles = apart.double()
        as_doubles[apart < 0] += 2.0**64
        squares.append(float(as_doubles.dot(as_doubles)))
    return most, math.sqrt(math.fsum(squares))


def _total(values: Any, largest: int) -> int:
    """Return the exact sum."""
    if largest < _SUMMED_WHOLE:
        return int(values.sum())
    return (int((values >> 32).sum()) << 32) + int(values.bitwise_and(0xFFFF_FFFF).sum())


def _about(values: Any, near: int, span: int) -> float:
    """Return the sum of squares about the mean; ``near`` is the mean or less than one below."""
    far = (values - near).double() if span <= INT64_MAX else values.double() - float(near)
    shift = float(far.sum()) / far.numel()
    far.sub_(shift)
    return float(far.dot(far))
