"""Bounded copies of untrusted values as plain JSON values: no cycles, no surrogates, no depth, no bulk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DEPTH = 12
_STRING = 4096
_RAW_BYTES = 4096


class Copier:
    """Copies values until a budget of parts is spent; what lies beyond is replaced by ``"…"``."""

    def __init__(self, parts: int) -> None:
        self.left = parts
        self.was_cut = False

    def copy(self, value: object, depth: int = _DEPTH) -> object:
        """Return ``value`` made of dicts with string keys, lists, strings, finite numbers, booleans and ``None``."""
        self.left -= 1
        if self.left < 0 or depth == 0:
            self.was_cut = True
            return "…"
        if isinstance(value, dict):
            return {clean(key): self.copy(item, depth - 1) for key, item in self._some(value.items())}
        if isinstance(value, list | tuple):
            return [self.copy(item, depth - 1) for item in self._some(value)]
        return self._leaf(value)

    def _some(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            if self.left <= 0:
                self.was_cut = True
                return
            yield item

    def _leaf(self, value: object) -> object:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
            return value
        if isinstance(value, float) and value - value == 0:
            return value
        if isinstance(value, str) and len(value) > _STRING:
            self.was_cut = True
        return clean(value)


def clean(value: object) -> str:
    """Return a short valid text for a key or a leaf."""
    if isinstance(value, int) and abs(value) >= 1 << 256:
        return f"a number of {value.bit_length()} bits"
    text = value if isinstance(value, str) else repr(value) if isinstance(value, int | float) else _kind(value)
    return text[:_STRING].encode("utf-8", "replace").decode()


def _kind(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return repr(bytes(value[:64]))
    return "None" if value is None else f"<{type(value).__name__}>"


def raw_text(value: object) -> str:
    """Return the JSON text of a bounded copy, cut at 4 KiB."""
    text = json.dumps(Copier(1000).copy(value), ensure_ascii=False)
    return text.encode()[:_RAW_BYTES].decode("utf-8", "ignore")
