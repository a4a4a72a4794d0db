"""``provstore verify``: what can be known of a run, and what cannot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from provstore import config
from provstore.cli import _agent_evidence as agents
from provstore.cli._finding_order import causes_first, condensed
from provstore.cli._options import Globals, flags
from provstore.cli._screen import Line, Screen, print_lines
from provstore.cli._stores import opened
from provstore.cli._targets import runs_and_files
from provstore.cli._text import counted, folded
from provstore.errors import ConfigError

if TYPE_CHECKING:
    from provstore.model.verification import EvidenceFinding, Verification

EXAMPLES = """Examples:

\b
provstore verify
provstore verify run:my-job --anchor checkpoint.txt
provstore verify my-job --source journal --public-key alice.pub
provstore verify ./exported --public-key alice.pub --json
provstore verify ./agent.jsonl --agent-key agent-key-01=agent.pub"""

_STYLE = {"pass": "bold green", "limited": "bold yellow", "fault": "bold red", "unknown": "bold yellow"}
_AXIS_STYLE = {"ok": "green", "fault": "red", "unproven": "yellow", "unknown": "yellow", "not-checked": "dim"}
_SHOWN = 20


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(flags(verify))


def verify(  # noqa: PLR0913 - each argument is an option
    settings: Globals,
    *,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN|PATH...",
            help="A run of the store (run:NAME always is one), or exported folders or files (./NAME always is one), or "
            "files of agent evidence [default: every run].",
        ),
    ] = None,
    attempt: Annotated[int | None, typer.Option(metavar="N", help="Incarnation of the run.", min=0)] = None,
    source: Annotated[
        str, typer.Option(metavar="WHICH", help="Whose bytes are judged: both, journal or graph.")
    ] = "both",
    trust: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Trust file [default: PROVSTORE_TRUST, else yours].")
    ] = None,
    public_key: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A public key that counts, instead of a trust file.")
    ] = None,
    pin: Annotated[
        str | None, typer.Option(metavar="FINGERPRINT", help="Root key of a trust file that is new here.")
    ] = None,
    first_use: Annotated[
        bool, typer.Option("--first-use", help="Believe a trust file that is new here; the answer says so.")
    ] = False,
    anchor: Annotated[
        list[Path] | None, typer.Option(metavar="PATH", help="A checkpoint kept elsewhere, or a folder of them.")
    ] = None,
    tsa: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Certificate of a time-stamping authority: PATH.tsr then dates an anchor."),
    ] = None,
    reset_anchor: Annotated[
        bool, typer.Option("--reset-anchor", help="Forget your own anchors of this run first; this is logged.")
    ] = False,
    keep_anchor: Annotated[
        bool, typer.Option("--keep-anchor/--no-keep-anchor", help="Keep the newest checkpoint as your next anchor.")
    ] = True,
    blobs: Annotated[
        bool,
        typer.Option("--blobs/--no-blobs", help="Read the bytes that bundles name: statistics, snapshots, states."),
    ] = True,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="Judge keys at this moment, ISO 8601 in UTC.")] = None,
    org: Annotated[str, typer.Option(metavar="NAME", help="First part of the origin of checkpoints.")] = "provstore",
    allow: Annotated[
        str | None,
        typer.Option(metavar="LIMITS", help="Limits that shall not change the exit code: unanchored,open,tail."),
    ] = None,
    agent_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID=HEX|ID=FILE|FILE",
            help="Public key that signatures in agent evidence name by this id; or a file of a JSON object, id to key. "
            "Repeatable.",
        ),
    ] = None,
    check_legacy: Annotated[
        bool, typer.Option("--check-legacy", help="Check retired signatures of agent evidence; it accepts none.")
    ] = False,
) -> None:
    """Verify signatures, chain, journal, graph and anchors.

    Files of agent evidence are judged record by record, each axis by itself (schema verify-agents). Exit code: 0
    nothing wrong and nothing unproven, 1 a fault, 2 unusable input, 3 something is unproven, 4 not understood or not
    finished, 5 rollback or fork against an anchor, 7 the journal is damaged.
    """
    from provstore import api
    from provstore.model.verification import SCHEMA, exit_code

    runs, folders = runs_and_files(settings, targets or ())
    _require_one_kind(folders, runs)
    screen = Screen(settings)
    # Who gives keys of agents means such files; what keeps one from being one is then said.
    are_meant = bool(agent_key or check_legacy) and all(Path(one).is_file() for one in folders)
    if folders and (are_meant or agents.are_agent_files(folders)):
        agents.show(
            screen,
            folders,
            keys=agent_key or (),
            public_keys=public_key or (),
            trust_file=trust,
            pin=pin,
            first_use=first_use,
            at=at,
            check_legacy=check_legacy,
        )
    if agent_key or check_legacy:
        raise ConfigError("verify: --agent-key and --check-legacy go with files of agent evidence")
    limits = [name for name in (allow or "").split(",") if name]
    belief = api.belief(
        public_keys=public_key or (),
        trust_file=trust,
        pin=pin,
        first_use=first_use,
        anchors=anchor or (),
        at=at,
        org=org,
        allow=limits,
        tsa=tsa or (),
        outside=() if folders else _places(settings),
    )
    if folders:
        answers = api.verify(*folders, belief=belief, blobs=blobs)
    else:
        with opened(settings) as store, screen.progress("verifying") as progress:
            if reset_anchor:
                store.forget_anchors(runs[0] if runs else None, attempt, belief=belief)
            answers = store.verify(
                runs[0] if runs else None,
                attempt,
                belief=belief,
                source=source,
                refresh=keep_anchor,
                blobs=blobs,
                progress=progress,
            )

    def draw(console: Console) -> None:
        for answer in answers:
            print_lines(console, verification_lines(answer, width=console.width, verbose=settings.verbose))

    body = {"schema": SCHEMA, "answers": [one.to_dict() for one in answers], "exit_code": exit_code(answers)}
    screen.show(body, draw, exit_code(answers))


def verification_lines(answer: Verification, *, width: int, verbose: bool = False) -> Iterator[Line]:
    """Yield the verdict, the axes, every finding, and what cannot be known."""
    from provstore.model.verification import AXES, NOT_CHECKED

    name = f"run {answer.run}, attempt {answer.attempt}" if answer.run else "imported documents"
    if "path" in answer.inputs:
        # A folder may be named like a run of the store; a file that could not be read is about nothing.
        is_told = answer.run or answer.counts.get("signed")
        name = f"{answer.inputs['path']}: {name}" if is_told else str(answer.inputs["path"])
    yield from (Line(text, _STYLE[answer.verdict]) for text in folded(f"{name}: {answer.verdict}", width))
    counts = answer.counts
    if counts:
        said = (
            f"{counted(counts.get('bundles', 0), 'bundle')}, {counted(counts.get('records', 0), 'record')}, "
            f"{counts.get('signed', 0):,} of them signed"
        )
        yield Line(f"  {said}")
    for state in ("fault", "unknown", "unproven", "ok", NOT_CHECKED):
        axes = [axis for axis in AXES if answer.axes.get(axis, NOT_CHECKED) == state]
        if axes:
            yield Line(f"  {state + ':':<12} {', '.join(axes)}", _AXIS_STYLE[state])
    listed, following = (causes_first(answer.findings), []) if verbose else condensed(answer.findings)
    shown = listed if verbose else listed[:_SHOWN]
    for one in shown:
        yield from _finding(one, width)
    if len(shown) < len(listed):
        yield Line(f"  … {len(listed) - len(shown):,} more: --verbose lists all", "dim")
    for text in following:
        yield from (Line(line) for line in folded(text, width, "  ", "    "))
    yield from _not_read(answer.inputs.get("not_read"), width)
    told = {one.text for one in shown}
    for text in answer.limits:
        if text not in told:
            yield from (Line(line, "dim") for line in folded(text, width, "  ", "  "))


def _not_read(names: object, width: int) -> Iterator[Line]:
    """Yield the names of the files of a folder that were not looked at."""
    if isinstance(names, list) and names:
        more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        text = f"not read: {', '.join(map(str, names[:_SHOWN]))}{more}"
        yield from (Line(line, "dim") for line in folded(text, width, "  ", "    "))


def _finding(one: EvidenceFinding, width: int) -> Iterator[Line]:
    """Yield a finding: its code, whom it concerns, where and why; a place that the words name already is left out."""
    numbers = [f"epoch {one.epoch}"] if one.epoch is not None else []
    numbers += [f"record {one.seq}"] if one.seq is not None else []
    numbers += [f"rank {one.rank}"] if one.rank is not None else []
    head = f"{one.code}{' (' + ', '.join(numbers) + ')' if numbers else ''}: "
    place = f"{one.where}: " if one.where and one.where.partition(" ")[0] not in one.text else ""
    text = f"{one.text.removesuffix('.')}; follows from {one.cause}" if one.cause else one.text
    yield from (Line(line) for line in folded(f"{head}{place}{text}", width, "  ", "    "))


def _places(settings: Globals) -> list[Path]:
    """Return where the store that will be judged has its files."""
    uri = config.store_uri(settings.store)
    found = [config.embedded_directory(uri)]
    if not uri.startswith("memory:") or settings.journal:
        found.append(config.journal_directory(uri, settings.journal))
    return [place for place in found if place is not None]


def _require_one_kind(folders: Sequence[Path], runs: Sequence[str]) -> None:
    if folders and runs:
        raise ConfigError(
            "verify: give one run, or exported folders and files", hint="run:NAME is always a run, ./NAME a path"
        )
    if len(runs) > 1:
        raise ConfigError("verify: give one run, or none for all")
