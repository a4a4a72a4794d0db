"""``provstore ingest``: read evidence into the journal and the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from provstore.cli._choices import rank_map
from provstore.cli._options import Globals, flags
from provstore.cli._reports import ingest_code, ingest_lines
from provstore.cli._screen import Screen, print_lines
from provstore.cli._stores import opened

EXAMPLES = """Examples:

\b
provstore ingest dumps/
provstore ingest dumps/ --run my-job --attempt 1
provstore ingest pipeline.provn --as prov-n"""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(flags(ingest))


def ingest(
    settings: Globals,
    *,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Files or folders of evidence.")],
    run: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Run the evidence belongs to [default: sidecar's, else folder's name]."),
    ] = None,
    attempt: Annotated[
        int | None, typer.Option(metavar="N", help="Incarnation of the run [default: sidecar's, else 0].", min=0)
    ] = None,
    source: Annotated[
        str | None, typer.Option("--as", metavar="SOURCE", help="What the files are [default: recognised by content].")
    ] = None,
    rank_regex: Annotated[
        str | None, typer.Option(metavar="REGEX", help="How a file name tells the rank: one group named rank.")
    ] = None,
    rank_map_file: Annotated[
        Path | None, typer.Option("--rank-map", metavar="FILE", help="JSON object: file name to rank.")
    ] = None,
    recursive: Annotated[bool, typer.Option("--recursive", help="Look into subfolders too.")] = False,
    keep_source: Annotated[
        bool, typer.Option("--keep-source/--no-keep-source", help="Keep each file's bytes in the journal.")
    ] = True,
) -> None:
    """Read dumps and PROV documents into the journal and the graph.

    Reading the same evidence again adds nothing. Exit code: 0 all read, 2 some file refused, 7 store or journal
    unavailable.
    """
    screen = Screen(settings)
    with (
        opened(settings, read_only=False) as store,
        screen.progress("reading") as progress,
    ):
        report = store.ingest(
            *paths,
            source=source,
            run=run,
            attempt=attempt,
            rank_regex=rank_regex,
            rank_map=rank_map(rank_map_file),
            recursive=recursive,
            keep_source=keep_source,
            progress=progress,
        )

    def draw(console: Console) -> None:
        print_lines(console, ingest_lines(report, width=console.width, verbose=settings.verbose, quiet=settings.quiet))

    screen.show(report.to_dict(), draw, ingest_code(report))
