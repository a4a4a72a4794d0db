"""What a block's columns hold, found exactly: one type a column, no silent change from one type to another."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

from provstore.errors import InputError
from provstore.model import canonical
from provstore.model.block import Block, Column, Nodes, Relations, Value
from provstore.model.canonical import Json

STRING, INT64, DOUBLE, BOOL = "string", "int64", "double", "bool"
ANY = "any"
"""Values of several types; each cell tells its own."""
NOTHING = "null"
"""No value at all."""
EMPTY_LIST = "list"
"""Lists without elements only."""

_SCALARS: dict[type, str] = {str: STRING, int: INT64, float: DOUBLE, bool: BOOL}
_CODES = dict.fromkeys("bBhHiIlLqQ", INT64) | {"f": DOUBLE, "d": DOUBLE}
_NONE = type(None)


@dataclass(frozen=True, slots=True)
class Kind:
    """Name and exact type of one column."""

    name: str
    type: str
    """``string``, ``int64``, ``double``, ``bool``, ``list<…>`` of those, ``list``, ``null`` or ``any``."""
    array: str = ""
    """Type code when the column is an ``array.array``."""
    is_full: bool = True
    """True when no value is absent."""


@dataclass(frozen=True, slots=True)
class Group:
    """One ``Nodes`` or ``Relations`` of a block, with its columns' kinds, proved to be storable."""

    labels: tuple[str, ...]
    """Of the nodes; of the two ends for relations."""
    type: str | None
    """``None`` for nodes."""
    ends: tuple[Sequence[str], ...]
    """(keys,) or (sources, targets)."""
    columns: tuple[tuple[Kind, Column], ...]

    def __len__(self) -> int:
        return len(self.ends[0])


def groups(block: Block) -> list[Group]:
    """Return the parts of a block in order, nodes first.

    Raises:
        InputError: A column has another length than its keys, or a value that no journal can keep; the message names
            the property.
        ValueError: A derived block, which is recomputed and never journalled.
    """
    if block.replaces is not None:
        raise ValueError("a derived block is never journalled")
    utf8("run", [block.run])
    found = [_group(part.labels, None, {"key": part.keys}, part) for part in block.nodes]
    for part in block.relations:
        labels = (part.source_label, part.target_label)
        found.append(_group(labels, part.type, {"source": part.sources, "target": part.targets}, part))
    return found


def build(
    labels: tuple[str, ...], kind: str | None, ends: Sequence[list[str]], columns: dict[str, Column]
) -> Nodes | Relations:
    """Return the part of a block that :func:`groups` took apart."""
    if kind is None:
        return Nodes(labels, ends[0], columns)
    return Relations(kind, ends[0], ends[1], labels[0], labels[1], columns)


def describe(name: str, column: Column) -> Kind:
    """Return the exact kind of a column.

    Raises:
        InputError: It holds something else than strings, integers, floats, booleans, or lists of one of them.
    """
    if isinstance(column, array):
        if column.typecode not in _CODES:
            raise InputError(f"property {name}: array: type code {column.typecode!r} is not a number")
        return Kind(name, _CODES[column.typecode], column.typecode)
    types = set(map(type, column))
    is_full = _NONE not in types
    types.discard(_NONE)
    if not types:
        return Kind(name, NOTHING, is_full=is_full)
    if len(types) > 1:
        for value in column:
            if value is not None:
                value_type(name, value)
        return Kind(name, ANY, is_full=is_full)
    only = types.pop()
    if only is list:
        return Kind(name, _list_type(name, [value for value in column if isinstance(value, list)]), is_full=is_full)
    if only not in _SCALARS:
        raise InputError(f"property {name}: value: type {only.__name__} cannot be kept")
    return Kind(name, _SCALARS[only], is_full=is_full)


def value_type(name: str, value: Value) -> str:
    """Return the type of one value."""
    if isinstance(value, list):
        return _element_type(name, value)
    if type(value) not in _SCALARS:
        raise InputError(f"property {name}: value: type {type(value).__name__} cannot be kept")
    return _SCALARS[type(value)]


