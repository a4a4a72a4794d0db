"""Statistics of live tensors: float64 throughout, in pieces that stay in the processor's cache; integers exact.

Percentiles are by nearest rank on at most 65,536 elements at the indexes (i·s) mod n, where s is coprime to n and
nearest to 0.618·n: a plain stride would see few columns of a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import Any

from provstore.capture.content.digest import dense_local, dtype_name
from provstore.capture.content.float_sums import float_statistics
from provstore.capture.content.integer_sums import (
    UNSIGNED_OFFSET,
    integer_delta,
    integer_statistics,
    ordered_int64,
)
from provstore.capture.content.shortfall import UnsupportedDtypeError
from provstore.evidence.content.statistics_line import ABS, PERCENTS, SAMPLE_ELEMENTS, Number, Statistics

PIECE_ELEMENTS = 1 << 17
_INTEGER, _UNSIGNED, _FLOAT, _COMPLEX = "integer", "unsigned", "float", "complex"
_WITHOUT_VALUES = frozenset({"float4_e2m1fn_x2"})
"""Types whose values torch cannot compute with."""


def statistics(torch: Any, tensors: Any, before: Any = None) -> Statistics:
    """Return the statistics of one side of a call, over all its tensors; of DTensors, over their local shards.

    Args:
        torch: The torch module.
        tensors: A tensor, or several in argument order.
        before: What the call was given; where its tensors have the same shapes, the result says how far the call moved
            them.

    Raises:
        UnsupportedDtypeError: A tensor has no dense elements that can be read here, or no values to compute with.
    """
    with torch.no_grad():
        side = _flat(torch, tensors)
        kind = _kind(torch, side)
        if not sum(flat.numel() for flat in side):
            return Statistics(0)
        found = _figures(torch, kind, side)
        percentiles, sample_n = _percentiles(torch, kind, side)
        found = replace(found, percentiles=percentiles, sample_n=sample_n, of=ABS if kind == _COMPLEX else None)
        if before is None or _shapes(tensors) != _shapes(before):
            return found
        return _with_delta(torch, kind, found, side, _flat(torch, before))


def sample_step(count: int) -> int:
    """Return the number coprime to ``count`` that is nearest to 0.618·count, the smaller of two."""
    below, rest = divmod(618 * count, 1000)
    for away in range(count + 1):
        near = (below - away, below + 1 + away)
        for step in near if rest <= 500 else near[::-1]:
            if step > 0 and math.gcd(step, count) == 1:
                return step
    return 1


def _figures(torch: Any, kind: str, side: Sequence[Any]) -> Statistics:
    if kind in {_INTEGER, _UNSIGNED}:
        pieces = (ordered_int64(torch, part) for flat in side for part in flat.split(PIECE_ELEMENTS))
        return integer_statistics(torch, pieces, UNSIGNED_OFFSET if kind == _UNSIGNED else 0)
    if kind == _COMPLEX:
        return float_statistics(torch, lambda: (_magnitudes(torch, part) for part in _parts(side)))
    return float_statistics(torch, lambda: _doubles(torch, side))


def _with_delta(torch: Any, kind: str, found: Statistics, side: Sequence[Any], before: Sequence[Any]) -> Statistics:
    if _kind(torch, before) != kind:
        return found
    pairs = zip(_parts(side), _parts(before), strict=True)
    if kind in {_INTEGER, _UNSIGNED}:
        most, l2 = integer_delta(torch, ((ordered_int64(torch, a), ordered_int64(torch, b)) for a, b in pairs))
        return replace(found, delta_abs_max=most, delta_l2=l2)

    def differences() -> Iterator[Any]:
        if kind == _COMPLEX:
            for one, other in zip(_parts(side), _parts(before), strict=True):
                yield _magnitudes(torch, one.to(torch.complex128) - other.to(torch.complex128))
        else:
            for one, other in zip(_doubles(torch, side), _doubles(torch, before), strict=True):
                yield one.sub_(other)

    delta = float_statistics(torch, differences)
    return replace(found, delta_abs_max=delta.abs_max, delta_l2=delta.l2)


def _flat(torch: Any, tensors: Any) -> list[Any]:
    """Return the tensors of a side as dense vectors of the host, row-major."""
    several = tensors if isinstance(tensors, Sequence) else (tensors,)
    found = []
    for tensor in several:
        dense = dense_local(torch, tensor).to("cpu").resolve_conj().resolve_neg()
        if dtype_name(dense) in _WITHOUT_VALUES:
            raise UnsupportedDtypeError(f"tensor: dtype: {dense.dtype} has no values to compute with")
        found.append(dense.reshape(-1))
    return found


def _shapes(tensors: Any) -> list[tuple[int, ...]]:
    return [tuple(one.shape) for one in (tensors if isinstance(tensors, Sequence) else (tensors,))]


def _kind(torch: Any, side: Sequence[Any]) -> str:
    """Return how a side is computed; tensors of several kinds are computed as the most general of them."""
    if any(flat.is_complex() for flat in side):
        return _COMPLEX
    if any(flat.is_floating_point() for flat in side):
        return _FLOAT
    unsigned = sum(flat.dtype is torch.uint64 for flat in side)
    return _INTEGER if not unsigned else _UNSIGNED if unsigned == len(side) else _FLOAT


def _parts(side: Sequence[Any]) -> Iterator[Any]:
    for flat in side:
        yield from flat.split(PIECE_ELEMENTS)


def _doubles(torch: Any, side: Sequence[Any]) -> Iterator[Any]:
    buffer = torch.empty(PIECE_ELEMENTS, dtype=torch.float64, device="cpu")
    for part in _parts(side):
        yield buffer[: part.numel()].copy_(part)


def _magnitudes(torch: Any, part: Any) -> Any:
    """Return absolute values as float64: infinite where a part is, else NaN where a part is."""
    wide = part.to(torch.complex128)
    if part.dtype is torch.complex128:
        return wide.abs()
    # Squares of narrower types stay within float64, and cost a fifth of what guarding against overflow does.
    squares = torch.view_as_real(wide).square()
    found = squares.sum(-1).sqrt_()
    if not math.isfinite(float(found.sum())):
        found[squares.isinf().any(-1)] = math.inf
    return found


def _percentiles(torch: Any, kind: str, side: Sequence[Any]) -> tuple[tuple[Number, ...], int]:
    """Return the percentiles and how many elements they come from."""
    offset = UNSIGNED_OFFSET if kind == _UNSIGNED else 0
    # Each tensor's part by itself: torch joins no 8-bit floats with others.
    values = torch.cat([_comparable(torch, kind, part) for part in _sample(torch, side)])
    if kind in {_FLOAT, _COMPLEX}:
        values = values[values.isfinite()]
    count = values.numel()
    if not count:
        return (), 0
    ordered = values.sort().values
    ranks = [-(-percent * count // 100) - 1 for percent in PERCENTS]
    return tuple(ordered[rank].item() + offset for rank in ranks), count


def _comparable(torch: Any, kind: str, part: Any) -> Any:
    """Return elements as numbers of one type that have an order."""
    if kind in {_INTEGER, _UNSIGNED}:
        return ordered_int64(torch, part)
    return _magnitudes(torch, part) if kind == _COMPLEX else part.double()


def _sample(torch: Any, side: Sequence[Any]) -> list[Any]:
    """Return the elements at the sample's indexes of all tensors laid end to end, from each tensor in turn."""
    total = sum(flat.numel() for flat in side)
    if total <= SAMPLE_ELEMENTS:
        return list(side)
    indexes = _indexes(torch, total)
    if len(side) == 1:
        return [_taken(torch, side[0], indexes)]
    ends = list(accumulate(flat.numel() for flat in side))
    return [
        _taken(torch, flat, indexes[(indexes >= end - flat.numel()) & (indexes < end)] - (end - flat.numel()))
        for flat, end in zip(side, ends, strict=True)
        if flat.numel()
    ]


@lru_cache(maxsize=64)
def _step(count: int) -> int:
    return sample_step(count)


def _indexes(torch: Any, count: int) -> Any:
    return torch.arange(SAMPLE_ELEMENTS, dtype=torch.int64, device="cpu").mul_(_step(count)).remainder_(count)


def _taken(torch: Any, flat: Any, indexes: Any) -> Any:
    """Return the elements at these indexes; by their bits, since torch takes elements of few types."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(flat.element_size())
    return flat.take(indexes) if bits is None else flat.view(bits).take(indexes).view(flat.dtype)
