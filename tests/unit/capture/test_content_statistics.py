"""Statistics of live tensors beside float64 numpy and exact arithmetic: no figure is NaN, none is off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from provstore.capture.content.shortfall import UnsupportedDtypeError  # noqa: E402
from provstore.capture.content.statistics import PIECE_ELEMENTS, sample_step, statistics  # noqa: E402
from provstore.evidence.content.statistics_line import SAMPLE_ELEMENTS, Statistics, line, read  # noqa: E402

PERCENTS = (1, 5, 25, 50, 75, 95, 99)
LARGE = 2 * PIECE_ELEMENTS + 1_234


def found(tensors: Any, before: Any = None) -> Statistics:
    answer = statistics(torch, tensors, before)
    assert read(line(answer)) == answer, "it survives its line"
    return answer


def random_values(count: int, seed: int = 7) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, generator=generator, dtype=torch.float64) * 3 + 1


def agrees(answer: Statistics, values: Any) -> None:
    """Compare with numpy in float64 over the finite values."""
    values = np.asarray(values, dtype=np.float64)
    finite = values[np.isfinite(values)]
    assert answer.count == values.size
    assert (answer.nan, answer.pos_inf, answer.neg_inf, answer.zero) == (
        np.isnan(values).sum(),
        np.isposinf(values).sum(),
        np.isneginf(values).sum(),
        (finite == 0).sum(),
    )
    assert answer.mean == pytest.approx(finite.mean(), rel=1e-12, abs=1e-12 * np.abs(finite).max())
    assert answer.variance == pytest.approx(finite.var(), rel=1e-11, abs=1e-300)
    assert (answer.min, answer.max, answer.abs_max) == (finite.min(), finite.max(), np.abs(finite).max())
    assert answer.l2 == pytest.approx(np.linalg.norm(finite), rel=1e-12)
    if values.size <= SAMPLE_ELEMENTS:
        assert answer.sample_n == finite.size
        assert answer.percentiles == tuple(np.percentile(finite, PERCENTS, method="inverted_cdf"))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("count", [1, 2, 1_000, LARGE])
def test_random_values_have_the_statistics_that_numpy_finds(dtype: str, count: int) -> None:
    tensor = random_values(count).to(getattr(torch, dtype))

    agrees(found(tensor), tensor.double().numpy())


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_nan_and_infinities_are_counted_and_left_out(dtype: str) -> None:
    tensor = random_values(LARGE).to(getattr(torch, dtype))
    tensor[3], tensor[77_777], tensor[-1] = math.nan, math.inf, -math.inf
    tensor[100:110] = 0.0
    tensor[200_000:200_050] = math.inf
    answer = found(tensor)

    agrees(answer, tensor.double().numpy())
    assert (answer.nan, answer.pos_inf, answer.neg_inf, answer.is_finite) == (1, 51, 1, False)


@pytest.mark.parametrize("value", [0.1, -7.0, 1e30, 0.0])
def test_a_constant_has_no_variance_and_its_own_mean(value: float) -> None:
    answer = found(torch.full((LARGE,), value, dtype=torch.float64))

    assert (answer.mean, answer.variance, answer.min, answer.max) == (value, 0.0, value, value)
    assert answer.percentiles == (value,) * 7
    assert answer.l2 == pytest.approx(abs(value) * math.sqrt(LARGE), rel=1e-14)


@pytest.mark.parametrize("fill", [math.nan, math.inf, -math.inf])
def test_a_tensor_without_a_finite_value_has_counts_and_nothing_else(fill: float) -> None:
    answer = found(torch.full((70_000,), fill))

    assert answer == Statistics(
        70_000,
        nan=70_000 * math.isnan(fill),
        pos_inf=70_000 * (fill == math.inf),
        neg_inf=70_000 * (fill == -math.inf),
    )


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64, torch.bool])
def test_a_tensor_without_elements_has_its_count_and_nothing_else(shape: tuple[int, ...], dtype: Any) -> None:
    assert line(found(torch.empty(shape, dtype=dtype))) == b'{"count":0}'


@pytest.mark.parametrize("size", [1e-300, 5e-324, 1e200, 1.7e308])
def test_values_near_the_ends_of_float64_neither_vanish_nor_overflow(size: float) -> None:
    answer = found(torch.tensor([size, size, size, -size], dtype=torch.float64))

    assert answer.l2 == pytest.approx(2 * size, rel=1e-12) or 2 * size == math.inf == answer.l2
    assert answer.mean == pytest.approx(size / 2, rel=1e-12)
    assert (answer.min, answer.max, answer.zero) == (-size, size, 0)


def test_large_and_tiny_values_side_by_side_keep_their_range_and_their_zeros() -> None:
    answer = found(torch.tensor([1e308, 1e308, 1e-308, 0.0], dtype=torch.float64))

    assert (answer.min, answer.max, answer.zero, answer.mean) == (0.0, 1e308, 1, pytest.approx(5e307))
    assert answer.percentiles[0] == 0.0


def test_both_zeros_are_one() -> None:
    assert line(found(torch.tensor([-0.0, 0.0]))) == line(found(torch.tensor([0.0, -0.0])))


def exact(values: Sequence[int]) -> tuple[Fraction, Fraction]:
    """Mean and population variance, without rounding."""
    mean = Fraction(sum(values), len(values))
    return mean, sum((value - mean) ** 2 for value in values) / len(values)


INTEGERS = {
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int8": (-128, 127),
    "uint8": (0, 255),
}


def integers(dtype: str, values: Sequence[int]) -> Any:
    return torch.from_numpy(np.array(values, dtype=dtype))


@settings(max_examples=150)
@given(st.sampled_from(sorted(INTEGERS)), st.data())
def test_integers_are_exact_up_to_their_extremes(dtype: str, data: st.DataObject) -> None:
    low, high = INTEGERS[dtype]
    number = st.integers(low, high) | st.sampled_from([low, low + 1, high - 1, high, max(low, 0)])
    values = data.draw(st.lists(number, min_size=1, max_size=40))
    answer = found(integers(dtype, values))
    mean, variance = exact(values)

    assert (answer.count, answer.zero) == (len(values), values.count(0))
    assert (answer.min, answer.max, answer.abs_max) == (min(values), max(values), max(map(abs, values)))
    assert answer.mean == float(mean)
    assert answer.variance == pytest.approx(float(variance), rel=1e-9)
    assert answer.l2 == pytest.approx(math.sqrt(sum(value**2 for value in values)), rel=1e-9)
    ordered = sorted(values)
    assert answer.percentiles == tuple(ordered[math.ceil(p * len(values) / 100) - 1] for p in PERCENTS)


def test_integers_beyond_53_bits_that_differ_by_one_have_their_variance() -> None:
    """In float64 these are one number."""
    answer = found(torch.tensor([2**60, 2**60 + 1] * LARGE))

    assert answer.variance == 0.25
    assert (answer.min, answer.max) == (2**60, 2**60 + 1)


def test_int64_extremes_in_many_pieces_have_the_mean_of_exact_arithmetic() -> None:
    values = [2**63 - 1, -(2**63), 2**63 - 1, 5, 2**62] * (LARGE // 5)
    answer = found(torch.tensor(values))
    mean, variance = exact(values[:5])

    assert answer.mean == float(mean)
    assert answer.variance == pytest.approx(float(variance), rel=1e-9)
    assert answer.abs_max == 2**63


def test_booleans_count_as_zero_and_one() -> None:
    answer = found(torch.tensor([True, False, False, False]))

    assert (answer.mean, answer.variance, answer.zero, answer.min, answer.max) == (0.25, 0.1875, 3, 0, 1)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_numbers_are_seen_through_their_absolute_values_and_say_so(dtype: Any) -> None:
    tensor = torch.complex(random_values(LARGE, 1), random_values(LARGE, 2)).to(dtype)
    tensor[5], tensor[6], tensor[7], tensor[8] = complex(math.nan, 1), complex(math.inf, math.nan), 0, -3 + 4j
    answer = found(tensor)
    wide = tensor.to(torch.complex128).numpy()
    absolute = np.hypot(wide.real, wide.imag)
    finite = absolute[np.isfinite(absolute)]

    assert answer.of == "abs"
    assert (answer.count, answer.nan, answer.pos_inf, answer.neg_inf, answer.zero) == (LARGE, 1, 1, 0, 1)
    assert answer.mean == pytest.approx(finite.mean(), rel=1e-12)
    assert answer.l2 == pytest.approx(np.linalg.norm(finite), rel=1e-12)
    assert answer.max == pytest.approx(finite.max(), rel=1e-14)
    assert found(tensor[8:9]).max == 5.0
    assert found(torch.ones(2)).of is None


def rank_error(values: Any, estimate: float, percent: int) -> float:
    """How far the rank of an estimate is from the percentile asked for, as a part of all; 0 inside a tie."""
    ordered = np.sort(values)
    low, high = (np.searchsorted(ordered, estimate, side=side) / ordered.size for side in ("left", "right"))
    return max(0.0, low - percent / 100, percent / 100 - high)


@pytest.mark.parametrize("period", [4096, 256, 3])
def test_percentiles_of_a_matrix_whose_columns_differ_are_within_one_percent_of_their_rank(period: int) -> None:
    """Column c holds values around c modulo a period: a sample of few columns would be far off."""
    generator = torch.Generator().manual_seed(3)
    matrix = torch.arange(4096.0) % period + torch.rand(4096, 4096, generator=generator)
    answer = found(matrix)
    values = matrix.numpy().ravel()

    assert answer.sample_n == 65_536
    for percent, estimate in zip(PERCENTS, answer.percentiles, strict=True):
        assert rank_error(values, float(estimate), percent) <= 0.01
    if period == 256:
        by_stride = np.sort(values[:: values.size // 65_536])
        assert rank_error(values, by_stride[len(by_stride) // 2], 50) > 0.4, "a plain stride is far off"


@pytest.mark.parametrize("shape", [(4096, 4096), (1000, 1024), (70_000,), (3, 65_537), (512, 8, 1000)])
def test_percentiles_of_values_in_order_are_within_one_percent_of_their_rank(shape: tuple[int, ...]) -> None:
    tensor = torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)
    answer = found(tensor)
    for percent, estimate in zip(PERCENTS, answer.percentiles, strict=True):
        assert abs(float(estimate) / tensor.numel() - percent / 100) <= 0.01


@settings(max_examples=300)
@given(st.integers(1, 3_000) | st.integers(65_537, 2**40))
def test_the_sample_goes_by_the_coprime_number_nearest_to_0618_of_the_count(count: int) -> None:
    step = sample_step(count)
    window = range(max(1, step - 60), step + 60)
    coprime = [one for one in window if math.gcd(one, count) == 1]

    assert step in coprime
    assert min(abs(1000 * one - 618 * count) for one in coprime) == abs(1000 * step - 618 * count)


def test_the_sample_holds_no_element_twice() -> None:
    """Each value is its own index, so the percentiles of all ranks of the sample name its elements."""
    count = 100_003
    step = sample_step(count)
    expected = sorted(index * step % count for index in range(SAMPLE_ELEMENTS))
    answer = found(torch.arange(count))

    assert len(set(expected)) == SAMPLE_ELEMENTS
    assert answer.percentiles == tuple(expected[math.ceil(p * SAMPLE_ELEMENTS / 100) - 1] for p in PERCENTS)


def test_several_tensors_of_a_side_are_one_population() -> None:
    whole = random_values(LARGE)
    parts = [whole[:5], whole[5:5], whole[5:200_000].reshape(5, -1), whole[200_000:]]

    one, several = found(whole), found(parts)

    agrees(several, whole.numpy())
    assert several.percentiles == one.percentiles


def test_tensors_of_several_types_on_one_side_are_seen_as_the_most_general_of_them() -> None:
    narrow = torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn)
    mixed = found([narrow, torch.tensor([3, 4]), torch.tensor([True]), torch.tensor([0.5], dtype=torch.float64)])
    complex_ = found([torch.tensor([3 + 4j]), torch.tensor([-2.0]), torch.tensor([7])])
    whole = found([torch.tensor([2**40]), torch.tensor([-5], dtype=torch.int8)])
    both_signs = found([integers("uint64", [2**63]), torch.tensor([-1])])

    agrees(mixed, [1, 2, 3, 4, 1, 0.5])
    assert (complex_.of, complex_.min, complex_.max, complex_.mean) == ("abs", 2.0, 7.0, pytest.approx(14 / 3))
    assert (whole.min, whole.max) == (-5, 2**40)
    assert (both_signs.min, both_signs.max) == (-1.0, 2.0**63)


def test_how_far_a_call_moved_its_input_is_said_for_equal_shapes() -> None:
    before, after = random_values(LARGE, 1), random_values(LARGE, 2)
    answer = found(after, before)
    apart = after.numpy() - before.numpy()

    assert answer.delta_abs_max == np.abs(apart).max()
    assert answer.delta_l2 == pytest.approx(np.linalg.norm(apart), rel=1e-12)
    assert found(after, after).delta_abs_max == 0.0
    assert found(after, before[:-1]).delta_l2 is None
    assert found(after).delta_l2 is None


def test_differences_of_integers_are_exact_and_those_with_nan_are_left_out() -> None:
    extreme = found(torch.tensor([2**63 - 1, 0]), torch.tensor([-(2**63), 0]))
    unsigned = found(integers("uint64", [2**64 - 1, 3]), integers("uint64", [0, 5]))
    holes = found(torch.tensor([1.0, math.nan, 4.0]), torch.tensor([3.0, 1.0, math.inf]))
    complex_ = found(torch.tensor([3 + 4j]), torch.tensor([0j]))

    assert extreme.delta_abs_max == 2**64 - 1
    assert extreme.delta_l2 == 2.0**64
    assert unsigned.delta_abs_max == 2**64 - 1
    assert (holes.delta_abs_max, holes.delta_l2) == (2.0, 2.0)
    assert complex_.delta_abs_max == 5.0


def test_strides_history_and_shape_do_not_matter_and_nothing_is_changed() -> None:
    tensor = random_values(6_000).reshape(60, 100).requires_grad_()
    state = torch.get_rng_state()
    before = tensor.detach().clone()

    assert found(tensor.t().contiguous().t()) == found(tensor) == found(tensor.detach().reshape(-1))
    assert torch.equal(before, tensor)
    assert torch.equal(state, torch.get_rng_state())
    assert found(torch.tensor(2.5)).mean == 2.5


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="this torch has no such type")
def test_a_type_that_torch_cannot_compute_with_is_a_shortfall() -> None:
    with pytest.raises(UnsupportedDtypeError):
        statistics(torch, torch.zeros(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2))
