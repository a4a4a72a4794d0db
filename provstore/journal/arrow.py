"""Columns in Arrow's layout, built from buffers, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from provstore.errors import InputError
from provstore.journal import columns
from provstore.journal.columns import BOOL, DOUBLE, INT64, STRING, Kind
from provstore.model import canonical
from provstore.model.block import Column

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


def type_of(kind: str) -> pa.DataType:
    """Return the Arrow type of a property type. Texts have 64-bit offsets here; in Parquet they are plain strings."""
    import pyarrow as pa

    if kind.startswith("list<"):
        return pa.large_list(type_of(kind[5:-1]))
    types: dict[str, pa.DataType] = {
        STRING: pa.large_string(),
        INT64: pa.int64(),
        DOUBLE: pa.float64(),
        BOOL: pa.bool_(),
    }
    return types[kind]


def constant(value: str | int, count: int) -> pa.Array[Any]:
    """Return one value, many times."""
    import numpy as np
    import pyarrow as pa

    if isinstance(value, int):
        return pa.Array.from_buffers(type_of(INT64), count, [None, _buffer(np.full(count, value, np.int64))])
    data = value.encode()
    offsets = np.arange(count + 1, dtype=np.int64) * len(data)
    return pa.Array.from_buffers(type_of(STRING), count, [None, _buffer(offsets), pa.py_buffer(data * count)])


def array_of(kind: Kind, column: Column) -> pa.Array[Any]:
    """Return a column as an Arrow array.

    Built by hand, since ``pyarrow.array`` and ``pyarrow.scalar`` import pandas.

    Raises:
        InputError: A lone surrogate, or an integer beyond 64 bits; the message names the property.
    """
    import numpy as np
    import pyarrow as pa

    count = len(column)
    present: Any = column
    mask = bitmap = None
    if not kind.is_full:
        mask = np.fromiter((value is not None for value in column), np.bool_, count)
        present = [value for value in column if value is not None]
        bitmap = _buffer(np.packbits(mask, bitorder="little"))
    if kind.type.startswith("list<"):
        offsets = _offsets(np.fromiter(map(len, present), np.int64, len(present)), mask)
        items = array_of(Kind(kind.name, kind.type[5:-1]), list(chain.from_iterable(present)))
        return pa.Array.from_buffers(type_of(kind.type), count, [bitmap, offsets], children=[items])
    if kind.type == STRING:
        lengths, data = _texts(kind.name, present)
        buffers = [bitmap, _offsets(lengths, mask), pa.py_buffer(data)]
        return pa.Array.from_buffers(type_of(STRING), count, buffers)
    return pa.Array.from_buffers(type_of(kind.type), count, [bitmap, _numbers(kind, present, mask)])


def _texts(name: str, values: Sequence[str]) -> tuple[NDArray[np.int64], bytes]:
    """Return the length in bytes of each text, and all texts in a row."""
    import numpy as np

    data = columns.utf8(name, values)
    if data.isascii():
        return np.fromiter(map(len, values), np.int64, len(values)), data
    return np.fromiter((len(value.encode()) for value in values), np.int64, len(values)), data


def _offsets(lengths: NDArray[np.int64], mask: NDArray[np.bool_] | None) -> pa.Buffer:
    import numpy as np

    count = len(lengths) if mask is None else len(mask)
    steps = np.zeros(count + 1, np.int64)
    steps[1:] = lengths if mask is None else _spread(lengths, mask)
    return _buffer(np.cumsum(steps))


def _numbers(kind: Kind, present: Any, mask: NDArray[np.bool_] | None) -> pa.Buffer:
    import numpy as np

    wanted = {INT64: np.int64, DOUBLE: np.float64, BOOL: np.bool_}[kind.type]
    raw: NDArray[Any]
    try:
        raw = np.frombuffer(present, kind.array) if kind.array else np.fromiter(present, wanted, len(present))
    except OverflowError as error:
        raise InputError(f"property {kind.name}: value: does not fit into 64 bits") from error
    if raw.dtype.kind == "u" and int(raw.max(initial=0)) > canonical.INT64_MAX:
        raise InputError(f"property {kind.name}: value: does not fit into 64 bits")
    values: NDArray[Any] = raw.astype(wanted, copy=False)
    values = values if mask is None else _spread(values, mask)
    return _buffer(np.packbits(values, bitorder="little") if kind.type == BOOL else values)


def _buffer(values: NDArray[Any]) -> pa.Buffer:
    import pyarrow as pa

    return pa.py_buffer(values.data)


def _spread(values: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[Any]:
    """Return ``values`` at the places where ``mask`` is true, zero elsewhere."""
    import numpy as np

    found = np.zeros(len(mask), values.dtype)
    found[mask] = values
    return found
