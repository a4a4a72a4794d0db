"""Canonical JSON: one spelling for one value, and a parser that takes nothing else.

The profile: objects with ASCII names, lists, strings, booleans, null and integers up to 2**53 - 1. There are no JSON
floats: doubles and 64-bit integers travel as tagged strings (``f64:0x1.8p+0``, ``i64:-7``). Output equals RFC 8785.
"""

from __future__ import annotations

import math
import re
import struct
from typing import TypeAlias

import orjson

from provstore.errors import InputError

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"

MAX_DEPTH = 32
MAX_RECORD_BYTES = 65_535
MAX_INTEGER = 2**53 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_NAME = re.compile(r"[a-z][a-zA-Z0-9_]*|_type")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_NAN_BITS = re.compile(r"[0-9a-f]{16}")


def encode(value: Json) -> bytes:
    """Return the canonical bytes of ``value``, which its builder keeps inside the profile.

    Raises:
        InputError: A string holds a lone surrogate, or a value has no JSON form.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise InputError(f"record: canonical form: {error}") from error


def parse(data: bytes, *, max_bytes: int = MAX_RECORD_BYTES) -> Json:
    """Return the value whose canonical form is exactly ``data``.

    Raises:
        InputError: Too long, too deep, not JSON, outside the profile, or not in its canonical spelling.
    """
    if len(data) > max_bytes:
        raise InputError(f"record: size: {len(data)} bytes are more than {max_bytes}")
    if _depth(data) > MAX_DEPTH:
        raise InputError(f"record: depth: more than {MAX_DEPTH} levels")
    try:
        value: Json = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InputError(f"record: JSON: {error}") from error
    _require_profile(value)
    if encode(value) != data:
        raise InputError("record: spelling: not canonical (order, blanks, escapes or a repeated name)")
    return value


def tag_integer(value: int) -> str:
    """Return a 64-bit integer as its tagged string."""
    return f"i64:{value}"


def tagged_integer(text: str) -> int:
    """Return the integer that :func:`tag_integer` wrote.

    Raises:
        InputError: Not such a string, a second spelling, or out of range.
    """
    digits = text[4:]
    if text.startswith("i64:") and _INTEGER.fullmatch(digits):
        value = int(digits)
        if INT64_MIN <= value <= INT64_MAX:
            return value
    raise InputError(f"record: i64: {text[:40]!r} is not a tagged 64-bit integer")


def tag_double(value: float) -> str:
    """Return a double as its tagged string: C99 hex form, ``inf``, ``-inf``, or the 16 hex digits of a NaN's bits."""
    return f"f64:nan:{struct.pack('>d', value).hex()}" if math.isnan(value) else f"f64:{value.hex()}"


def tagged_double(text: str) -> float:
    """Return the double that :func:`tag_double` wrote, bit for bit.

    Raises:
        InputError: Not such a string, or a second spelling of the same number.
    """
    body = text[4:]
    if text.startswith("f64:nan:") and _NAN_BITS.fullmatch(text[8:]):
        value: float = struct.unpack(">d", bytes.fromhex(text[8:]))[0]
        if math.isnan(value):
            return value
    elif text.startswith("f64:"):
        try:
            value = float.fromhex(body)
        except (ValueError, OverflowError):
            value = math.nan
        if not math.isnan(value) and value.hex() == body:
            return value
    raise InputError(f"record: f64: {text[:40]!r} is not a tagged double")


def _depth(data: bytes) -> int:
    """Return the deepest nesting, counted without parsing, so that no parser recurses into hostile bytes."""
    deepest = depth = 0
    for bracket in _BRACKET.findall(_STRING.sub(b"", data)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
        if deepest > MAX_DEPTH:
            break
    return deepest


def _require_profile(value: Json | float) -> None:
    if isinstance(value, float):
        raise InputError("record: number: fractions, exponents and integers beyond 64 bits are not allowed")
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise InputError(f"record: number: {value} is beyond 2**53 - 1")
    if isinstance(value, list):
        for item in value:
            _require_profile(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if not _NAME.fullmatch(name):
                raise InputError(f"record: name: {name[:40]!r} is not a member name")
            _require_profile(item)
