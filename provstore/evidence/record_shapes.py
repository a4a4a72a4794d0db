"""Shapes of records: which members a record of each kind has, and what may stand in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from provstore.errors import InputError
from provstore.model import canonical, evidence

_HEX = re.compile(r"[0-9a-f]{64}")
_ROW = {"n", "t", "v"}
_KEYID = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


def fault(value: Mapping[str, Any]) -> str | None:
    """Return which member of a record of a known kind is wrong, or nothing."""
    checks = KINDS[value["kind"]]
    if value.keys() != checks.keys():
        return f"members: needs exactly {', '.join(sorted(checks))}"
    for name, said in value.items():
        if not checks[name](said):
            return f"{name}: is not what a record of kind {value['kind']} has there"
    return None


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= canonical.MAX_INTEGER


def _is_count_or_none(value: object) -> bool:
    return value is None or _is_count(value)


def _is_hex(value: object) -> bool:
    return type(value) is str and _HEX.fullmatch(value) is not None


def _is_keyid(value: object) -> bool:
    return type(value) is str and _KEYID.fullmatch(value) is not None


def _is_mode(value: object) -> bool:
    return value in evidence.MODES


def _is_time(value: object) -> bool:
    return value is None or _untagged(canonical.tagged_integer, value)


def _untagged(read: Callable[[str], object], text: object) -> bool:
    if type(text) is not str:
        return False
    try:
        read(text)
    except InputError:
        return False
    return True


_TYPES: Mapping[str, Callable[[object], bool]] = {
    "s": _is_text,
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


def _is_ranks(value: object) -> bool:
    return (
        type(value) is list
        and all(_is_count(rank) for rank in value)
        and all(left < right for left, right in pairwise(value))
    )


def _object(**checks: Callable[[object], bool]) -> Callable[[object], bool]:
    def holds(value: object) -> bool:
        return (
            isinstance(value, dict)
            and value.keys() == checks.keys()
            and all(checks[name](said) for name, said in value.items())
        )

    return holds


def _or_none(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


_COMMON: Mapping[str, Callable[[object], bool]] = {
    "at": _is_time,
    "attempt": _is_count,
    "kind": _is_text,
    "n": _is_count,
    "rank": _is_count_or_none,
    "run": _is_text,
    "schema": _is_count,
}
OWN: Mapping[str, Mapping[str, Callable[[object], bool]]] = {
    evidence.INGEST: {
        "batch": _is_count,
        "facts": _object(encoding=lambda value: value in ("parquet", "lines"), rows=_is_count, sha256=_is_hex),
        "policy": _object(mode=_is_mode, reason=_is_text),
        "quarantined": _is_count,
        "source": _or_none(
            _object(
                element=_or_none(_is_text),
                kept=lambda value: type(value) is bool,
                reader=_is_text,
                sha256=_is_hex,
                size=_is_count,
                version=_is_text,
            )
        ),
    },
    evidence.OBSERVATION: {"name": _is_text, "step": _is_count_or_none, "values": is_values},
    evidence.DIGEST: {"name": _is_text, "ranks": _is_ranks, "sha256": _is_hex, "step": _is_count_or_none},
    evidence.POLICY: {"document": is_values, "mode": _is_mode, "reason": _is_text},
    evidence.RANK_CERTIFICATE: {"certified": _is_count, "keyid": _is_keyid, "public": _is_hex},
    evidence.KEY_ROTATION: {"new": _is_keyid, "old": _is_keyid, "public": _is_hex},
    evidence.RECOVERY: {"cause": _is_text, "details": is_values},
    evidence.GAP: {"cause": _is_text, "from": _is_count_or_none, "lost": _is_count},
    evidence.RUN_CLOSE: {
        "batches": _is_count,
        "reason": lambda value: value in evidence.CLOSE_REASONS,
        "records": _is_count,
    },
}
KINDS: Mapping[str, Mapping[str, Callable[[object], bool]]] = {kind: {**_COMMON, **own} for kind, own in OWN.items()}
"""Kind → member → whether a value may stand there."""
