"""``provstore evidence``: list what is signed, look at it byte by byte, export it for other people's verifiers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console

from provstore import errors
from provstore.cli import _keys
from provstore.cli._carried import draw_carried
from provstore.cli._options import Globals, flags
from provstore.cli._recorded_view import COLUMNS, RANKS_TOLD, recorded_row
from provstore.cli._reports import ingest_code, ingest_lines
from provstore.cli._screen import Line, Screen, json_text, print_lines
from provstore.cli._stores import opened as opened_store
from provstore.cli._tables import grid
from provstore.cli._targets import run_of
from provstore.cli._text import counted, folded, printable, spelled_controls
from provstore.cli.join import join
from provstore.errors import ConfigError

if TYPE_CHECKING:
    from provstore.evidence.keys import Signer
    from provstore.exports.evidence import EvidenceExportReport
    from provstore.exports.evidence.agent_records import AgentExportOptions, AgentExportReport
    from provstore.model.evidence_report import EvidenceItem, EvidenceList, RunEvidence

_RUN = typer.Option(metavar="ID", help="Run, ID or run:ID [default: all].", show_default=False)
_ATTEMPT = typer.Option(metavar="N", help="Incarnation of the run.", min=0)
_EXAMPLES = {
    "list": """Examples:

\b
provstore evidence list
provstore evidence list my-job --finding replica-disagreement""",
    "show": """Examples:

\b
provstore evidence show epoch:my-job:0
provstore evidence show recorded:my-job:3
provstore evidence show 17 --run my-job
provstore evidence show r2:seq3 --run my-job
provstore evidence show sha256:3f5a --raw""",
    "export": """Examples:

