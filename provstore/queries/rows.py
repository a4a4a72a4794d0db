"""Typed reading of result rows; a store that answers with another type is damaged."""

from __future__ import annotations

from collections.abc import Mapping

from provstore.errors import StoreError

Row = Mapping[str, object]


def integer(row: Row, column: str) -> int:
    """Return an integer of a row.

    Raises:
        StoreError: The column holds something else.
    """
    value = row[column]
    if isinstance(value, bool) or not isinstance(value, int):
        raise StoreError(f"the graph: {column}: {value!r} is not an integer", hint="run `provstore store rebuild`")
    return value


def optional_integer(row: Row, column: str) -> int | None:
    """Return an integer of a row, or None where it is absent."""
    return None if row[column] is None else integer(row, column)


def text(row: Row, column: str) -> str:
    """Return a text of a row.

    Raises:
        StoreError: The column holds something else.
    """
    value = row[column]
    if not isinstance(value, str):
        raise StoreError(f"the graph: {column}: {value!r} is not a text", hint="run `provstore store rebuild`")
    return value


def optional_text(row: Row, column: str) -> str | None:
    """Return a text of a row, or None where it is absent."""
    return None if row[column] is None else text(row, column)


def integers(row: Row, column: str) -> list[int]:
    """Return a list of integers of a row."""
    return [value for value in items(row, column) if isinstance(value, int)]


def texts(row: Row, column: str) -> list[str]:
    """Return a list of texts of a row."""
    return [value for value in items(row, column) if isinstance(value, str)]


def items(row: Row, column: str) -> list[object]:
    """Return a list of a row.

    Raises:
        StoreError: The column holds something else.
    """
    value = row[column]
    if not isinstance(value, list):
        raise StoreError(f"the graph: {column}: {value!r} is not a list", hint="run `provstore store rebuild`")
    return value
