"""``provstore ingest``: read evidence into the journal and the graph."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from provstore.cli import _keys
from provstore.cli._choices import rank_map
from provstore.cli._options import Globals, flags
from provstore.cli._reports import ingest_code, ingest_lines
from provstore.cli._screen import Screen, print_lines
from provstore.cli._stores import opened
from provstore.cli.seal import seal_lines
from provstore.errors import ConfigError

EXAMPLES = """Examples:

\b
provstore ingest dumps/
provstore ingest dumps/ --run my-job --attempt 1
provstore ingest dumps/ --seal --key alice
provstore ingest pipeline.provn --as prov-n
provstore ingest agent.jsonl"""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(flags(ingest))


def ingest(
    settings: Globals,
    *,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files or folders of evidence.")],
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
    seal: Annotated[bool, typer.Option("--seal", help="Sign what came in.")] = False,
    key: Annotated[str | None, typer.Option(metavar="URI", help=_keys.KEY_HELP)] = None,
    insecure_key_mode: Annotated[bool, _keys.INSECURE] = False,
) -> None:
    """Read dumps, PROV documents and agents' files into a store.

    Reading the same evidence again adds nothing. Exit code: 0 all read, 2 some file refused, 6 safe mode is on, 7 store
    or journal unavailable.
    """
    from provstore.api.control import require_allowed

    if key is not None and not seal:
        raise ConfigError("ingest: --key: signs only with --seal", hint="add --seal")
    # Before a key is looked for, and a passphrase asked for.
    require_allowed("ingest", settings.store, settings.journal)
    signing = _keys.run_signer(key, insecure_mode=insecure_key_mode) if seal else None
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
        sealed = (
            [store.seal(signer=signing[0], run=name, attempt=number) for name, number in report.runs] if signing else []
        )

    if signing:
        for remark in signing[1].remarks(one.run for said in sealed for one in said.runs if one.epochs):
            screen.remark(remark)
    answer = report.to_dict() | ({"sealed": [asdict(one) for said in sealed for one in said.runs]} if seal else {})

    def draw(console: Console) -> None:
        print_lines(console, ingest_lines(report, width=console.width, verbose=settings.verbose, quiet=settings.quiet))
        for said in sealed:
            print_lines(console, seal_lines(said, width=console.width))

    screen.show(answer, draw, ingest_code(report))