\b
provstore evidence export my-job -o evidence
provstore evidence export my-job -o evidence --keyid hex --record 17
provstore evidence export my-job -o agents --format aep-jsonl --per-action
provstore evidence export my-job -o evidence --sign sshsig --sign minisign --key alice""",
    "import": "Example: provstore evidence import agent.jsonl",
    "join": "Example: provstore evidence join 463ac35c9f6413ad48485a3953bb6124",
}


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="List, show and export evidence; take in and join agents'.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    commands = (("list", list_), ("show", show), ("export", export), ("import", import_), ("join", join))
    for name, command in commands:
        group.command(name, epilog=_EXAMPLES[name])(flags(command))
    app.add_typer(group, name="evidence")


def list_(
    settings: Globals,
    *,
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="The run, RUN or run:RUN [default: all].")] = None,
    attempt: Annotated[int | None, _ATTEMPT] = None,
    epoch: Annotated[int | None, typer.Option(metavar="N", help="Only this training epoch.", min=0)] = None,
    mode: Annotated[
        str | None, typer.Option(metavar="MODE", help="Only training epochs whose weakest recorded mode is this one.")
    ] = None,
    finding: Annotated[
        str | None, typer.Option(metavar="CODE|ID", help="Only actions and bundles that carry this finding.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="With --finding: show at most this many.", min=0)] = 50,
    offset: Annotated[int, typer.Option(metavar="N", help="With --finding: begin after this many.", min=0)] = 0,
) -> None:
    """List signed bundles and recorded epochs of each run.

    What they state is shown as stated; provstore verify tells whether it holds. Exit code: 0 listed, 2 no such run or
    finding, 3 nothing that can be read carries the finding, 7 journal unavailable.
    """
    screen = Screen(settings)
    if finding is not None:
        from provstore.api.carrying import listed_with

        found = listed_with(
            finding,
            run_of(run),
            attempt,
            epoch=epoch,
            mode=mode,
            limit=limit,
            offset=offset,
            store=settings.store,
            journal=settings.journal,
        )
    else:
        from provstore.api.evidence_export import opened

        with opened(settings.store, settings.journal) as evidence:
            found = evidence.listed(run_of(run), attempt, epoch=epoch, mode=mode)
    page = found.carried
    is_open = page is not None and page.notes and not page.total
    code = errors.EXIT_UNDECIDED if is_open else errors.EXIT_OK
    screen.show(found.to_dict(), lambda console: _draw_list(console, found), code)


def show(
    settings: Globals,
    *,
    target: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="epoch:RUN:N, recorded:RUN:N (a training epoch), a record's index, record:RUN:INDEX, an action's id "
            "or short form (r2:seq3), or a digest's beginning.",
        ),
    ],
    run: Annotated[str | None, _RUN] = None,
    attempt: Annotated[int | None, _ATTEMPT] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Only the stored bytes, exactly.")] = False,
) -> None:
    """Show one bundle or record, as it is stored.

    A digest is that of a bundle's payload or epoch file, of a record or its leaf, of an agent's record. Exit code: 0
    shown, 2 it names nothing, or several (all are listed), 7 journal unavailable.
    """
    from provstore.api.evidence_export import opened

    screen = Screen(settings)
    with opened(settings.store, settings.journal) as evidence:
        found = evidence.shown(target, run_of(run), attempt)
    if raw:
        _write_raw(screen, found.raw)
    screen.show(found.to_dict(), lambda console: print_lines(console, _item_lines(found, console.width)))


def export(  # noqa: PLR0913 - the options of one command
    settings: Globals,
    *,
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="The run, RUN or run:RUN [default: the only one that is signed]."),
    ] = None,
    attempt: Annotated[int | None, _ATTEMPT] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="New folder; it appears whole or not at all.")
    ],
    epoch: Annotated[int | None, typer.Option(metavar="N", help="Only this evidence epoch.", min=0)] = None,
    record: Annotated[
        list[str] | None,
        typer.Option(metavar="INDEX", help="Prove that a record is in the tree (tlog-proof); or all. Repeatable."),
    ] = None,
    keyid: Annotated[
        str, typer.Option(metavar="FORM", help="Spelling of the unsigned key id: ssh, hex or none.")
    ] = "ssh",
    public_key: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A public key that may have signed. Repeatable. [default: those known]"),
    ] = None,
    trust: Annotated[Path | None, typer.Option(metavar="FILE", help="Trust file to take public keys from.")] = None,
    sign: Annotated[
        list[str] | None,
        typer.Option(metavar="FORM", help="Sign all files too: sshsig, minisign, signify or in-toto. Repeatable."),
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="URI", help=_keys.KEY_HELP)] = None,
    insecure_key_mode: Annotated[bool, _keys.INSECURE] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an older export.")] = False,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help="Agent records instead: aep-jsonl or aep-bundle."),
    ] = None,
    per_action: Annotated[
        bool, typer.Option("--per-action", help="With --format: all actions too, in chained records of each rank.")
    ] = False,
) -> None:
    """Write signed evidence as files that other programs verify.

    VERIFY.txt among them holds the commands. Only --sign needs a private key. Exit code: 0 written, 1 the evidence
    does not hold and nothing was written, 2 no such run, epoch, record or key, or a folder that is in use, 4 larger
    than others read, 7 journal unavailable.
    """
    from provstore.api.evidence_export import opened
    from provstore.exports.evidence import EvidenceExportOptions
    from provstore.exports.evidence.agent_records import AgentExportOptions

    screen = Screen(settings)
    if form is not None or per_action:
        if form is None:
            raise ConfigError("--per-action: goes with --format: aep-jsonl or aep-bundle")
        if key is not None and not per_action:
            raise ConfigError("--key: signs the records of single actions, and --per-action is not given")
        signer = _keys.run_signer(key, insecure_mode=insecure_key_mode)[0] if key is not None else None
        _export_agents(screen, (run_of(run), attempt), output, AgentExportOptions(form, per_action, overwrite), signer)
    options = EvidenceExportOptions(keyid=keyid, epoch=epoch, records=_records(record or ()), overwrite=overwrite)
    if key is not None and not sign:
        raise ConfigError("--key: it signs in the forms that --sign names, and there is none")
    signer = _keys.signer(key, insecure_mode=insecure_key_mode) if sign else None
    with opened(settings.store, settings.journal) as evidence, screen.progress("exporting"):
        report = evidence.exported(
            output,
            run_of(run),
            attempt,
            options=options,
            public_keys=public_key or (),
            trust_file=trust,
            sign=sign or (),
            signer=signer,
        )
    screen.show(report.to_dict(), lambda console: print_lines(console, _export_lines(report, console.width)))


def _export_agents(
    screen: Screen,
    scope: tuple[str | None, int | None],
    output: Path,
    options: AgentExportOptions,
    signer: Signer | None,
) -> NoReturn:
    from provstore.api.evidence_export import opened

    settings = screen.settings
    with opened(settings.store, settings.journal) as evidence, screen.progress("exporting"):
        report = evidence.exported_agents(output, *scope, options=options, signer=signer)
    screen.show(report.to_dict(), lambda console: print_lines(console, _agent_lines(report, console.width)))


def _agent_lines(report: AgentExportReport, width: int) -> Iterator[Line]:
    said = f"{report.directory}: {counted(report.records, 'agent record')} of run {report.run}"
    yield from (Line(text, "bold") for text in folded(said, width, "", "  "))
    for one in report.files:
        text = f"{one.path}: {counted(one.records, 'record')}, {one.bytes} bytes"
        yield from (Line(part) for part in folded(text, width, "  ", "    "))
        looked = [f"{name} {_axis_text(axis)}" for name, axis in one.validation.items() if axis["evaluated"]]
        rest = [name for name, axis in one.validation.items() if not axis["evaluated"]]
        said = "; ".join([*looked, f"not evaluated: {', '.join(rest)}"])
        yield from (Line(part, "dim") for part in folded(said, width, "    ", "    "))


def import_(
    settings: Globals,
    *,
    paths: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Agent evidence, or a train-aep file.")],
) -> None:
    """Take in files of agents: ingest, for these alone.

    Its bytes are kept as they are. Reading it again adds nothing. Exit code: 0 all read, 2 some file refused, 7 store
    or journal unavailable.
    """
    screen = Screen(settings)
    with opened_store(settings, read_only=False) as store, screen.progress("reading"):
        report = store.ingest(*paths, source="evidence")

    def draw(console: Console) -> None:
        told = ingest_lines(report, width=console.width, verbose=settings.verbose, quiet=settings.quiet)
        print_lines(console, told)

    screen.show(report.to_dict(), draw, ingest_code(report))


def _records(given: Sequence[str]) -> Sequence[int] | str:
    from provstore.exports.evidence import ALL

    if ALL in given:
        return ALL
    for text in given:
        if not text.isascii() or not text.isdigit():
            raise ConfigError(f"--record {text}: neither an index nor {ALL}")
    return tuple(int(text) for text in given)


def _write_raw(screen: Screen, data: bytes) -> NoReturn:
    """Write the bytes as they are; on a terminal, control characters are spelled."""

    def write(_: object) -> None:
        if sys.stdout.isatty():
            sys.stdout.write(spelled_controls(data.decode("utf-8", "backslashreplace")))
            return
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    screen.stream_text(write, errors.EXIT_OK)


def _draw_list(console: Console, found: EvidenceList) -> None:
    for run in found.runs:
        print_lines(console, _run_lines(run, console.width))
        keys = {row.keyid for row in run.bundles if row.fault is None}
        columns = (
            "evidence epoch",
            "first record",
            "records",
            "closed",
            "wall clock it claims",
            *(("key",) if len(keys) > 1 else ()),
        )
        rows = [
            (row.epoch, row.first, row.records, row.closed, row.wall, row.keyid)[: len(columns)]
            for row in run.bundles
            if row.fault is None
        ]
        if rows:
            grid(console, columns, rows)
        if run.recorded:
            grid(console, COLUMNS, [recorded_row(one) for one in run.recorded])
    if found.carried is not None:
        draw_carried(console, found.carried)
    elif not found.runs:
        console.print("nothing is recorded", style="dim")


def _run_lines(run: RunEvidence, width: int) -> Iterator[Line]:
    name = f"run {run.run}, attempt {run.attempt}" if run.run else "imported documents"
    state = "closed" if run.closed else "never closed"
    facts = f"{counted(len(run.bundles), 'bundle')}, {counted(run.signed, 'record')} signed, {run.unsigned} not yet"
    said = f"{name}: {facts}; {state}" if run.bundles else f"{name}: nothing is signed yet; provstore seal signs it"
    yield from (Line(text, "bold") for text in folded(said, width, "", "  "))
    keys = sorted({row.keyid for row in run.bundles if row.keyid is not None})
    if len(keys) == 1:
        yield from (Line(text) for text in folded(f"by {keys[0]}", width, "  ", "  "))
    for row in run.bundles:
        if row.fault is not None:
            yield from (Line(text, "red") for text in folded(f"{row.where}: {row.fault}", width, "  ", "    "))


def _item_lines(found: EvidenceItem, width: int) -> Iterator[Line]:
    name = {"bundle": "epoch", "agent-record": "agent record"}.get(found.kind, "record")
    number = "" if found.number is None else f" {found.number}"
    run = f"run {found.run}, attempt {found.attempt}" if found.run else "imported documents"
    if found.kind == "agent-record":
        run = f"agent run {found.run}" if found.run else "no run"
    yield from (Line(text, "bold") for text in folded(f"{name}{number} of {run}", width))
    facts = {**found.digests, "keyid": found.keyid, "sig": found.sig, "where": found.where, "fault": found.fault}
    for title, value in facts.items():
        if value is not None:
            yield from (Line(text) for text in folded(f"{title}  {value}", width, "  ", "    "))
    if found.said is not None:
        yield from (Line(printable(text)) for text in json_text(found.said).split("\n"))
        if found.said.get("kind") == "epoch-bundle":
            yield from (Line(text, "dim") for text in folded(RANKS_TOLD, width))
    if found.axes is not None:
        yield Line("agent record:", "bold")
        for name, axis in found.axes.items():
            yield from (Line(text) for text in folded(f"{name}  {_axis_text(axis)}", width, "  ", "    "))
    if found.checkpoint is not None:
        yield Line("checkpoint:", "bold")
        yield from (Line(f"  {printable(text)}") for text in found.checkpoint.rstrip("\n").split("\n"))
    yield Line("shown as stated; provstore verify tells whether it holds", "dim")


def _axis_text(axis: object) -> str:
    said = axis if isinstance(axis, dict) else {}
    status = said.get("status") if said.get("evaluated") else "not evaluated"
    reason = f": {said['reason']}" if said.get("reason") else ""
    return f"{status}{reason}"


def _export_lines(report: EvidenceExportReport, width: int) -> Iterator[Line]:
    first, last = report.epochs[0].epoch, report.epochs[-1].epoch
    span = f"epoch {first}" if first == last else f"epochs {first} to {last}"
    proofs = f", {counted(report.proofs, 'proof')}" if report.proofs else ""
    text = f"{report.directory}: {span}, {counted(report.records, 'record')}{proofs}, {counted(report.files, 'file')}"
    yield from (Line(one, "bold") for one in folded(text, width, "", "  "))
    for key in report.keys:
        yield from (Line(one) for one in folded(f"signed by {key.keyid}", width, "", "  "))
    if report.signatures:
        yield Line(f"all files signed as {', '.join(report.signatures)}")
    for note in report.notes:
        yield from (Line(one, "yellow") for one in folded(note, width, "", "  "))
    yield from (
        Line(one, "dim")
        for one in folded("VERIFY.txt says how to check it; compare the fingerprint with one from elsewhere", width)
    )
