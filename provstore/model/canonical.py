"""Canonical JSON: one spelling for one value, and a parser that takes nothing else.

The profile: objects with ASCII names, lists, strings, booleans, null and integers up to 2**53 - 1. There are no JSON
floats: floats, 64-bit integers and bytes travel as tagged strings (``f64:0x1.8p+0``, ``i64:-7``, ``b64:AQ==``).
Output equals RFC 8785.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from typing import Any, NoReturn, TypeAlias

import orjson

from provstore.errors import InputError, NotUnderstoodError

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"

MAX_DEPTH = 32
MAX_RECORD_BYTES = 65_535
MAX_INTEGER = 2**53 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
UINT64_MAX = 2**64 - 1

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_UNSIGNED = re.compile(r"0|[1-9][0-9]{0,19}")
_NAN_BITS = re.compile(r"[0-9a-f]{16}")
_NARROW = {"f32": (32, 23), "f16": (16, 10), "bf16": (16, 7)}
_NAME = re.compile(r"[a-z][a-zA-Z0-9_]*|_type")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_seen_names: set[str] = set()
_MOST_SEEN_NAMES = 4096


def encode(value: Json) -> bytes:
    """Return the canonical bytes of ``value``, which its builder keeps inside the profile.

    Raises:
        InputError: A string holds a lone surrogate, an integer is beyond 2**53 - 1, or a value has no JSON form.
    """
    try:
        # The copy gives back what orjson took for its buffer: lines that are kept would hold 4 KiB each.
        return b"%b" % orjson.dumps(value, option=_OPTIONS)
    except TypeError as error:
        raise InputError(f"record: canonical form: {error}") from error


def parse(data: bytes, *, max_bytes: int = MAX_RECORD_BYTES, thing: str = "record") -> Json:
    """Return the value whose canonical form is exactly ``data``.

    Args:
        data: The bytes as they were stored or signed.
        max_bytes: The longest that is looked at.
        thing: What the messages call it.

    Raises:
        NotUnderstoodError: Too long or too deep to be looked at.
        InputError: Not JSON, outside the profile, or not in its canonical spelling.
    """
    require_shape(data, max_bytes=max_bytes, thing=thing)
    try:
        value: Json = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        _refuse(data, thing, f"JSON: {error}")
    fault = _fault(value)
    if fault:
        _refuse(data, thing, fault)
    if orjson.dumps(value, option=_OPTIONS) != data:
        _refuse(data, thing, "spelling: not canonical (order, blanks, escapes or a repeated name)")
    return value


def require_shape(data: bytes, *, max_bytes: int, thing: str) -> None:
    """Check size and depth of JSON text before any parser sees it.

    Raises:
        NotUnderstoodError: Too long or too deep to be looked at.
    """
    if len(data) > max_bytes:
        raise NotUnderstoodError(f"{thing}: size: {len(data)} bytes are more than {max_bytes}")
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _depth(data) > MAX_DEPTH:
        raise NotUnderstoodError(f"{thing}: depth: more than {MAX_DEPTH} levels")


def without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the members of an object, for a JSON decoder that must not let the last of two equal names win.

    Raises:
        InputError: A name comes twice.
    """
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise InputError(f"name: {name[:40]!r} is repeated in one object")
        found[name] = value
    return found


def text_of(data: bytes) -> str:
    """Return standard base64 with padding."""
    return base64.b64encode(data).decode("ascii")


def bytes_of(text: str) -> bytes:
    """Return the bytes whose standard base64 is exactly ``text``.

    Raises:
        InputError: Another alphabet, blanks, missing padding or loose trailing bits: a second spelling.
    """
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError as error:
        raise InputError(f"base64: {text[:40]!r}: not standard base64 with padding") from error
    if text_of(data) != text:
        raise InputError(f"base64: {text[:40]!r}: not canonical: encoding again gives another text")
    return data


def tag_integer(value: int) -> str:
    """Return a signed 64-bit integer as its tagged string.

    Raises:
        InputError: It needs more than 64 bits.
    """
    if not INT64_MIN <= value <= INT64_MAX:
        raise InputError("record: i64: does not fit into 64 bits with sign")
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


def tag_unsigned(value: int) -> str:
    """Return an unsigned 64-bit integer as its tagged string.

    Raises:
        InputError: Negative, or it needs more than 64 bits.
    """
    if not 0 <= value <= UINT64_MAX:
        raise InputError("record: u64: does not fit into 64 bits without sign")
    return f"u64:{value}"


def tagged_unsigned(text: str) -> int:
    """Return the integer that :func:`tag_unsigned` wrote.

    Raises:
        InputError: Not such a string, a second spelling, or out of range.
    """
    digits = text[4:]
    if text.startswith("u64:") and _UNSIGNED.fullmatch(digits):
        value = int(digits)
        if value <= UINT64_MAX:
            return value
    raise InputError(f"record: u64: {text[:40]!r} is not a tagged unsigned 64-bit integer")


def tag_bytes(data: bytes) -> str:
    """Return bytes as their tagged string, ``b64:`` and standard base64 with padding."""
    return f"b64:{text_of(data)}"


def tagged_bytes(text: str) -> bytes:
    """Return the bytes that :func:`tag_bytes` wrote.

    Raises:
        InputError: Not such a string, or a second spelling of the same bytes.
    """
    if not text.startswith("b64:"):
        raise InputError(f"record: b64: {text[:40]!r} is not tagged bytes")
    return bytes_of(text[4:])


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


