"""Text and tables that come from data, made fit to be shown: nothing in them is obeyed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

# C0 and C1 controls, DEL, line and paragraph separators, bidirectional overrides and isolates, lone surrogates.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_SHOWN_ROWS = 50


def printable(value: object) -> str:
    r"""Return ``value`` as one line of text in which every control character is spelled, such as ``\x1b``."""
    return UNSAFE.sub(lambda found: _spelled(found.group()), str(value))


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


def _spelled(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
