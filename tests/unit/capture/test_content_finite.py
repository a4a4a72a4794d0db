"""The finite test: every NaN and infinity of every float type is seen, and nothing else is taken for one."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from provstore.capture.content.finite import finite_flag, non_finite  # noqa: E402
from provstore.capture.content.shortfall import UnsupportedDtypeError  # noqa: E402

FLOATS = ["float16", "bfloat16", "float32", "float64"]


def count(tensor: Any) -> tuple[int, int]:
    return non_finite(torch, tensor)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [1, 7, 4_096, 70_001])
def test_one_value_that_is_not_finite_is_found_wherever_it_is(dtype: str, size: int) -> None:
    for place in {0, size // 2, size - 1, random.Random(size).randrange(size)}:
        for value, expected in ((math.nan, (1, 0)), (math.inf, (0, 1)), (-math.inf, (0, 1))):
            tensor = torch.ones(size, dtype=getattr(torch, dtype))
            assert count(tensor) == (0, 0)
            tensor[place] = value
            assert count(tensor) == expected


@pytest.mark.parametrize("dtype", FLOATS)
def test_infinities_that_cancel_are_counted_and_are_no_nan(dtype: str) -> None:
    tensor = torch.tensor([math.inf, 1.0, -math.inf, math.nan, math.nan], dtype=getattr(torch, dtype))

    assert count(tensor) == (2, 2)


@pytest.mark.parametrize("dtype", FLOATS)
def test_finite_values_whose_sum_leaves_the_type_are_finite(dtype: str) -> None:
    largest = torch.finfo(getattr(torch, dtype)).max
    for value in (largest, -largest):
        tensor = torch.full((70_000,), value, dtype=getattr(torch, dtype))
        assert not math.isfinite(float(tensor.sum())), "the sum does leave it"
        assert count(tensor) == (0, 0)


def test_float64_values_beyond_float32_are_finite() -> None:
    assert count(torch.tensor([1e300, -1e300, 1e-300], dtype=torch.float64)) == (0, 0)


@pytest.mark.parametrize(
    "dtype", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
)
def test_each_of_the_256_values_of_an_8_bit_float_is_judged_as_torch_judges_it_in_float32(dtype: str) -> None:
    for byte in range(256):
        tensor = torch.tensor([byte], dtype=torch.uint8).view(getattr(torch, dtype))
        wide = tensor.float()
        assert count(tensor) == (int(wide.isnan().sum()), int(wide.isinf().sum())), byte
    whole = torch.arange(256, dtype=torch.uint8).repeat(700).view(getattr(torch, dtype))
    assert count(whole) == (int(whole.float().isnan().sum()), int(whole.float().isinf().sum()))


@pytest.mark.parametrize(
    "dtype", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
)
def test_the_flag_that_a_device_finds_judges_each_of_the_256_values_as_torch_does_in_float32(dtype: str) -> None:
    for byte in range(256):
        tensor = torch.tensor([0x38, byte, 0xB8 if dtype != "float8_e8m0fnu" else 1], dtype=torch.uint8)
        tensor = tensor.view(getattr(torch, dtype))
        assert bool(finite_flag(torch, tensor)) == bool(tensor.float().isfinite().all()), byte


@pytest.mark.parametrize("dtype", [*(name for name in FLOATS if "float8" not in name), "complex64", "complex128"])
def test_the_flag_that_a_device_finds_is_that_of_the_values_however_large_they_are(dtype: str) -> None:
    kind = getattr(torch, dtype)
    most = torch.finfo(kind).max
    for value, is_finite in ((1.0, True), (most, True), (-most, True), (math.nan, False), (-math.inf, False)):
        tensor = torch.full((70,), most, dtype=kind)
        tensor[33] = value
        flag = finite_flag(torch, tensor)
        assert (flag.shape, bool(flag)) == ((), is_finite), value


def test_what_must_be_finite_has_no_flag_to_find() -> None:
    for tensor in (torch.ones(3, dtype=torch.int64), torch.ones(3, dtype=torch.bool), torch.empty(0)):
        assert finite_flag(torch, tensor) is None
    with pytest.raises(UnsupportedDtypeError):
        finite_flag(torch, torch.empty(3, device="meta"))


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", ["complex32", "complex64", "complex128"])
def test_real_and_imaginary_parts_count_each_with_conjugates_that_torch_only_noted(dtype: str) -> None:
    tensor = torch.tensor([complex(1, math.nan), complex(math.inf, math.nan), 1 + 1j], dtype=getattr(torch, dtype))

    assert count(tensor) == (2, 1)
    assert count(tensor.conj()) == (2, 1)
    assert count(tensor[2:]) == (0, 0)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "uint16", "int32", "int64", "uint64"])
def test_integers_are_finite(dtype: str) -> None:
    assert count(torch.ones(5).to(getattr(torch, dtype))) == (0, 0)


def test_tensors_without_elements_without_dimensions_with_gaps_and_with_a_history_are_judged() -> None:
    assert count(torch.empty(0, 3)) == (0, 0)
    assert count(torch.tensor(math.nan)) == (1, 0)
    gaps = torch.zeros(10)
    gaps[1] = math.nan
    assert count(gaps[::2]) == (0, 0)
    assert count(gaps[1::2]) == (1, 0)
    assert count(torch.ones(2, requires_grad=True) * math.inf) == (0, 2)


def test_a_tensor_without_dense_elements_is_a_shortfall() -> None:
    with pytest.raises(UnsupportedDtypeError):
        count(torch.empty(3, device="meta"))
