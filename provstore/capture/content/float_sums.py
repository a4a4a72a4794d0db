"""Sums over float64 values, in one pass of cache-sized pieces: counts, mean, variance, range and norm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from provstore.evidence.content.statistics_line import Statistics

Pieces = Callable[[], Iterable[Any]]
"""Gives float64 vectors, one after the other; each may be overwritten when the next is asked for, and by its reader."""

_SAFE_EXPONENT, _MOST_EXPONENT = 400, 1000
"""Sums of squares of values between 2**-400 and 2**400 stay within float64."""


@dataclass(slots=True)
class _Sums:
    """What one pass adds up."""

    scale: float
    count: int = 0
    nan: int = 0
    pos_inf: int = 0
    neg_inf: int = 0
    zero: int = 0
    low: float = math.inf
    high: float = -math.inf
    parts: list[tuple[int, float, float]] = field(default_factory=list)
    """Of each piece: finite elements, and their sum and sum of squares about their mean, all times ``scale``."""


def float_statistics(torch: Any, pieces: Pieces) -> Statistics:
    """Return the statistics of some float64 values, without percentiles; the pieces are asked for once or twice."""
    sums = _added(torch, pieces, 1.0)
    exponent = math.frexp(max(abs(sums.low), abs(sums.high)))[1] if sums.parts else 0
    if abs(exponent) > _SAFE_EXPONENT:
        sums = _added(torch, pieces, math.ldexp(1.0, -max(-_MOST_EXPONENT, min(_MOST_EXPONENT, exponent))))
    counts = Statistics(sums.count, sums.nan, sums.pos_inf, sums.neg_inf, sums.zero)
    return _with_figures(counts, sums) if sums.parts else counts


def _added(torch: Any, pieces: Pieces, scale: float) -> _Sums:
    sums = _Sums(scale)
    for piece in pieces():
        sums.count += piece.numel()
        total, values = float(piece.sum()), piece
        if total - total != 0:
            values = _finite(torch, piece, sums)
            total = float(values.sum())
        if not values.numel():
            continue
        low, high = (float(end) for end in torch.aminmax(values))
        sums.low, sums.high = min(sums.low, low), max(sums.high, high)
        sums.zero += values.numel() - int(torch.count_nonzero(values))
        if scale != 1.0:
            total = float(values.mul_(scale).sum())
        values.sub_(total / values.numel())
        sums.parts.append((values.numel(), total, float(values.dot(values))))
    return sums


def _finite(torch: Any, piece: Any, sums: _Sums) -> Any:
    """Return the finite values of a piece, and count the others."""
    sums.nan += int(torch.count_nonzero(piece.isnan()))
    sums.pos_inf += int(torch.count_nonzero(piece == math.inf))
    sums.neg_inf += int(torch.count_nonzero(piece == -math.inf))
    return piece[piece.isfinite()]


def _with_figures(counts: Statistics, sums: _Sums) -> Statistics:
    finite = sum(count for count, _, _ in sums.parts)
    scaled_mean = math.fsum(total for _, total, _ in sums.parts) / finite
    about = math.fsum(m2 + n * (total / n - scaled_mean) ** 2 for n, total, m2 in sums.parts)
    squares = math.fsum(m2 + total * total / n for n, total, m2 in sums.parts)
    # Rounding must not give a constant tensor a variance, nor put a mean outside the values.
    mean = min(max(scaled_mean / sums.scale, sums.low), sums.high)
    variance = 0.0 if sums.low == sums.high else about / finite / sums.scale / sums.scale
    # Adding zero gives both zeros one sign: which of them is found first is chance.
    low, high = sums.low + 0.0, sums.high + 0.0
    return Statistics(
        counts.count,
        counts.nan,
        counts.pos_inf,
        counts.neg_inf,
        counts.zero,
        mean=mean + 0.0,
        variance=variance,
        min=low,
        max=high,
        abs_max=max(abs(low), abs(high)),
        l2=math.sqrt(squares) / sums.scale,
    )
