"""``provstore join``: which agent's run launched which training run, and who says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from provstore.cli._options import Globals, flags
from provstore.cli._screen import Line, Screen, print_lines
from provstore.cli._text import counted, folded

if TYPE_CHECKING:
    from provstore.api.joining import JoinAnswer
    from provstore.model.joining import End, Group, JoinReport, Link, Member

EXAMPLES = """Examples:

\b
provstore join
provstore join 463ac35c9f6413ad48485a3953bb6124 --agent-key agent-key-01=agent.pub
provstore join --accept"""
_STRENGTH = {"strong": "bold green", "medium": "yellow", "weak": "dim"}
_SHOWN = 20
_MEMBER_AXES = ("structural", "semantic", "authenticity", "chain", "container", "capture")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(flags(join))


def join(
    settings: Globals,
    *,
    trace_id: Annotated[
        str | None, typer.Argument(metavar="TRACE_ID", help="Only this trace, in any spelling [default: all].")
    ] = None,
    agent_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID=HEX|ID=FILE|FILE",
            help="Public key that signatures of agents name by this id; or a file of a JSON object, id to key. "
            "Repeatable.",
        ),
    ] = None,
    trust: Annotated[Path | None, typer.Option(metavar="FILE", help="Trust file to take public keys from.")] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Take the weak links that are listed for true; it is written down.")
    ] = False,
) -> None:
    """Join agents' runs with the training runs that they launched.

    Agents' files come in by ingest, training runs by record. What is only claimed in an unsigned record is told as
    that. Exit code: 0 joined and nothing is open; 2 wrong usage; 3 something is ambiguous, missing or only a hint, or
    nothing was found; 6 refused by safe mode; 7 journal unavailable, or bytes of a file are lost from it.
    """
    from provstore.api.joining import joined

    screen = Screen(settings)
    answer = joined(
        trace_id,
        keys=agent_key or (),
        trust_file=trust,
        accept=accept,
        store=settings.store,
        journal=settings.journal,
    )

    def draw(console: Console) -> None:
        print_lines(console, lines(answer, console.width, verbose=settings.verbose))

    screen.show(answer.to_dict(), draw, answer.exit_code)


def lines(answer: JoinAnswer, width: int, *, verbose: bool = False) -> Iterator[Line]:
    """Yield the links, everything that is open, then the runs of each trace with what was found of their records."""
    report = answer.report
    if not report.groups:
        asked = "" if report.asked is None else f" to do with {report.asked}"
        yield from _line(f"nothing stored has a trace or a reference{asked}", width, "bold yellow")
    elif not report.links:
        yield from _line("nothing is joined: no reference, and no trace that two runs share", width, "bold yellow")
    yield from _first([_link(link, width) for link in report.links], "link", verbose)
    yield from _first([_line(text, width, style) for text, style in _open(report)], "remark", verbose)
    yield from _first([_group(group, width) for group in report.groups], "trace", verbose)
    for problem in answer.problems:
        yield from _line(f"{problem}; what this file told is not looked at", width, "bold red")
    yield from _ending(answer, width)


def _first(parts: Sequence[Iterator[Line]], noun: str, verbose: bool) -> Iterator[Line]:
    for part in parts if verbose else parts[:_SHOWN]:
        yield from part
    if not verbose and len(parts) > _SHOWN:
        yield Line(f"… {counted(len(parts) - _SHOWN, f'more {noun}')}: --verbose lists all", "dim")


def _open(report: JoinReport) -> Iterator[tuple[str, str]]:
    """Yield what nobody can answer from what is stored, each with its style."""
    from provstore.analysis.join.joining import PLACEHOLDER

    for one in report.ambiguous:
        yield f"ambiguous: {one.what}, said by {one.said_by}, fits {', '.join(one.candidates)}: none is chosen", "red"
    for gone in report.missing:
        yield f"missing: {gone.reference} is not stored; said by {gone.said_by} in {gone.where}", "red"
    for name in report.unresolved_names:
        yield f"unresolved name: {name}: no stored agent of the trace has it", "yellow"
    for text in report.placeholders:
        yield f"{PLACEHOLDER}: {text} stands for no trace", "yellow"
    yield from ((text, "yellow") for text in report.conflicts)


def _group(group: Group, width: int) -> Iterator[Line]:
    name = group.normalised or "without a trace id"
    yield from _line(f"trace {name}: {counted(len(group.members), 'run')}", width, "bold")
    if list(group.raw_ids) != [group.normalised]:
        yield from _line(f"written as {', '.join(group.raw_ids) or 'nothing'}", width, "", "  ")
    for member in group.members:
        yield from _line(f"{member.kind} run {member.run_id}", width, "", "  ")
        yield from _member(member, width)


def _member(member: Member, width: int) -> Iterator[Line]:
    if member.trace_ids:
        yield from _line(f"trace id {', '.join(member.trace_ids)}", width, "dim", "    ")
    for name in _MEMBER_AXES:
        yield from _line(f"{name:<13} {_found(member.axes.get(name))}", width, "", "    ")
    for source in member.sources:
        yield from _line(f"from {source}", width, "dim", "    ")


def _link(link: Link, width: int) -> Iterator[Line]:
    rules = f"by {', '.join(link.rules)} ({link.strength})"
    notes = f": {', '.join(link.notes)}" if link.notes else ""
    # A trace that two agents share does not tell which of them came first.
    is_directed = link.target.kind == "training" or not {"delegation", "parent-trace"}.isdisjoint(link.rules)
    ends = f"{_end(link.source)} {'->' if is_directed else '--'} {_end(link.target)}"
    yield from _line(f"{ends} {rules}{notes}", width, _STRENGTH[link.strength])
    yield from _line(f"in {'; '.join(link.where)}", width, "", "  ")
    for end in (link.source, link.target):
        yield from _line(f"{end.kind} run {end.run_id}: signature {_found(end.authenticity)}", width, "", "  ")


def _end(end: End) -> str:
    return end.run_id if end.action_id is None else f"{end.run_id}/{end.action_id}"


def _found(axis: object) -> str:
    """Return what an axis says of how many records; never a sum of it."""
    entries = [one for one in axis if isinstance(one, dict)] if isinstance(axis, Sequence) else []
    return ", ".join(map(_entry, entries)) or "not evaluated"


def _entry(one: Mapping[str, object]) -> str:
    text = str(one.get("status")) if one.get("evaluated") else f"not evaluated: {one.get('reason')}"
    named = [str(one[name]) for name in ("keyid", "scheme") if name in one]
    count = one.get("records")
    times = f" x{count}" if isinstance(count, int) and count > 1 else ""
    return f"{text}{times}" + (f" ({', '.join(named)})" if named else "")


def _ending(answer: JoinAnswer, width: int) -> Iterator[Line]:
    counts = answer.report.counts
    yield from _line(", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items()), width, "dim")
    if answer.newly_accepted:
        yield from _line(f"{counted(answer.newly_accepted, 'weak link')} accepted and written down", width, "green")
    elif any(one.strength == "weak" and "accepted" not in one.notes for one in answer.report.links):
        yield from _line("a weak link is a hint and joins nothing; --accept takes it for true", width, "yellow")
    unknown = any(
        isinstance(one, dict) and one.get("reason") == "unknown-key"
        for group in answer.report.groups
        for member in group.members
        for one in _listed(member.axes.get("authenticity"))
    )
    if unknown:
        yield from _line("unknown-key: --agent-key ID=FILE names the public key", width, "yellow")


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _line(text: str, width: int, style: str = "", indent: str = "") -> Iterator[Line]:
    yield from (Line(part, style) for part in folded(text, width, indent, indent + "  "))