def cell(kind: Kind, value: Value | None) -> Json:
    """Return the JSON form of one value of a column; :func:`uncell` is its exact inverse."""
    if value is None:
        return None
    if kind.type == ANY:
        own = value_type(kind.name, value)
        return {"t": own, "v": _json(kind.name, own, value)}
    return _json(kind.name, kind.type, value)


def uncell(kind: str, said: Json) -> Value | None:
    """Return the value whose JSON form is ``said``.

    Raises:
        InputError: It is not of that type.
    """
    if said is None:
        return None
    if kind == ANY and isinstance(said, dict) and isinstance(said.get("t"), str) and said["t"] != ANY:
        return uncell(str(said["t"]), said.get("v"))
    if kind == EMPTY_LIST and said == []:
        return []
    if kind.startswith("list<") and isinstance(said, list):
        items: list[Any] = [_scalar(kind[5:-1], item) for item in said]
        return items
    return _scalar(kind, said)


def restore(kind: Kind, values: Iterable[Value | None]) -> Column:
    """Return a column in the shape it was given in."""
    shaped: Any = values
    return array(kind.array, shaped) if kind.array else list(values)


def utf8(name: str, values: Sequence[str]) -> bytes:
    """Return the UTF-8 of all values in a row.

    Raises:
        InputError: A lone surrogate.
    """
    try:
        return "".join(values).encode()
    except UnicodeEncodeError as error:
        at = next((at for at, value in enumerate(values) if any("\ud800" <= char <= "\udfff" for char in value)), 0)
        raise InputError(f"property {name}: value {at}: holds a lone surrogate, which is no Unicode text") from error


def strings(column: Column) -> Iterator[str]:
    """Yield every text in a column, those inside lists included."""
    for value in () if isinstance(column, array) else column:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from (item for item in value if isinstance(item, str))


def _group(labels: tuple[str, ...], kind: str | None, ends: dict[str, Sequence[str]], part: Nodes | Relations) -> Group:
    utf8("labels", [*labels, kind or ""])
    utf8("name", list(part.columns))
    for name, keys in ends.items():
        if len(keys) != len(part) or not set(map(type, keys)) <= {str}:
            raise InputError(f"property {name}: keys: need one string a row")
    for name, column in part.columns.items():
        if len(column) != len(part):
            raise InputError(f"property {name}: column: {len(column)} values for {len(part)} rows")
    columns = tuple((describe(name, column), column) for name, column in part.columns.items())
    return Group(labels, kind, tuple(ends.values()), columns)


def _list_type(name: str, lists: Sequence[Sequence[object]]) -> str:
    types = set(map(type, chain.from_iterable(lists)))
    if not types:
        return EMPTY_LIST
    if len(types) == 1 and (only := types.pop()) in _SCALARS:
        return f"list<{_SCALARS[only]}>"
    kinds = set(map(_element_type, repeat(name), lists))
    return ANY if len(kinds) > 1 else kinds.pop()


def _element_type(name: str, value: Sequence[object]) -> str:
    types = set(map(type, value))
    if not types:
        return EMPTY_LIST
    if len(types) > 1 or not types <= _SCALARS.keys():
        raise InputError(f"property {name}: list: needs strings, integers, floats or booleans, of one type")
    return f"list<{_SCALARS[types.pop()]}>"


def _json(name: str, kind: str, value: object) -> Json:
    if isinstance(value, list):
        return [_json(name, kind[5:-1], item) for item in value]
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        if not canonical.INT64_MIN <= value <= canonical.INT64_MAX:
            raise InputError(f"property {name}: value: {value} does not fit into 64 bits")
        return canonical.tag_integer(value)
    if isinstance(value, float):
        return canonical.tag_double(value)
    raise InputError(f"property {name}: value: type {type(value).__name__} cannot be kept")


def _scalar(kind: str, said: Json) -> Value:
    if kind == BOOL and isinstance(said, bool):
        return said
    if isinstance(said, str):
        if kind == STRING:
            return said
        if kind == INT64:
            return canonical.tagged_integer(said)
        if kind == DOUBLE:
            return canonical.tagged_double(said)
    raise InputError(f"record: cell: not of type {kind[:20]}")
