"""What may stand in a member of a record: small checks, each of one value."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

from provstore.errors import InputError
from provstore.model import canonical, evidence

Check: TypeAlias = Callable[[object], bool]
Checks: TypeAlias = Mapping[str, Check]
_HEX = re.compile(r"[0-9a-f]{64}")
_REF = re.compile(r"sha256:[0-9a-f]{64}")
_ROW = {"n", "t", "v"}
_KEYID = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


def is_text(value: object) -> bool:
    """Return whether it is text."""
    return type(value) is str


def is_count(value: object) -> bool:
    """Return whether it is an integer from 0 to 2**53 - 1."""
    return type(value) is int and 0 <= value <= canonical.MAX_INTEGER


def is_count_or_none(value: object) -> bool:
    """Return whether it is such an integer, or null."""
    return value is None or is_count(value)


def is_hex(value: object) -> bool:
    """Return whether it is a SHA-256 in 64 hex digits."""
    return type(value) is str and _HEX.fullmatch(value) is not None


def is_keyid(value: object) -> bool:
    """Return whether it is an OpenSSH fingerprint."""
    return type(value) is str and _KEYID.fullmatch(value) is not None


def is_mode(value: object) -> bool:
    """Return whether it is a recording mode."""
    return value in evidence.MODES


def is_time(value: object) -> bool:
    """Return whether it is a tagged integer of 64 bits, or null."""
    return value is None or _untagged(canonical.tagged_integer, value)


def _untagged(read: Callable[[str], object], text: object) -> bool:
    if type(text) is not str:
        return False
    try:
        read(text)
    except InputError:
        return False
    return True


_TYPES: Mapping[str, Check] = {
    "s": is_text,
    "i": lambda value: _untagged(canonical.tagged_integer, value),
    "f": lambda value: _untagged(canonical.tagged_double, value),
    "b": lambda value: type(value) is bool,
    "z": lambda value: value is None,
}


def is_values(value: object) -> bool:
    """Return whether it is a list of named values in their one order, without repetition."""
    if type(value) is not list:
        return False
    before: dict[str, Any] | None = None
    for row in value:
        if type(row) is not dict or row.keys() != _ROW or type(row["n"]) is not str:
            return False
        check = _TYPES.get(row["t"]) if type(row["t"]) is str else None
        if check is None or not check(row["v"]):
            return False
        # Strings compare by code points, and that is the order of their UTF-8 bytes.
        if before is not None and row["n"] <= before["n"] and _order(row) <= _order(before):
            return False
        before = row
    return True


def _order(row: dict[str, Any]) -> tuple[str, str, bytes]:
    return row["n"], row["t"], canonical.encode(row["v"])


def is_ranks(value: object) -> bool:
    """Return whether it is a list of distinct ranks, ascending."""
    return (
        type(value) is list
        and all(is_count(rank) for rank in value)
        and all(left < right for left, right in pairwise(value))
    )


def object_of(optional: Checks | None = None, /, **checks: Check) -> Check:
    """Return the check of an object with exactly these members; those of ``optional`` may be absent."""
    every = {**checks, **(optional or {})}

    def holds(value: object) -> bool:
        return (
            isinstance(value, dict)
            and checks.keys() <= value.keys() <= every.keys()
            and all(every[name](said) for name, said in value.items())
        )

    return holds


def or_none(check: Check) -> Check:
    """Return the check of a value that may be null."""
    return lambda value: value is None or check(value)


def is_flag(value: object) -> bool:
    """Return whether it is true or false."""
    return type(value) is bool


def is_ref(value: object) -> bool:
    """Return whether it is ``sha256:`` and 64 hex digits."""
    return type(value) is str and _REF.fullmatch(value) is not None


def is_long(value: object) -> bool:
    """Return whether it is a tagged integer of 64 bits."""
    return value is not None and is_time(value)


def is_double_or_none(value: object) -> bool:
    """Return whether it is a tagged double, or null."""
    return value is None or _untagged(canonical.tagged_double, value)


def one_of(known: Collection[str]) -> Check:
    """Return the check of one of several texts."""
    return lambda value: type(value) is str and value in known


def list_of(check: Check) -> Check:
    """Return the check of a list."""
    return lambda value: type(value) is list and all(map(check, value))


def is_span(value: object) -> bool:
    """Return whether it is [first, last] of counts."""
    return type(value) is list and len(value) == 2 and all(map(is_count, value)) and value[0] <= value[1]


def is_spans(value: object) -> bool:
    """Return whether it is a list of [first, last], ascending, with something between any two."""
    return (
        type(value) is list
        and all(map(is_span, value))
        and all(left[1] + 1 < right[0] for left, right in pairwise(value))
    )
