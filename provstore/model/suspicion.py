"""Which actions of a run a finding names, which come after them, and what could not be judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from provstore.model.action import Action
from provstore.model.finding import Finding, Undecided

UNREADABLE = "unreadable_table"
"""Code of what stays open because a table beside the records cannot be read."""


@dataclass(frozen=True, slots=True)
class SuspiciousAction:
    """An action that a finding names."""

    action: Action
    finding: Finding
    score: float
    """0 to 1."""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        one = self.action
        return {
            "action_id": one.action_id,
            "rank": one.rank,
            "op": one.op,
            "group": one.group,
            "seq": one.seq,
            "step": one.step,
            "epoch": one.epoch,
            "finding": self.finding.key,
            "code": self.finding.code,
            "confidence": self.finding.confidence,
            "score": self.score,
            "reason": self.finding.summary,
            **self.finding.training_members(),
            "carried_by": list(one.carried_by),
            "evidence_refs": [*one.evidence_refs, *(said.digest for said in self.finding.evidence if said.digest)],
        }


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What was found among the actions of one attempt of a run."""

    suspicious: tuple[SuspiciousAction, ...] = ()
    affected: tuple[str, ...] = ()
    """Ids of the actions that come after a suspicious one by data or program order; nobody is accused by that."""
    undecided: tuple[Undecided, ...] = ()
    coverage: Mapping[str, int] = field(default_factory=dict)
    """How many actions there were, and of how many flags, digests and statistics are stored."""
