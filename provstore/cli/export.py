"""``provstore export``: write a run in an exchange or picture format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from provstore.cli._options import Globals, flags
from provstore.cli._reports import export_lines
from provstore.cli._screen import Screen, print_lines
from provstore.cli._stores import opened

EXAMPLES = """Examples:

\b
provstore export prov-json -o run.json
provstore export prov-n --run my-job
provstore export mermaid --run my-job -o run.mmd"""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(flags(export))


def export(
    settings: Globals,
    *,
    form: Annotated[str, typer.Argument(metavar="FORMAT", help="prov-json, prov-n, dot, mermaid or json.")],
    run: Annotated[str | None, typer.Option(metavar="ID", help="Run to export [default: the only one].")] = None,
    attempt: Annotated[int | None, typer.Option(metavar="N", help="Attempt to export.", min=0)] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write [default: standard output].")
    ] = None,
) -> None:
    """Write a run as PROV-JSON, PROV-N, JSON, DOT or Mermaid.

    Exit code: 0 written, 2 unknown format, run or file, 7 store unavailable.
    """
    screen = Screen(settings)
    with opened(settings) as store:
        if output is None:
            screen.stream_text(lambda stream: store.export(form, run=run, attempt=attempt, to=stream))
        report = store.export(form, run=run, attempt=attempt, to=output)

    def draw(console: Console) -> None:
        print_lines(console, export_lines(report, width=console.width))

    screen.show(report.to_dict(), draw)
