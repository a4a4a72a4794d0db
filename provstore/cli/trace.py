"""``provstore trace``: where something comes from, or what came of it."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from provstore import errors
from provstore.cli._options import Globals, flags
from provstore.cli._screen import Screen, print_lines
from provstore.cli._stores import opened
from provstore.cli._trace_view import table, tree_lines

EXAMPLES = """Examples:

\b
provstore trace tensor:2:3:out
provstore trace tensor:2:3:out dumps/ --depth 2
provstore trace act:2:all_reduce:3 --down --format table
provstore trace tensor:2:3:out --to tensor:0:1:in"""


class Format(enum.StrEnum):
    """How a trace is shown."""

    TREE = "tree"
    TABLE = "table"
    JSON = "json"
    DOT = "dot"
    MERMAID = "mermaid"
    PROV_N = "prov-n"


WRITTEN = (Format.DOT, Format.MERMAID, Format.PROV_N)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(flags(trace))


def trace(
    settings: Globals,
    *,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="What to trace: tensor:RANK:SEQ:in|out, tensor.grad/RANK/STEP/NAME, act:RANK:OP:SEQ, rRANK:seqSEQ, "
            "p2p:RANK:OPID, sha256:DIGEST or an id (--json gives them); docs/reference/targets.md tells more.",
        ),
    ],
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH...", help="Dumps to read first, into a throw-away store.")
    ] = None,
    down: Annotated[bool, typer.Option("--down", help="What came of it, instead of where it comes from.")] = False,
    depth: Annotated[int | None, typer.Option(metavar="N", help="At most so many hops.", min=1)] = None,
    to: Annotated[str | None, typer.Option(metavar="TARGET", help="Show one shortest path to this target.")] = None,
    form: Annotated[Format, typer.Option("--format", help="How to show it.")] = Format.TREE,
    run: Annotated[str | None, typer.Option(metavar="ID", help="Run to look in.")] = None,
    attempt: Annotated[int | None, typer.Option(metavar="N", help="Attempt to look in.", min=0)] = None,
    group: Annotated[str | None, typer.Option(metavar="NAME", help="Process group a short target is meant in.")] = None,
    data_only: Annotated[bool, typer.Option("--data-only", help="Leave out the order of calls on a rank.")] = False,
    max_nodes: Annotated[
        int | None, typer.Option(metavar="N", help="Stop after so many nodes, and say so.", min=1)
    ] = None,
    require_complete: Annotated[
        bool, typer.Option("--require-complete", help="Exit code 3 when the answer is cut.")
    ] = False,
) -> None:
    """Show where a tensor or call comes from, or what came of it.

    Everything it may come from is shown, with --down everything it may have influenced, or the answer says that it
    is cut. Exit code: 0 answered, 2 unknown or ambiguous target, 3 cut although --require-complete, 7 store
    unavailable.
    """
    from provstore import api

    screen = Screen(settings)
    with api.open("memory:") if paths else opened(settings) as store:
        if paths:
            with screen.progress("reading") as progress:
                store.ingest(*paths, run=run, attempt=attempt, progress=progress)
        found = store.trace(
            target,
            down=down,
            depth=depth,
            to=to,
            run=run,
            attempt=attempt,
            group=group,
            data_only=data_only,
            max_nodes=max_nodes,
        )
        remedy = ""
        if to is not None and not found.nodes:
            back = store.trace(target, down=not down, to=to, run=run, attempt=attempt, group=group)
            remedy = f"try {'without' if down else 'with'} --down" if back.nodes else "nor is there one the other way"
        text = found.to_text(form.value) if form in WRITTEN and not settings.json else None
    code = errors.EXIT_UNDECIDED if require_complete and not found.complete else errors.EXIT_OK
    if text is not None:
        screen.show_text(text, code)

    def draw(console: Console) -> None:
        if form is Format.TABLE:
            table(console, found, verbose=settings.verbose)
        else:
            print_lines(console, tree_lines(found, width=console.width, verbose=settings.verbose))
        if remedy:
            console.print(remedy, style="green")

    screen.show(found.to_dict(), draw, code, as_json=form is Format.JSON)
