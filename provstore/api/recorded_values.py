"""What was recorded live of the values of a run, beside a diagnosis of its dumps, which hold none."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from provstore.analysis.suspicion import DISAGREEMENT, DRIFT, ORIGIN, OUTLIER
from provstore.api.suspecting import suspected
from provstore.evidence.actions import OPENING
from provstore.ingest import recording
from provstore.journal import Journal
from provstore.model import canonical
from provstore.model.finding import Diagnosis, Evidence, Finding, Undecided
from provstore.model.suspicion import UNREADABLE

NAN = "nan"
_OF_VALUES = (ORIGIN, DISAGREEMENT, DRIFT, OUTLIER)
_NOT_CHECKED = "NaN: not checked"
_SHOWN_CARRIERS = 4
_NO_VALUES, _TIE = "no_values", "tie"


@dataclass(frozen=True, slots=True)
class RecordedValues:
    """Findings from recorded values, and what they leave open."""

    findings: tuple[Finding, ...] = ()
    undecided: tuple[Undecided, ...] = ()
    coverage: Mapping[str, int] = field(default_factory=dict)

    ranks: tuple[int, ...] = ()
    """Ranks that were recorded, as far as bundles list them."""
    world_size: int = 0

    @property
    def has_flags(self) -> bool:
        """Whether it was recorded of any call that its values were finite or not."""
        return self.coverage.get("with_flags", 0) > 0

    def added_to(self, found: Diagnosis, about: str | None) -> Diagnosis:
        """Return a diagnosis of dumps with what values tell; it is never healthy while something of them is open."""
        if not (self.findings or self.undecided or self.has_flags):
            return found
        known = {one.kind for one in found.findings}
        findings = (*found.findings, *(one for one in self.findings if one.kind not in known))
        undecided = tuple(one for one in found.undecided if not (self.has_flags and one.code == _NO_VALUES))
        undecided += self.undecided if "nan_origin" not in known else ()
        calls, flags = self.coverage.get("calls", 0), self.coverage.get("with_flags", 0)
        notes = [one for one in found.notes if not (self.has_flags and one.startswith(_NOT_CHECKED))]
        if self.has_flags:
            notes.append(f"NaN: judged by what was recorded live: flags of {flags} of {calls} calls")
        if about == NAN and flags < calls and not findings and not undecided:
            what = f"flags of {calls - flags} of {calls} calls were not recorded: a NaN there would not be seen"
            undecided = (Undecided(_NO_VALUES, what, "record the flags of every call: raise the time limit"),)
        is_open = any(one.blocks_answer for one in undecided)
        status = "findings" if findings else "undecided" if is_open else "healthy"
        seen = found.coverage
        if not seen.get("ranks_seen"):
            seen = {**seen, "ranks_seen": list(self.ranks), "ranks_expected": max(self.world_size, len(self.ranks))}
            seen["calls"] = calls
            notes.append("no dump of it is stored: which calls never ended cannot be told")
        return replace(found, findings=findings, undecided=undecided, notes=tuple(notes), status=status, coverage=seen)


def recorded_values(journal: Journal, scope: tuple[str, int], about: str | None) -> RecordedValues:
    """Return what the recorded values of an attempt tell about a question; nothing where none are recorded.

    Raises:
        StoreError: The journal is damaged there.
        TrustError: A record is malformed.
    """
    if about not in {None, NAN}:
        return RecordedValues()
    found = suspected(journal, *scope, of_nan=about == NAN)
    codes = _OF_VALUES if about is None else (ORIGIN,)
    findings = tuple(_first_of_each(one.finding for one in found.suspicious if one.finding.code in codes))
    findings = _with_records(journal, scope, findings)
    with_flags = found.coverage.get("with_flags", 0) > 0
    open_ = tuple(
        one
        for one in found.undecided
        if one.code == UNREADABLE
        or (one.blocks_answer and ((one.code == _NO_VALUES and with_flags) or (one.code == _TIE and about is None)))
    )
    bundles = recording.stored_bundles(journal, *scope)
    ranks = {row["rank"] for bundle in bundles for row in bundle.record["ranks"] or ()}
    world = max((bundle.record["world_size"] or 0 for bundle in bundles), default=0)
    return RecordedValues(findings, open_, found.coverage, tuple(sorted(ranks)), world)


def _with_records(journal: Journal, scope: tuple[str, int], findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return findings with the records of the actions that they name, and of the calls that carry these."""
    named = {one.key: _named(one) for one in findings}
    # Records are canonical, and an action's id stands first in its own.
    wanted = {OPENING + canonical.encode(name): name for names in named.values() for name in names}
    found: dict[str, Evidence] = {}
    for record in journal.evidence(*scope).records() if wanted else ():
        name = wanted.get(record.line[: record.line.find(b'"', len(OPENING) + 1) + 1])
        if name is not None and name not in found:
            digest, file = hashlib.sha256(record.line).hexdigest(), record.where.partition(" ")[0]
            found[name] = Evidence(file, digest, recording.read_quickly(record.line).rank, record.index)
    return tuple(
        replace(one, evidence=(*(found[name] for name in named[one.key] if name in found), *one.evidence))
        for one in findings
    )


def _named(finding: Finding) -> list[str]:
    own = [] if finding.action_id is None else [finding.action_id]
    return [*own, *finding.carried_by[:_SHOWN_CARRIERS]]


def _first_of_each(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings; of a rank whose values stand out in many calls, the first call."""
    seen: set[int] = set()
    for one in findings:
        rank = one.culprits[0].rank
        if one.code != OUTLIER or rank not in seen:
            yield one
        if one.code == OUTLIER:
            seen.add(rank)
