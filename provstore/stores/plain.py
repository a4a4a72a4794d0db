"""Rows in one plain form on every engine: no engine's own ids, classes or virtual properties."""

from __future__ import annotations

from collections.abc import Mapping

from provstore.model.block import UNIQUE_KEY

_SIMPLE = frozenset((str, int, float, bool, type(None)))
_NODE = frozenset(("id", "labels", "properties"))
_RELATION = frozenset(("id", "start", "end", "type", "properties"))
_KEYS = tuple(dict.fromkeys(UNIQUE_KEY.values()))


def plain_row(row: dict[str, object]) -> dict[str, object]:
    """Return a row of the embedded engine in plain form; rows of simple values come back as they are."""
    for value in row.values():
        if value.__class__ not in _SIMPLE:
            return {name: one if one.__class__ in _SIMPLE else plain(one) for name, one in row.items()}
    return row


def plain(value: object) -> object:
    """Return one value of the embedded engine in plain form."""
    if isinstance(value, dict):
        if value.keys() == _NODE:
            return {"labels": sorted(value["labels"]), "properties": properties(value["properties"])}
        if value.keys() == _RELATION:
            return {"type": value["type"], "properties": value["properties"]}
        held = properties(value).items()
        return {name: item if item.__class__ in _SIMPLE else plain(item) for name, item in held}
    if isinstance(value, (list, tuple)):
        return [item if item.__class__ in _SIMPLE else plain(item) for item in value]
    return value if value.__class__ in _SIMPLE else str(value)


def properties(held: Mapping[str, object]) -> dict[str, object]:
    """Return properties of a node without those that the embedded engine adds: ``id``, ``title`` and ``type``."""
    if "id" not in held or all(held.get(key) != held["id"] for key in _KEYS):
        return dict(held)
    return {name: value for name, value in held.items() if name not in ("id", "title", "type")}
