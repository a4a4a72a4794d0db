"""``provstore record``: keep what a training run did, epoch by epoch, so that it can be signed and joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from provstore import errors
from provstore.cli import _keys
from provstore.cli._options import Globals, flags
from provstore.cli._screen import Line, Screen, print_lines
from provstore.cli._targets import run_of
from provstore.cli._text import counted, folded, named_ranks

if TYPE_CHECKING:
    from provstore.model.recording_report import EpochReport, FaultReport, RecordReport, SignalReport

EXAMPLES = """Examples:

\b
provstore record captures
provstore record captures --key alice
provstore record dumps --run my-job --epoch 3"""
_SHOWN = 20
_SHOWN_FAULTS = 5


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(flags(record))


def record(
    settings: Globals,
    *,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Capture directories, or folders of dumps.")],
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="Name of the run; a capture names its own.", show_default=False)
    ] = None,
    epoch: Annotated[
        int | None, typer.Option(metavar="N", help="Training epoch of dumps, which name none.", min=0)
    ] = None,
    attempt: Annotated[
        int | None, typer.Option(metavar="A", help="Incarnation of the run [default: as the files say, else 0].", min=0)
    ] = None,
    trace_id: Annotated[
        str | None, typer.Option(metavar="T", help="Trace id of what launched the run.", show_default=False)
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="URI", help=f"Sign everything that waits. {_keys.KEY_HELP}")
    ] = None,
    insecure_key_mode: Annotated[bool, _keys.INSECURE] = False,
    mode_floor: Annotated[
        str, typer.Option(metavar="MODE", help="Demand at least validation, delta or full of every action.")
    ] = "validation",
    recursive: Annotated[bool, typer.Option("--recursive", help="Look into subfolders too.")] = False,
) -> None:
    """Record what a job captured, or what its dumps show.

    Each call becomes an action and a part of the lineage, so that trace leads from tensor to tensor. Only the journal
    is written; the next command that reads shows it in the graph. What was recorded before is not recorded again. Exit
    code: 0 recorded, or it was before; 2 nothing usable, a file that cannot be used, or a closed run; 3 lines were left
    out, or differ from what was recorded; 4 something is of a version that is not known here; 6 safe mode is on;
    7 journal unavailable.
    """
    from provstore.api.control import require_allowed
    from provstore.api.recording import record as record_paths

    # Before a key is looked for, and a passphrase asked for.
    require_allowed("record", settings.store, settings.journal)
    screen = Screen(settings)
    signer, standing = _keys.run_signer(key, insecure_mode=insecure_key_mode) if key is not None else (None, None)
    with screen.progress("recording") as progress:
        report = record_paths(
            paths,
            run_of(run),
            epoch=epoch,
            attempt=attempt,
            trace_id=trace_id,
            mode_floor=mode_floor,
            recursive=recursive,
            signer=signer,
            store=settings.store,
            journal=settings.journal,
            progress=progress,
        )
    if standing is not None:
        for remark in standing.remarks({one.run for one in report.epochs if one.signed}):
            screen.remark(remark)
    is_partial = bool(report.problems or report.left_out)
    code = errors.EXIT_USAGE if report.refused else errors.EXIT_UNDECIDED if is_partial else errors.EXIT_OK
    if not report.is_understood:
        code = errors.EXIT_NOT_UNDERSTOOD

    def draw(console: Console) -> None:
        print_lines(console, record_lines(report, console.width, quiet=settings.quiet))

    screen.show(report.to_dict(), draw, code)


def record_lines(report: RecordReport, width: int, *, quiet: bool = False) -> Iterator[Line]:
    """Yield what was recorded of each epoch, what is missing from it, and what could not be used."""
    for one in report.epochs:
        yield from _epoch_lines(one, width, quiet=quiet)
    if report.lineage and any(one.status == "known" for one in report.epochs):
        yield Line(f"lineage of {counted(report.lineage, 'call')} was missing, and is written now")
    for seen in report.signals:
        yield from _signal_lines(seen, width)
    yield from _fault_lines(report.faults, width)
    notes = () if quiet else report.notes
    told = (("refused", report.refused, "bold red"), ("left out", report.problems, "red"), ("", notes, "yellow"))
    for title, texts, style in told:
        for text in texts[:_SHOWN]:
            said = f"{title}: {text}" if title else text
            yield from (Line(part, style) for part in folded(said, width, "", "  "))
        if len(texts) > _SHOWN:
            yield Line(f"… and {len(texts) - _SHOWN} more: --json lists them", "dim")


def _epoch_lines(one: EpochReport, width: int, *, quiet: bool) -> Iterator[Line]:
    part = f", part {one.part}" if one.part else ""
    name = f"run {one.run}, attempt {one.attempt}, epoch {one.epoch}{part}"
    done = {
        "new": f"{counted(one.actions, 'action')} recorded",
        "known": "already recorded: nothing was written",
        "finished": "recorded before, finished now",
    }[one.status]
    yield from (Line(text, "bold") for text in folded(f"{name}: {done}", width, "", "  "))
    yield Line(f"  bundle    sha256:{one.digest}")
    yield from _row("modes", f"recorded {_named(one.counts['recording_mode'])}; "
                             f"demanded {_named(one.counts['policy_mode'])}", width)  # fmt: skip
    if one.counts["shortfall"]:
        yield from _row("shortfall", _named(one.counts["shortfall"]), width, "yellow")
    if one.missing_ranks:
        of = "" if one.world_size is None else f" of {one.world_size}"
        shown = ", ".join(map(str, one.missing_ranks[:_SHOWN]))
        more = "" if len(one.missing_ranks) <= _SHOWN else ", …"
        yield from _row("missing", f"{counted(len(one.missing_ranks), 'rank')}{of}: {shown}{more}", width, "yellow")
    if not one.closed:
        where = f" on {named_ranks(one.open_ranks)}" if one.open_ranks else ""
        yield from _row("open", f"the epoch never ended{where}: it has no agent record", width, "yellow")
    if one.known_actions and one.status == "new":
        yield from _row("before", f"{counted(one.known_actions, 'action')} recorded earlier stay as they are", width)
    if one.other_content:
        text = f"{counted(one.other_content, 'action')} had other content when recorded; what was recorded stays"
        yield from _row("differs", text, width, "red")
    if one.evidence_epochs:
        numbers = ", ".join(map(str, one.evidence_epochs))
        yield from _row("signed", f"in evidence epoch {numbers}", width)
    elif one.status == "new" and not quiet:
        yield from _row("unsigned", "provstore seal signs it, or record with --key", width, "dim")


def _signal_lines(one: SignalReport, width: int) -> Iterator[Line]:
    done = f"{counted(one.new, 'line')} recorded" if one.new else "already recorded: nothing was written"
    text = f"run {one.run}, attempt {one.attempt}, seen beside the job: {_named(one.counts)}: {done}"
    yield from (Line(part, "bold") for part in folded(text, width, "", "  "))
    for found in one.findings[:_SHOWN]:
        yield from (Line(part, "yellow") for part in folded(f"{found.code}: {found.text}", width, "  ", "    "))
    if len(one.findings) > _SHOWN:
        yield Line(f"  … and {len(one.findings) - _SHOWN} more: --json lists them", "dim")


def _fault_lines(faults: Sequence[FaultReport], width: int) -> Iterator[Line]:
    """Yield what went wrong in the recorder itself: what such a fault was about is missing above."""
    for one in faults[:_SHOWN_FAULTS]:
        text = f"fault of the recorder: {one.where}: {one.error}: {one.count} times on {named_ranks(one.ranks)}"
        yield from (Line(part, "yellow") for part in folded(text, width, "", "  "))
    if len(faults) > _SHOWN_FAULTS:
        yield Line(f"… and {len(faults) - _SHOWN_FAULTS} other faults of the recorder: --json lists them", "dim")


def _row(title: str, text: str, width: int, style: str = "") -> Iterator[Line]:
    yield from (Line(part, style) for part in folded(f"{title:<9} {text}", width, "  ", "            "))


def _named(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "nothing"
