"""Every value comes back as it was, in small batches and in large ones, and the Parquet files are ordinary."""

from __future__ import annotations

import math
import struct
from array import array
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_fakes import exact

from provstore.errors import InputError
from provstore.journal import Journal, block_lines, block_parquet, columns
from provstore.model.block import Block, Nodes, Relations
from provstore.model.schema import PROPERTIES

_NAN_WITH_PAYLOAD = struct.unpack(">d", bytes.fromhex("fff8000000abcdef"))[0]
_DOUBLES = [
    0.8000692426956483, 0.30000000000000004, math.nan, _NAN_WITH_PAYLOAD, math.inf, -math.inf, -0.0, 0.0, 5e-324,
    1.7976931348623157e308, 1e22, 1.0,
]  # fmt: skip
_INTEGERS = [2**63 - 1, -(2**63), 0, 1, -1, 2**53, 2**53 + 1]
_TEXTS = [
    "", '"', "'", "\\", "`", "\n", "\r\n", "\t", " x ", "\u0085", "\u2028", "\ufeff", "😀", "e\u0301", "\0", "\x01",
    "\x1e\x1f", "true", "1", "x" * 70_000, "[]", "null",
]  # fmt: skip
_COLUMNS: dict[str, list[Any]] = {
    "duration_ms": _DOUBLES,
    "created_ns": _INTEGERS,
    "name": _TEXTS,
    "is_started": [True, False],
    "ranks": [[], [0], [2**63 - 1, -(2**63)]],
    "names nobody knows": ["", "\0", "x"],
    "unknown double": _DOUBLES,
    "unknown integer": _INTEGERS,
    "unknown flag": [True, False],
    "unknown texts": [[], [""], ["a", "\0", "😀"]],
    "unknown doubles": [[], [math.nan, -0.0], [_NAN_WITH_PAYLOAD]],
    "unknown flags": [[True], [False, True]],
    "rank": ["a text where an integer is usual"],
    "seq": [1, "1", 1.0, True, [1], [True], ["1"], [1.0], []],
    "extra_properties": ["a property named like a column of the file"],
    "_key": [1],
}


def _both(block: Block) -> list[Block]:
    """Return the block after a way through lines and after one through Parquet."""
    parts = columns.groups(block)
    lines = block_lines.encode(parts)
    found = [block_parquet.decode(bytes(block_parquet.encode(block.run, block.attempt, parts)))]
    return found if lines is None else [*found, block_lines.decode(lines, block.run, block.attempt)]


def _filled(values: list[Any], count: int) -> list[Any]:
    return [values[at % (len(values) + 1)] if at % (len(values) + 1) < len(values) else None for at in range(count)]


@pytest.mark.parametrize("name", _COLUMNS)
def test_every_value_of_the_list_comes_back_bit_for_bit(name: str) -> None:
    values = _COLUMNS[name]
    keys = [f"k{at}" for at in range(len(values) + 1)]
    for column in (values, [*values, None], [None, *values]):
        nodes = Nodes(("Element", "Entity"), keys[: len(column)], {name: column})
        relations = Relations("USED", keys[: len(column)], keys[: len(column)], columns={name: column})
        block = Block("run", 3, (nodes,), (relations,))
        for found in _both(block):
            assert exact(found) == exact(block)


@pytest.mark.parametrize("text", [text for text in _TEXTS if len(text) < 1000])
def test_keys_runs_labels_types_and_property_names_are_any_text(text: str) -> None:
    nodes = Nodes(("Element", text), [text, text + "x"], {text: [text, None], text + "y": [1, 2]})
    block = Block(text, 7, (nodes,), (Relations(text, [text], [text], text, text, {text: [text]}),))
    for found in _both(block):
        assert exact(found) == exact(block)


@pytest.mark.parametrize("code", "bBhHiIlLqQfd")
def test_arrays_come_back_as_arrays_of_their_type(code: str) -> None:
    block = Block("run", 0, (Nodes(("Run",), ["a", "b"], {"seq": array(code, [1, 2]), "x": array(code, [0, 3])}),))
    for found in _both(block):
        assert exact(found) == exact(block)


def test_parts_without_rows_and_columns_without_values_come_back() -> None:
    parts = (
        Nodes(("Run",), [], {"seq": [], "x": [], "ranks": array("q")}),
        Nodes(("Run",), ["a"], {"seq": [None], "x": [None]}),
    )
    block = Block("run", 0, parts, (Relations("USED", [], []), Relations("USED", ["a"], ["b"], "Run", "Run")))
    for found in _both(block):
        assert exact(found) == exact(block)


