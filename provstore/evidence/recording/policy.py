"""Recording policy: which mode an action is to be recorded in, and which rule says so."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from provstore.errors import ConfigError, InputError
from provstore.evidence.recording.classes import TABLE, ClassTable, spelling
from provstore.evidence.recording.signals import LIMIT
from provstore.model import canonical
from provstore.model.evidence import MODES
from provstore.model.recording import (
    DELTA,
    FULL,
    MUTATE_EXTERNAL,
    MUTATE_LOCAL,
    NETWORK_EGRESS,
    READ,
    UNKNOWN,
    VALIDATION,
    AnomalySignal,
    Escalation,
    RecordingPolicy,
    RiskContext,
)

P1, P2, FLOOR = "P1", "P2", "floor"
"""Rules before the numbered ones, and what stands where the lowest mode is above them."""

_ESCALATED = RecordingPolicy(FULL, "external escalation signal", P1)
_ANOMALOUS = RecordingPolicy(FULL, "statistical anomaly detected", P2)
_VETTED = RecordingPolicy(FULL, "tool flagged by vetting", "1")
_CONSENT = RecordingPolicy(FULL, "consent anomaly recorded", "2")
_TAINTED = RecordingPolicy(FULL, "tainted input reaching state-changing call", "3")
_EXTERNAL = RecordingPolicy(FULL, "external mutation", "5")
_BY_CLASS = {
    UNKNOWN: RecordingPolicy(FULL, "unknown side-effect class", "4"),
    MUTATE_EXTERNAL: _EXTERNAL,
    NETWORK_EGRESS: _EXTERNAL,
    MUTATE_LOCAL: RecordingPolicy(DELTA, "local mutation, low risk", "6"),
    READ: RecordingPolicy(VALIDATION, "read-only, no anomaly", "7"),
}
_NAMES = {
    "was_vetted": "was_vetted",
    "wasVetted": "was_vetted",
    "has_consent_anomaly": "has_consent_anomaly",
    "hasConsentAnomaly": "has_consent_anomaly",
    "taint_chain_length": "taint_chain_length",
    "taintChainLength": "taint_chain_length",
    "side_effect_class": "side_effect_class",
    "sideEffectClass": "side_effect_class",
}


def compile_recording_policy(
    ctx: RiskContext, escalation: Escalation | None = None, anomaly_signal: AnomalySignal | None = None
) -> RecordingPolicy:
    """Return the mode that an action is to be recorded in; the first rule that holds says it.

    Args:
        ctx: What is known of the action.
        escalation: One in force for it. One that a statistical trigger opened (its rule is ``P2``) is the lasting form
            of an anomaly signal, and is reported as one.
        anomaly_signal: What a detector says at this action.
    """
    if escalation is not None and escalation.rule != P2:
        return _ESCALATED
    if escalation is not None or (anomaly_signal is not None and anomaly_signal.score > LIMIT):
        return _ANOMALOUS
    if ctx.was_vetted:
        return _VETTED
    if ctx.has_consent_anomaly:
        return _CONSENT
    if ctx.taint_chain_length > 0 and ctx.side_effect_class != READ:
        return _TAINTED
    return _BY_CLASS[ctx.side_effect_class]


def raised(policy: RecordingPolicy, floor: str) -> RecordingPolicy:
    """Return the policy with at least the mode ``floor``; one that demands as much already stays as it is.

    Raises:
        ConfigError: There is no such mode.
    """
    if floor not in MODES:
        raise ConfigError(f"{floor}: mode floor: is none of {', '.join(MODES)}")
    if MODES.index(floor) <= MODES.index(policy.mode):
        return policy
    reason = f"raised from {policy.mode} to {floor} by the mode floor that was set; without it: {policy.reason}"
    return RecordingPolicy(floor, reason, FLOOR)


def risk_context(said: Mapping[str, object]) -> RiskContext:
    """Return the risk context that a mapping states, by our names or by those that JavaScript uses.

    Raises:
        InputError: A name is not known or stated twice, or a value is none of its kind.
    """
    found: dict[str, object] = {}
    for name, value in said.items():
        known = _NAMES.get(name)
        if known is None:
            raise InputError(f"risk context: {name!r}: is none of {', '.join(dict.fromkeys(_NAMES.values()))}")
        if known in found:
            raise InputError(f"risk context: {known}: is stated twice")
        found[known] = value
    try:
        # The class itself looks at each value.
        return RiskContext(**found)  # type: ignore[arg-type]
    except ConfigError as error:
        raise InputError(str(error)) from error


@dataclass(frozen=True, slots=True)
class WatchList:
    """What the operator wants recorded in full, whatever it does."""

    ranks: frozenset[int] = frozenset()
    ops: frozenset[str] = frozenset()
    """In any spelling that the table of side-effect classes knows: ``allreduce`` and ``nccl:all_reduce`` are one."""
    groups: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()

    def names(self, *, rank: int, op: str, group: str | None = None, host: str | None = None) -> bool:
        """Return whether the list holds an action's rank, operation, group or host."""
        is_named = bool(self.ops) and (op in self.ops or any(_op_name(one) == _op_name(op) for one in self.ops))
        return rank in self.ranks or is_named or group in self.groups or host in self.hosts


NOTHING_WATCHED = WatchList()


@functools.lru_cache(maxsize=1024)
def _op_name(op: str) -> str:
    row = TABLE.row(op)
    return spelling(op) if row is None else row.name


def document(
    *,
    table: ClassTable = TABLE,
    mode_floor: str = VALIDATION,
    external_groups: Collection[str] = (),
    watched: WatchList = NOTHING_WATCHED,
) -> dict[str, str | int]:
    """Return what a policy record holds: the rules' version, the whole table of classes, and what was configured."""
    return {
        "external_groups": _text(sorted(external_groups)),
        "mode_floor": mode_floor,
        "rules": 1,
        "table": table.document().decode(),
        "table_digest": table.digest,
        "table_version": table.version,
        "watched_groups": _text(sorted(watched.groups)),
        "watched_hosts": _text(sorted(watched.hosts)),
        "watched_ops": _text(sorted(watched.ops)),
        "watched_ranks": _text(sorted(watched.ranks)),
    }


def document_digest(said: Mapping[str, str | int]) -> str:
    """Return the SHA-256 of a policy document in its canonical form, in hex."""
    return hashlib.sha256(canonical.encode({**said})).hexdigest()


def _text(values: list[str] | list[int]) -> str:
    return canonical.encode([*values]).decode()
