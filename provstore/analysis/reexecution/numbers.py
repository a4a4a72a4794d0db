"""How the elements of tensors are read, rounded and written: 16-bit floats are computed in float32.

One addition or multiplication in float32 that is rounded once to nearest even equals the operation in the narrow type,
because float32 carries at least twice its digits and two more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.generic]

_BFLOAT16_QUIET_NAN = 0x7FC0


@dataclass(frozen=True, slots=True)
class Kind:
    """One type of elements."""

    name: str
    stored: str
    """Its bits, as numpy names them."""
    working: str
    """What is computed in."""
    roundoff: float = 0.0
    """Half the distance from 1 to the next number; 0: not a float."""
    largest: float = 0.0
    tiniest: float = 0.0
    """Smallest number above 0."""

    @property
    def is_float(self) -> bool:
        """Whether sums depend on their order."""
        return self.roundoff > 0

    @property
    def size_bytes(self) -> int:
        """Bytes of one element."""
        return np.dtype(self.stored).itemsize

    def bits(self, data: bytes) -> Values:
        """Return the elements as unsigned integers, for comparing them bit by bit."""
        return np.frombuffer(data, f"<u{self.size_bytes}")

    def decoded(self, data: bytes) -> Values:
        """Return the elements as numbers."""
        raw = np.frombuffer(data, self.stored)
        if self.name == "bfloat16":
            return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return raw if self.stored == self.working else raw.astype(self.working)

    def encoded(self, values: Values) -> bytes:
        """Return numbers that the type has as its bytes."""
        if self.name == "bfloat16":
            return (values.view(np.uint32) >> np.uint32(16)).astype("<u2").tobytes()
        return values.astype(self.stored, copy=False).tobytes()

    def rounded(self, values: Values) -> Values:
        """Return the nearest numbers that the type has, ties to even."""
        if self.stored == self.working:
            return values
        return _to_bfloat16(values) if self.name == "bfloat16" else values.astype(self.stored).astype(self.working)


def _to_bfloat16(values: Values) -> Values:
    bits = values.view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + (odd + np.uint32(0x7FFF))) & np.uint32(0xFFFF0000)
    nan = np.isnan(values)
    if nan.any():
        rounded = np.where(nan, np.uint32(_BFLOAT16_QUIET_NAN << 16), rounded)
    return rounded.view(np.float32)


_FLOATS = (
    Kind("float64", "<f8", "<f8", 2.0**-53, float(np.finfo(np.float64).max), 2.0**-1074),
    Kind("float32", "<f4", "<f4", 2.0**-24, float(np.finfo(np.float32).max), 2.0**-149),
    Kind("bfloat16", "<u2", "<f4", 2.0**-8, 2.0**128 - 2.0**120, 2.0**-133),
    Kind("float16", "<f2", "<f4", 2.0**-11, 65504.0, 2.0**-24),
)
_WHOLE = (
    Kind("int8", "<i1", "<i1"),
    Kind("int16", "<i2", "<i2"),
    Kind("int32", "<i4", "<i4"),
    Kind("int64", "<i8", "<i8"),
    Kind("uint8", "<u1", "<u1"),
    Kind("bool", "?", "?"),
)
KINDS = {kind.name: kind for kind in (*_FLOATS, *_WHOLE)}

Combine = Callable[[Values, Values], Values]

_NUMBERS: dict[str, Combine] = {
    "sum": np.add,
    "avg": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
_TRUTHS: dict[str, Combine] = {
    "sum": np.logical_or,
    "product": np.logical_and,
    "min": np.logical_and,
    "max": np.logical_or,
    "band": np.logical_and,
    "bor": np.logical_or,
    "bxor": np.logical_xor,
}


def combination(kind: Kind, reduce_op: str) -> Combine | None:
    """Return what a reduction does with two operands; ``None`` where the type does not know it."""
    if kind.name == "bool":
        return _TRUTHS.get(reduce_op)
    if kind.is_float:
        return None if reduce_op in ("band", "bor", "bxor") else _NUMBERS.get(reduce_op)
    return None if reduce_op == "avg" else _NUMBERS.get(reduce_op)
