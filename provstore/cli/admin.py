"""``provstore admin``: what an operator switches for every process on a store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from provstore.cli._choices import one_of
from provstore.cli._options import Globals, flags
from provstore.cli._screen import Line, Screen, print_lines
from provstore.cli._text import folded

if TYPE_CHECKING:
    from provstore.api.control import SafeMode

_EXAMPLES = {
    "safe-mode": """Examples:

\b
provstore admin safe-mode on --reason "disk of node 7 is being copied"
provstore admin safe-mode status
provstore admin safe-mode off""",
    "resume": "Example: provstore admin resume",
}
_STATES = ("on", "off", "status")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="Switch what holds for every process on a store.", no_args_is_help=True, rich_markup_mode=None
    )
    for name, command in (("safe-mode", safe_mode), ("resume", resume)):
        group.command(name, epilog=_EXAMPLES[name])(flags(command))
    app.add_typer(group, name="admin")


def safe_mode(
    settings: Globals,
    *,
    state: Annotated[str, typer.Argument(metavar="on|off|status", help="What to do.")],
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why; shown to everybody who is refused. Needed for on.")
    ] = None,
) -> None:
    """Forbid, allow again, or show whether is forbidden, everything that writes evidence, runs or contacts anything.

    It holds for every later command of every process and host on this store, and stands in the journal; listing,
    showing, verifying, diagnosing, diff and recording inside jobs go on. Exit code: 0 done, 2 usage, 7 there is no
    journal.
    """
    from provstore.api import control

    one_of(state, _STATES, "safe-mode")
    if state == "status":
        found = control.safe_mode(settings.store, settings.journal)
    else:
        found = control.switch(settings.store, settings.journal, on=state == "on", reason=reason or "")
    _show(settings, found)


def resume(settings: Globals) -> None:
    """End safe mode: the same as provstore admin safe-mode off.

    Exit code: 0 done, 7 there is no journal.
    """
    from provstore.api import control

    _show(settings, control.switch(settings.store, settings.journal, on=False, reason=""))


def _show(settings: Globals, found: SafeMode) -> None:
    screen = Screen(settings)
    screen.show(found.to_dict(), lambda console: print_lines(console, _lines(found, console.width)))


def _lines(found: SafeMode, width: int) -> Iterator[Line]:
    if found.since_ns is None:
        yield Line("safe mode is off; nobody ever switched it on")
        return
    state = "on" if found.is_on else "off"
    said = f"safe mode is {state}: {found.who} on {found.host} switched it {state} at {found.since}"
    if found.reason:
        said += f": {found.reason}"
    yield from (Line(text, "bold red" if found.is_on else "") for text in folded(said, width, "", "  "))