def test_an_empty_block_comes_back() -> None:
    for found in _both(Block("", 0)):
        assert exact(found) == exact(Block("", 0))


@pytest.mark.parametrize("lone", ["\ud800", "a\udfffb"])
def test_a_lone_surrogate_is_refused_with_the_name_of_its_property(tmp_path: Path, lone: str) -> None:
    node = {"key": ["a"], "name": ["x"], "mystery": [["x"]]}
    with Journal.open(tmp_path, writable=True) as journal:
        for count in (1, 1200):
            for name in node:
                cells: dict[str, list[Any]] = {other: values * count for other, values in node.items()}
                cells[name][-1] = [lone] if name == "mystery" else lone
                keys = cells.pop("key")
                block = Block("run", 0, (Nodes(("Element",), keys, cells),))
                with pytest.raises(InputError, match=f"property {name}: value.*surrogate"):
                    journal.append(block)
            for end in ("source", "target"):
                ends = {"source": ["a"] * count, "target": ["a"] * count}
                ends[end][-1] = lone
                with pytest.raises(InputError, match=f"property {end}: value.*surrogate"):
                    journal.append(Block("run", 0, (), (Relations("USED", ends["source"], ends["target"]),)))
        with pytest.raises(InputError, match=r"property run: .*surrogate"):
            journal.append(Block(lone, 0))
        with pytest.raises(InputError, match=r"property labels: .*surrogate"):
            journal.append(Block("run", 0, (Nodes((lone,), ["a"]),)))
        with pytest.raises(InputError, match=r"property name: .*surrogate"):
            journal.append(Block("run", 0, (Nodes(("Run",), ["a"], {lone: [1]}),)))
        assert journal.position == 0
        assert journal.check() == []


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([2**63], "64 bits"),
        ([-(2**63) - 1], "64 bits"),
        (array("Q", [2**63]), "64 bits"),
        ([b"bytes"], "type bytes cannot be kept"),
        ([{}], "type dict cannot be kept"),
        ([1, b"bytes"], "type bytes cannot be kept"),
        ([[1, "a"]], "of one type"),
        ([[None]], "of one type"),
        ([[[1]]], "of one type"),
        ([], "0 values for 1 rows"),
        ([1, 2], "2 values for 1 rows"),
    ],
)
@pytest.mark.parametrize("name", ["seq", "x"])
def test_a_value_that_no_graph_can_hold_is_refused_with_the_name_of_its_property(
    tmp_path: Path, name: str, values: Any, reason: str
) -> None:
    with Journal.open(tmp_path, writable=True) as journal:
        keys = ["a"] if "rows" in reason else ["a"] * len(values)
        with pytest.raises(InputError, match=f"property {name}: .*{reason}"):
            journal.append(Block("run", 0, (Nodes(("Run",), keys, {name: values}),)))
        if len(values) == 1 and isinstance(values, list):
            many = Block("run", 0, (Nodes(("Run",), ["a"] * 1200, {name: values * 1200}),))
            with pytest.raises(InputError, match=f"property {name}: .*{reason}"):
                journal.append(many)
        assert journal.position == 0


def test_keys_that_are_no_strings_are_refused(tmp_path: Path) -> None:
    keys: Any = ["a", None]
    with Journal.open(tmp_path, writable=True) as journal:
        with pytest.raises(InputError, match="property key: keys"):
            journal.append(Block("run", 0, (Nodes(("Run",), keys),)))
        with pytest.raises(InputError, match="property target: keys"):
            journal.append(Block("run", 0, (), (Relations("USED", ["a", "b"], ["a"]),)))


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_integer = st.integers(-(2**63), 2**63 - 1)
_scalars = (_text, _integer, st.floats(), st.booleans())
_values = st.one_of(*_scalars, *(st.lists(item, max_size=3) for item in _scalars))


@st.composite
def _column_of(draw: st.DrawFn, count: int) -> Any:
    shape = draw(st.sampled_from(["full", "gaps", "mixed", "nothing", "q", "d"]))
    if shape in {"q", "d"}:
        return array(shape, draw(st.lists(_integer if shape == "q" else st.floats(), min_size=count, max_size=count)))
    kind = draw(st.sampled_from([*_scalars, *(st.lists(item, max_size=3) for item in _scalars)]))
    cell: Any = {"full": kind, "gaps": st.none() | kind, "mixed": st.none() | _values, "nothing": st.none()}[shape]
    return draw(st.lists(cell, min_size=count, max_size=count))


