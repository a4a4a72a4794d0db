"""What no order of the ranks can give, where sums and products overflow, vanish or are not finite."""

from __future__ import annotations

import math
import struct

import pytest

from provstore.analysis.reexecution import Instance, Side, StoredTensor, recompute

INF, NAN = math.inf, math.nan


def verdict(op: str, inputs: list[float], recorded: float, code: str = "f") -> str:
    """Return what is said of one element that no named order gives, when every rank recorded it."""
    dtype = {"f": "float32", "e": "float16", "d": "float64"}[code]

    def side(value: float) -> Side:
        return Side((StoredTensor.whole(dtype, (1,), struct.pack(f"<{code}", value)),))

    ranks = tuple(range(len(inputs)))
    given = {rank: side(value) for rank, value in enumerate(inputs)}
    return recompute(Instance("all_reduce", ranks, given, {rank: side(recorded) for rank in ranks}, op)).name


@pytest.mark.parametrize("op", ["sum", "avg", "product"])
def test_where_a_rank_put_in_infinity_no_finite_number_comes_out(op: str) -> None:
    # IEEE 754: infinity plus, or times, a number that is neither infinite nor zero is infinity, in every order.
    assert verdict(op, [INF, 2.0, 3.0], INF) == "exact"
    for wrong in (0.0, 5.0, 3e38, -INF, NAN):
        assert verdict(op, [INF, 2.0, 3.0], wrong) == "mismatch", wrong


@pytest.mark.parametrize("op", ["sum", "avg", "product"])
def test_where_a_rank_put_in_nan_only_nan_comes_out(op: str) -> None:
    for wrong in (0.0, 5.0, INF, -INF):
        assert verdict(op, [NAN, 2.0, 3.0], wrong) == "mismatch", wrong


def test_a_sum_overflows_only_to_the_side_on_which_there_is_enough() -> None:
    top = 3.4e38
    # The largest float32 is 3.4028e38: two of the positive ones are beyond it, the negative one alone is not.
    assert verdict("sum", [top, -top, top], INF) != "mismatch"
    for wrong in (-INF, NAN):
        assert verdict("sum", [top, -top, top], wrong) == "mismatch", wrong
    # Two on each side: a rank pair may overflow on either side, and meet as infinities of both signs.
    for possible in (INF, -INF, NAN):
        assert verdict("sum", [top, top, -top, -top], possible) != "mismatch", possible
    assert verdict("sum", [top, top, -top, -top], 1e38) == "mismatch"


def test_a_product_that_overflows_in_every_order_is_infinity_of_the_right_sign() -> None:
    # 300 · 300 is beyond the largest float16, 65504; no rank put in less than 1, so nothing brings it back.
    for wrong in (1.0, 256.0, 60000.0, -INF, NAN, 0.0):
        assert verdict("product", [300.0, 300.0, -2.0, -2.0], wrong, "e") == "mismatch", wrong


def test_a_product_that_vanishes_is_no_number_of_ordinary_size() -> None:
    # 10⁻³ four times is 10⁻¹², far below the least float16, 6·10⁻⁸.
    for wrong in (2.0, 0.0078, 0.01, INF, NAN):
        assert verdict("product", [1e-3] * 4, wrong, "e") == "mismatch", wrong
    assert verdict("product", [1e-3] * 4, 6e-8, "e") != "mismatch"


def test_a_product_may_overflow_or_vanish_on_its_way() -> None:
    # 300 · 300 overflows; 0.01 · 300 · 300 does not. 10⁻⁵ · 10⁻⁵ vanishes; 10⁻⁵ · 3000 · 10⁻⁵ · 3000 does not.
    for possible in (INF, 900.0):
        assert verdict("product", [300.0, 300.0, 0.01], possible, "e") != "mismatch", possible
    for possible in (0.0, 9e-4):
        assert verdict("product", [1e-5, 1e-5, 3000.0, 3000.0], possible, "e") != "mismatch", possible
    # Infinity times what has vanished is no number.
    assert verdict("product", [1e-5, 1e-5, 3000.0, 3000.0], NAN, "e") != "mismatch"
    assert verdict("product", [300.0, 300.0, 0.01], NAN, "e") == "mismatch"
    assert verdict("product", [300.0, 300.0, 0.01], -INF, "e") == "mismatch"
