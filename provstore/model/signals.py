"""What was seen beside a job, and what followed from it, as one line of ``watch.jsonl`` tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from provstore.model.evidence import Scalar

SIGNAL, DISAGREEMENT, FINDING, PROBLEM, ORDER, CLOSED = (
    "signal",
    "disagreement",
    "finding",
    "problem",
    "order",
    "closed",
)
SEEN = (SIGNAL, DISAGREEMENT, FINDING, PROBLEM, ORDER, CLOSED)
"""An error of a GPU or a metric beyond its limit; ranks that hold different bytes; a finding in dumps; a source that
gave no information; what was ordered; what is over."""
MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class SeenSignal:
    """One line; what it does not say is ``None``."""

    what: str
    """One of :data:`SEEN`."""
    source: str
    """``kernel-log``, ``dcgm``, ``gcm``, ``prometheus``, ``watch``, ``diagnosis``, or the user who ordered."""
    text: str
    """What was read, or the reason in words; data of others."""
    seen_ns: int
    """When the watcher saw it, nanoseconds since 1970."""
    line: str
    """SHA-256 of the line without its end, 64 hex digits: by it the line is known again."""
    offset: int
    """Of the line in its file, bytes."""
    at_ns: int | None = None
    """When it happened, as its source says."""
    trigger: str | None = None
    """Of the escalation that such a thing opens: ``xid``, ``prometheus``, ``desync``, …"""
    code: str | None = None
    """Of the finding that it is, in the registry."""
    host: str | None = None
    device: str | None = None
    """PCI address, UUID or index of a GPU."""
    ranks: tuple[int, ...] | None = None
    """Whom it concerns, ascending."""
    scope: str | None = None
    """Of an order: what is recorded more deeply."""
    step: int | None = None
    """Training step."""
    opens: str | None = None
    """Of an order, and of one that is over: the escalation, as ``source/esc-n``."""
    because: str | None = None
    """Of an order: ``line`` of what it follows from."""
    values: Mapping[str, Scalar] = field(default_factory=dict)
    """What else the line says."""

    @property
    def is_event(self) -> bool:
        """True for what happened, false for what followed from it; what an operator orders follows from nothing."""
        return self.what in {SIGNAL, DISAGREEMENT, FINDING, PROBLEM} or (self.what == ORDER and self.because is None)
