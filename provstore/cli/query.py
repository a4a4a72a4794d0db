"""``provstore query``: the shipped questions, and read-only Cypher of your own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console

from provstore import errors
from provstore.cli._choices import parameters
from provstore.cli._options import Globals, flags
from provstore.cli._screen import Line, Screen, print_lines
from provstore.cli._stores import opened
from provstore.cli._tables import grid
from provstore.cli._text import folded
from provstore.errors import ConfigError
from provstore.model.report import Answer

FORENSIC = ("collectives", "runs")
"""Topics of questions that people ask; the others are building blocks."""

EXAMPLES = """Examples:

\b
provstore query --list
provstore query lagging_ranks
provstore query last_call_per_rank --param run=my-job --param attempt=0
provstore query --cypher 'MATCH (c:Call) RETURN c.rank AS rank, count(*) AS calls ORDER BY rank'"""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(flags(query))


def query(
    settings: Globals,
    *,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A shipped query: see --list.")] = None,
    param: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A parameter of the query.")] = None,
    cypher: Annotated[str | None, typer.Option(metavar="TEXT", help="Read-only Cypher of your own.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the shipped queries.")] = False,
) -> None:
    """Ask a shipped question, or one of your own in read-only Cypher.

    Exit code: 0 answered, 2 unknown query or parameter, 4 a limit was hit, 7 store unavailable.
    """
    from provstore import api

    if (name is not None) + (cypher is not None) + listed != 1:
        raise ConfigError("query: give one of NAME, --cypher TEXT and --list")
    screen = Screen(settings)
    if listed:
        answer = api.shipped_queries()
    else:
        given = parameters(param or [])
        with opened(settings) as store:
            answer = (
                store.cypher(cypher, **given)
                if cypher is not None
                else store.query(_full_name(name or "", api.shipped_queries()), **given)
            )

    def draw(console: Console) -> None:
        if listed:
            print_lines(console, _listed(answer, console.width, verbose=settings.verbose))
            return
        grid(console, answer.columns, [[row.get(name) for name in answer.columns] for row in answer.rows])
        if not answer.complete:
            console.print(f"not complete: cut by {answer.reason}", style="yellow")

    screen.show(answer.to_dict(), draw, errors.EXIT_OK if answer.complete else errors.EXIT_NOT_UNDERSTOOD)


def _full_name(name: str, shipped: Answer) -> str:
    """Return the name of a shipped query with its topic, which may be left out where one topic has it."""
    plain = name.replace("-", "_")
    fits = [str(row["name"]) for row in shipped.rows if str(row["name"]).rpartition("/")[2] == plain]
    return fits[0] if len(fits) == 1 else plain


def _listed(shipped: Answer, width: int, *, verbose: bool) -> Iterator[Line]:
    for row in shipped.rows:
        topic, _, name = str(row["name"]).rpartition("/")
        if verbose or topic in FORENSIC:
            yield Line(name if topic in FORENSIC else f"{topic}/{name}", "bold")
            taken = f" Takes {row['parameters']}." if row["parameters"] else ""
            yield from (Line(line) for line in folded(f"{row['answers']}{taken}", width, "    ", "    "))
    if not verbose:
        yield Line("--verbose lists the building blocks too, --json with their columns", "dim")
