"""What a store checks in a block before it writes any of it, and the row form that the Cypher write files take."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress, islice
from typing import Any, TypeVar

from provstore.errors import StoreError
from provstore.model.block import (
    CAPTURED_RELATIONS,
    DERIVED_RELATIONS,
    STRUCTURE_RELATIONS,
    UNIQUE_KEY,
    Block,
    Column,
    Nodes,
    Relations,
    Value,
)

MIXED = "mixed"
"""Kind of a column whose values have several types: allowed, but only row by row."""

_ENGINE_NAMES = frozenset(("id", "title", "type", "label", "node_type"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_TYPES = frozenset((*CAPTURED_RELATIONS, *STRUCTURE_RELATIONS, *DERIVED_RELATIONS))
_INT64 = range(-(2**63), 2**63)
_KINDS = {str: "string", bool: "bool", int: "int64", float: "double", list: "list"}
Item = TypeVar("Item")


def check(block: Block) -> None:
    """Refuse a block that no engine could store whole and unchanged.

    Raises:
        StoreError: A label, type or property name is not allowed; columns differ in length; or a value is NaN,
            beyond 64 bits, text with a lone surrogate, or of a type that no property can have.
    """
    for nodes in block.nodes:
        _check_labels(nodes.labels)
        _check_table(nodes.labels[-1], (nodes.keys,), nodes.columns, UNIQUE_KEY[nodes.labels[0]])
    for relations in block.relations:
        if relations.type not in _TYPES:
            raise StoreError(f"block: {relations.type}: not a known relationship type")
        _check_labels((relations.source_label,))
        _check_labels((relations.target_label,))
        _check_table(relations.type, (relations.sources, relations.targets), relations.columns, "")
        if block.replaces is not None and relations.type not in DERIVED_RELATIONS:
            raise StoreError(f"block: {relations.type}: only derived relationships can be replaced")


def kind_of(column: Column) -> str:
    """Return ``string``, ``int64``, ``double``, ``bool``, ``list``, ``mixed``, or ``none`` for one without values."""
    if isinstance(column, array):
        return "double" if column.typecode in "fd" else "int64"
    types = set(map(type, column)) - {type(None)}
    if not types:
        return "none"
    return _KINDS.get(types.pop(), "unknown") if len(types) == 1 else MIXED


def is_record(relations: Relations) -> bool:
    """Tell whether the relationships are imported records, identified by their ``recordKey``."""
    return "recordKey" in relations.columns


def outside_ends(block: Block) -> dict[str, set[str]]:
    """Return base label → keys of end points that the block itself does not add."""
    own: dict[str, set[str]] = {}
    for nodes in block.nodes:
        own.setdefault(nodes.labels[0], set()).update(nodes.keys)
    outside: dict[str, set[str]] = {}
    for relations in block.relations:
        for label, keys in ((relations.source_label, relations.sources), (relations.target_label, relations.targets)):
            outside.setdefault(label, set()).update(set(keys) - own.get(label, set()))
    return outside


def missing_end(block: Block, label: str, key: str) -> StoreError:
    """Return the error for a relationship whose end point ``key`` is neither in the store nor in the block."""
    for relations in block.relations:
        for source, target in zip(relations.sources, relations.targets):
            if (label, key) in ((relations.source_label, source), (relations.target_label, target)):
                return StoreError(f"block: ({source})-[:{relations.type}]->({target}): there is no :{label} {key}")
    return StoreError(f"block: there is no :{label} {key}")


def node_rows(nodes: Nodes) -> list[dict[str, object]]:
    """Return one row a key, in key order; of repeated keys the first value of each property counts."""
    merged = _merged(nodes)
    return [{"key": key, "properties": merged[key]} for key in sorted(merged)]


def folded(nodes: Nodes) -> Nodes:
    """Return the same facts with each key once."""
    if len(set(nodes.keys)) == len(nodes.keys):
        return nodes
    merged = _merged(nodes)
    columns = {name: [row.get(name) for row in merged.values()] for name in nodes.columns}
    return Nodes(nodes.labels, list(merged), columns)


def relation_rows(relations: Relations) -> list[dict[str, object]]:
    """Return one row a relationship, ordered by its ends; repeated ones fold into the first."""
    by_record = is_record(relations)
    merged: dict[object, dict[str, object]] = {}
    rows = zip(relations.sources, relations.targets, _properties(relations.columns, len(relations)))
    for source, target, properties in rows:
        identity = (source, target, properties["recordKey"]) if by_record else (source, target)
        merged.setdefault(identity, {"source": source, "target": target, "properties": properties})
    return sorted(merged.values(), key=lambda row: (str(row["source"]), str(row["target"])))


def of_hubs(relations: Relations, least: int) -> tuple[Relations, Relations]:
    """Return the relationships of sources that have at least ``least`` of them here, and all others."""
    counts = Counter(relations.sources)
    hubs = {source for source, count in counts.items() if count >= least}
    if not hubs:
        return replace(relations, sources=(), targets=(), columns={}), relations
    is_of_hub = [source in hubs for source in relations.sources]
    return _picked(relations, is_of_hub), _picked(relations, [not one for one in is_of_hub])


def _picked(relations: Relations, is_wanted: Sequence[bool]) -> Relations:
    columns = {name: list(compress(column, is_wanted)) for name, column in relations.columns.items()}
    sources, targets = (list(compress(ends, is_wanted)) for ends in (relations.sources, relations.targets))
    return replace(relations, sources=sources, targets=targets, columns=columns)


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of at most ``size`` items."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def _merged(nodes: Nodes) -> dict[str, dict[str, Value]]:
    merged: dict[str, dict[str, Value]] = {}
    for key, properties in zip(nodes.keys, _properties(nodes.columns, len(nodes))):
        known = merged.setdefault(key, {})
        declared = known.get("declared") or properties.get("declared")
        for name, value in properties.items():
            known.setdefault(name, value)
        if declared is not None:
            known["declared"] = declared
    return merged


def _properties(columns: Mapping[str, Column], rows: int) -> Iterator[dict[str, Value]]:
    names = list(columns)
    if not names:
        return iter([{} for _ in range(rows)])
    return (
        {name: value for name, value in zip(names, values) if value is not None} for values in zip(*columns.values())
    )


def _check_labels(labels: tuple[str, ...]) -> None:
    if not labels or labels[0] not in UNIQUE_KEY:
        raise StoreError(f"block: {labels[:1] or 'no label'}: not a known base label")
    bad = [label for label in labels if not _NAME.fullmatch(label)]
    if bad:
        raise StoreError(f"block: {bad[0][:64]!r}: not a label")


def _check_table(place: str, keys: Iterable[Sequence[str]], columns: Mapping[str, Column], key_name: str) -> None:
    lengths = set()
    for ends in keys:
        lengths.add(len(ends))
        if set(map(type, ends)) - {str}:
            raise StoreError(f"block: {place}: keys must be text")
        _check_text(place, "key", ends)
    for name, column in columns.items():
        if not _NAME.fullmatch(name) or name in _ENGINE_NAMES or name == key_name:
            raise StoreError(f"block: {place}.{name[:64]}: not a property name that every engine can keep")
        lengths.add(len(column))
        _check_column(place, name, column)
    if len(lengths) > 1:
        raise StoreError(f"block: {place}: columns differ in length: {sorted(lengths)}")


def _check_column(place: str, name: str, column: Column) -> None:
    kind = kind_of(column)
    if name == "recordKey" and (kind not in ("string", "none") or any(value is None for value in column)):
        raise StoreError(f"block: {place}.recordKey: a record key must be text")
    if kind == "string":
        _check_text(place, name, column)
    elif kind == "double":
        _check_numbers(place, name, column)
    elif kind == "int64" and not isinstance(column, array):
        _check_integers(place, name, column)
    elif kind not in ("none", "bool", "int64"):
        for value in column:
            _check_value(place, name, value)


def _check_text(place: str, name: str, values: Iterable[object]) -> None:
    try:
        "".join([value for value in values if value is not None]).encode()  # type: ignore[misc]
    except UnicodeEncodeError:
        raise StoreError(f"block: {place}.{name}: text with a lone surrogate cannot be stored") from None


def _check_numbers(place: str, name: str, values: Column) -> None:
    if any(map(math.isnan, (value for value in values if value is not None))):  # type: ignore[arg-type]
        raise StoreError(f"block: {place}.{name}: NaN is not a value that can be found again; store it as tagged text")


def _check_integers(place: str, name: str, values: Iterable[Any]) -> None:
    numbers = [value for value in values if value is not None]
    if numbers and not (min(numbers) in _INT64 and max(numbers) in _INT64):
        raise StoreError(f"block: {place}.{name}: a whole number is beyond 64 bits; store it as tagged text")


def _check_value(place: str, name: str, value: object) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        _check_text(place, name, (value,))
    elif isinstance(value, float):
        _check_numbers(place, name, (value,))
    elif isinstance(value, int):
        _check_integers(place, name, (value,))
    elif isinstance(value, list) and len(set(map(type, value))) <= 1 and not (value and isinstance(value[0], list)):
        for item in value:
            if item is None:
                raise StoreError(f"block: {place}.{name}: a list with a gap cannot be stored")
            _check_value(place, name, item)
    else:
        raise StoreError(f"block: {place}.{name}: a {type(value).__name__} such as {value!r:.60} cannot be stored")
