"""What ``record`` did: epoch by epoch, and what became of the files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from provstore.model.display import table

NEW, KNOWN, FINISHED = "new", "known", "finished"
"""Recorded now; recorded before, nothing was written; recorded before up to its link, which was written now."""


@dataclass(frozen=True, slots=True)
class EpochReport:
    """One epoch, or one part of it."""

    run: str
    attempt: int
    epoch: int
    part: int
    digest: str
    """Of the bundle, 64 hex digits."""
    status: str
    actions: int
    """That the bundle covers."""
    known_actions: int = 0
    """That were given and are covered by another bundle."""
    other_content: int = 0
    """Of these, how many were recorded with other content then: what was recorded stays."""
    closed: bool = True
    open_ranks: tuple[int, ...] = ()
    """On which it never ended: their processes were killed, failed, or run still."""
    ranks: int = 0
    missing_ranks: tuple[int, ...] = ()
    world_size: int | None = None
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """``recording_mode``, ``policy_mode``, ``policy_reason``, ``shortfall``, ``side_effect_class`` → name → actions."""
    recording_mode: str = "validation"
    """The weakest."""
    agent_record: str | None = None
    """SHA-256 of the agent record; ``None`` for an epoch that never ended."""
    signed: bool = False
    evidence_epochs: tuple[int, ...] = ()
    """Signed evidence epochs that hold it."""


@dataclass(frozen=True, slots=True)
class SignalFinding:
    """A finding among what was seen beside a job."""

    code: str
    """Its entry in the registry."""
    source: str
    """Who says it; where a source gave no information, that source."""
    text: str


@dataclass(frozen=True, slots=True)
class SignalReport:
    """What was seen beside one attempt of a job, in its ``watch.jsonl``."""

    run: str
    attempt: int
    new: int
    """Lines that were recorded now."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """``signal``, ``disagreement``, ``finding``, ``problem``, ``order``, ``closed`` → lines, recorded before or now."""
    findings: tuple[SignalFinding, ...] = ()
    """The first hundred."""


@dataclass(frozen=True, slots=True)
class FaultReport:
    """A fault of the recorder itself, which never reached training: what it was about was not recorded."""

    run: str
    attempt: int
    where: str
    """Part of the recorder, or of the job, that failed."""
    error: str
    count: int
    """How often on all ranks together, as far as it was told: the first five each, then at powers of two."""
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordReport:
    """What one ``record`` did."""

    epochs: tuple[EpochReport, ...]
    refused: tuple[str, ...] = ()
    """Files that could not be used, and why."""
    problems: tuple[str, ...] = ()
    """Lines that could not be used, each by file and offset, and epochs of which nothing can be recorded."""
    notes: tuple[str, ...] = ()
    position: int = 0
    """Last acknowledged position of the journal."""
    signals: tuple[SignalReport, ...] = ()
    """What was seen beside the job, where somebody watched it."""
    lineage: int = 0
    """Calls of which the lineage was written now."""
    faults: tuple[FaultReport, ...] = ()
    """Most frequent first."""
    is_understood: bool = True
    """False where something that was refused, or left out, is of a version that is not known here."""

    @property
    def left_out(self) -> int:
        """Actions that were given with other content than what is recorded of them, which stays."""
        return sum(one.other_content for one in self.epochs)

    @property
    def is_known(self) -> bool:
        """Everything had been recorded before, and nothing was written."""
        is_new = self.lineage or any(one.new for one in self.signals)
        return not is_new and all(one.status == KNOWN for one in self.epochs)

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON values; the keys are documented and stable."""
        return {
            "epochs": [{**asdict(one), "counts": {k: dict(v) for k, v in one.counts.items()}} for one in self.epochs],
            "signals": [{**asdict(one), "counts": dict(one.counts)} for one in self.signals],
            "lineage": self.lineage,
            "faults": [{**asdict(one), "ranks": list(one.ranks)} for one in self.faults],
            "already_recorded": self.is_known,
            "refused": list(self.refused),
            "problems": list(self.problems),
            "notes": list(self.notes),
            "position": self.position,
        }

    def _repr_html_(self) -> str:
        """Return the epochs as a table."""
        rows = [
            (one.run, one.attempt, one.epoch, one.part, one.status, one.actions, one.recording_mode, one.digest[:16])
            for one in self.epochs
        ]
        names = ("run", "attempt", "epoch", "part", "status", "actions", "weakest mode", "digest")
        return table("recorded", names, rows)
