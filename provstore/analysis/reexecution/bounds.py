"""How far a float result may lie from the result in higher precision, whatever the order.

``abs(recorded − sum) ≤ γ · Σ abs(x)`` with ``γ = n·u / (1 − n·u)``, u the unit roundoff and n the number of roundings.

Source: Higham, Accuracy and Stability of Numerical Algorithms, section 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from provstore.analysis.reexecution.numbers import Values
from provstore.analysis.reexecution.orders import Reduction

Doubles = NDArray[np.longdouble]


def outside(how: Reduction, operands: Sequence[Values], recorded: Values) -> NDArray[np.bool_]:
    """Return which recorded elements no order can give."""
    with np.errstate(all="ignore"):
        wide, value = [one.astype(np.longdouble) for one in operands], recorded.astype(np.longdouble)
        reference, size = _reference(how, operands)
        can_be = _of_product if how.reduce_op == "product" else _of_sum
        found: NDArray[np.bool_] = ~(_same(value, reference) | can_be(how, wide, value, reference, size))
    return found


def _of_sum(
    how: Reduction, operands: Sequence[Doubles], value: Doubles, reference: Doubles, size: Doubles
) -> NDArray[np.bool_]:
    """Return which elements some order may give: near the sum, or infinite where its side has enough for that."""
    # An average rounds a reciprocal and a product, or a quotient, on top of the sum.
    is_average = how.reduce_op == "avg"
    gamma = _gamma(how, len(operands) + 1 if is_average else len(operands) - 1)
    near = np.abs(value - reference) <= gamma * size + np.longdouble(how.kind.tiniest if is_average else 0)
    # Whoever adds up large numbers first may overflow where another does not.
    upward, downward = (
        np.add.reduce([np.maximum(sign * one, 0) for one in operands]) * (1 + gamma) > how.kind.largest
        for sign in (1, -1)
    )
    is_possible = np.where(value > 0, upward, downward)
    return _chosen(value, reference, near, np.isfinite(reference) & is_possible, upward & downward)


def _of_product(
    how: Reduction, operands: Sequence[Doubles], value: Doubles, reference: Doubles, _: Doubles
) -> NDArray[np.bool_]:
    """Return which elements some order may give: also what overflows, or vanishes, on its way."""
    sizes = [np.abs(one) for one in operands]
    gamma, least = _gamma(how, len(operands) - 1), how.kind.tiniest / how.kind.roundoff
    largest = np.multiply.reduce([np.maximum(one, 1) for one in sizes]) * (1 + gamma)
    smallest = np.multiply.reduce([np.where(one > 0, np.minimum(one, 1), 1) for one in sizes])
    overflows, vanishes = largest > how.kind.largest, smallest < least
    has_zero = np.logical_or.reduce([one == 0 for one in sizes])
    # What is lost below the smallest ordinary number grows with the operands that follow.
    lost = np.where(vanishes, (len(operands) - 1) * least * largest, 0)
    near = np.abs(value - reference) <= gamma * np.abs(reference) + lost
    is_negative = np.logical_xor.reduce([np.signbit(one) for one in operands])
    is_possible = overflows & ~has_zero & (np.signbit(value) == is_negative)
    return _chosen(value, reference, near, is_possible, overflows & (vanishes | has_zero))


def _chosen(
    value: Doubles,
    reference: Doubles,
    near: NDArray[np.bool_],
    infinite: NDArray[np.bool_],
    no_number: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return what holds of each element by what it is: a number, an infinity, or none; NaN gives nothing but NaN."""
    is_finite = np.isfinite(value) & np.isfinite(reference)
    found = (is_finite & near) | (np.isinf(value) & infinite) | (np.isnan(value) & no_number)
    chosen: NDArray[np.bool_] = found & ~np.isnan(reference)
    return chosen


def _gamma(how: Reduction, roundings: int) -> float:
    return roundings * how.kind.roundoff / (1 - roundings * how.kind.roundoff)


def _same(value: Doubles, reference: Doubles) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (np.isnan(value) & np.isnan(reference)) | (value == reference)
    return found


def errors(how: Reduction, operands: Sequence[Values], recorded: Values) -> Doubles:
    """Return the absolute errors of recorded elements."""
    reference, _ = _reference(how, operands)
    found: Doubles = np.abs(recorded.astype(np.longdouble) - reference)
    return found


def _reference(how: Reduction, operands: Sequence[Values]) -> tuple[Doubles, Doubles]:
    """Return the result in higher precision, and what the bound grows with."""
    wide = [one.astype(np.longdouble) for one in operands]
    if how.reduce_op == "product":
        result = np.multiply.reduce(wide)
        return result, np.abs(result)
    result, size = np.add.reduce(wide), np.add.reduce([np.abs(one) for one in wide])
    return (result / len(wide), size / len(wide)) if how.reduce_op == "avg" else (result, size)
