"""Cutting JSON text into the members of an object or a list without parsing them: their bytes stay what they are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provstore.errors import InputError
from provstore.evidence.aep.text import parse

_BLANKS = b" \t\r\n"
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},]', re.DOTALL)
_BRACKETS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_NAME = re.compile(rb'[ \t\r\n]*("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\r\n]*:', re.DOTALL)
_NOT_BLANK = re.compile(rb"[^ \t\r\n]")


def first_byte(data: bytes) -> bytes:
    """Return the first byte that is no blank; nothing when there is none."""
    found = _NOT_BLANK.search(data)
    return found.group() if found else b""


def end_of(data: bytes, start: int) -> int | None:
    """Return where the list or object that begins at ``start`` ends; ``None`` when it does not."""
    depth = 0
    for token in _BRACKETS.finditer(data, start):
        mark = token.group()
        if mark in (b"[", b"{"):
            depth += 1
        elif mark in (b"]", b"}"):
            depth -= 1
            if depth == 0:
                return token.end()
    return None


def elements(data: bytes, start: int, thing: str) -> Iterator[tuple[int, int]]:
    """Yield where each element of the list or object at ``start`` begins and ends, without blanks around it.

    The element of an object is its name, colon and value.

    Raises:
        InputError: The brackets do not close.
    """
    depth, begin, is_first = 0, start + 1, True
    for token in _TOKEN.finditer(data, start):
        mark = token.group()
        if mark in (b"[", b"{"):
            depth += 1
        elif mark in (b"]", b"}"):
            depth -= 1
            if depth == 0:
                span = _stripped(data, begin, token.start())
                if span[0] < span[1] or not is_first:
                    yield span
                return
        elif mark == b"," and depth == 1:
            yield _stripped(data, begin, token.start())
            begin, is_first = token.end(), False
    raise InputError(f"{thing}: byte {len(data)}: ends in the middle of a value")


def members(data: bytes, start: int, thing: str) -> dict[str, tuple[int, int]]:
    """Return where the value of each member of the object at ``start`` begins and ends.

    Raises:
        InputError: It is no object, or a name comes twice.
    """
    found: dict[str, tuple[int, int]] = {}
    for begin, end in elements(data, start, thing):
        named = _NAME.match(data, begin, end)
        if named is None:
            raise InputError(f"{thing}: byte {begin}: a member has no name")
        name = str(parse(named.group(1), thing).value)
        if name in found:
            raise InputError(f"{thing}: byte {begin}: the name {name[:40]!a} comes twice")
        found[name] = _stripped(data, named.end(), end)
    return found


def _stripped(data: bytes, begin: int, end: int) -> tuple[int, int]:
    while begin < end and data[begin] in _BLANKS:
        begin += 1
    while end > begin and data[end - 1] in _BLANKS:
        end -= 1
    return begin, end
