"""A block as one Parquet file: ordinary nullable columns that DuckDB and Spark read, and back without any change.

Every file has the same columns: those of ``STRUCTURE``, one for each property of ``model.schema``, and
``extra_properties`` for what has no column there or another type than its column. Nodes are the first row group,
relationships the second. How the rows were grouped is in the file's metadata under ``provstore.block``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from provstore.errors import InputError
from provstore.journal import arrow, columns
from provstore.journal.columns import EMPTY_LIST, INT64, NOTHING, STRING, Group, Kind
from provstore.model import canonical
from provstore.model.block import Block, Column, Nodes, Relations, Value
from provstore.model.canonical import Json
from provstore.model.schema import PROPERTIES

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

NAME = "parquet"
METADATA_KEY = "provstore.block"
FORMAT_VERSION = 1
EXTRA = "extra_properties"
STRUCTURE: Mapping[str, tuple[str, str]] = {
    "_run": (STRING, "run of the block"),
    "_attempt": (INT64, "attempt of the block"),
    "_labels": (STRING, "labels of a node, base label first, joined by colons; absent for a relationship"),
    "_key": (STRING, "unique key of a node"),
    "_type": (STRING, "type of a relationship; absent for a node"),
    "_from_label": (STRING, "base label of the effect"),
    "_from": (STRING, "unique key of the effect"),
    "_to_label": (STRING, "base label of the cause"),
    "_to": (STRING, "unique key of the cause"),
}
"""Column → (type, meaning), for what is no property."""

_LEVEL = 1
_KEYS = ("_key", "_from", "_to")
_MAX_METADATA_BYTES = 64 * 1024 * 1024


def column_types() -> Mapping[str, tuple[str, str]]:
    """Return every column of a facts file, in order, with type and meaning."""
    extra = (STRING, "JSON list of {n: name, t: type, v: value}: properties without a column of their own")
    return {**STRUCTURE, **PROPERTIES, EXTRA: extra}


def encode(run: str, attempt: int, parts: Sequence[Group]) -> memoryview:
    """Return the bytes of the Parquet file.

    Raises:
        InputError: A value cannot be kept; the message names the property.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    nodes = [part for part in parts if part.type is None]
    relations = [part for part in parts if part.type is not None]
    tables = [_table(run, attempt, rows) for rows in (nodes, relations) if any(map(len, rows))]
    used = {name for table in tables for name in table.column_names if table.column(name).null_count < len(table)}
    output = pa.BufferOutputStream()
    with pq.ParquetWriter(output, _schema(), write_statistics=False, store_schema=False, **_settings(used)) as file:
        for table in tables:
            file.write_table(table, row_group_size=len(table))
        file.add_key_value_metadata({METADATA_KEY: _description(run, attempt, parts).decode()})
    return memoryview(output.getvalue())


