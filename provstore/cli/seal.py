"""``provstore seal``: sign what is not signed yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from provstore import errors
from provstore.cli import _keys
from provstore.cli._options import Globals, flags
from provstore.cli._screen import Line, Screen, print_lines
from provstore.cli._stores import opened
from provstore.cli._targets import run_of
from provstore.cli._text import counted, folded, printable

if TYPE_CHECKING:
    from provstore.model.report import SealedRun, SealReport

EXAMPLES = """Examples:

\b
provstore seal
provstore seal my-job --key alice
provstore seal my-job --attempt 1 --close finished"""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(flags(seal))


def seal(
    settings: Globals,
    *,
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="The run, RUN or run:RUN [default: all].")] = None,
    attempt: Annotated[int | None, typer.Option(metavar="N", help="Incarnation of the run.", min=0)] = None,
    key: Annotated[str | None, typer.Option(metavar="URI", help=_keys.KEY_HELP)] = None,
    insecure_key_mode: Annotated[bool, _keys.INSECURE] = False,
    close: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Sign that nothing follows: finished, aborted or collector-lost."),
    ] = None,
    world: Annotated[int | None, typer.Option(metavar="N", help="How many ranks the run has.", min=1)] = None,
    train_epoch: Annotated[
        int | None, typer.Option(metavar="N", help="Training epoch that the records belong to.", min=0)
    ] = None,
    org: Annotated[str, typer.Option(metavar="NAME", help="First part of the origin of checkpoints.")] = "provstore",
    trust: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Trust file [default: PROVSTORE_TRUST, else yours].")
    ] = None,
    after_unknown_key: Annotated[
        bool,
        typer.Option(
            "--after-unknown-key", help="Sign on top of a bundle whose key is revoked or unknown.", show_default=False
        ),
    ] = False,
    rekeyed_rank: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Rank that has a second key: sign the record that says so.", min=0),
    ] = None,
) -> None:
    """Sign everything that is not signed yet.

    Keep the printed checkpoint elsewhere: it holds what is signed now in place. What another key signed is signed on
    top of when the trust file lists that key. Exit code: 0 signed, or nothing was unsigned; 1 what is signed already
    does not hold, or nobody vouches for it; 2 no such run or key, a revoked key, or a closed run with something new; 6
    safe mode is on; 7 store or journal unavailable, or the journal is damaged.
    """
    from provstore.api.control import require_allowed
    from provstore.api.signing import vouching

    # Before a key is looked for, and a passphrase asked for.
    require_allowed("seal", settings.store, settings.journal)
    screen = Screen(settings)
    signer, standing = _keys.run_signer(key, insecure_mode=insecure_key_mode)
    vouch = vouching(trust, after_unknown_key=after_unknown_key, rekeyed_ranks=rekeyed_rank or ())
    with opened(settings, read_only=False) as store, screen.progress("signing") as progress:
        report = store.seal(
            signer=signer,
            run=run_of(run),
            attempt=attempt,
            close=close,
            world=world,
            train_epoch=train_epoch,
            org=org,
            vouch=vouch,
            progress=progress,
        )

    for remark in standing.remarks(one.run for one in report.runs if one.epochs):
        screen.remark(remark)

    def draw(console: Console) -> None:
        print_lines(console, seal_lines(report, width=console.width))

    screen.show(report.to_dict(), draw, errors.EXIT_STORE if report.problems else errors.EXIT_OK)


def seal_lines(report: SealReport, *, width: int) -> Iterator[Line]:
    """Yield what was signed of each run, and the checkpoint to keep."""
    for one in report.runs:
        yield from (Line(text, "bold") for text in folded(_said(one), width, "", "  "))
        if one.checkpoint:
            yield Line("keep this checkpoint elsewhere; provstore verify --anchor FILE compares with it:", "dim")
            yield from (Line(f"  {printable(text)}") for text in one.checkpoint.rstrip("\n").split("\n"))
    if not report.runs:
        yield Line("every run is closed: there is nothing left to sign")
    for problem in report.problems:
        said = f"journal: {problem}; what is lost is not signed, and provstore store check names all of it"
        yield from (Line(text, "bold red") for text in folded(said, width, "", "  "))
    for note in report.notes:
        yield from (Line(text, "yellow") for text in folded(note, width, "", "  "))


def _said(one: SealedRun) -> str:
    run = f"run {one.run}, attempt {one.attempt}" if one.run else "imported documents"
    if not one.epochs and one.closed:
        return f"{run}: closed, and nothing was unsigned; {counted(one.size, 'record')} signed before"
    if not one.epochs:
        return f"{run}: nothing was unsigned; {counted(one.size, 'record')} signed before"
    epochs = str(one.epochs[0]) if len(one.epochs) == 1 else f"{one.epochs[0]}-{one.epochs[-1]}"
    closed = ", closed: nothing may follow" if one.closed else ""
    return (
        f"{run}: {counted(one.records, 'record')} signed in epoch {epochs} by {one.keyid}; "
        f"{counted(one.size, 'record')} in all{closed}"
    )
