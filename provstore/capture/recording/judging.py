"""What is demanded of the record of each action: its class, the policy, and the escalations that cover it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from provstore.capture.live_calls import LiveCall
from provstore.capture.recording import names
from provstore.capture.recording.alarms import Alarms
from provstore.evidence.recording import classes, policy
from provstore.model.recording import VALIDATION, RecordingPolicy, RiskContext


@dataclass(frozen=True, slots=True)
class Rules:
    """The configured part of the recording policy."""

    mode_floor: str = VALIDATION
    external_groups: frozenset[str] = frozenset()
    watched: policy.WatchList = policy.NOTHING_WATCHED
    has_consent_anomaly: bool = False
    table: classes.ClassTable = classes.TABLE
    taint_window_steps: int = 1

    def header(self) -> dict[str, Any]:
        """Return the policy as the header states it."""
        document = policy.document(
            table=self.table,
            mode_floor=self.mode_floor,
            external_groups=self.external_groups,
            watched=self.watched,
        )
        return {
            "version": document["rules"],
            "digest": f"sha256:{policy.document_digest(document)}",
            "table_digest": f"sha256:{self.table.digest}",
            "mode_floor": self.mode_floor,
            "external_groups": sorted(self.external_groups),
            "taint_window_steps": self.taint_window_steps,
            "document": document,
        }


@dataclass(frozen=True, slots=True)
class Judged:
    """What is demanded of one action."""

    side_effect_class: str
    policy: RecordingPolicy
    escalations: tuple[str, ...] = ()
    taint_chain_length: int = 0
    _members: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def is_escalated(self) -> bool:
        """Whether an escalation covers it."""
        return bool(self.escalations)

    def members(self) -> dict[str, Any]:
        """Return what its line says of it, to be read alone: most calls share it."""
        if not self._members:
            policy = {"mode": self.policy.mode, "reason": self.policy.reason, "rule": self.policy.rule}
            said: dict[str, Any] = {"class": self.side_effect_class, "policy": policy}
            said |= {"escalations": list(self.escalations)} if self.escalations else {}
            said |= {"taint": self.taint_chain_length} if self.taint_chain_length else {}
            # At once: another thread may ask at the same time.
            self._members.update(said)
        return self._members


@dataclass(slots=True)
class Judge:
    """Judges the actions of one rank."""

    rules: Rules
    rank: int
    host: str
    run_ranks: Collection[int]
    alarms: Alarms
    _classes: dict[tuple[Any, ...], str] = field(default_factory=dict)
    _events: dict[str, str] = field(default_factory=dict)
    _usual: dict[tuple[Any, ...], Judged] = field(default_factory=dict)
    """What is demanded as long as nothing is escalated."""
    _of_calls: dict[tuple[Any, ...], Judged] = field(default_factory=dict)
    """The same by torch's name of the operation, group, position of the root and whether there are tensors."""

    def call(self, call: LiveCall, taint_chain_length: int = 0) -> Judged:
        """Return what is demanded of a call that is so many hops from what was found not finite."""
        if not (taint_chain_length or self.alarms.is_escalated):
            known = self._of_calls.get((call.name, call.group, call.position, bool(call.inputs or call.outputs)))
            if known is not None:
                return known
        op, group = names.op_of(call.name), call.group
        aliases = (names.group_key(call), group.name, group.description)
        has_tensors = bool(call.inputs or call.outputs)
        role = _role(call)
        key = (op, role, has_tensors, aliases)
        if key not in self._classes:
            leaves = classes.group_leaves_run(
                group.ranks, self.run_ranks, names=aliases, external_groups=self.rules.external_groups
            )
            self._classes[key] = classes.side_effect_class(
                op, role=role, has_tensors=has_tensors, leaves_run=leaves, table=self.rules.table
            )
        found = self._judged(op, self._classes[key], aliases, taint_chain_length)
        if not (found.is_escalated or found.taint_chain_length or self.alarms.is_escalated):
            self._of_calls[call.name, group, call.position, has_tensors] = found
        return found

    def event(self, op: str) -> Judged:
        """Return what is demanded of an action that is no call."""
        if op not in self._events:
            self._events[op] = classes.side_effect_class(op, table=self.rules.table)
        return self._judged(op, self._events[op], ())

    def _judged(self, op: str, side_effect_class: str, groups: tuple[str, ...], taint: int = 0) -> Judged:
        if taint or self.alarms.is_escalated:
            return self._judged_now(op, side_effect_class, groups, taint)
        key = (op, side_effect_class, groups)
        if key not in self._usual:
            found = self._judged_now(op, side_effect_class, groups)
            if found.is_escalated:
                return found
            self._usual[key] = found
        return self._usual[key]

    def _judged_now(self, op: str, side_effect_class: str, groups: tuple[str, ...], taint: int = 0) -> Judged:
        scopes = (f"rank:{self.rank}", f"host:{self.host}", *(f"group:{name}" for name in groups))
        escalation, covering = self.alarms.in_force(scopes)
        watched = self.rules.watched
        is_watched = any(watched.names(rank=self.rank, op=op, group=name, host=self.host) for name in groups or (None,))
        context: Mapping[str, Any] = {
            "was_vetted": is_watched,
            "has_consent_anomaly": self.rules.has_consent_anomaly,
            "taint_chain_length": taint,
            "side_effect_class": side_effect_class,
        }
        found = policy.compile_recording_policy(RiskContext(**context), escalation)
        return Judged(side_effect_class, policy.raised(found, self.rules.mode_floor), covering, taint)


def _role(call: LiveCall) -> str | None:
    if call.position < 0 or call.is_point_to_point:
        return None
    if call.name == "GATHER":
        return classes.DESTINATION if call.is_root else classes.OTHER
    return classes.SOURCE if call.is_root else classes.DESTINATION