@st.composite
def _columns(draw: st.DrawFn, count: int) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(sorted(PROPERTIES)) | _text, max_size=4, unique=True))
    return {name: draw(_column_of(count)) for name in names}


@st.composite
def _blocks(draw: st.DrawFn) -> Block:
    def keys() -> list[str]:
        return draw(st.lists(_text, max_size=4))

    nodes, relations = [], []
    for _ in range(draw(st.integers(0, 3))):
        own = keys()
        nodes.append(Nodes(tuple(draw(st.lists(_text, min_size=1, max_size=3))), own, draw(_columns(len(own)))))
    for _ in range(draw(st.integers(0, 3))):
        sources = keys()
        targets = draw(st.lists(_text, min_size=len(sources), max_size=len(sources)))
        cells = draw(_columns(len(sources)))
        relations.append(Relations(draw(_text), sources, targets, draw(_text), draw(_text), cells))
    return Block(draw(_text), draw(st.integers(0, 2**53 - 1)), tuple(nodes), tuple(relations))


@settings(max_examples=100)
@given(_blocks())
def test_any_block_comes_back_as_it_was(block: Block) -> None:
    for found in _both(block):
        assert exact(found) == exact(block)


def test_a_facts_file_has_every_documented_column_whatever_it_holds() -> None:
    block = Block(
        "run", 2, (Nodes(("Element", "Entity"), ["a"], {"seq": [1], "odd": [[1]]}),), (Relations("USED", ["b"], ["a"]),)
    )
    import pyarrow as pa

    data = bytes(block_parquet.encode("run", 2, columns.groups(block)))
    file = pq.ParquetFile(pa.BufferReader(data))
    assert file.schema_arrow.names == list(block_parquet.column_types())
    assert all(field.nullable for field in file.schema_arrow)
    said = {field.name: str(field.type).replace("element: ", "") for field in file.schema_arrow}
    assert said == {name: kind for name, (kind, _) in block_parquet.column_types().items()}
    assert file.num_row_groups == 2
    node, relation = file.read().to_pylist()
    stated = {name: value for name, value in node.items() if value is not None}
    assert stated == {
        "_run": "run", "_attempt": 2, "_labels": "Element:Entity", "_key": "a", "seq": 1,
        "extra_properties": '[{"n":"odd","t":"list<int64>","v":["i64:1"]}]',
    }  # fmt: skip
    stated = {name: value for name, value in relation.items() if value is not None}
    assert stated == {
        "_run": "run", "_attempt": 2, "_type": "USED", "_from_label": "Element", "_from": "b", "_to_label": "Element",
        "_to": "a",
    }  # fmt: skip


def test_no_property_is_named_like_a_column_of_the_structure() -> None:
    assert not set(PROPERTIES) & {*block_parquet.STRUCTURE, block_parquet.EXTRA}


@pytest.mark.parametrize("data", [b"", b"PAR1", b"no parquet" * 50])
def test_what_is_no_facts_file_is_refused_without_a_crash(data: bytes) -> None:
    with pytest.raises(InputError, match="facts: Parquet"):
        block_parquet.decode(data)


@pytest.mark.parametrize(
    "lines",
    [
        [b"{}"],
        [b"[]"],
        [b'{"columns":[],"labels":["Run"],"rows":2}', b'["a"]'],
        [b'{"columns":[],"labels":["Run"],"rows":1}', b'["a","b"]'],
        [b'{"columns":[],"labels":["Run"],"rows":1}', b"[1]"],
        [b'{"columns":[{"a":"","n":"x","t":"int64"}],"labels":["Run"],"rows":1}', b'["a","1"]'],
        [b'{"columns":[{"a":"","n":"x","t":"bool"}],"labels":["Run"],"rows":1}', b'["a","true"]'],
        [b'{"columns":[{"a":"","n":"x","t":"any"}],"labels":["Run"],"rows":1}', b'["a",{"t":"any","v":"x"}]'],
        [b'{"columns": [],"labels":["Run"],"rows":0}'],
        [b"not json"],
    ],
)
def test_lines_that_are_no_facts_are_refused_without_a_crash(lines: list[bytes]) -> None:
    with pytest.raises(InputError, match="record: "):
        block_lines.decode(lines, "run", 0)
