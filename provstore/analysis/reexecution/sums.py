"""Sums, averages and products of floats, whose result depends on the order of the ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from provstore.analysis.reexecution import bounds
from provstore.analysis.reexecution.judged import Judged, Reading
from provstore.analysis.reexecution.layout import Part
from provstore.analysis.reexecution.numbers import Values
from provstore.analysis.reexecution.orders import NAMED, Reduction, fold, ring_fold
from provstore.analysis.reexecution.verdict import (
    EXACT,
    EXPLAINED,
    MISMATCH,
    NAN_BITS,
    SEVERITY,
    WITHIN_BOUND,
    Difference,
)

Mask = NDArray[np.bool_]
WALK, ANY = "gloo-ring-walk", "mixed"
"""How elements are explained: as chunks of a ring in order, of whatever length, or each by some order."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What is said of one range of elements."""

    name: str
    order: str
    places: NDArray[np.intp]
    """Elements that differ, within the range."""
    largest: float | None
    nan_bits: int = 0


def judge(parts: Sequence[Part], how: Reduction, reading: Reading) -> list[Judged]:
    """Return what is said of each part whose bytes are there: one order for all of them, if there is one."""
    for order in how.orders:
        if all(_equal(part, how, reading, order) for part in parts):
            return [Judged(part.rank, EXACT, order, (), _compared(part, reading)) for part in parts]
    return [_judged(part, how, reading) for part in parts]


def whole(parts: Sequence[Part], how: Reduction, reading: Reading) -> Iterator[tuple[str, dict[int, bytes]]]:
    """Yield the outputs of one rank, by their place, under each named order."""
    for order in how.orders:
        found: dict[int, bytes] = {}
        for part in parts:
            data = _fold(part, how, reading, order, part.at, part.at + part.count)
            found[part.tensor] = found.get(part.tensor, b"") + data
        yield order, found


def _compared(part: Part, reading: Reading) -> dict[int, tuple[tuple[int, int], ...]]:
    shift = part.at - part.first
    return {part.tensor: tuple((first - shift, end - shift) for first, end in reading.common(part))}


def _equal(part: Part, how: Reduction, reading: Reading, order: str) -> bool:
    return all(
        _fold(part, how, reading, order, first, end) == reading.recorded(part, first, end)
        for first, end in reading.common(part)
    )


def _fold(part: Part, how: Reduction, reading: Reading, order: str, first: int, end: int) -> bytes:
    operands = [how.kind.decoded(one) for one in reading.operands(part, first, end)]
    return how.kind.encoded(fold(order, how, operands, first, reading.length(part)))


def _judged(part: Part, how: Reduction, reading: Reading) -> Judged:
    """Return the worst that is said of a range of the part."""
    shift = part.at - part.first
    name, order, first_index, count, largest, nan_bits = EXACT, "", None, 0, None, 0
    for first, end in reading.common(part):
        found = _range(part, how, reading, first, end)
        nan_bits += found.nan_bits
        if SEVERITY.index(found.name) > SEVERITY.index(name):
            name, order, first_index, count, largest = found.name, found.order, None, 0, None
        if found.name != name or not len(found.places):
            order = order or found.order
            continue
        first_index = int(found.places[0]) + first - shift if first_index is None else first_index
        count += len(found.places)
        largest = _larger(largest, found.largest)
    differences = (Difference(part.rank, part.tensor, first_index, count, largest),) if count else ()
    silent = {NAN_BITS: nan_bits} if nan_bits else {}
    return Judged(part.rank, name, order, differences, _compared(part, reading), silent)


def _larger(left: float | None, right: float | None) -> float | None:
    if left is None or right is None:
        return right if left is None else left
    return max(left, right)


def _range(part: Part, how: Reduction, reading: Reading, first: int, end: int) -> _Found:
    operands = [how.kind.decoded(one) for one in reading.operands(part, first, end)]
    recorded, length = reading.recorded(part, first, end), reading.length(part)
    bits, value = how.kind.bits(recorded), how.kind.decoded(recorded)
    named = {order: _differs(how, fold(order, how, operands, first, length), bits, value) for order in NAMED}
    order = min(how.orders, key=lambda one: int(named[one].sum()))
    nearest, nan_bits = named[order], int((np.isnan(value) & _bits_differ(how, operands, first, length, bits)).sum())
    rings = [_differs(how, ring_fold(how, operands, chunk), bits, value) for chunk in range(len(operands))]
    unexplained = np.logical_and.reduce([*named.values(), *rings])
    places = np.flatnonzero(unexplained)
    if not len(places):
        found = _Found(EXPLAINED, WALK if _walks(rings) else ANY, np.flatnonzero(nearest), None, nan_bits)
        if not nearest.any():
            return replace(found, order=order, name=EXPLAINED if nan_bits else EXACT)
        return replace(found, largest=_error(how, operands, value, nearest))
    outside = bounds.outside(how, [one[unexplained] for one in operands], value[unexplained])
    if not outside.any():
        return _Found(WITHIN_BOUND, order, places, _error(how, operands, value, unexplained), nan_bits)
    unexplained[places[~outside]] = False
    return _Found(MISMATCH, order, places[outside], _error(how, operands, value, unexplained), nan_bits)


def _differs(how: Reduction, expected: Values, bits: Values, value: Values) -> Mask:
    """Return where the bits differ; two NaN are one value."""
    differs: Mask = how.kind.bits(how.kind.encoded(expected)) != bits
    return differs & ~(np.isnan(expected) & np.isnan(value))


def _bits_differ(how: Reduction, operands: Sequence[Values], first: int, length: int, bits: Values) -> Mask:
    """Return where no named order gives these very bits."""
    found = [how.kind.bits(how.kind.encoded(fold(order, how, operands, first, length))) != bits for order in NAMED]
    differs: Mask = np.logical_and.reduce(found)
    return differs


def _error(how: Reduction, operands: Sequence[Values], value: Values, where: Mask) -> float | None:
    errors = bounds.errors(how, [one[where] for one in operands], value[where])
    known = errors[np.isfinite(errors)]
    return float(known.max()) if len(known) == len(errors) else None


def _walks(rings: Sequence[Mask]) -> bool:
    """Return whether the elements are as many contiguous chunks as there are ranks, each folded as its place wants."""
    at, count = 0, len(rings[0])
    for differs in rings:
        stops = np.flatnonzero(differs[at:])
        at += int(stops[0]) if len(stops) else count - at
    return at == count
