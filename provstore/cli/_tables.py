"""Tables of data: every cell is text as it stands, long ones are folded to the width of the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from provstore.cli._text import folded, printable

_READABLE = 28
_GAP = 2


def grid(console: Console, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows below their column names; what would be torn to shreds by the width is printed row by row instead."""
    listed = [list(row) for row in rows]
    if any(_is_lines(cell) for row in listed for cell in row) or not _fits(columns, listed, console.width):
        _records(console, columns, listed)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_edge=False)
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
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(cell_text, value)) + "]"
    return printable(value)


def _is_lines(value: object) -> TypeGuard[list[str]]:
    """Return whether a value is several texts too long for a cell, such as a stack's frames: they stand one a line."""
    texts = isinstance(value, list) and len(value) > 1 and all(isinstance(part, str) for part in value)
    return texts and len(cell_text(value)) > 80


def _fits(columns: Sequence[str], rows: Sequence[Sequence[object]], width: int) -> bool:
    """Return whether every column gets its natural width, or at least a readable part of it."""
    natural = (max([len(name), *(len(cell_text(row[at])) for row in rows)]) for at, name in enumerate(columns))
    return sum(min(wanted, _READABLE) + _GAP for wanted in natural) - _GAP <= width


def _records(console: Console, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    broad = max(map(len, columns))
    for at, row in enumerate(rows):
        console.print(Text(f"{at + 1} ".ljust(min(console.width, 80), "─"), style="dim"))
        for name, value in zip(columns, row):
            if value is not None:
                head = f"{printable(name):<{broad}}  "
                indent = " " * len(head)
                for part, text in enumerate(map(cell_text, value if _is_lines(value) else [value])):
                    for line in folded(text, console.width, indent if part else head, indent):
                        console.print(Text(line), soft_wrap=True)
