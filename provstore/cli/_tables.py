"""Tables of data: every cell is text as it stands, long ones are folded to the width of the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from provstore.cli._text import printable


def grid(console: Console, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows below their column names; numbers stand at the right."""
    listed = [list(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for at, name in enumerate(columns):
        numeric = any(isinstance(row[at], (int, float)) for row in listed)
        table.add_column(Text(printable(name)), justify="right" if numeric else "left", overflow="fold")
    for row in listed:
        table.add_row(*(Text(cell_text(value)) for value in row))
    console.print(table)


def cell_text(value: object) -> str:
    """Return a value as one line: nothing for ``None``, lists in brackets, control characters spelled."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(cell_text, value)) + "]"
    return printable(value)
