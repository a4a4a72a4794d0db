"""The canonical form of agent records, and the ways in which writers in different languages differ in it.

Names sorted at every level, no blanks, non-ASCII unescaped, UTF-8. It is not RFC 8785: numbers keep their spelling
unless a variant says otherwise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from json import encoder
from typing import Any

VARIANTS = ("verbatim", "es-numbers", "utf16-key-order", "es-integer-keys")
"""In the order in which they are tried."""

AS_WRITTEN, ECMASCRIPT, EXACT = "as-written", "ecmascript", "exact"
CODE_POINTS, UTF16, INTEGERS_FIRST, UNSORTED = "code-points", "utf-16", "integers-first", "unsorted"

_quoted: Callable[[str], str] = encoder.encode_basestring
_MOST_INDEX = 2**32 - 2
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_PARTS = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_MOST_EXPONENT_DIGITS = 18


class Number(str):
    """A number as it is written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write the same value."""

    variant: str
    """One of :data:`VARIANTS`."""
    numbers: str
    order: str


VERBATIM = Form("verbatim", AS_WRITTEN, CODE_POINTS)
FORMS = (
    VERBATIM,
    Form("es-numbers", ECMASCRIPT, CODE_POINTS),
    Form("utf16-key-order", ECMASCRIPT, UTF16),
    Form("utf16-key-order", AS_WRITTEN, UTF16),
    Form("es-integer-keys", ECMASCRIPT, INTEGERS_FIRST),
    Form("es-integer-keys", AS_WRITTEN, INTEGERS_FIRST),
)
"""All that are tried, in this order; the first of a variant is the one that ECMAScript writes."""
SAME_VALUE = Form("same-value", EXACT, CODE_POINTS)
"""Equal text means equal values, each number to its last digit."""
IN_ORDER = Form("in-order", AS_WRITTEN, UNSORTED)
"""Names in the order in which they came; a retired scheme signs it."""


def form_of(variant: str) -> Form:
    """Return the form that a variant names.

    Raises:
        KeyError: No variant has that name.
    """
    for form in FORMS:
        if form.variant == variant:
            return form
    raise KeyError(variant)


def written(node: Any, form: Form) -> str:
    """Return the text of a value whose numbers are :class:`Number` tokens."""
    if isinstance(node, Number):
        return _NUMBERS[form.numbers](node)
    if isinstance(node, str):
        return _quoted(node)
    if isinstance(node, dict):
        names = list(node) if form.order == UNSORTED else sorted(node, key=_ORDERS[form.order])
        return "{" + ",".join([f"{_quoted(name)}:{written(node[name], form)}" for name in names]) + "}"
    if isinstance(node, list):
        return "[" + ",".join([written(one, form) for one in node]) + "]"
    return "null" if node is None else "true" if node else "false"


def ecmascript_number(token: str) -> str:
    """Return how ECMAScript writes a number again after it has read it as a double (Number::toString, radix 10)."""
    value = float(token)
    if not math.isfinite(value):
        return "null"
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    digits, point = _shortest(abs(value))
    count = len(digits)
    if count <= point <= 21:
        return f"{sign}{digits}{'0' * (point - count)}"
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    exponent = f"{point - 1:+d}"
    return f"{sign}{digits[0]}{'.' + digits[1:] if count > 1 else ''}e{exponent}"


def _shortest(value: float) -> tuple[str, int]:
    """Return the fewest digits that give the double back, and where its point stands behind their start."""
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    lost = len(whole + fraction) - len(digits)
    point = len(whole) + int(exponent or 0) - lost
    return digits.rstrip("0"), point


def _exact(token: str) -> str:
    """Return one spelling for all numbers of one value: its digits without zeros at the ends, and an exponent."""
    found = _PARTS.fullmatch(token)
    if found is None:
        return token
    sign, whole, fraction, exponent = found.groups("")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "0"
    if len(exponent) > _MOST_EXPONENT_DIGITS:
        return token
    kept = digits.rstrip("0")
    return f"{sign}{kept}e{int(exponent or 0) - len(fraction) + len(digits) - len(kept)}"


def _in_utf16(name: str) -> tuple[bool, int, bytes]:
    return (True, 0, name.encode("utf-16-be", "surrogatepass"))


def _integers_first(name: str) -> tuple[bool, int, bytes]:
    if _INDEX.fullmatch(name) and int(name) <= _MOST_INDEX:
        return (False, int(name), b"")
    return _in_utf16(name)


_NUMBERS: dict[str, Callable[[str], str]] = {AS_WRITTEN: str, ECMASCRIPT: ecmascript_number, EXACT: _exact}
_ORDERS: dict[str, Any] = {CODE_POINTS: None, UTF16: _in_utf16, INTEGERS_FIRST: _integers_first}
