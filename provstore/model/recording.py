"""Recording policy: what is demanded of the record of one action, why, and what was escalated."""

from __future__ import annotations

from dataclasses import dataclass

from provstore.errors import ConfigError
from provstore.model.evidence import MODES

VALIDATION, DELTA, FULL = MODES
"""Recording modes, mildest first."""

READ, MUTATE_LOCAL, MUTATE_EXTERNAL, NETWORK_EGRESS, UNKNOWN = (
    "read",
    "mutate-local",
    "mutate-external",
    "network-egress",
    "unknown",
)
CLASSES = (READ, MUTATE_LOCAL, MUTATE_EXTERNAL, NETWORK_EGRESS, UNKNOWN)
"""Side-effect classes, mildest first."""

NO_TENSOR_ACCESS, BYTE_BUDGET, TIME_BUDGET, CLONE_BUDGET, DISK_RESERVE, UNSUPPORTED_DTYPE, CAPTURE_FAULT = (
    "no-tensor-access",
    "byte-budget",
    "time-budget",
    "clone-budget",
    "disk-reserve",
    "unsupported-dtype",
    "capture-fault",
)
NO_FILE_ACCESS = "no-file-access"
SHORTFALLS = (
    NO_TENSOR_ACCESS,
    BYTE_BUDGET,
    TIME_BUDGET,
    CLONE_BUDGET,
    DISK_RESERVE,
    UNSUPPORTED_DTYPE,
    CAPTURE_FAULT,
    NO_FILE_ACCESS,
)
"""Why less was stored than the policy demands."""

SETUP, DDP_BUCKETS = "setup", "ddp-buckets"
"""Note of a call that a process makes once, whatever epoch that is in; and its value where DDP tells its buckets."""


@dataclass(frozen=True, slots=True)
class RiskContext:
    """What is known of an action before it is recorded.

    Raises:
        ConfigError: A flag is no boolean, the length no integer from 0 on, or the class none of :data:`CLASSES`.
    """

    was_vetted: bool = False
    """Its rank, operation, group or host is on the operator's watch list."""
    has_consent_anomaly: bool = False
    """The agent action that launched the run was denied, or asked for without an approval."""
    taint_chain_length: int = 0
    """Hops from something that a finding of severity error names; 0: none."""
    side_effect_class: str = UNKNOWN

    def __post_init__(self) -> None:
        """Refuse what would be taken for a milder thing than it is."""
        for name, flag in (("was_vetted", self.was_vetted), ("has_consent_anomaly", self.has_consent_anomaly)):
            if type(flag) is not bool:
                raise ConfigError(f"risk context: {name}: {flag!r} is neither true nor false")
        if type(self.taint_chain_length) is not int or self.taint_chain_length < 0:
            raise ConfigError(f"risk context: taint_chain_length: {self.taint_chain_length!r} is no count of hops")
        if self.side_effect_class not in CLASSES:
            known = ", ".join(CLASSES)
            raise ConfigError(f"risk context: side_effect_class: {self.side_effect_class!r} is none of {known}")


@dataclass(frozen=True, slots=True)
class RecordingPolicy:
    """How much of an action is to be recorded."""

    mode: str
    """``validation``, ``delta`` or ``full``."""
    reason: str
    """Fixed text of the rule."""
    rule: str
    """``P1``, ``P2`` or ``1`` to ``7``; ``floor`` where the operator's lowest mode is above what the rules demand."""


@dataclass(frozen=True, slots=True)
class AnomalySignal:
    """How unusual something is, as a detector sees it.

    Raises:
        ConfigError: The score is not a number from 0 to 1.
    """

    source: str
    score: float
    """0 to 1; above 0.8 it escalates."""

    def __post_init__(self) -> None:
        """Refuse a score that compares with nothing."""
        is_number = isinstance(self.score, int | float) and not isinstance(self.score, bool)
        if not is_number or not 0 <= self.score <= 1:
            raise ConfigError(f"{self.source}: score: {self.score!r} is not a number from 0 to 1")


@dataclass(frozen=True, slots=True)
class Escalation:
    """A time in which a scope is recorded more deeply; the scope does not say who is guilty."""

    number: int
    """Its id is ``esc-<number>``; unique in one attempt and rank (or watcher)."""
    trigger: str
    """``loss-spike``, ``grad-norm``, ``non-finite``, ``replica-disagreement``, ``detector``, ``xid``, ``desync``,
    ``prometheus`` or ``manual``."""
    source: str
    """Who saw it: ``rank:2``, ``rank:2/<detector>`` for a detector of the program's own; of what was ordered, who
    ordered: ``watch``, ``diagnosis``, the source of a signal, or an operator as ``user@host``."""
    scope: str
    """``rank:<r>``, ``group:<name>``, ``host:<h>``, ``epoch`` or ``run``."""
    rule: str
    """``P1`` or ``P2``."""
    opened_ns: int
    opened_step: int | None = None
    value: float | None = None
    threshold: float | None = None
    closed_ns: int | None = None
    closed_step: int | None = None
    close_reason: str | None = None
    """``clear``, ``deescalated``, ``steps-over``, ``escalation-budget-exhausted``, ``end-of-epoch``,
    ``end-of-attempt``."""
    latched: bool = False
    """``escalation-flapping``: stays until the end of the epoch."""
    reason: str | None = None
    """What the operator wrote, or the line that was read."""
    evidence: tuple[str, ...] = ()
    """What it rests on; ``extended-by:<trigger>`` for another trigger that fired while it was open, with the name of a
    detector of the program's own behind it (``extended-by:detector/<name>``); ``late-by:<steps>`` where a rank read an
    order only after the step that it names."""
    event: str = "opened"
    """What this state of it says: ``opened``, ``extended`` or ``closed``."""

    @property
    def name(self) -> str:
        """The id under which records refer to it."""
        return f"esc-{self.number}"


@dataclass(frozen=True, slots=True)
class ExternalSignal:
    """Something outside the job that asks for deeper recording: an error of a GPU, a metric beyond its limit."""

    trigger: str
    """``xid`` or ``prometheus``."""
    source: str
    """Who says it: ``kernel-log``, ``dcgm``, ``gcm`` or ``prometheus``."""
    line: str
    """What was read, at most 512 characters; it is data of others."""
    code: int | None = None
    """XID."""
    fault_class: str | None = None
    """``application`` or ``hardware``."""
    host: str | None = None
    """As the run spells it where it is one of its hosts, else as it was read."""
    device: str | None = None
    """PCI address, UUID or index of the GPU, in its one spelling."""
    ranks: tuple[int, ...] | None = None
    """Ranks of the run on that GPU; ``None`` where nothing tells them."""
    at_ns: int | None = None
    """When it happened, where the source says so."""
    cursor: str | None = None
    """Its place in the source."""
    is_context: bool = False
    """From before the run, or from before anybody watched: it escalates nothing."""
    value: float | None = None
    threshold: float | None = None
    name: str | None = None
    """Of the watched metric."""


@dataclass(frozen=True, slots=True)
class SignalProblem:
    """A source of signals that gave no information, or less than it should."""

    source: str
    kind: str
    """``unreachable``, ``timeout``, ``malformed``, ``empty``, ``failed`` or ``non-finite``."""
    text: str
    """``thing: place: reason``."""
    count: int = 1

    @property
    def code(self) -> str:
        """Its entry in the registry of finding codes."""
        return f"signal-{self.kind}"
