"""Reductions whose result does not depend on their order: integers, bits, minimum and maximum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from provstore.analysis.reexecution.judged import Judged, Reading
from provstore.analysis.reexecution.layout import Part
from provstore.analysis.reexecution.numbers import Values
from provstore.analysis.reexecution.orders import ORDER_FREE, RANK_ORDER, Reduction, fold
from provstore.analysis.reexecution.verdict import (
    EXACT,
    EXPLAINED,
    MISMATCH,
    NOT_COMPARABLE,
    ZERO_SIGN,
    Difference,
)

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Range:
    """What is expected of some elements, and which of them say nothing."""

    expected: bytes
    not_comparable: Mask
    """NaN is among the operands: the result depends on the place of the rank."""
    zero_sign: Mask
    """Zeros of both signs are the smallest or largest: either may stay."""


def judge(parts: Sequence[Part], how: Reduction, reading: Reading) -> list[Judged]:
    """Return what is said of each part whose bytes are there."""
    return [_judged(part, how, reading) for part in parts]


def whole(parts: Sequence[Part], how: Reduction, reading: Reading) -> Iterator[tuple[str, dict[int, bytes]]]:
    """Yield the outputs of one rank, by their place; nothing where some elements say nothing."""
    found: dict[int, bytes] = {}
    for part in parts:
        one = _expected(part, how, reading, part.at, part.at + part.count)[0]
        if one.not_comparable.any() or one.zero_sign.any():
            return
        found[part.tensor] = found.get(part.tensor, b"") + one.expected
    yield ORDER_FREE, found


def has_silent(parts: Sequence[Part], how: Reduction, reading: Reading) -> bool:
    """Return whether some elements say nothing, so that a digest cannot be expected."""
    return not any(whole(parts, how, reading))


def _judged(part: Part, how: Reduction, reading: Reading) -> Judged:
    shift = part.at - part.first
    compared, first_index, count, largest = [], None, 0, 0.0
    silent = {NOT_COMPARABLE: 0, ZERO_SIGN: 0}
    for first, end in reading.common(part):
        compared.append((first - shift, end - shift))
        expected, operands = _expected(part, how, reading, first, end)
        recorded = reading.recorded(part, first, end)
        silent[NOT_COMPARABLE] += int(expected.not_comparable.sum())
        silent[ZERO_SIGN] += int(expected.zero_sign.sum())
        differs = _differs(how, expected, operands, recorded)
        if differs.any():
            places = np.flatnonzero(differs)
            first_index = int(places[0]) + first - shift if first_index is None else first_index
            count += len(places)
            largest = max(largest, _largest(how, expected.expected, recorded, differs))
    found = (Difference(part.rank, part.tensor, first_index, count, largest),) if count else ()
    told = {reason: number for reason, number in silent.items() if number}
    name = MISMATCH if count else EXPLAINED if told else EXACT
    return Judged(part.rank, name, ORDER_FREE, found, {part.tensor: tuple(compared)}, told)


def _expected(part: Part, how: Reduction, reading: Reading, first: int, end: int) -> tuple[_Range, list[bytes]]:
    data = reading.operands(part, first, end)
    operands = [how.kind.decoded(one) for one in data]
    result = fold(RANK_ORDER, how, operands, first, reading.length(part))
    none = np.zeros(len(result), np.bool_)
    nan, zero = none, none
    if how.kind.is_float:
        nan = np.logical_or.reduce([np.isnan(one) for one in operands])
        positive = np.logical_or.reduce([(one == 0) & ~np.signbit(one) for one in operands])
        negative = np.logical_or.reduce([(one == 0) & np.signbit(one) for one in operands])
        zero = (result == 0) & positive & negative & ~nan
    return _Range(how.kind.encoded(result), nan, zero), data


def _differs(how: Reduction, expected: _Range, operands: Sequence[bytes], recorded: bytes) -> Mask:
    """Return which elements cannot have come about."""
    bits = how.kind.bits(recorded)
    differs: Mask = bits != how.kind.bits(expected.expected)
    if expected.zero_sign.any():
        differs &= ~(expected.zero_sign & (how.kind.decoded(recorded) == 0))
    if expected.not_comparable.any():
        one_of_them = np.logical_or.reduce([bits == how.kind.bits(one) for one in operands])
        differs &= ~(expected.not_comparable & (one_of_them | np.isnan(how.kind.decoded(recorded))))
    return differs


def _largest(how: Reduction, expected: bytes, recorded: bytes, differs: Mask) -> float:
    left, right = how.kind.decoded(expected)[differs], how.kind.decoded(recorded)[differs]
    errors = np.abs(_wide(left) - _wide(right))
    return float(errors.max())


def _wide(values: Values) -> NDArray[np.float64]:
    return values.astype(np.float64)
