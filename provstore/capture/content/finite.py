"""The finite test: how many values of a tensor are NaN or infinite, in one pass where none is."""

from __future__ import annotations

from typing import Any

from provstore.capture.content.digest import dense_local, dtype_name

_NARROW_ELEMENTS = 1 << 17
_FP8_LIMITS = {"float8_e4m3fn": (0x7F, 0x7F), "float8_e5m2": (0x7F, 0x7C), "float8_e8m0fnu": (0xFF, 0xFF)}
"""Mask of the bits without sign → the smallest number they make in a value that is not finite."""
_FP8_ONE_NAN = frozenset({"float8_e4m3fnuz", "float8_e5m2fnuz"})
"""Types whose only value that is not finite is the byte 0x80."""
_SIGN = 0x80


def non_finite(torch: Any, tensor: Any) -> tuple[int, int]:
    """Return (NaN values, infinite values) of a tensor; real and imaginary parts are values of their own.

    Of a tensor of another device this waits for its work.

    Raises:
        UnsupportedDtypeError: It has no dense elements that can be read here.
        NotImplementedError: A dtype that torch cannot compute with.
    """
    if _is_plainly_finite(torch, tensor):
        return 0, 0
    with torch.no_grad():
        dense = dense_local(torch, tensor)
        if not dense.numel() or not (dense.is_floating_point() or dense.is_complex()):
            return 0, 0
        if dense.is_complex():
            # Conjugation and signs that are only noted change nothing here, and would need a copy.
            dense = torch.view_as_real(dense.conj() if dense.is_conj() else dense)
        if dense.element_size() == 1:
            return _of_bytes(torch, dense)
        return (0, 0) if _is_settled(torch, dense) else _counts(torch, dense)


def finite_flag(torch: Any, tensor: Any) -> Any:
    """Return a tensor of one truth, on the device of a tensor: whether its values are finite; ``None``: they must be.

    It is found in one pass without a copy, and nothing waits for it.

    Raises:
        UnsupportedDtypeError: It has no dense elements that can be read.
        NotImplementedError: A dtype that torch cannot compute with there.
    """
    with torch.no_grad():
        dense = dense_local(torch, tensor)
        if not dense.numel() or not (dense.is_floating_point() or dense.is_complex()):
            return None
        if dense.is_complex():
            dense = torch.view_as_real(dense.conj() if dense.is_conj() else dense)
        if dense.element_size() == 1:
            return _flag_of_bytes(torch, dense)
        # NaN shows in both ends, an infinity in one; a sum of finite values could leave the type.
        low, high = torch.aminmax(dense)
        return low.isfinite().logical_and(high.isfinite())


def _is_plainly_finite(torch: Any, tensor: Any) -> bool:
    """Return whether a tensor is one of the most usual kind and its sum a number: small ones are tested in no time."""
    if type(tensor) is not torch.Tensor or tensor.dtype not in (torch.float32, torch.bfloat16):
        return False
    if not tensor.is_cpu or tensor.requires_grad or tensor.layout is not torch.strided or tensor.is_nested:
        return False
    # The sum of none is 0.
    found = float(tensor.sum().item())
    return found - found == 0


def _flag_of_bytes(torch: Any, values: Any) -> Any:
    """Return the flag of 8-bit floats, by their bits: as integers, what is not finite is at one end or the other."""
    name = dtype_name(values)
    if name in _FP8_ONE_NAN:
        return values.view(torch.int8).amin() > -_SIGN
    if name not in _FP8_LIMITS:
        raise NotImplementedError(f"{name} has no finite test on a device")
    mask, limit = _FP8_LIMITS[name]
    flag = values.view(torch.uint8).amax() < (limit | _SIGN)
    return flag if mask & _SIGN else flag.logical_and(values.view(torch.int8).amax() < limit)


def _is_settled(torch: Any, values: Any) -> bool:
    """Return whether all values are finite."""
    # A float16 sum leaves the range of the type at once; its smallest and largest cost less than a sum in float32.
    if values.dtype is not torch.float16 and _is_number(values.sum()):
        return True
    # Finite values can have a sum beyond the type: NaN and infinities show in the smallest or largest value.
    return all(map(_is_number, torch.aminmax(values)))


def _of_bytes(torch: Any, values: Any) -> tuple[int, int]:
    """Return the counts for 8-bit floats, whose bits tell in an eighth of the time of any arithmetic."""
    name = dtype_name(values)
    if name in _FP8_ONE_NAN:
        suspect = int(values.view(torch.int8).amin()) == -0x80
    elif name in _FP8_LIMITS:
        mask, limit = _FP8_LIMITS[name]
        suspect = int(values.view(torch.uint8).bitwise_and(mask).amax()) >= limit
    else:
        suspect = True
    if not suspect:
        return 0, 0
    found = [_counts(torch, part.float()) for part in values.reshape(-1).split(_NARROW_ELEMENTS)]
    return sum(nan for nan, _ in found), sum(inf for _, inf in found)


def _counts(torch: Any, values: Any) -> tuple[int, int]:
    return int(torch.count_nonzero(values.isnan())), int(torch.count_nonzero(values.isinf()))


def _is_number(value: Any) -> bool:
    found = float(value)
    return found - found == 0