def tag_bits(kind: str, bits: int) -> str:
    """Return the float of a narrow type with these bits as its tagged string.

    Bits and not a number come in, because turning a signalling NaN into a double changes it.

    Args:
        kind: ``f32``, ``f16`` or ``bf16``.
        bits: The bits as an unsigned integer.

    Raises:
        InputError: Another type, or more bits than the type has.
    """
    width, mantissa = _narrow(kind)
    if not 0 <= bits < 1 << width:
        raise InputError(f"record: {kind}: {bits} does not fit into {width} bits")
    exponent = (1 << width - 1 - mantissa) - 1 << mantissa
    if bits & exponent == exponent and bits & (1 << mantissa) - 1:
        return f"{kind}:nan:{bits:0{width // 4}x}"
    return f"{kind}:{_double_of(kind, bits).hex()}"


def tagged_bits(text: str) -> tuple[str, int]:
    """Return type and bits of the float that :func:`tag_bits` wrote.

    Raises:
        InputError: Not such a string, a second spelling, or a number that the type does not have.
    """
    kind, _, body = text.partition(":")
    width, _ = _narrow(kind)
    try:
        bits = int(body[4:], 16) if body.startswith("nan:") else _bits_of(kind, float.fromhex(body))
        if tag_bits(kind, bits) == text:
            return kind, bits
    except (ValueError, OverflowError, InputError):
        pass
    raise InputError(f"record: {kind}: {text[:40]!r} is not a tagged float of {width} bits")


def _narrow(kind: str) -> tuple[int, int]:
    """Return the bits of a narrow float and of its mantissa."""
    if kind not in _NARROW:
        raise InputError(f"record: float: {kind[:20]!r} is not one of {', '.join(_NARROW)}")
    return _NARROW[kind]


def _double_of(kind: str, bits: int) -> float:
    """Return the double equal to a narrow float that is not NaN."""
    if kind == "f16":
        half: float = struct.unpack("<e", struct.pack("<H", bits))[0]
        return half
    single: float = struct.unpack("<f", struct.pack("<I", bits << 16 if kind == "bf16" else bits))[0]
    return single


def _bits_of(kind: str, value: float) -> int:
    """Return the bits of the narrow float nearest to ``value``; the caller compares, so rounding shows."""
    if kind == "f16":
        half: int = struct.unpack("<H", struct.pack("<e", value))[0]
        return half
    single: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return single >> 16 if kind == "bf16" else single


def _depth(data: bytes) -> int:
    """Return the deepest nesting, counted without parsing, so that no parser recurses into hostile bytes."""
    deepest = depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub(b"", data)):
        depth += 1 if bracket.group() in b"[{" else -1
        deepest = max(deepest, depth)
        if deepest > MAX_DEPTH:
            break
    return deepest


def _fault(value: object) -> str | None:
    """Return where a value leaves the profile, or nothing; ``value`` is finite and not deep."""
    open_values: list[Any] = [(value,)]
    while open_values:
        one = open_values.pop()
        if type(one) is dict:
            # Most names have been seen, and comparing sets is the fastest way to say so.
            if not one.keys() <= _seen_names:
                for name in one:
                    if not _is_name(name):
                        return f"name: {str(name)[:40]!r} is not a member name"
            one = one.values()
        for item in one:
            kind = type(item)
            if kind is str:
                continue
            if kind is int:
                if not -MAX_INTEGER <= item <= MAX_INTEGER:
                    return f"number: {item} is beyond 2**53 - 1"
            elif kind is dict or kind is list:
                open_values.append(item)
            elif kind is not bool and item is not None:
                return f"number: {str(item)[:40]} is a {kind.__name__}; numbers are integers up to 2**53 - 1"
    return None


def _is_name(name: object) -> bool:
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        return False
    if len(_seen_names) < _MOST_SEEN_NAMES and len(name) <= 40:
        _seen_names.add(name)
    return True


def _refuse(data: bytes, thing: str, otherwise: str) -> NoReturn:
    """Raise the most telling reason why ``data`` is refused; that it is refused, and its depth, are settled."""
    if data.startswith(_BOMS):
        raise InputError(f"{thing}: encoding: begins with a byte order mark; UTF-8 without one is needed")
    if b"\x00" in data[:4]:
        raise InputError(f"{thing}: encoding: UTF-16 or UTF-32; UTF-8 is needed")
    reader = json.JSONDecoder(
        object_pairs_hook=without_repetition, parse_float=_no_float, parse_int=_no_large, parse_constant=_no_constant
    )
    try:
        text = data.decode("utf-8", "surrogatepass")
        value = reader.decode(text)
        (text + json.dumps(value, ensure_ascii=False)).encode()
    except json.JSONDecodeError:
        pass
    except UnicodeDecodeError as error:
        raise InputError(f"{thing}: encoding: byte {error.start} is not UTF-8") from error
    except UnicodeEncodeError as error:
        raise InputError(f"{thing}: text: holds a lone surrogate, which is no Unicode text") from error
    except InputError as error:
        raise InputError(f"{thing}: {error}") from error
    raise InputError(f"{thing}: {otherwise}")


def _no_float(digits: str) -> NoReturn:
    raise InputError(f"number: {digits[:40]} is a float; floats travel as tagged strings")


def _no_large(digits: str) -> int:
    if len(digits) > 17 or abs(int(digits)) > MAX_INTEGER:
        raise InputError(f"number: {digits[:40]} is beyond 2**53 - 1")
    return int(digits)


def _no_constant(name: str) -> NoReturn:
    raise InputError(f"number: {name} is no JSON")
