"""``provstore query``: the shipped questions, and read-only Cypher of your own."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from provstore import errors
from provstore.cli._choices import parameters
from provstore.cli._options import Globals, flags
from provstore.cli._screen import Screen
from provstore.cli._tables import grid
from provstore.errors import ConfigError
from provstore.model.report import Answer

ROOM = "read/collectives"

EXAMPLES = """Examples:

\b
provstore query --list
provstore query lagging-ranks
provstore query stack-of-call --param rank=2 --param seq=3
provstore query --cypher 'MATCH (c:Call) RETURN c.rank AS rank, count(*) AS calls ORDER BY rank'"""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(flags(query))


def query(
    settings: Globals,
    *,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A shipped query: see --list.")] = None,
    param: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A parameter of the query.")] = None,
    cypher: Annotated[str | None, typer.Option(metavar="TEXT", help="Read-only Cypher of your own.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the shipped queries.")] = False,
) -> None:
    """Ask a shipped question, or one of your own in read-only Cypher.

    Exit code: 0 answered, 2 unknown query or parameter, 4 a limit was hit, 7 store unavailable.
    """
    import provstore

    if (name is not None) + (cypher is not None) + listed != 1:
        raise ConfigError("query: give one of NAME, --cypher TEXT and --list")
    screen = Screen(settings)
    if listed:
        answer = _shipped()
    else:
        given = parameters(param or [])
        with provstore.open(settings.store_uri, journal=settings.journal, read_only=True) as store:
            answer = store.cypher(cypher, **given) if cypher is not None else store.query(name or "", **given)

    def draw(console: Console) -> None:
        grid(console, answer.columns, [[row.get(name) for name in answer.columns] for row in answer.rows])
        if not answer.complete:
            console.print(f"not complete: cut by {answer.reason}", style="yellow")

    screen.show(answer.to_dict(), draw, errors.EXIT_OK if answer.complete else errors.EXIT_NOT_UNDERSTOOD)


def _shipped() -> Answer:
    from provstore import cypher

    found = [cypher.query(name) for name in cypher.names(ROOM)]
    rows = tuple(
        {"name": one.name.removeprefix(f"{ROOM}/"), "params": ", ".join(one.params), "answers": one.summary}
        for one in found
    )
    return Answer(("name", "params", "answers"), rows)
