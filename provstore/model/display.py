"""How results look in a notebook: small tables, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_SHOWN_ROWS = 50


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = ()) -> str:
    """Return an HTML table under a title; at most 50 rows are shown and the rest is counted."""
    listed = list(rows)
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape('' if cell is None else str(cell))}</td>" for cell in row) + "</tr>"
        for row in listed[:_SHOWN_ROWS]
    )
    more = f"<p>… and {len(listed) - _SHOWN_ROWS:,} more</p>" if len(listed) > _SHOWN_ROWS else ""
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return (
        f"<p><b>{escape(title)}</b></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}{below}"
    )
