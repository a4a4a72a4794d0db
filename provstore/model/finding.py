"""The waist out of every analysis: findings, what could not be decided, and the diagnosis that holds both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from provstore.model.display import table

MOST_BATCHES = 16
"""So many batches of a step stand in the JSON of a finding; the others are counted."""


@dataclass(frozen=True, slots=True)
class Code:
    """One entry of the registry of finding codes; the reference page is generated from it."""

    name: str
    """kebab-case, stable for ever."""
    title: str
    severity: str
    """``error``, ``warning`` or ``note``."""
    meaning: str
    what_to_do: str


@dataclass(frozen=True, slots=True)
class Source:
    """A line of user code."""

    file: str
    line: int
    function: str
    of_rank: int


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of the chain from the symptom to the cause."""

    rank: int
    text: str
    """What this rank waits for, and why, in plain text."""
    reason: str
    """``waits``, ``absent``, ``behind``, ``no_dump``, ``not_posted``, …"""
    group: str | None = None
    op: str | None = None
    seq: int | None = None
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a finding can be checked: an entry of a dump, a dump as a whole, or a record in the journal."""

    file: str
    """Of a record the journal's segment."""
    digest: str
    """SHA-256 of the dump, or of the record; ``provstore evidence show`` takes it."""
    rank: int
    record_id: int | None = None
    """The recorder's number of the call; of a record its index in the run tree."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """A rank named as a cause."""

    rank: int
    host: str | None = None


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """A batch that a rank trained on, as the rank noted it."""

    epoch: int
    """Training epoch."""
    batch: int
    """Index in the epoch, from 0, on this rank."""
    samples: int | None = None
    ids_digest: str | None = None
    """``sha256:`` of the ids of its samples."""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {"epoch": self.epoch, "batch": self.batch, "samples": self.samples, "ids_digest": self.ids_digest}


@dataclass(frozen=True, slots=True)
class GroupName:
    """A process group as a finding shows it."""

    name: str
    desc: str
    ranks: tuple[int, ...] | None
    basis: str
    """``declared`` or ``observed``."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One judgement: which rank, in which call, why, and how we know."""

    key: str
    """Deterministic id made from the rule, the run and the instance, so that equal evidence gives equal ids."""
    code: str
    """Name of its registry entry, such as ``order-deadlock``."""
    kind: str
    """Class in the field's words: device, host, dead, order_deadlock, collective_hang, mismatch, skipped_call,
    extra_call, straggler, nan_origin."""
    summary: str
    """Plain text, complete by itself: rank, group, op, sequence number, source line."""
    confidence: str
    """``certain``, ``probable`` or ``possible``."""
    culprits: tuple[Culprit, ...]
    victims: tuple[int, ...] = ()
    detail: str | None = None
    """Kind of mismatch: op, dtype, size; None elsewhere."""
    cause: str | None = None
    """A deeper cause that explains the class, such as ``skipped_call`` behind a mismatch."""
    group: GroupName | None = None
    op: str | None = None
    channel: str | None = None
    seq: int | None = None
    seq_range: tuple[int, int] | None = None
    """Numbers in which a skipped or extra call can lie."""
    source: Source | None = None
    no_source_reason: str | None = None
    chain: tuple[Hop, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    alternatives: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    next_step: str | None = None
    measures: Mapping[str, float] = field(default_factory=dict)
    """Figures with their unit in the name, such as ``median_lateness_ms``."""
    batches: tuple[TrainingBatch, ...] = ()
    """Batches that the culprit had in that step, where they were recorded: a fact, not a cause. Of several it was one,
    or more, and which is not recorded."""
    parameter: str | None = None
    """Parameter whose gradient had the values in question first, where gradients are recorded; ``NAME#2`` is what the
    second backward pass of a step adds to it."""
    action_id: str | None = None
    """Recorded action that it names; None where it was found in dumps."""
    epoch: int | None = None
    """Training epoch of that action, where it was recorded; so is ``step``."""
    step: int | None = None
    carried_by: tuple[str, ...] = ()
    """Of a gradient or activation: ``action_id`` of the calls that carry it. ``group`` and ``seq`` are those of the
    first of them that was recorded."""
    rule_version: int = 1

    def training_members(self) -> dict[str, object]:
        """Return, as JSON values, what of the training stood behind it."""
        return {
            "batches": [one.to_dict() for one in self.batches[:MOST_BATCHES]],
            "batch_count": len(self.batches),
            "parameter": self.parameter,
        }


@dataclass(frozen=True, slots=True)
class Undecided:
    """Something that could not be told: why, whom it concerns, what to collect next time."""

    code: str
    """ring_wrapped, missing_dump, refused_dump, no_calls, membership_unknown, no_p2p_records, no_completion_events,
    no_values, unreadable_table, no_frames, active_only, tie, clock_unknown, dump_time_unknown, stood_still,
    seq_not_comparable, version_unknown."""
    what: str
    next_step: str
    ranks: tuple[int, ...] = ()
    blocks_answer: bool = True
    """True when the question itself stays open because of it; False for a caveat on an answer that stands."""


@dataclass(frozen=True, slots=True)
class LastCall:
    """The last thing a group of equal ranks did."""

    ranks: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer to one question about one attempt of one run."""

    run: str
    attempt: int
    status: str
    """``healthy``, ``findings``, ``undecided`` or ``error``."""
    findings: tuple[Finding, ...] = ()
    undecided: tuple[Undecided, ...] = ()
    last_calls: tuple[LastCall, ...] = ()
    coverage: Mapping[str, object] = field(default_factory=dict)
    """ranks expected, seen, refused, missing; calls; window per group; wrapped; skipped files. JSON values."""
    notes: Sequence[str] = ()
    timing: Mapping[str, float] = field(default_factory=dict)
    """reading_seconds and diagnosis_seconds, wall clock; left out of comparisons of answers."""

    def to_dict(self) -> dict[str, object]:
        """Return the diagnosis as JSON values; the keys are documented and stable."""
        return {
            "run": self.run,
            "attempt": self.attempt,
            "status": self.status,
            "coverage": dict(self.coverage),
            "findings": self.finding_dicts(),
            "undecided": [_undecided(reason) for reason in self.undecided],
            "last_calls": [{"ranks": list(last.ranks), "text": last.text} for last in self.last_calls],
            "notes": list(self.notes),
            "timing": dict(self.timing),
        }

    def finding_dicts(self) -> list[dict[str, object]]:
        """Return the findings as JSON values."""
        return [_finding(finding) for finding in self.findings]

    def _repr_html_(self) -> str:
        """Return the findings, and what could not be decided, as a table."""
        rows = [(f.kind, ", ".join(str(c.rank) for c in f.culprits), f.confidence, f.summary) for f in self.findings]
        rows += [(f"undecided: {u.code}", ", ".join(map(str, u.ranks)), "", u.what) for u in self.undecided]
        title = f"{self.run}, attempt {self.attempt}: {self.status}"
        return table(title, ("class", "ranks", "confidence", "what"), rows, self.notes)


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "id": finding.key,
        "class": finding.kind,
        "code": finding.code,
        "kind": finding.detail,
        "cause": finding.cause,
        "confidence": finding.confidence,
        "summary": finding.summary,
        "culprits": [{"rank": culprit.rank, "host": culprit.host} for culprit in finding.culprits],
        "victims": list(finding.victims),
        "group": _group(finding.group),
        "op": finding.op,
        "channel": finding.channel,
        "seq": finding.seq,
        "seq_range": None if finding.seq_range is None else list(finding.seq_range),
        "source": _source(finding.source),
        "no_source_reason": finding.no_source_reason,
        "chain": [_hop(hop) for hop in finding.chain],
        "evidence": [
            {"file": one.file, "digest": one.digest, "rank": one.rank, "record_id": one.record_id}
            for one in finding.evidence
        ],
        "alternatives": list(finding.alternatives),
        "caveats": list(finding.caveats),
        "next_step": finding.next_step,
        "measures": dict(finding.measures),
        **finding.training_members(),
        "action_id": finding.action_id,
        "epoch": finding.epoch,
        "step": finding.step,
        "carried_by": list(finding.carried_by),
        "rule_version": finding.rule_version,
    }


def _undecided(reason: Undecided) -> dict[str, object]:
    return {
        "code": reason.code,
        "what": reason.what,
        "next": reason.next_step,
        "ranks": list(reason.ranks),
        "blocks_answer": reason.blocks_answer,
    }


def _group(group: GroupName | None) -> dict[str, object] | None:
    if group is None:
        return None
    ranks = None if group.ranks is None else list(group.ranks)
    return {"name": group.name, "desc": group.desc, "ranks": ranks, "basis": group.basis}


def _hop(hop: Hop) -> dict[str, object]:
    return {
        "rank": hop.rank,
        "text": hop.text,
        "reason": hop.reason,
        "group": hop.group,
        "op": hop.op,
        "seq": hop.seq,
        "source": _source(hop.source),
    }


def _source(source: Source | None) -> dict[str, object] | None:
    if source is None:
        return None
    return {"file": source.file, "line": source.line, "function": source.function, "of_rank": source.of_rank}
