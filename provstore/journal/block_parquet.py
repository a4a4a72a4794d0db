"""A block as one Parquet file: ordinary nullable columns that DuckDB and Spark read, and back without any change.

Every file has the same columns: those of ``STRUCTURE``, one for each property of ``model.schema``, and
``extra_properties`` for what has no column there or another type than its column. One row group holds one kind of
node or relationship. How the rows were grouped is in the file's metadata under ``provstore.block``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
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

    schema, output = _schema(), pa.BufferOutputStream()
    dictionary = [name for name, (kind, _) in column_types().items() if kind == STRING and name not in _KEYS]
    with pq.ParquetWriter(
        output,
        schema,
        compression="zstd",
        compression_level=_LEVEL,
        use_dictionary=dictionary,  # type: ignore[arg-type]  # the stubs know bool only
        column_encoding=_encodings(),
        write_statistics=False,
        store_schema=False,
    ) as file:
        for part in parts:
            if len(part):
                file.write_table(_table(run, attempt, part, schema), row_group_size=len(part))
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
        said: Any = canonical.parse(
            (file.metadata.metadata or {})[METADATA_KEY.encode()], max_bytes=_MAX_METADATA_BYTES
        )
        if said["format"] != FORMAT_VERSION:
            raise InputError(f"facts: format {said['format']}: not known here (known: {FORMAT_VERSION})")
        nodes: list[Nodes] = []
        relations: list[Relations] = []
        filled = 0
        for group in said["groups"]:
            part = _part(file, filled if group["rows"] else None, group)
            filled += bool(group["rows"])
            if isinstance(part, Nodes):
                nodes.append(part)
            else:
                relations.append(part)
        return Block(said["run"], said["attempt"], tuple(nodes), tuple(relations))
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(f"facts: Parquet: {error}") from error


@cache
def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(name, arrow.type_of(kind)) for name, (kind, _) in column_types().items()])


def _encodings() -> dict[str, str]:
    """Keys share long heads with their neighbours; integers differ little from theirs."""
    integers = {name: "DELTA_BINARY_PACKED" for name, (kind, _) in column_types().items() if kind == INT64}
    return dict.fromkeys(_KEYS, "DELTA_BYTE_ARRAY") | integers


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


def _table(run: str, attempt: int, part: Group, schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    count = len(part)
    found: dict[str, pa.Array[Any]] = {"_run": arrow.constant(run, count), "_attempt": arrow.constant(attempt, count)}
    if part.type is None:
        found |= {
            "_labels": arrow.constant(":".join(part.labels), count),
            "_key": arrow.array_of(Kind("key", STRING), part.ends[0]),
        }
    else:
        found["_type"] = arrow.constant(part.type, count)
        for side, label, end in zip(("from", "to"), part.labels, part.ends):
            found[f"_{side}_label"] = arrow.constant(label, count)
            found[f"_{side}"] = arrow.array_of(Kind({"from": "source", "to": "target"}[side], STRING), end)
    for kind, column in part.columns:
        if _has_column(kind) and kind.type != NOTHING:
            found[kind.name] = arrow.array_of(replace(kind, type=PROPERTIES[kind.name][0]), column)
    extra = [(kind, column) for kind, column in part.columns if not _has_column(kind)]
    if extra:
        found[EXTRA] = arrow.array_of(Kind(EXTRA, STRING), list(_extra(extra, count)))
    return pa.Table.from_arrays([found.get(field.name, pa.nulls(count, field.type)) for field in schema], schema=schema)


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


def _part(file: pq.ParquetFile, row_group: int | None, group: Any) -> Nodes | Relations:
    kinds = [(Kind(said["n"], said["t"], said["a"]), bool(said["extra"])) for said in group["columns"]]
    relation = group.get("type")
    ends = ("_key",) if relation is None else ("_from", "_to")
    wanted = [*ends, *(kind.name for kind, is_extra in kinds if not is_extra and kind.type != NOTHING)]
    wanted += [EXTRA] * any(is_extra for _, is_extra in kinds)
    found: dict[str, list[Any]] = {name: [] for name in wanted}
    if row_group is not None:
        table = file.read_row_group(row_group, columns=wanted, use_threads=False)
        found = {name: table.column(name).to_pylist() for name in wanted}
    extra = [_cells(text) for text in found.get(EXTRA, ())]
    shaped: dict[str, Column] = {}
    for kind, is_extra in kinds:
        nothing: list[Value | None] = [None] * group["rows"]
        values = [cells.get(kind.name) for cells in extra] if is_extra else found.get(kind.name, nothing)
        shaped[kind.name] = columns.restore(kind, values)
    return columns.build(tuple(group["labels"]), relation, [found[name] for name in ends], shaped)


def _cells(text: str) -> dict[str, Value | None]:
    said: Any = canonical.parse(text.encode(), max_bytes=_MAX_METADATA_BYTES)
    return {cell["n"]: columns.uncell(cell["t"], cell["v"]) for cell in said}
