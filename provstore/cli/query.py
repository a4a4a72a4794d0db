"""``provstore query``: the shipped questions, and read-only Cypher of your own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from provstore import errors
from provstore.cli._choices import parameters
from provstore.cli._options import Globals, flags
from provstore.cli._screen import Line, Screen, print_lines
from provstore.cli._stores import hinting, opened
from provstore.cli._tables import grid
from provstore.cli._text import folded
from provstore.errors import ConfigError

if TYPE_CHECKING:
    from provstore.model.report import Answer

SPELLED = {
    "--run and --attempt": "--param run=ID and --param attempt=N",
    "--run, --attempt or --group": "--param run=ID, --param attempt=N or --param group=NAME",
}
"""Words of the API's hints → how they are given here."""

EXAMPLES = """Examples:

\b
provstore query --list
provstore query collectives/lagging_ranks
provstore query collectives/last_call_per_rank --param run=my-job --param attempt=0
provstore query --cypher 'MATCH (c:Call) RETURN c.rank AS rank, count(*) AS calls ORDER BY rank'"""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(flags(query))


def query(
    settings: Globals,
    *,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A shipped query: see --list.")] = None,
    param: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A parameter of the query, such as run=ID.")
    ] = None,
    cypher: Annotated[str | None, typer.Option(metavar="TEXT", help="Read-only Cypher of your own.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the shipped queries.")] = False,
) -> None:
    """Ask a shipped question, or your own in read-only Cypher.

    Exit code: 0 answered, 2 unknown query or parameter, 4 a limit was hit or the graph is
    behind its journal, 7 store unavailable.
    """
    from provstore import api

    if (name is not None) + (cypher is not None) + listed != 1:
        raise ConfigError("query: give one of NAME, --cypher TEXT and --list")
    screen = Screen(settings)
    if listed:
        answer = api.shipped_queries()
    else:
        given = parameters(param or [])
        with hinting(SPELLED), opened(settings) as store:
            answer = store.cypher(cypher, **given) if cypher is not None else store.query(name or "", **given)

    def draw(console: Console) -> None:
        if listed:
            print_lines(console, _listed(answer, console.width, verbose=settings.verbose))
            return
        if answer.columns:
            grid(console, answer.columns, [[row.get(name) for name in answer.columns] for row in answer.rows])
        if not answer.rows:
            console.print("0 rows", style="dim")
        if not answer.complete:
            console.print(f"not complete: cut by {answer.reason}", style="yellow")
        for note in answer.notes:
            print_lines(console, (Line(text, "dim") for text in folded(note, console.width, "", "  ")))

    screen.show(answer.to_dict(), draw, errors.EXIT_OK if answer.complete else errors.EXIT_NOT_UNDERSTOOD)


def _listed(shipped: Answer, width: int, *, verbose: bool) -> Iterator[Line]:
    from provstore.cypher import OFFERED

    for row in shipped.rows:
        name = str(row["name"])
        if verbose or f"read/{name}".startswith(OFFERED):
            yield Line(name, "bold")
            taken = f" Takes {row['parameters']}." if row["parameters"] else ""
            yield from (Line(line) for line in folded(f"{row['answers']}{taken}", width, "    ", "    "))
    if not verbose:
        yield Line("--verbose lists the building blocks too, --json with their columns", "dim")
