"""The short forms that name a call of a rank, or a rank: ``tensor:2:3:out``, ``act:2:all_reduce:3``, ``r2:seq3``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from provstore.errors import InputError

TENSOR, ACT, CALL, P2P, RANK = "tensor", "act", "call", "p2p", "rank"
_FORMS = {
    TENSOR: re.compile(r"tensor:(?P<rank>[0-9]+):(?P<number>[0-9]+):(?P<side>in|out|call)"),
    ACT: re.compile(r"act:(?P<rank>[0-9]+):(?P<op>[^:]+):(?P<number>[0-9]+)"),
    CALL: re.compile(r"r(?P<rank>[0-9]+):seq(?P<number>[0-9]+)"),
    P2P: re.compile(r"p2p:(?P<rank>[0-9]+):(?P<number>[0-9]+)"),
    RANK: re.compile(r"rank:(?P<rank>[0-9]+)(?::pg:(?P<group>.+))?"),
}
_LARGEST = (1 << 63) - 1
_MOST_DIGITS = len(str(_LARGEST))
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class ShortForm:
    """What a short form says."""

    form: str
    """One of ``tensor``, ``act``, ``call``, ``p2p``, ``rank``."""
    rank: int
    number: int
    """Of the call; 0 where a rank is named."""
    op: str | None = None
    side: str | None = None
    """``in``, ``out`` or ``call``."""
    group: str | None = None
    """Name or description of a process group."""


def short_form(target: str) -> ShortForm | None:
    """Return what a text says as a short form; ``None`` for what is none.

    Raises:
        InputError: It is one, with a number that no store can hold.
    """
    for form, pattern in _FORMS.items():
        found = pattern.fullmatch(target)
        if found is not None:
            parts = found.groupdict()
            rank, number = whole(target, "rank", parts["rank"]), whole(target, "call", parts.get("number") or "0")
            return ShortForm(form, rank, number, parts.get("op"), parts.get("side"), parts.get("group"))
    return None


def whole(target: str, noun: str, digits: str) -> int:
    """Return the number that ``digits`` spell.

    Args:
        target: What they stand in.
        noun: What they number.
        digits: From 0 to 9, one at least.

    Raises:
        InputError: No store can hold it, so it names nothing.
    """
    plain = digits.lstrip("0") or "0"
    if len(plain) > _MOST_DIGITS or int(plain) > _LARGEST:
        shown = target if len(target) <= _SHOWN else f"{target[:_SHOWN]}…"
        raise InputError(f"{shown}: {noun}: there is no such {noun}; numbers end at {_LARGEST}")
    return int(plain)
