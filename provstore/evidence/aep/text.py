"""JSON text of somebody else, held so that numbers and names keep the spelling that was signed.

What a parser usually forgives is a fault here: readers differ in what they make of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, final

import orjson

from provstore.errors import InputError
from provstore.evidence.aep import forms

MAX_LEVELS = 64
MAX_BYTES = 16 * 1024 * 1024

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_BOM = b"\xef\xbb\xbf"
_MOST_DIGITS = 400
_AS_LIST = bytes.maketrans(b"{}", b"[]")
_FILLING = bytes(set(range(256)) - set(b'[]{}"\\'))


@final
class JsonText:
    """One JSON value with its exact bytes.

    Args:
        data: The bytes of the value, blanks around it included or not.
        most_levels: How deep it may nest.
    """

    __slots__ = ("_is_plain", "_kept", "_most_levels", "_tree", "data", "fault", "value")

    def __init__(self, data: bytes, most_levels: int = MAX_LEVELS) -> None:
        self.data = data
        self._most_levels = most_levels
        self.fault: str | None = None
        """Why it is not read, in words; ``value`` is then ``None``."""
        self.value: Any = None
        """As Python holds it: numbers may have lost their spelling."""
        self._tree: Any = None
        self._is_plain = False
        self._kept: tuple[object, bytes] | None = None
        try:
            if len(data) > MAX_BYTES:
                raise InputError(f"{len(data)} bytes are more than {MAX_BYTES}")
            self._read()
        except InputError as error:
            self.fault, self.value, self._tree = str(error), None, None

    def canon(self, form: forms.Form = forms.VERBATIM, *, drop: Sequence[str] = (), part: str | None = None) -> bytes:
        """Return the canonical bytes.

        Args:
            form: How numbers are spelled and names are ordered.
            drop: Members of the outermost object that are left out.
            part: The one member that is wanted.
        """
        asked = (form, tuple(drop), part)
        if self._kept is None or self._kept[0] != asked:
            self._kept = (asked, self._canon(form, drop, part))
        return self._kept[1]

    def _canon(self, form: forms.Form, drop: Sequence[str], part: str | None) -> bytes:
        if self._is_plain and form is forms.VERBATIM:
            value = self.value if part is None else self.value[part]
            if drop:
                value = {name: member for name, member in value.items() if name not in drop}
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        tree = self.tree() if part is None else self.tree()[part]
        if drop:
            tree = {name: member for name, member in tree.items() if name not in drop}
        return forms.written(tree, form).encode()

    def listed(self, name: str) -> Iterator[tuple[Any, bytes]]:
        """Yield each element of a member that is a list, with its canonical bytes."""
        elements = self.value.get(name) if isinstance(self.value, dict) else None
        for place, element in enumerate(elements if isinstance(elements, list) else ()):
            if self._is_plain:
                yield element, orjson.dumps(element, option=orjson.OPT_SORT_KEYS)
            else:
                yield element, forms.written(self.tree()[name][place], forms.VERBATIM).encode()

    def tree(self) -> Any:
        """Return the value with each number as its token."""
        if self._tree is None:
            self._tree = _tree(self.data, self._most_levels)
        return self._tree

    def _read(self) -> None:
        try:
            value = orjson.loads(self.data)
            # Equal text means: no repeated name, no blank, and every number and string spelled as it is written again.
            if orjson.dumps(value) == self.data:
                if _is_deep(value, self.data, self._most_levels):
                    raise _too_deep(self._most_levels)
                self.value, self._is_plain = value, True
                return
        except orjson.JSONDecodeError:
            # What is wrong is said by the slow reader, which also takes what orjson is too strict about.
            pass
        self._tree = _tree(self.data, self._most_levels)
        self.value = _plain(self._tree)


def parse(data: bytes, thing: str) -> JsonText:
    """Return the value that ``data`` holds.

    Raises:
        InputError: It is no JSON, or JSON that readers understand in different ways.
    """
    text = JsonText(data)
    if text.fault is not None:
        raise InputError(f"{thing}: JSON: {text.fault}")
    return text


def levels(data: bytes, most: int) -> int:
    """Return how deep the brackets nest, counted without parsing, and no further than just above ``most``."""
    deepest = depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub(b"", data)):
        depth += 1 if bracket.group() in b"[{" else -1
        deepest = max(deepest, depth)
        if deepest > most:
            break
    return deepest


def _tree(data: bytes, most_levels: int) -> Any:
    if data.startswith(_BOM):
        raise InputError("begins with a byte order mark")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"byte {error.start}: not UTF-8") from error
    if data.count(b"[") + data.count(b"{") > most_levels and levels(data, most_levels) > most_levels:
        raise _too_deep(most_levels)
    try:
        tree = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise InputError(f"byte {len(text[: error.pos].encode())}: {error.msg}") from error
    if _ESCAPED_SURROGATE.search(data):
        try:
            forms.written(tree, forms.VERBATIM).encode()
        except UnicodeEncodeError as error:
            raise InputError("a string holds half of a surrogate pair") from error
    return tree


def _too_deep(most_levels: int) -> InputError:
    return InputError(f"nests deeper than {most_levels} levels")


def _is_deep(value: object, data: bytes, most_levels: int) -> bool:
    """Return whether a value nests deeper than is read; no recursion into hostile data."""
    brackets = data.translate(_AS_LIST, _FILLING).replace(b'""', b"")
    if b'"' in brackets or b"\\" in brackets:
        # Some string holds a bracket or an escape: the brackets alone tell nothing.
        return _levels_of(value, most_levels) > most_levels
    for _ in range(most_levels):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _levels_of(value: Any, most: int) -> int:
    """Return how deep a value nests, and no further than just above ``most``."""
    level, depth = [value] if type(value) is dict or type(value) is list else [], 0
    while level and depth <= most:
        members = [one for holder in level for one in (holder.values() if type(holder) is dict else holder)]
        level = [one for one in members if type(one) is dict or type(one) is list]
        depth += 1
    return depth


def _plain(node: Any) -> Any:
    if isinstance(node, forms.Number):
        return _number(node)
    if isinstance(node, list):
        return [_plain(one) for one in node]
    if isinstance(node, dict):
        return {name: _plain(one) for name, one in node.items()}
    return node


def _number(token: forms.Number) -> int | float:
    is_integer = not set(".eE") & set(token)
    return int(token) if is_integer and len(token) <= _MOST_DIGITS else float(token)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InputError(f"the name {twice[:40]!a} comes twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise InputError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=forms.Number, parse_float=forms.Number, parse_constant=_no_constant
)
