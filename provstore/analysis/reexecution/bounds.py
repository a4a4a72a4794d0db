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
    reference, size = _reference(how, operands)
    value = recorded.astype(np.longdouble)
    ranks = len(operands)
    if how.reduce_op == "product":
        return _outside_product(how, operands, reference, value)
    # An average rounds a reciprocal and a product, or a quotient, on top of the sum.
    roundings = ranks + 1 if how.reduce_op == "avg" else ranks - 1
    gamma = roundings * how.kind.roundoff / (1 - roundings * how.kind.roundoff)
    slack = np.longdouble(how.kind.tiniest) if how.reduce_op == "avg" else np.longdouble(0)
    near = np.abs(value - reference) <= gamma * size + slack
    # Whoever adds up large numbers first may overflow where another does not.
    total = size * (ranks if how.reduce_op == "avg" else 1)
    overflows = ~np.isfinite(value) & (total * (1 + gamma) > how.kind.largest)
    found: NDArray[np.bool_] = ~(near | _same(value, reference) | overflows)
    return found


def _outside_product(
    how: Reduction, operands: Sequence[Values], reference: Doubles, value: Doubles
) -> NDArray[np.bool_]:
    """Return which products are wrong; one that may overflow or vanish on its way says nothing."""
    sizes = [np.abs(one.astype(np.longdouble)) for one in operands]
    roundings = len(operands) - 1
    gamma = roundings * how.kind.roundoff / (1 - roundings * how.kind.roundoff)
    near = np.abs(value - reference) <= gamma * np.abs(reference)
    largest = np.multiply.reduce([np.maximum(one, 1) for one in sizes])
    smallest = np.multiply.reduce([np.where(one > 0, np.minimum(one, 1), 1) for one in sizes])
    is_sure = (largest < how.kind.largest) & (smallest > how.kind.tiniest / how.kind.roundoff)
    found: NDArray[np.bool_] = ~(near | _same(value, reference)) & is_sure
    return found


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