def decode(data: bytes) -> Block:
    """Return the block whose Parquet file this is.

    Raises:
        InputError: It is not such a file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        metadata = (file.metadata.metadata or {})[METADATA_KEY.encode()]
        said: Any = canonical.parse(metadata, max_bytes=_MAX_METADATA_BYTES)
        if said["format"] != FORMAT_VERSION:
            raise InputError(f"facts: format {said['format']}: not known here (known: {FORMAT_VERSION})")
        nodes = [group for group in said["groups"] if "type" not in group]
        relations = [group for group in said["groups"] if "type" in group]
        first = 1 if sum(group["rows"] for group in nodes) else 0
        return Block(said["run"], said["attempt"], tuple(_parts(file, 0, nodes)), tuple(_parts(file, first, relations)))
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(f"facts: Parquet: {error}") from error


@cache
def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(name, arrow.type_of(kind)) for name, (kind, _) in column_types().items()])


def _settings(used: Collection[str]) -> dict[str, Any]:
    """Return how the writer packs each column: keys share long heads with their neighbours, integers differ little.

    Columns without a value get neither dictionary nor compression, which would cost more time than all others.
    """
    types = {name: kind for name, (kind, _) in column_types().items()}
    texts = [name for name in used if types[name] == STRING and name not in _KEYS]
    integers = [name for name in used if types[name] == INT64]
    return {
        "compression": {name: "zstd" if name in used else "none" for name in types},
        "compression_level": dict.fromkeys(used, _LEVEL),
        "use_dictionary": texts,
        "column_encoding": dict.fromkeys(_KEYS, "DELTA_BYTE_ARRAY") | dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
    }


def _description(run: str, attempt: int, parts: Sequence[Group]) -> bytes:
    groups: list[Json] = []
    for part in parts:
        kinds: list[Json] = [
            {"a": kind.array, "extra": not _has_column(kind), "n": kind.name, "t": kind.type}
            for kind, _ in part.columns
        ]
        group: dict[str, Json] = {"columns": kinds, "labels": list(part.labels), "rows": len(part)}
        if part.type is not None:
            group["type"] = part.type
        groups.append(group)
    return canonical.encode({"attempt": attempt, "format": FORMAT_VERSION, "groups": groups, "run": run})


def _has_column(kind: Kind) -> bool:
    own = PROPERTIES.get(kind.name, ("", ""))[0]
    return kind.type in (own, NOTHING) or (kind.type == EMPTY_LIST and own.startswith("list<"))


def _table(run: str, attempt: int, parts: Sequence[Group]) -> pa.Table:
    """Return the rows of all parts, one after the other."""
    import pyarrow as pa

    count = sum(map(len, parts))
    pieces = [(_columns(part), len(part)) for part in parts]
    # One array of nothing a type serves all columns.
    kinds: set[Any] = set(_schema().types)
    nothing = {kind: pa.nulls(count, kind) for kind in kinds}
    whole: list[Any] = []
    for field in _schema():
        if field.name in {"_run", "_attempt"}:
            whole.append(arrow.constant(run if field.name == "_run" else attempt, count))
        elif any(field.name in piece for piece, _ in pieces):
            chunks = [piece.get(field.name, nothing[field.type][:rows]) for piece, rows in pieces]
            whole.append(pa.chunked_array(chunks, field.type))
        else:
            whole.append(nothing[field.type])
    return pa.Table.from_arrays(whole, schema=_schema())


def _columns(part: Group) -> dict[str, pa.Array[Any]]:
    """Return the columns in which a part has values."""
    count = len(part)
    found: dict[str, pa.Array[Any]] = {}
    if part.type is None:
        found["_labels"] = arrow.constant(":".join(part.labels), count)
        found["_key"] = arrow.array_of(Kind("key", STRING), part.ends[0])
    else:
        found["_type"] = arrow.constant(part.type, count)
        for name, side, label, end in zip(("source", "target"), ("from", "to"), part.labels, part.ends):
            found[f"_{side}_label"] = arrow.constant(label, count)
            found[f"_{side}"] = arrow.array_of(Kind(name, STRING), end)
    for kind, column in part.columns:
        if _has_column(kind) and kind.type != NOTHING:
            found[kind.name] = arrow.array_of(replace(kind, type=PROPERTIES[kind.name][0]), column)
    extra = [(kind, column) for kind, column in part.columns if not _has_column(kind)]
    if extra:
        found[EXTRA] = arrow.array_of(Kind(EXTRA, STRING), list(_extra(extra, count)))
    return found


def _extra(extra: Sequence[tuple[Kind, Column]], count: int) -> Iterator[str]:
    ordered = sorted(extra, key=lambda item: item[0].name.encode())
    for kind, column in ordered:
        columns.utf8(kind.name, list(columns.strings(column)))
    for at in range(count):
        cells: list[Json] = []
        for kind, column in ordered:
            value = column[at]
            if value is not None:
                own = columns.value_type(kind.name, value)
                cells.append({"n": kind.name, "t": own, "v": columns.cell(Kind(kind.name, own), value)})
        yield canonical.encode(cells).decode()


def _parts(file: pq.ParquetFile, row_group: int, groups: Sequence[Any]) -> Iterator[Any]:
    """Yield the parts whose rows follow each other in one row group; there is none when they have no rows."""
    wanted = [_wanted(group) for group in groups]
    table = None
    if sum(group["rows"] for group in groups):
        table = file.read_row_group(row_group, columns=sorted(set(chain(*wanted))), use_threads=False)
    start = 0
    for group, names in zip(groups, wanted):
        rows = table.slice(start, group["rows"]) if table is not None else None
        yield _part(group, {name: rows.column(name).to_pylist() if rows is not None else [] for name in names})
        start += group["rows"]


def _wanted(group: Any) -> list[str]:
    """Return the columns of the file in which a part has values."""
    ends = ["_from", "_to"] if "type" in group else ["_key"]
    own = [said["n"] for said in group["columns"] if not said["extra"] and said["t"] != NOTHING]
    return ends + own + [EXTRA] * any(said["extra"] for said in group["columns"])


def _part(group: Any, found: dict[str, list[Any]]) -> Nodes | Relations:
    extra = [_cells(text) for text in found.get(EXTRA, ())]
    shaped: dict[str, Column] = {}
    for said in group["columns"]:
        nothing: list[Value | None] = [None] * group["rows"]
        values = [cells.get(said["n"]) for cells in extra] if said["extra"] else found.get(said["n"], nothing)
        shaped[said["n"]] = columns.restore(Kind(said["n"], said["t"], said["a"]), values)
    ends = [found[name] for name in (("_from", "_to") if "type" in group else ("_key",))]
    return columns.build(tuple(group["labels"]), group.get("type"), ends, shaped)


def _cells(text: str) -> dict[str, Value | None]:
    said: Any = canonical.parse(text.encode(), max_bytes=_MAX_METADATA_BYTES)
    return {cell["n"]: columns.uncell(cell["t"], cell["v"]) for cell in said}
