"""What comparing two runs gives: the first difference, what was equal before it, and how much was looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from provstore.errors import EXIT_NO, EXIT_OK, EXIT_UNDECIDED

OP, SHAPE, DTYPE, INPUT, OUTPUT, FINITE, SEQUENCE_MISSING, RANK_MISSING, METADATA = (
    "op",
    "shape",
    "dtype",
    "input-digest",
    "output-digest",
    "finite-flag",
    "sequence-missing",
    "rank-missing",
    "metadata",
)
KINDS = (RANK_MISSING, SEQUENCE_MISSING, OP, DTYPE, SHAPE, INPUT, OUTPUT, FINITE, METADATA)
"""What may differ of one call; of several the one that stands first is named."""


@dataclass(frozen=True, slots=True)
class Point:
    """One call, or another recorded event, of some ranks."""

    kind: str | None
    """One of ``KINDS``; ``None`` where all was equal."""
    epoch: int | None
    step: int | None
    op: str
    group: str | None
    seq: int | None
    ranks: tuple[int, ...]
    side: str | None = None
    """``in`` or ``out``, where it is about a digest or a flag."""
    name: str | None = None
    a: str | None = None
    """What the first run has there."""
    b: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "kind": self.kind,
            "epoch": self.epoch,
            "step": self.step,
            "op": self.op,
            "group": self.group,
            "seq": self.seq,
            "ranks": list(self.ranks),
            "side": self.side,
            "name": self.name,
            "a": self.a,
            "b": self.b,
        }


@dataclass(slots=True)
class Coverage:
    """How many digests were compared, and why others were not."""

    compared: int = 0
    equal: int = 0
    different: int = 0
    not_comparable: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str, count: int = 1) -> None:
        """Count digests that could not be compared."""
        if count:
            self.not_comparable[reason] = self.not_comparable.get(reason, 0) + count

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values, with what the share of equal ones is a share of."""
        return {
            "compared": self.compared,
            "equal": self.equal,
            "different": self.different,
            "not_comparable": dict(sorted(self.not_comparable.items())),
            "similarity": {"equal": self.equal, "of": self.compared},
        }


@dataclass(frozen=True, slots=True)
class Event:
    """Something that was seen of one of the runs at some step or time."""

    run: str
    what: str
    """``escalation loss-spike``, …"""
    scope: str
    at_ns: int | None = None
    step: int | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Correlation:
    """An event near the first difference; near is no cause."""

    event: Event
    step_distance: int | None
    """Steps after the difference; negative: before it."""
    seconds: float | None
    """Where only times are known."""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        one = self.event
        return {
            "run": one.run,
            "what": one.what,
            "scope": one.scope,
            "step": one.step,
            "text": one.text,
            "step_distance": self.step_distance,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True)
class Divergence:
    """What comparing two runs gives."""

    a: str
    b: str
    first_divergence: Point | None
    per_rank: Mapping[int, Point]
    """First difference of each rank."""
    last_equal: Point | None
    """Last digest, before the first difference and on its ranks, that was equal."""
    reading: str | None
    """What the first difference hints at; ``None`` when there is none."""
    coverage: Coverage
    counts: Mapping[str, int]
    """Differences by kind."""
    groups: tuple[tuple[str, str], ...] = ()
    """Process groups that were taken for one another although their names differ."""
    offsets: Mapping[str, int] = field(default_factory=dict)
    """Groups of the second run whose sequence numbers were shifted, and by how much at first."""
    correlations: tuple[Correlation, ...] = ()
    notes: tuple[str, ...] = ()

    def with_notes(self, *notes: str) -> Divergence:
        """Return it with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        first, last = self.first_divergence, self.last_equal
        return {
            "a": self.a,
            "b": self.b,
            "first_divergence": first.to_dict() if first else None,
            "per_rank": [{"rank": rank, **point.to_dict()} for rank, point in sorted(self.per_rank.items())],
            "last_equal": last.to_dict() if last else None,
            "reading": self.reading,
            "coverage": self.coverage.to_dict(),
            "differences": dict(sorted(self.counts.items())),
            "groups": [list(pair) for pair in self.groups],
            "sequence_offsets": dict(sorted(self.offsets.items())),
            "correlations": [one.to_dict() for one in self.correlations],
            "notes": list(self.notes),
        }


def exit_code(found: Divergence) -> int:
    """Return 1 for a difference, 3 when nothing could be compared, else 0."""
    if found.first_divergence is not None:
        return EXIT_NO
    return EXIT_OK if found.coverage.compared else EXIT_UNDECIDED
