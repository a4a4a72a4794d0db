"""``provstore watch``: look after a running job, and have it record more deeply when something is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from provstore import errors
from provstore.cli._options import Globals, flags
from provstore.cli._screen import Line, Screen, print_lines
from provstore.cli._text import folded, named_ranks, safe_json
from provstore.errors import ConfigError

if TYPE_CHECKING:
    from provstore.ingest.watching import Polled

EXAMPLES = """Examples:

\b
provstore watch --directory capture --kernel-log journalctl
provstore watch --directory capture --dcgm http://localhost:9400/metrics --dumps dumps
provstore watch --directory capture --metric 'temp=DCGM_FI_DEV_GPU_TEMP' --above temp=90:80
provstore watch --directory capture --kernel-log kern.log --once"""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(flags(watch))


def watch(
    settings: Globals,
    *,
    directory: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Capture directory of the running job.",
            envvar="PROVSTORE_CAPTURE_DIRECTORY",
            show_envvar=True,
        ),
    ] = None,
    kernel_log: Annotated[
        str | None, typer.Option(metavar="WHERE", help="journalctl, dmesg, or a file: XID errors of GPUs.")
    ] = None,
    dcgm: Annotated[str | None, typer.Option(metavar="URL", help="Metrics of dcgm-exporter: XID errors.")] = None,
    gcm: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="GCM's health_checks check-syslogs xid …, run each round.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=QUERY", help="Ask Prometheus (PROMETHEUS_QUERY_URL). Repeatable."),
    ] = None,
    above: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE[:CLEAR]", help="Values above it are unusual, until at most CLEAR. Repeatable."
        ),
    ] = None,
    below: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE[:CLEAR]", help="Values below it are unusual. Repeatable."),
    ] = None,
    dumps: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Diagnose the dumps that the job leaves there.")
    ] = None,
    interval: Annotated[float, typer.Option(metavar="SECONDS", help="Between two rounds.", min=0.1, max=86_400)] = 30.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and end; the next look goes on from there.")] = False,
) -> None:
    """Look after a running job, and order deeper recording.

    It runs beside the job and orders where something is wrong. Watched are errors of GPUs, metrics, dumps of hangs, and
    ranks that hold different bytes after a collective. Everything seen is kept in watch.jsonl of the capture directory.
    Exit code with --once: 0 nothing new, 1 something was ordered, 3 a source gave no information, or there was nothing
    to look at; else it runs until it is interrupted (130). 2 usage, 4 a later version watched or
    ordered there, 6 safe mode.
    """
    from provstore.api import control, watching

    control.require_allowed("watch", settings.store, settings.journal)
    if directory is None:
        raise ConfigError("--directory: not given, and PROVSTORE_CAPTURE_DIRECTORY is not set")
    what = watching.sources(
        kernel_log=kernel_log,
        dcgm=dcgm,
        gcm=gcm,
        metrics=metric or (),
        above=above or (),
        below=below or (),
        dumps=dumps,
    )
    screen = Screen(settings)
    if once:
        found = watching.look(directory, what)
        screen.show(found.to_dict(), lambda console: print_lines(console, _lines(found, console.width)), _code(found))
    for found in watching.watch(directory, what, interval_seconds=interval):
        if found.is_quiet:
            continue
        if settings.json:
            typer.echo(safe_json(json.dumps(found.to_dict(), ensure_ascii=False)))
        else:
            _print(found)


def _print(found: Polled) -> None:
    console = Console(highlight=False, markup=False)
    print_lines(console, _lines(found, console.width))


def _code(found: Polled) -> int:
    if found.ordered:
        return errors.EXIT_NO
    return errors.EXIT_UNDECIDED if found.problems or not found.looked_at else errors.EXIT_OK


def _lines(found: Polled, width: int) -> Iterator[Line]:
    for signal in found.signals:
        head = "before the run, for context" if signal.is_context else "seen"
        who = f" on {named_ranks(signal.ranks)}" if signal.ranks else f" on {signal.host}" if signal.host else ""
        what = f"XID {signal.code} ({signal.fault_class})" if signal.code is not None else str(signal.name)
        yield from _said(f"{head}: {what}{who}: {signal.source}: {signal.line}", width)
    for one in found.disagreements:
        who = f"{named_ranks(one.minority)} differ" if one.minority else "no majority: nobody is named"
        yield from _said(f"seen: {one.op} #{one.seq} of {one.group}: ranks hold different bytes: {who}", width)
    for text in found.findings:
        yield from _said(f"seen: {text}", width)
    for problem in found.problems:
        yield from (
            Line(text, "yellow") for text in folded(f"no information: {problem.code}: {problem.text}", width, "", "  ")
        )
    for order in found.ordered:
        length = "" if order.steps is None else f" for {order.steps} steps"
        text = f"ordered: {order.name}: {order.scope} is recorded in full from {order.beginning}{length}"
        yield from (Line(part, "bold") for part in folded(text, width, "", "  "))
    for order in found.closed:
        yield from _said(f"over: {order.name}: {order.scope}", width)
    for name, query in found.without_series.items():
        text = f"nothing to look at: {name}: Prometheus has no series of {query or 'the query of its address'}"
        yield from (Line(part, "yellow") for part in folded(text, width, "", "  "))
    if not found.looked_at and not found.without_series:
        text = "no source to look at: the directory holds no rank's file, and no --kernel-log, --dcgm, … was given"
        yield from (Line(part, "yellow") for part in folded(text, width, "", "  "))
    elif found.looked_at and found.is_quiet:
        yield from _said(f"nothing new: looked at {', '.join(found.looked_at)}", width)


def _said(text: str, width: int) -> Iterator[Line]:
    yield from (Line(part) for part in folded(text, width, "", "  "))
