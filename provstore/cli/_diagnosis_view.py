"""How a diagnosis reads on a terminal: the answer first, then how we know, then what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from provstore.cli._screen import Line
from provstore.cli._text import counted, folded, named_ranks

if TYPE_CHECKING:
    from provstore.model.finding import Diagnosis, Finding, Hop, LastCall, Source, Undecided

T = TypeVar("T")

LINE_LIMIT = 40
_LABEL_WIDTH = 9
_SIDE = " wrong"
"""How an alternative of a tie ends: it names one side."""
_STATUS_STYLE = {"healthy": "green", "findings": "bold red", "undecided": "yellow", "error": "bold red"}
_NOT_ENDED = (
    "had not ended when the dumps were written: one that is younger than 30 s, and than a tenth of its timeout, counts "
    "as in flight. If the job stood still, dump it again later"
)


@dataclass(frozen=True, slots=True)
class _Detail:
    """How much is shown; ``None`` is everything."""

    findings: int | None = None
    hops: int | None = None
    notes: int | None = None
    last_calls: int | None = None
    undecided: int | None = None
    skipped: bool = False
    """Whether files that were never meant as evidence are listed, not only counted."""


_DETAILS = (
    _Detail(),
    _Detail(findings=4, hops=8, notes=3, last_calls=10, undecided=6),
    _Detail(findings=3, hops=5, notes=2, last_calls=6, undecided=4),
    _Detail(findings=2, hops=4, notes=1, last_calls=4, undecided=3),
    _Detail(findings=1, hops=4, notes=1, last_calls=4, undecided=2),
)


def diagnosis_lines(diagnosis: Diagnosis, *, width: int, verbose: bool = False) -> list[Line]:
    """Return a diagnosis as lines of at most ``width`` columns, at most 40 of them unless ``verbose``."""
    if verbose:
        return list(_draw(diagnosis, _Detail(skipped=True), width))
    drawn: list[Line] = []
    for detail in _DETAILS:
        drawn = list(_draw(diagnosis, detail, width))
        if len(drawn) <= LINE_LIMIT:
            return drawn
    more = len(drawn) - LINE_LIMIT + 1  # two at least: what takes one line is not hidden behind another
    return [*drawn[: LINE_LIMIT - 1], Line(f"… {counted(more, 'more line')}: --verbose shows all", "dim")]


def _draw(diagnosis: Diagnosis, detail: _Detail, width: int) -> Iterator[Line]:
    yield from _heading(diagnosis, detail, width)
    full, brief = _cut(diagnosis.findings, detail.findings)
    one = len(diagnosis.findings) == 1
    for finding in full:
        yield Line("")
        yield from _finding(finding, diagnosis, detail, width)
    if brief:
        yield Line("")
        for finding in brief:
            yield from _wrapped(finding.summary, width, style="red")
        yield from _wrapped("--verbose shows the chain and the next step of each", width, "dim")
    told = [reason for reason in diagnosis.undecided if any(_is_about(reason, one) for one in diagnosis.findings)]
    if undecided := [reason for reason in diagnosis.undecided if reason not in told]:
        yield Line("")
        yield from _undecided(undecided, detail, width)
    if diagnosis.last_calls and diagnosis.findings and not one:
        yield Line("")
        yield from _last_calls(diagnosis.last_calls, detail, width)
    shown, hidden = _cut(diagnosis.notes, detail.notes)
    if shown:
        yield Line("")
        for note in shown:
            yield from _labelled("note", note, width)
        yield from _hidden(hidden, "note", width)


def _heading(diagnosis: Diagnosis, detail: _Detail, width: int) -> Iterator[Line]:
    pending = diagnosis.coverage.get("pending") if diagnosis.status == "healthy" else None
    verdict = {
        "healthy": f"healthy, nothing {'has waited for long' if pending else 'waits'} and nothing disagrees",
        "findings": counted(len(diagnosis.findings), "finding"),
        "undecided": "cannot decide",
        "error": "no usable evidence",
    }.get(diagnosis.status, diagnosis.status)
    where = f"{diagnosis.run}, attempt {diagnosis.attempt}: {verdict}"
    yield from _wrapped(where, width, style=_STATUS_STYLE.get(diagnosis.status, ""))
    seen = _coverage_text(diagnosis.coverage)
    if seen:
        yield from _wrapped(seen, width, style="dim")
    yield from _left_out(diagnosis.coverage, detail, width)
    if isinstance(pending, int) and pending:
        yield from _wrapped(f"{counted(pending, 'call')} {_NOT_ENDED}", width, style="yellow")


def _coverage_text(coverage: Mapping[str, object]) -> str:
    parts = []
    seen, expected = _numbers(coverage, "ranks_seen"), coverage.get("ranks_expected")
    if seen:
        of = f" of {expected}" if isinstance(expected, int) and expected != len(seen) else ""
        parts.append(f"{len(seen)}{of} {'rank' if len(seen) == 1 and not of else 'ranks'}")
    if isinstance(calls := coverage.get("calls"), int):
        parts.append(counted(calls, "call"))
    for name, label in (
        ("ranks_missing", "no dump of"),
        ("ranks_refused", "refused dump of"),
        ("wrapped", "ring wrapped on"),
    ):
        if ranks := _numbers(coverage, name):
            parts.append(f"{label} {named_ranks(ranks)}")
    if isinstance(aside := coverage.get("quarantined"), int) and aside:
        parts.append(f"{counted(aside, 'entry', 'entries')} set aside")
    if isinstance(skipped := coverage.get("skipped_files"), Sequence) and skipped:
        parts.append(f"{counted(len(skipped), 'file')} skipped")
    return " · ".join(parts)


def _left_out(coverage: Mapping[str, object], detail: _Detail, width: int) -> Iterator[Line]:
    for name, label, style in (("refused_files", "refused", "red"), ("skipped_files", "skipped", "dim")):
        files = coverage.get(name)
        if not isinstance(files, Sequence) or (name == "skipped_files" and not detail.skipped):
            continue
        shown, hidden = _cut(files, detail.notes)
        for one in shown:
            yield from _labelled(label, f"{one['file']}: {one['reason']}", width, style)
        yield from _hidden(hidden, f"{label} file", width)


def _numbers(coverage: Mapping[str, object], name: str) -> list[int]:
    ranks = coverage.get(name)
    return [int(rank) for rank in ranks] if isinstance(ranks, Sequence) else []


def _finding(finding: Finding, diagnosis: Diagnosis, detail: _Detail, width: int) -> Iterator[Line]:
    yield from _wrapped(finding.summary, width, style="bold red")
    yield from _labelled("class", _class_text(finding), width)
    yield from _chain(finding.chain, detail, width)
    tied = _tied(finding, diagnosis.undecided)
    if finding.culprits:
        named = ", ".join(_culprit(one.rank, one.host) for one in finding.culprits)
        yield from _labelled("culprit", named, width, "red")
    elif tied:
        yield from _labelled("culprit", f"not decided: {_sides(finding, tied)}", width, "yellow")
    if victims := [rank for rank in finding.victims if rank not in tied]:
        yield from _labelled("victims", named_ranks(victims), width)
    if finding.seq_range:
        yield from _labelled("between", f"#{finding.seq_range[0]} and #{finding.seq_range[1]}", width)
    if len(diagnosis.findings) == 1:
        yield from _last_calls(diagnosis.last_calls, detail, width)
    others = [text for text in finding.alternatives if not (tied and text.endswith(_SIDE))]
    for label, texts in (("caveat", finding.caveats), ("or", others)):
        shown, hidden = _cut(texts, detail.notes)
        for text in shown:
            yield from _labelled(label, text, width)
        yield from _hidden(hidden, label, width)
    if finding.next_step:
        yield from _labelled("next", finding.next_step, width, "green")


def _class_text(finding: Finding) -> str:
    detail = f" ({finding.detail})" if finding.detail else ""
    cause = f" because of a {finding.cause.replace('_', ' ')}" if finding.cause else ""
    return f"{finding.kind.replace('_', ' ')}{detail}{cause}, {finding.confidence}"


def _chain(chain: Sequence[Hop], detail: _Detail, width: int) -> Iterator[Line]:
    shown: list[Hop | None] = list(chain)
    if detail.hops is not None and len(chain) > detail.hops:
        tail = detail.hops // 2
        shown = [*chain[: detail.hops - tail], None, *chain[len(chain) - tail :]]
    for at, hop in enumerate(shown):
        label = "" if at else "chain"
        arrow = "← " if at else ""
        text = f"… {counted(len(chain) - len(shown) + 1, 'hop')} …" if hop is None else _hop_text(hop)
        yield from _labelled(label, arrow + text, width)


def _hop_text(hop: Hop) -> str:
    place = _source_text(hop.source)
    start = "" if hop.text.startswith(("rank ", "ranks ")) else f"rank {hop.rank}: "
    return f"{start}{hop.text}{f' ({place})' if place and place not in hop.text else ''}"


def _source_text(source: Source | None) -> str:
    return "" if source is None else f"{source.file.rsplit('/', 1)[-1]}:{source.line}"


def _tied(finding: Finding, undecided: Iterable[Undecided]) -> tuple[int, ...]:
    """Return the ranks among which the evidence does not choose a culprit."""
    if finding.culprits or finding.kind not in ("mismatch", "order_deadlock"):
        return ()
    return next((reason.ranks for reason in undecided if _is_about(reason, finding)), finding.victims)


def _is_about(reason: Undecided, finding: Finding) -> bool:
    """Return whether a reason says only that this finding names nobody."""
    seen = tuple(sorted({one.rank for one in finding.evidence}))
    return reason.code == "tie" and bool(reason.ranks) and (reason.ranks == seen or reason.what == finding.summary)


def _sides(finding: Finding, tied: Sequence[int]) -> str:
    """Return who may be the culprit: ``rank 0 or rank 1``; the alternatives of a tie name its sides."""
    sides = [text.removesuffix(_SIDE) for text in finding.alternatives if text.endswith(_SIDE)] or [
        f"rank {rank}" for rank in tied
    ]
    return " or ".join(sides) if len(sides) <= 4 else f"one of {named_ranks(tied)}"


def _culprit(rank: int, host: str | None) -> str:
    return f"rank {rank}{f' on {host}' if host else ''}"


def _last_calls(calls: Sequence[LastCall], detail: _Detail, width: int) -> Iterator[Line]:
    shown, hidden = _cut(calls, detail.last_calls)
    for at, call in enumerate(shown):
        yield from _labelled("" if at else "last", f"{named_ranks(call.ranks)}: {call.text}", width)
    if hidden:
        ranks = named_ranks(rank for call in hidden for rank in call.ranks)
        yield from _labelled("", f"… {ranks}: --verbose shows them", width, "dim")


def _undecided(undecided: Sequence[Undecided], detail: _Detail, width: int) -> Iterator[Line]:
    ordered = sorted(undecided, key=lambda one: not one.blocks_answer)
    shown, hidden = _cut(ordered, detail.undecided)
    for one in shown:
        label = "open" if one.blocks_answer else "limit"
        ranks = f" ({named_ranks(one.ranks)})" if one.ranks and not one.what.startswith(("rank ", "ranks ")) else ""
        yield from _labelled(label, f"{one.code}: {one.what}{ranks}", width, "yellow" if one.blocks_answer else "")
        if one.next_step:
            yield from _labelled("", f"next: {one.next_step}", width)
    yield from _hidden(hidden, "limit", width)


def _cut(items: Sequence[T], most: int | None) -> tuple[Sequence[T], Sequence[T]]:
    return (items, ()) if most is None else (items[:most], items[most:])


def _hidden(hidden: Sequence[object], label: str, width: int) -> Iterator[Line]:
    if hidden:
        yield from _labelled("", f"… {counted(len(hidden), f'more {label}')}: --verbose shows all", width, "dim")


def _labelled(label: str, text: str, width: int, style: str = "") -> Iterator[Line]:
    head = f"  {label:<{_LABEL_WIDTH}}"
    yield from _fold(head, " " * len(head), text, width, style)


def _wrapped(text: str, width: int, style: str = "") -> Iterator[Line]:
    yield from _fold("", "  ", text, width, style)


def _fold(head: str, indent: str, text: str, width: int, style: str) -> Iterator[Line]:
    yield from (Line(line, style) for line in folded(text, width, head, indent))
