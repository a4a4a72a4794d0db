"""What carries a finding, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from provstore.cli._screen import Line, print_lines
from provstore.cli._tables import grid
from provstore.cli._text import counted, folded

if TYPE_CHECKING:
    from provstore.model.evidence_report import CarriedPage

_COLUMNS = ("run", "attempt", "epoch", "rank", "step", "action", "finding", "bundle")


def draw_carried(console: Console, page: CarriedPage) -> None:
    """Print a page of what carries a finding."""
    if not page.total:
        known = " that can be read" if page.notes else ""
        console.print(f"{page.asked}: no action and no bundle{known} carries it", style="dim", markup=False)
    several = len({row.code for row in page.rows}) > 1
    summaries = dict.fromkeys((row.code, row.summary) for row in page.rows)
    for code, summary in summaries:
        said = f"{code}: {summary}" if several or code != page.asked else summary
        print_lines(console, (Line(text) for text in folded(said, console.width, "", "  ")))
    rows = [
        (row.run, row.attempt, row.epoch, row.rank, row.step, row.action_id, row.finding[:16], (row.bundle or "")[:16])
        for row in page.rows
    ]
    if rows:
        grid(console, _COLUMNS, rows)
    if page.has_more:
        shown = f"{page.offset + 1} to {page.offset + len(page.rows)} of {counted(page.total, 'row')}"
        console.print(f"{shown}: --offset and --limit show the others", style="dim")
    for note in page.notes:
        print_lines(console, (Line(text, "yellow") for text in folded(note, console.width, "note  ", "      ")))
