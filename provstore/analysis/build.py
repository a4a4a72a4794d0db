"""Making a finding: what every rule states in the same way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from provstore.analysis.case import Case
from provstore.analysis.waits import Waits
from provstore.analysis.wording import hop
from provstore.model.finding import Finding, Hop

RULE_VERSION = 1

NO_FRAMES = "no stack frames in the dumps"
NO_DUMP_TIME = "blocked at dump time; the dumps do not hold the time of the dump, so how long is not known"
_LONGEST_CHAIN = 8
_SHOWN_EVIDENCE = 16


def finding_key(code: str, case: Case, *parts: object) -> str:
    """Return the deterministic id of a finding."""
    text = "\x1f".join(map(str, (code, RULE_VERSION, case.evidence.run, case.evidence.attempt, *parts)))
    return f"{code}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Remarks:
    """What is said around a finding."""

    next_step: str | None = None
    caveats: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """The call a finding is about."""

    row: int
    at_culprit: int | None = None
    """The culprit's own call there, when it made one; its source line is then shown."""
    op: str | None = None
    """The operation, when it is not that of ``row``."""
    seq: int | None = None
    """The number, when it is not that of ``row``."""
    evidence: tuple[int, ...] = ()
    """Further calls to look at."""


def make(
    case: Case,
    code: str,
    place: Place,
    *,
    summary: str,
    confidence: str,
    culprits: Sequence[int],
    victims: Iterable[int],
    chain: Sequence[Hop] = (),
    detail: str | None = None,
    cause: str | None = None,
    seq_range: tuple[int, int] | None = None,
    remarks: Remarks = Remarks(),
    measures: Mapping[str, float] | None = None,
) -> Finding:
    """Return a finding about the call of ``place``."""
    row, at_culprit, op, seq = place.row, place.at_culprit, place.op, place.seq
    group = int(case.table.group[row])
    source = case.source(row if at_culprit is None else at_culprit)
    is_p2p = case.is_p2p(row)
    # Numbers of sends and receives mean something on one rank only: the culprit's own is shown.
    own = at_culprit if is_p2p and at_culprit is not None and case.is_p2p(at_culprit) else row
    number = case.seq(own) if seq is None else seq
    rows = list(dict.fromkeys((*(() if at_culprit is None else (at_culprit,)), row, *place.evidence)))[:_SHOWN_EVIDENCE]
    looked_at = list(case.evidence_of(rows))
    seen = {item.rank for item in looked_at}
    looked_at += [item for rank in culprits if rank not in seen for item in case.dumps_of(rank)]
    name = case.table.groups[group]
    return Finding(
        key=finding_key(code, case, name.backend, name.name, sorted(name.ranks), is_p2p, number, sorted(culprits)),
        code=code,
        kind=code.replace("-", "_"),
        summary=summary,
        confidence=confidence,
        culprits=tuple(case.culprit(rank) for rank in sorted(culprits)),
        victims=tuple(sorted(set(victims) - set(culprits))),
        detail=detail,
        cause=cause,
        group=case.group_name(group),
        op=case.signature(own).op if op is None else op,
        channel="p2p" if is_p2p else "collective",
        seq=number,
        seq_range=seq_range,
        source=source,
        no_source_reason=None if source is not None else NO_FRAMES,
        chain=tuple(chain),
        evidence=tuple(looked_at),
        alternatives=remarks.alternatives,
        caveats=remarks.caveats,
        next_step=remarks.next_step,
        measures=dict(measures or {}),
        rule_version=RULE_VERSION,
    )


def walk(case: Case, waits: Waits, goal: Iterable[int]) -> tuple[Hop, ...]:
    """Return the hops of the longest walk to ``goal``, its first ones left out when it is very long."""
    return tuple(hop(case, wait, blocker) for wait, blocker in waits.chain(goal)[-_LONGEST_CHAIN:])


def age_caveats(case: Case, rows: Iterable[int]) -> tuple[str, ...]:
    """Return what is to be said when no dump tells how long the calls had been waiting, or when it was not for long."""
    asked = list(rows)
    known = [(age, row) for row in asked if (age := case.age_seconds(row)) is not None]
    if not known:
        return (NO_DUMP_TIME,)
    if case.is_over_due(asked):
        return ()
    age, row = max(known)
    limit, usual = case.limit_seconds(row), case.usual_limit_seconds(row)
    text = (
        f"the calls had waited for {age:.1f} s at most: a hang by the limit that the watcher was given, {limit:g} s, "
        f"and in flight by the usual one, {usual:g} s"
    )
    return (text,)
