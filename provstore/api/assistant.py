"""Tools for assistants: a few read-only questions with small, bounded answers; never free query text.

Every string that came from evidence is data: shortened, with control characters spelled out, and its place is listed
under ``untrusted_fields``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from provstore import config
from provstore.api.assistant_terms import MAX_LIMIT, Argument, Page, Place, Tool, ToolError, shown
from provstore.api.assistant_tools import TOOLS
from provstore.errors import ProvstoreError

__all__ = ["MAX_BYTES", "ToolError", "ask", "schemas"]

MAX_BYTES = 64 * 1024
_TYPES = {"string": str, "integer": int, "number": (int, float)}


def schemas() -> list[dict[str, object]]:
    """Return what each tool is and takes, in the form that assistants read."""
    return [tool.schema() for tool in TOOLS]


def ask(name: str, arguments: object, store: str | None = None, journal: str | None = None) -> dict[str, object]:
    """Return the answer of a tool, at most 64 KiB as JSON.

    Args:
        name: Of the tool; :func:`schemas` lists them.
        arguments: A JSON object, as text or as a mapping.
        store: Address of the store; ``PROVSTORE_STORE`` or the default when not given.
        journal: Where its journal is, when it is not beside the store.

    Raises:
        ToolError: No such tool, an argument is wrong, or what is asked about is not there.
    """
    tool = next((one for one in TOOLS if one.name == name), None)
    if tool is None:
        known = ", ".join(one.name for one in TOOLS)
        raise ToolError("unknown-tool", f"{name}: no such tool", f"known are {known}")
    given = _checked(tool, _object(arguments))
    try:
        page = tool.answering(given, Place(config.store_uri(store), journal))
        return _fitted(tool.name, page)
    except ProvstoreError as error:
        raise ToolError(_code(error), str(error), error.hint or "") from error


def _fitted(name: str, page: Page) -> dict[str, object]:
    """Return an answer with as many rows as its limit and 64 KiB allow."""
    rows: list[dict[str, object]] = []
    more = False
    untrusted: set[str] = set()
    head = {key: _told(value, key, untrusted) for key, value in page.head.items()}
    tail = {key: _told(value, key, untrusted) for key, value in page.tail.items()}
    frame = {"tool": name, **head, **tail}
    room = MAX_BYTES - len(json.dumps(frame)) - 4096
    for row in page.rows[page.skip :]:
        said = {key: _told(value, f"{page.name}[].{key}", untrusted) for key, value in row.items()}
        room -= len(json.dumps(said)) + 2
        if len(rows) == page.limit or room < 0:
            more = True
            break
        rows.append(said)
    following = base64.urlsafe_b64encode(str(page.skip + len(rows)).encode()).decode() if more else None
    told: dict[str, object] = {"tool": name, **head, page.name: rows, **tail, "truncated": more, "next": following}
    return told | {"untrusted_fields": sorted(untrusted)}


def _told(value: object, place: str, untrusted: set[str]) -> object:
    if isinstance(value, str):
        untrusted.add(place)
        return shown(value)
    if isinstance(value, Mapping):
        return {
            shown(str(key)): _told(one, f"{place}.{key}", untrusted) for key, one in list(value.items())[:MAX_LIMIT]
        }
    if isinstance(value, list | tuple):
        return [_told(one, f"{place}[]", untrusted) for one in value[:MAX_LIMIT]]
    return value


def _object(arguments: object) -> Mapping[str, object]:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments, object_pairs_hook=_without_repetition)
        except (ValueError, RecursionError) as error:
            raise ToolError("bad-arguments", f"arguments: not JSON: {str(error)[:200]}") from error
    if not isinstance(arguments, Mapping):
        raise ToolError("bad-arguments", "arguments: not a JSON object")
    return arguments


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _checked(tool: Tool, given: Mapping[str, object]) -> dict[str, Any]:
    unknown = sorted(set(map(str, given)) - set(tool.arguments))
    if unknown:
        known = ", ".join(tool.arguments)
        raise ToolError("bad-arguments", f"{tool.name}: {unknown[0]}: no such argument", f"known are {known}")
    values: dict[str, Any] = {}
    for name, argument in tool.arguments.items():
        value = given.get(name)
        if value is None:
            if argument.is_needed:
                raise ToolError("bad-arguments", f"{tool.name}: {name}: is needed: {argument.help}")
            values[name] = argument.default
            continue
        if isinstance(value, bool) or not isinstance(value, _TYPES[argument.kind]):  # type: ignore[arg-type]
            raise ToolError("bad-arguments", f"{tool.name}: {name}: is no {argument.kind}")
        if argument.choices and value not in argument.choices:
            raise ToolError("bad-arguments", f"{tool.name}: {name}: is none of {', '.join(argument.choices)}")
        if isinstance(value, int | float) and not _is_within(value, argument):
            raise ToolError("bad-arguments", f"{tool.name}: {name}: {value} is not {_bounds(argument)}")
        values[name] = value
    return values


def _is_within(value: float, argument: Argument) -> bool:
    least = -float("inf") if argument.least is None else argument.least
    return least <= value <= (float("inf") if argument.most is None else argument.most)


def _bounds(argument: Argument) -> str:
    if argument.most is None:
        return f"{argument.least} or more"
    return f"{argument.most} or less" if argument.least is None else f"from {argument.least} to {argument.most}"


def _code(error: ProvstoreError) -> str:
    if error.exit_code in {2, 4}:
        return "ambiguous" if "several" in str(error) else "not-found"
    return "unavailable"
