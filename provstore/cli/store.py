"""``provstore store``: look at a store, check it against its journal, make it anew."""

from __future__ import annotations

import typer
from rich.console import Console

from provstore import config
from provstore.cli._options import Globals, flags
from provstore.cli._reports import check_code, check_lines, info_lines, rebuild_code, rebuild_lines
from provstore.cli._screen import Screen, print_lines
from provstore.cli._stores import ask_password, opened


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="Look at a store, check it against its journal, make it anew.", no_args_is_help=True, rich_markup_mode=None
    )
    for command in (info, check, rebuild):
        group.command(epilog=f"Example: provstore store {command.__name__}")(flags(command))
    app.add_typer(group, name="store")


def info(settings: Globals) -> None:
    """Show the engine, the journal, the runs and the counts.

    Exit code: 0 shown, 7 store unavailable.
    """
    screen = Screen(settings)
    with opened(settings) as store:
        facts = store.info()

    def draw(console: Console) -> None:
        print_lines(console, info_lines(facts, width=console.width))

    screen.show(facts.to_dict(), draw)


def check(settings: Globals) -> None:
    """Check the journal, and the graph against it.

    Every byte of the journal is read, every line of the graph compared. Exit code: 0 nothing wrong, 4 the graph
    lacks what the journal holds already, so they were not compared, 7 damage or a graph that differs; the answer says
    what.
    """
    screen = Screen(settings)
    with (
        opened(settings) as store,
        screen.progress("checking"),
    ):
        report = store.check()

    def draw(console: Console) -> None:
        print_lines(console, check_lines(report, width=console.width, verbose=settings.verbose))

    screen.show(report.to_dict(), draw, check_code(report))


def rebuild(settings: Globals) -> None:
    """Throw the graph away and make it again from the journal.

    Exit code: 0 made, 6 safe mode is on, 7 journal damaged or store unavailable.
    """
    from provstore import api
    from provstore.api.control import require_allowed

    require_allowed("store rebuild", settings.store, settings.journal)
    screen = Screen(settings)
    ask_password(config.store_uri(settings.store))
    with screen.progress("rebuilding") as progress:
        report = api.rebuild(settings.store, journal=settings.journal, progress=progress)

    def draw(console: Console) -> None:
        print_lines(console, rebuild_lines(report, width=console.width))

    screen.show(report.to_dict(), draw, rebuild_code(report))
