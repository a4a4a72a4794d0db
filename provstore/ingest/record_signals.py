"""What was seen beside a job into the journal: one record a line of ``watch.jsonl``, each line once.

The file's bytes are kept as they are. A line is known again by its digest, so that the file may come again, and longer.
No bundle of an epoch depends on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provstore.errors import InputError
from provstore.evidence import records
from provstore.ingest.record_epochs import Output
from provstore.ingest.watch_lines import seen
from provstore.journal import Journal
from provstore.model import canonical
from provstore.model.evidence import EXTERNAL_SIGNAL
from provstore.model.recording_report import SignalFinding, SignalReport
from provstore.model.signals import DISAGREEMENT, FINDING, SIGNAL, SeenSignal
from provstore.sources.signals import spool

Scope = tuple[str, int]
_KIND = b'"kind":"external-signal"'
_LINES_AT_ONCE = 1_000
_MOST_TOLD = 100


@dataclass(slots=True)
class Taken:
    """What became of the file of one capture directory."""

    reports: list[SignalReport] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_understood: bool = True
    """False where a line is of a version that is not known here."""


def take_in(directory: Path, started: Mapping[Scope, int], output_of: Callable[[Scope], Output]) -> Taken:
    """Record what a watcher left in a capture directory.

    Args:
        directory: Of the capture.
        started: Attempts of the job and when each began, nanoseconds since 1970: a line belongs to the last one that
            had begun when it was seen, else to the first.
        output_of: Gives where the records of an attempt go.

    Raises:
        StoreError: They could not be made durable.
    """
    taken = Taken()
    if not started:
        return taken
    try:
        found = spool.read(directory)
    except InputError as error:
        taken.refused.append(str(error))
        return taken
    if found is None:
        return taken
    by_scope: dict[Scope, list[SeenSignal]] = {}
    for said, line, offset in found.lines():
        try:
            one = seen(said, line, offset)
            records.external_signal("", 0, 0, one, file=(found.sha256, len(found.data)))
        except InputError as error:
            found.add(offset, f"{str(said.get('t'))[:40]!a}: {error}")
            continue
        by_scope.setdefault(_scope_of(one, started), []).append(one)
    known = {line for scope in started for line in _known(output_of(scope).journal, scope)}
    for scope, signals in by_scope.items():
        taken.reports.append(_record(output_of(scope), scope, signals, found, known))
    taken.problems += found.listed()
    taken.is_understood = found.is_understood
    taken.notes += [found.torn] if found.torn is not None else []
    return taken


def stored_signals(journal: Journal, run: str, attempt: int) -> Iterator[dict[str, Any]]:
    """Yield the records of what was seen beside an attempt, as they stand in the journal.

    Raises:
        TrustError: A record of this kind is malformed.
        StoreError: The journal is damaged there.
    """
    for line in journal.evidence(run, attempt).lines(_KIND):
        said = records.parse(line)
        if said["kind"] == EXTERNAL_SIGNAL:
            yield said


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """Something that happened beside a job: what, whom it concerns, and when."""

    what: str
    scope: str
    """``rank:0``, several of them, ``host:h`` or ``run``."""
    at_ns: int
    """When it happened, where its source says so, else when it was seen."""
    step: int | None
    text: str


def seen_events(journal: Journal, run: str, attempt: int) -> Iterator[SeenEvent]:
    """Yield what happened beside an attempt: errors of GPUs, metrics beyond limits, findings, disagreeing ranks.

    Raises:
        TrustError: A record of this kind is malformed.
        StoreError: The journal is damaged there.
    """
    for said in stored_signals(journal, run, attempt):
        if said["what"] in {SIGNAL, DISAGREEMENT, FINDING}:
            at = said["at"] if said["at"] is not None else said["seen_ns"]
            scope = ", ".join(f"rank:{rank}" for rank in said["ranks"] or ())
            scope = scope or (f"host:{said['host']}" if said["host"] is not None else "run")
            yield SeenEvent(_named(said), scope, canonical.tagged_integer(at), said["step"], said["text"])


def _named(said: Mapping[str, Any]) -> str:
    values = {one["n"]: one["v"] for one in said["values"]}
    if said["what"] != SIGNAL:
        return str(said["code"] or said["trigger"])
    if "xid" in values:
        return f"XID {canonical.tagged_integer(values['xid'])}"
    return f"{said['source']} {values.get('name', '')}".strip()


def _known(journal: Journal, scope: Scope) -> Iterator[str]:
    for said in stored_signals(journal, *scope):
        yield said["line"]


def _scope_of(one: SeenSignal, started: Mapping[Scope, int]) -> Scope:
    begun = [(at, scope) for scope, at in started.items() if at <= one.seen_ns]
    return max(begun)[1] if begun else min((at, scope) for scope, at in started.items())[1]


def _record(
    output: Output, scope: Scope, signals: list[SeenSignal], found: spool.Spool, known: set[str]
) -> SignalReport:
    fresh = list({one.line: one for one in signals if one.line not in known}.values())
    if fresh:
        # The bytes are there before anything names them.
        output.journal.keep(found.data)
    for at in range(0, len(fresh), _LINES_AT_ONCE):
        output.append(
            [
                records.external_signal(*scope, output.history.next_n(None), one, file=(found.sha256, len(found.data)))
                for one in fresh[at : at + _LINES_AT_ONCE]
            ]
        )
    told = dict.fromkeys(SignalFinding(one.code, one.source, one.text) for one in signals if one.code is not None)
    counts = Counter(one.what for one in signals)
    return SignalReport(*scope, len(fresh), dict(sorted(counts.items())), tuple(told)[:_MOST_TOLD])
