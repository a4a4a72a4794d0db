"""``provstore diff``: where two recorded runs part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from provstore.cli._options import Globals, flags
from provstore.cli._screen import Line, Screen, print_lines
from provstore.cli._targets import run_of
from provstore.cli._text import counted, folded, ranks_text
from provstore.cli._trusting import AnchorPath, PublicKey, Trust, Unverified, belief_of
from provstore.cli.replay import anchor_lines, ignored_lines, lost_lines, trust_lines

if TYPE_CHECKING:
    from provstore.analysis.divergence import Correlation, Divergence, Point
    from provstore.api.diffing import Diff

EXAMPLES = """Examples:

\b
provstore diff my-job my-rerun
provstore diff my-job my-rerun --epoch 2 --json"""
_SHOWN = 20
_NOTHING = "nothing"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(flags(diff))


def diff(
    settings: Globals,
    *,
    a: Annotated[str, typer.Argument(metavar="A", help="The first run, A or run:A.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The second run.")],
    epoch: Annotated[
        int | None, typer.Option(metavar="N", help="Only this training epoch [default: all].", min=0)
    ] = None,
    context: Annotated[
        int, typer.Option(metavar="N", help="Tell other events within so many steps of the difference.", min=0)
    ] = 5,
    attempt_a: Annotated[
        int | None, typer.Option(metavar="N", help="Incarnation of A [default: the last closed one].", min=0)
    ] = None,
    attempt_b: Annotated[
        int | None, typer.Option(metavar="N", help="Incarnation of B [default: the last closed one].", min=0)
    ] = None,
    unverified: Unverified = False,
    trust: Trust = None,
    public_key: PublicKey = None,
    anchor: AnchorPath = None,
) -> None:
    """Compare two recorded runs by the digests of their calls.

    Calls that only one run recorded with a digest are counted, not compared. Exit code: 0 no difference in what was
    compared, 1 a difference, damaged bytes, or evidence that does not hold, 2 not stored, 3 nothing comparable, or
    bytes are missing, 7 the journal cannot be read.
    """
    from provstore.api.diffing import diff as compare_runs

    screen = Screen(settings)
    found = compare_runs(
        run_of(a) or "",
        run_of(b) or "",
        epoch=epoch,
        context=context,
        attempts=(attempt_a, attempt_b),
        belief=belief_of(settings, trust, public_key, anchor),
        unverified=unverified,
        store=settings.store,
        journal=settings.journal,
    )
    screen.show(found.to_dict(), lambda console: _draw(console, found), found.exit_code)


def _draw(console: Console, found: Diff) -> None:
    for one in found.trust:
        print_lines(console, ignored_lines(one, console.width))
    anchors = list(anchor_lines(found.anchors, console.width)) if found.anchors is not None else []
    # What differs first is read first.
    print_lines(console, anchors if found.cause else ())
    lines = _lines(found.divergence, console.width, is_apart=found.cause is not None, has_anchors=bool(anchors))
    print_lines(console, lines)
    print_lines(console, () if found.cause else anchors)
    print_lines(console, lost_lines(found.lost, console.width))
    names = (found.divergence.a, found.divergence.b)
    print_lines(console, trust_lines(list(zip(names, found.trust, strict=True)), console.width))


def _lines(found: Divergence, width: int, *, is_apart: bool, has_anchors: bool) -> Iterator[Line]:
    """Yield how the calls compare; ``is_apart``: something else differed before them."""
    coverage = found.coverage
    first = found.first_divergence
    if first is None and not coverage.compared:
        yield Line(f"{'calls: ' if has_anchors else ''}nothing could be compared", "bold yellow")
    elif first is None:
        yield Line(f"no difference in {'the calls that were' if is_apart else 'what was'} compared", "bold green")
    else:
        word = "first call that differs" if is_apart else "first difference"
        yield from (Line(text, "bold red") for text in folded(f"{word}: {_said(first)}", width, "", "  "))
        if first.a is not None or first.b is not None:
            yield from (Line(text) for text in folded(f"{found.a}: {first.a or _NOTHING}", width, "  ", "    "))
            yield from (Line(text) for text in folded(f"{found.b}: {first.b or _NOTHING}", width, "  ", "    "))
        before = "nothing was compared before it" if found.last_equal is None else _said(found.last_equal)
        yield from (Line(text) for text in folded(f"last equal: {before}", width, "  ", "    "))
        yield from (Line(text, "yellow") for text in folded(f"hints at {found.reading}", width, "  ", "    "))
    yield Line(f"  {coverage.equal} of {counted(coverage.compared, 'digest')} equal, {coverage.different} different")
    for reason, count in sorted(coverage.not_comparable.items()):
        yield Line(f"  not compared: {count}, {reason}", "dim")
    for kind, count in sorted(found.counts.items()):
        yield Line(f"  {kind}: {counted(count, 'difference')}", "dim")
    yield from _details(found, width)


def _details(found: Divergence, width: int) -> Iterator[Line]:
    for rank, point in sorted(found.per_rank.items())[:_SHOWN]:
        yield from (Line(text, "dim") for text in folded(f"rank {rank} first: {_said(point)}", width, "  ", "    "))
    # Ranks see the same at one time: it is told once.
    for text in dict.fromkeys(map(_near, found.correlations)):
        yield from (Line(part) for part in folded(text, width, "  ", "    "))
    for group, shift in sorted(found.offsets.items()):
        text = f"group {group}: sequence numbers of {found.b} are taken {shift:+d}: it began later"
        yield from (Line(part, "dim") for part in folded(text, width, "  ", "    "))
    for note in found.notes:
        yield from (Line(part, "dim") for part in folded(note, width, "  ", "    "))


def _near(one: Correlation) -> str:
    near = f"{one.step_distance:+d} steps" if one.step_distance is not None else f"{one.seconds:+.1f} s"
    return f"near it, {near}: {one.event.what}, {one.event.scope}, of {one.event.run}"


def _said(point: Point) -> str:
    step = "" if point.step is None else f"step {point.step}, "
    where = point.name or (f"{point.group} seq {point.seq}" if point.group else "")
    kind = f"{point.kind} of " if point.kind else ""
    return f"{step}{kind}{point.op} {where}, rank {ranks_text(point.ranks)}"
