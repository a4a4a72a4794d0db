"""``provstore admin``: what an operator switches for every process on a store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from provstore.cli._choices import one_of
from provstore.cli._options import Globals, flags
from provstore.cli._screen import Line, Screen, print_lines
from provstore.cli._text import counted, folded
from provstore.errors import ConfigError

if TYPE_CHECKING:
    from provstore.api.control import SafeMode

_EXAMPLES = {
    "safe-mode": """Examples:

\b
provstore admin safe-mode on --reason "disk of node 7 is being copied"
provstore admin safe-mode status
provstore admin safe-mode off""",
    "resume": "Example: provstore admin resume",
    "escalate": """Examples:

\b
provstore admin escalate --scope run --steps 50 --reason "loss looks odd" --directory capture
provstore admin escalate --scope rank:3 --reason "its host was replaced" --directory capture""",
    "deescalate": "Example: provstore admin deescalate --scope run --directory capture",
}
_STATES = ("on", "off", "status")
_SCOPE = "rank:R, group:NAME (default: that of all ranks), host:NAME, epoch or run."
_DIRECTORY = typer.Option(
    metavar="DIR",
    help="Capture directory of the running job.",
    envvar="PROVSTORE_CAPTURE_DIRECTORY",
    show_envvar=True,
)


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="Switch what holds for every process on a store.", no_args_is_help=True, rich_markup_mode=None
    )
    commands = (("safe-mode", safe_mode), ("resume", resume), ("escalate", escalate), ("deescalate", deescalate))
    for name, command in commands:
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
    """Forbid writing, running and contacting; allow it again.

    Status shows which. It holds for every later command of every process and host on this store, and stands in the
    journal; listing, showing, verifying, diagnosing, diff and recording inside jobs go on, and no deeper recording is
    ordered. Exit code: 0 done, 2 usage, 4 a later version switched it, 7 there is no journal.
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

    Exit code: 0 done, 4 a later version switched it, 7 there is no journal.
    """
    from provstore.api import control

    _show(settings, control.switch(settings.store, settings.journal, on=False, reason=""))


def escalate(
    settings: Globals,
    *,
    scope: Annotated[str, typer.Option(metavar="SCOPE", help=f"What to record more deeply: {_SCOPE}")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; stands in the record.")],
    steps: Annotated[
        int | None,
        typer.Option(metavar="N", help="For so many steps [default: until deescalate, or the epoch ends].", min=1),
    ] = None,
    directory: Annotated[Path | None, _DIRECTORY] = None,
) -> None:
    """Have a running job record a scope in full.

    All ranks begin at one step, three after the latest that is recorded, or the second one where none is. An order for
    a scope that has one makes it last longer, and both reasons are kept. Exit code: 0 ordered, 2 no such directory,
    rank, group or host, or the job has ended, 4 a later version ordered there, 6 safe mode, 7 it cannot be written.
    """
    from provstore.api import control

    control.require_allowed("admin escalate", settings.store, settings.journal)
    order = control.escalate(_given(directory), scope, reason, steps)

    def draw(console: Console) -> None:
        until = "until the epoch ends" if order.scope == "epoch" else "until provstore admin deescalate"
        length = f"for {counted(steps, 'step')}" if steps is not None else until
        if order.earlier_reasons:
            length += f"; before, for: {'; '.join(order.earlier_reasons)}"
        said = f"{order.name}: {order.scope} is recorded in full from {order.beginning}, {length}"
        print_lines(console, (Line(text) for text in folded(said, console.width, "", "  ")))

    Screen(settings).show({"ordered": asdict(order)}, draw)


def deescalate(
    settings: Globals,
    *,
    scope: Annotated[
        str | None, typer.Option(metavar="SCOPE", help=f"{_SCOPE} [default: all orders]", show_default=False)
    ] = None,
    directory: Annotated[Path | None, _DIRECTORY] = None,
) -> None:
    """End what escalate ordered; in safe mode too.

    Exit code: 0 done, 2 no such directory, or nothing is ordered for that scope, 4 a later version ordered there,
    7 it cannot be written.
    """
    from provstore.api import control

    ended = control.deescalate(_given(directory), scope)

    def draw(console: Console) -> None:
        print_lines(console, (Line(f"{order.name}: {order.scope}: ended") for order in ended))

    Screen(settings).show({"ended": [asdict(order) for order in ended]}, draw)


def _given(directory: Path | None) -> Path:
    if directory is None:
        text = "--directory: not given, and PROVSTORE_CAPTURE_DIRECTORY is not set"
        raise ConfigError(text, hint="it is the directory that provstore.capture.evidence writes")
    return directory


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
