"""Text that comes from data, made fit to be shown: control characters are spelled out, never obeyed."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

from provstore.model.display import UNSAFE, printable

__all__ = [
    "counted",
    "folded",
    "named_ranks",
    "printable",
    "printable_block",
    "ranks_text",
    "safe_json",
    "spelled_controls",
]

_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable_block(text: str) -> str:
    """Return ``text`` with control characters spelled, its line breaks kept."""
    return "\n".join(map(printable, text.split("\n")))


def folded(text: str, width: int, head: str = "", indent: str = "") -> list[str]:
    """Return ``text`` in lines of at most ``width`` columns, the first led by ``head``, the others by ``indent``."""
    lines = textwrap.wrap(
        printable(text), max(width, 40), initial_indent=head, subsequent_indent=indent, break_on_hyphens=False
    )
    return lines or [head.rstrip()]


def safe_json(text: str) -> str:
    """Return JSON ``text`` with the control characters that JSON allows raw written as escapes; it stays equal JSON."""
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def spelled_controls(text: str) -> str:
    r"""Return a document with every control character but tab and line break written as ``\uXXXX``."""
    return UNSAFE.sub(lambda found: found[0] if found[0] in "\n\t" else f"\\u{ord(found[0]):04X}", text)


def ranks_text(ranks: Iterable[int]) -> str:
    """Return a set of ranks in short: ``3``, ``0-3, 8``."""
    spans: list[tuple[int, int]] = []
    for rank in sorted(set(ranks)):
        if spans and spans[-1][1] == rank - 1:
            spans[-1] = (spans[-1][0], rank)
        else:
            spans.append((rank, rank))
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def named_ranks(ranks: Iterable[int]) -> str:
    """Return a set of ranks with its noun: ``rank 3``, ``ranks 0-3, 8``."""
    listed = ranks_text(ranks)
    return f"{'rank' if listed.isdigit() else 'ranks'} {listed}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: ``1 finding``, ``2 findings``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
