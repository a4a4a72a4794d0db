"""``provstore replay``: what it takes to run an epoch again, and whether a re-run came out the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from provstore.cli._options import Globals, flags
from provstore.cli._screen import Line, Screen, print_lines
from provstore.cli._tables import grid
from provstore.cli._targets import run_of
from provstore.cli._text import counted, folded, ranks_text
from provstore.cli._trusting import AnchorPath, PublicKey, Trust, Unverified, belief_of

if TYPE_CHECKING:
    from provstore.api.reexecuting import Recomputed
    from provstore.api.replaying import Replay
    from provstore.api.stored_runs import Trustworthiness
    from provstore.api.stored_tables import Unreadable
    from provstore.evidence.replay import AnchorComparison, RestorePlan
    from provstore.evidence.replay.anchors import KindDifference

EXAMPLES = """Examples:

\b
provstore replay --run my-job --epoch 2
provstore replay --run my-job --epoch 2 --rank 7
provstore replay --run my-job --epoch 2 --execute
provstore replay --run my-job --epoch 2 --against my-rerun --emit replayed"""
_STYLE = {"exact-possible": "bold green", "approximate": "bold yellow", "not-possible": "bold red"}
_STATE_STYLE = {"present": "green", "missing": "yellow", "mismatch": "red"}
_VERDICT_STYLE = {"exact": "green", "mismatch": "red"}
_NOT_RECOMPUTABLE = "not-recomputable"
_NOT_DONE = {_NOT_RECOMPUTABLE: _NOT_RECOMPUTABLE, "not-kept": "not kept", "not-asked": "not asked for"}
"""What else becomes of a collective → in words."""
_VERDICTS = ("mismatch", "within-bound", "explained", "exact", _NOT_RECOMPUTABLE)
"""The worst first; what says nothing last."""
_DONE = _VERDICTS[:-1]
_SHOWN = 20
_MOST_TRUST = 100
"""Characters of the first finding about the evidence."""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(flags(replay))


def replay(  # noqa: PLR0913 - each argument is an option
    settings: Globals,
    *,
    run: Annotated[str, typer.Option(metavar="ID", help="The run, ID or run:ID.")],
    epoch: Annotated[int, typer.Option(metavar="N", help="Training epoch.", min=0)],
    attempt: Annotated[
        int | None, typer.Option(metavar="A", help="Incarnation of the run [default: the last closed one].", min=0)
    ] = None,
    rank: Annotated[int | None, typer.Option(metavar="R", help="List the actions of this rank, too.", min=0)] = None,
    offset: Annotated[int, typer.Option(metavar="N", help="Skip this many of its actions.", min=0)] = 0,
    limit: Annotated[int, typer.Option(metavar="N", help="List at most this many.", min=0)] = 50,
    execute: Annotated[
        bool, typer.Option("--execute", help="Recompute collectives from the stored inputs of all ranks.")
    ] = False,
    instance: Annotated[
        str | None, typer.Option(metavar="ID", help="Recompute only this one, such as gloo/0@0-3/17.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="RUN", help="Compare the anchors of a re-run, recorded as RUN.")
    ] = None,
    emit: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write plan, script, random states and documents there.")
    ] = None,
    fork_reason: Annotated[
        str, typer.Option(metavar="WORD", help="Why a fork: retry, branch, rollback, experiment, recovery, other.")
    ] = "other",
    skip: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Batches to leave out, a JSON list of epoch, batch, reason.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A copy of the checkpoint, compared with what was recorded.")
    ] = None,
    source: Annotated[
        str, typer.Option(metavar="WHICH", help="Compare the graph with the records, too: both; or journal.")
    ] = "both",
    unverified: Unverified = False,
    trust: Trust = None,
    public_key: PublicKey = None,
    anchor: AnchorPath = None,
) -> None:
    """Plan to run an epoch again, recompute it, compare a re-run.

    The evidence is verified first: signatures, records, and of the epoch blobs and graph. The plan says what is there
    and what is missing; it starts nothing. Exit code: 0 exact, or all equal; 1 evidence that does not hold, damaged
    bytes, a difference, or not possible; 2 not stored; 3 approximate, undecided, or bytes are missing; 6 refused by
    safe mode; 7 the journal cannot be read.
    """
    from provstore import __version__
    from provstore.api.emitting import emit as emit_files
    from provstore.api.replaying import ReplayRequest
    from provstore.api.replaying import replay as plan_replay

    screen = Screen(settings)
    request = ReplayRequest(
        run=run_of(run) or "",
        epoch=epoch,
        attempt=attempt,
        rank=rank,
        execute=execute,
        instance=instance,
        against=run_of(against),
        skip=skip,
        checkpoint=checkpoint,
        unverified=unverified,
        source=source,
        offset=offset,
        limit=limit,
    )
    belief = belief_of(settings, trust, public_key, anchor)
    found = plan_replay(request, belief=belief, store=settings.store, journal=settings.journal)
    if emit is not None:
        found = emit_files(
            found, emit, fork_reason=fork_reason, store=settings.store, journal=settings.journal, version=__version__
        )
    screen.show(found.to_dict(), lambda console: _draw(console, found, settings.verbose), found.exit_code)


def _draw(console: Console, found: Replay, verbose: bool) -> None:
    print_lines(console, _plan_lines(found, console.width))
    if found.executed is not None:
        print_lines(console, _executed_lines(found, console.width, verbose))
    if found.anchors is not None:
        print_lines(console, anchor_lines(found.anchors, console.width))
    if found.actions:
        columns = ("step", "op", "group", "seq", "mode", "shortfall")
        rows = [(a.step, a.op, a.group, a.seq, a.mode, ", ".join(a.shortfall)) for a in found.actions]
        grid(console, columns, rows)
        if found.has_more:
            console.print("there are more: --offset and --limit", style="dim")
    print_lines(console, lost_lines(found.lost, console.width, verbose=verbose))
    print_lines(console, _last_lines(found, console.width))
    trusts = [(found.plan.run, found.trust)]
    if found.anchors is not None and found.rerun_trust is not None:
        trusts.append((found.anchors.other, found.rerun_trust))
    print_lines(console, trust_lines(trusts, console.width))


def ignored_lines(found: Trustworthiness, width: int) -> Iterator[Line]:
    """Yield loudly, before anything else, that evidence does not hold and was used all the same."""
    if found.is_ignored:
        yield from (Line(text, "bold red") for text in folded("UNVERIFIED: the evidence does not hold", width))


def trust_lines(trusts: Sequence[tuple[str, Trustworthiness]], width: int) -> Iterator[Line]:
    """Yield in short what verifying each run said; what is equal of several is said once."""
    from provstore.api.stored_runs import NOT_VERIFIED

    is_one = len({_trust(found) for _, found in trusts}) == 1
    for run, found in trusts[:1] if is_one else trusts:
        head = "evidence" if is_one else f"evidence of {run}"
        style = "dim" if found.verdict != NOT_VERIFIED else "yellow"
        yield from (Line(line, style) for line in folded(f"{head}: {_trust(found)}", width, "", "  "))


def _trust(found: Trustworthiness) -> str:
    if not found.findings:
        return found.verdict
    first, *others = found.findings
    shown = first.rstrip(".") if len(first) <= _MOST_TRUST else f"{first[: _MOST_TRUST - 1]}…"
    more = f"; {len(others)} more, provstore verify tells all" if others else ""
    return f"{found.verdict}: {shown}{more}"


def _plan_lines(found: Replay, width: int) -> Iterator[Line]:
    plan: RestorePlan = found.plan
    yield from ignored_lines(found.trust if found.trust.is_ignored else found.rerun_trust or found.trust, width)
    name = f"run {plan.run}, attempt {plan.attempt}, epoch {plan.epoch}: {plan.verdict}"
    name += ", a fork" if plan.is_fork else ""
    yield from (Line(text, _STYLE[plan.verdict]) for text in folded(name, width))
    for item in plan.items:
        head = f"  {item.state:<9} {item.name}: "
        text = f"{head}{item.source}: {item.detail}" if item.detail else f"{head}{item.source}"
        yield from (Line(one, _STATE_STYLE[item.state]) for one in folded(text, width, "", " " * 12))
        if item.digest:
            yield Line(f"{'':12}{item.digest}", "dim")
    for reason in plan.reasons:
        yield from (Line(one, "yellow") for one in folded(f"because {reason}", width, "  ", "    "))
    for skip in plan.added_skips:
        text = f"leaves out epoch {skip.epoch}, batch {skip.batch}: {skip.reason}"
        yield from (Line(one) for one in folded(text, width, "  ", "    "))


def _executed_lines(found: Replay, width: int, verbose: bool) -> Iterator[Line]:
    """Yield what became of the collectives: counts that add up to all, then what is odd, what is wrong first."""
    counts, executed = found.counts, found.executed or ()
    done = sum(counts[name] for name in _DONE)
    verdicts = ", ".join(f"{counts[name]:,} {name}" for name in _DONE if counts[name])
    said = f": {verdicts}" if verdicts else ""
    said += "".join(f"; {counts[name]:,} {words}" for name, words in _NOT_DONE.items() if counts[name])
    text = f"{done:,} of {counted(found.collectives, 'collective')} recomputed{said}"
    yield from (Line(part, "bold") for part in folded(text, width, "", "  "))
    for reason, count in found.not_kept:
        yield from (Line(part) for part in folded(f"not kept: {count:,}: {reason}", width, "  ", "    "))
    odd = [one for one in executed if verbose or one.verdict.name != "exact" or not one.verdict.is_whole]
    # What is wrong is read first.
    odd.sort(key=lambda one: _verdict_place(one.verdict.name))
    for one in odd if verbose else odd[:_SHOWN]:
        yield from _verdict_lines(one, width)
    if not verbose and len(odd) > _SHOWN:
        yield Line(f"  … {len(odd) - _SHOWN:,} more: --verbose lists all", "dim")


def _verdict_place(name: str) -> tuple[int, str]:
    return _VERDICTS.index(name) if name in _VERDICTS else len(_VERDICTS), name


def _verdict_lines(one: Recomputed, width: int) -> Iterator[Line]:
    verdict = one.verdict
    order = f" ({verdict.order})" if verdict.order else ""
    text = f"{verdict.name}{order}: {one.op} {one.instance}"
    text += f", {verdict.compared_chunks} of {counted(verdict.chunks, 'chunk')}" if verdict.chunks else ""
    style = _VERDICT_STYLE.get(verdict.name, "yellow")
    yield from (Line(line, style) for line in folded(text, width, "  ", "    "))
    for part in verdict.differences[:_SHOWN]:
        where = "by digest" if part.first_index is None else f"first at element {part.first_index}, {part.count} in all"
        error = "" if part.largest_error is None else f", largest error {part.largest_error:.6g}"
        yield from (Line(t) for t in folded(f"rank {part.rank}: {where}{error}", width, "    ", "      "))
    for lack in verdict.missing[:_SHOWN]:
        whose = "" if lack.rank is None else f" of rank {lack.rank}"
        yield from (Line(t) for t in folded(f"{lack.what}{whose}: {lack.reason}", width, "    ", "      "))
    if verdict.minority:
        yield Line(f"    differs from the majority: {ranks_text(verdict.minority)}")
    for reason, count in verdict.silent.items():
        yield Line(f"    {reason}: {counted(count, 'element')}")


def anchor_lines(found: AnchorComparison, width: int) -> Iterator[Line]:
    """Yield how the anchors of two runs compare: what differs first, what then, and what is equal."""
    from provstore.evidence.replay.anchors import MEANING

    if found.is_equal:
        text = f"{found.other}: all {found.compared} anchors are equal"
        yield from (Line(one, "green") for one in folded(text, width))
    elif found.first is None:
        text = "no anchors to compare" if not found.compared else f"what it holds of {found.compared} anchors is equal"
        yield from (Line(one, "yellow") for one in folded(f"{found.other}: {text}", width))
    else:
        first, *later = [one for one in found.kinds if one.different]
        text = f"{found.other}: differs first at step {first.step}, {_where(first)}: {_kind(found, first)}"
        yield from (Line(one, "red") for one in folded(text, width, "", "  "))
        for one in later:
            at = "at the same step" if one.place == first.place else f"from step {one.step}"
            text = f"then {at}, {_where(one)}: {_kind(found, one)}"
            yield from (Line(line, "red") for line in folded(text, width, "  ", "    "))
        equal = [one.kind for one in found.kinds if one.compared and not one.different and one.kind != "missing"]
        if equal:
            text = f"equal at all {counted(found.steps, 'step')}: {', '.join(equal)}"
            yield from (Line(line) for line in folded(text, width, "  ", "    "))
        yield Line(
            f"  {counted(found.different, 'anchor')} differ or are missing; both runs have {found.compared}", "dim"
        )
    for name, count in found.lacking.items():
        text = (
            f"not in {found.other}: {name} ({MEANING[name]}) of {counted(count, 'anchor')}, so nothing is said of them"
        )
        yield from (Line(one, "yellow") for one in folded(text, width, "  ", "    "))
    if found.not_probed > found.lacking.get("params", 0):
        yield Line(f"  parameters were not probed at {counted(found.not_probed, 'anchor')}", "dim")


def _where(one: KindDifference) -> str:
    return f"rank{'s' if len(one.ranks) > 1 else ''} {ranks_text(one.ranks)}"


def _kind(found: AnchorComparison, one: KindDifference) -> str:
    """Return one kind of anchor in words, with the generators that differ where they are known."""
    from provstore.evidence.replay.anchors import MEANING

    which = f": {', '.join(found.generators)}" if one.kind == "rng" and found.generators else ""
    return f"{one.kind} ({MEANING[one.kind]}{which})"


def lost_lines(lost: Sequence[Unreadable], width: int, *, verbose: bool = False) -> Iterator[Line]:
    """Yield which bytes could not be read that the answer asked for."""
    runs = {one.bundle.run for one in lost}
    for one in lost if verbose else lost[:_SHOWN]:
        text = f"{one.bundle.run}: {one.text}" if len(runs) > 1 else one.text
        yield from (Line(part, "red" if one.state == "damaged" else "yellow") for part in folded(text, width, "", "  "))
    if not verbose and len(lost) > _SHOWN:
        yield Line(f"… {len(lost) - _SHOWN:,} more cannot be read: --json lists all", "dim")


def _last_lines(found: Replay, width: int) -> Iterator[Line]:
    for path in found.emitted:
        yield from (Line(one) for one in folded(f"wrote {path}", width, "", "  "))
    for note in (*found.plan.notes, *found.notes):
        yield from (Line(one, "dim") for one in folded(note, width, "", "  "))
