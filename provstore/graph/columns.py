"""Making columns of a block: taking rows, leaving out what is absent."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from provstore.model.block import Column, Value
from provstore.model.dump import ABSENT


def constant(facts: Mapping[str, Value], length: int) -> dict[str, Column]:
    """Return a column of ``length`` equal values for each fact."""
    return {
        name: array("q", [value]) * length if type(value) is int else [value] * length for name, value in facts.items()
    }


def take(column: array[int], rows: Sequence[int]) -> Column:
    """Return the values at ``rows``, with ``ABSENT`` as ``None``; ``rows`` are distinct and ascending."""
    taken = column if len(rows) == len(column) else array("q", [column[row] for row in rows])
    return taken if ABSENT not in taken else [value if value != ABSENT else None for value in taken]


def without_empty(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return the columns that hold at least one value."""
    return {
        name: column
        for name, column in columns.items()
        if isinstance(column, array) or any(value is not None for value in column)
    }
