"""The agent record of an epoch: what a verifier of agent evidence sees of a run, next to the signed evidence epochs.

It holds the epoch as one action and the most notable of the epoch's own actions; it is bounded so that the signed form,
which carries the record twice, stays within 65,535 bytes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orjson

from provstore.evidence import actions as action_records
from provstore.evidence.aep import emit
from provstore.evidence.keys import Signer
from provstore.model import canonical
from provstore.model.action import LOAD, SAVE, Action
from provstore.model.evidence import MODES
from provstore.model.recording import READ

SCHEMA_VERSION = "aep/v0.5"
AGENT = "provstore-recorder"
EPOCH_TOOL = "provstore.epoch"
MAX_BYTES = 65_535
MAX_ACTIONS = 200
_MAX_CANONICAL = 27_000
"""Bytes before signing: they come twice, once in base64, and an envelope with a signature is around them."""
_NS_PER_MS = 1_000_000
_MAX_REFS = 20


@dataclass(slots=True)
class Notable:
    """The actions of an epoch that its record shows: the most severe, the earlier ones of equals."""

    refs: list[Action] = field(default_factory=list)
    """Checkpoints that were loaded or saved."""
    _kept: list[tuple[int, int, Action]] = field(default_factory=list)
    _seen: int = 0

    def see(self, action: Action) -> None:
        """Take note of an action."""
        self._seen += 1
        if action.op in {LOAD, SAVE} and len(self.refs) < _MAX_REFS:
            self.refs.append(action)
        severity = severity_of(action)
        if severity:
            one = (severity, -self._seen, action)
            if len(self._kept) < MAX_ACTIONS:
                heapq.heappush(self._kept, one)
            else:
                heapq.heappushpop(self._kept, one)

    def listed(self) -> list[Action]:
        """Return what was kept, most severe first."""
        return [action for _, _, action in sorted(self._kept, key=lambda one: (-one[0], -one[1]))]


def severity_of(action: Action) -> int:
    """Return how notable an action is; 0 for one that is not."""
    if action.finite_out is False:
        return 3 if action.finite_in is not False else 2
    if action.finite_in is False:
        return 3
    return 1 if action.escalations else 0


def run_uri(run: str, epoch: int) -> str:
    """Return the address under which agent records refer to an epoch of a run."""
    return f"train-run://{quote(run, safe='')}/epoch/{epoch}"


def epoch_record(
    bundle: Mapping[str, Any], digest: str, notable: Notable, *, prev: str | None, producer: str
) -> dict[str, Any]:
    """Return the unsigned agent record of an epoch.

    Args:
        bundle: The epoch's bundle record.
        digest: Its digest.
        notable: Which of its actions are shown, as many as fit.
        prev: Link to the agent record of this run before it.
        producer: Name and version of what makes it.
    """
    at_ns = 0 if bundle["at"] is None else canonical.tagged_integer(bundle["at"])
    first = _epoch_action(bundle, digest, at_ns)
    record: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "run_id": bundle["run"],
        "created_at_ms": at_ns // _NS_PER_MS,
        "runtime_version": producer,
        "output_refs": [{"uri": run_uri(bundle["run"], bundle["epoch"]), "digest": f"sha256:{digest}"}],
        "run_context": {"agent_id": AGENT},
        "run_side_effect_class_max": bundle["run_side_effect_class_max"],
        "recording_mode": bundle["recording_mode"],
        "actions": [first],
        "prev_record_hash": prev,
        "training": _training(bundle, digest),
    }
    if bundle["environment"] is not None:
        record["run_context"]["environment_digest"] = bundle["environment"]
    _add_trace(record, bundle["trace"])
    _add_checkpoints(record, notable.refs)
    _add_actions(record, notable.listed(), bundle)
    return record


def stored_form(record: Mapping[str, Any], signer: Signer | None) -> bytes:
    """Return the bytes of a record as it is kept: signed where there is a signer.

    Raises:
        ConfigError: The record holds what verifiers spell in different ways.
        TrustError: The signer gave a wrong signature.
    """
    return emit.canonical_record(record) if signer is None else emit.sign_record(record, signer)


def link_after(stored: bytes) -> str:
    """Return what the record after a stored one writes as its ``prev_record_hash``."""
    said = orjson.loads(stored)
    return emit.link(emit.canonical_record({n: v for n, v in said.items() if n not in emit.SIGNATURE_MEMBERS}))


def action_records_of(
    actions: Iterable[Action],
    run: str,
    attempt: int,
    *,
    created_ms: int,
    prev: str | None,
    producer: str,
    first: int = 0,
) -> dict[str, Any]:
    """Return one record over single actions of one rank, for exports that split a run into many."""
    listed = [action_records.in_agent_record(action, attempt) for action in actions]
    weakest = min((one["recording_mode"] for one in listed), key=MODES.index, default=MODES[0])
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run,
        "created_at_ms": created_ms,
        "runtime_version": producer,
        "run_context": {"agent_id": AGENT},
        "recording_mode": weakest,
        "actions": listed,
        "prev_record_hash": prev,
        "training": {"attempt": attempt, "first": first},
    }


def _epoch_action(bundle: Mapping[str, Any], digest: str, at_ns: int) -> dict[str, Any]:
    part = "" if not bundle["part"] else f"-part-{bundle['part']}"
    return {
        "action_id": f"epoch-{bundle['epoch']}{part}",
        "tool_name": EPOCH_TOOL,
        "state_changing": bundle["run_side_effect_class_max"] != READ,
        "side_effect_class": bundle["run_side_effect_class_max"],
        "recording_mode": bundle["recording_mode"],
        "timestamp_ms": at_ns // _NS_PER_MS,
        "evidence_refs": [f"sha256:{digest}", run_uri(bundle["run"], bundle["epoch"])],
    }


def _training(bundle: Mapping[str, Any], digest: str) -> dict[str, Any]:
    kept = ("attempt", "epoch", "epoch_basis", "part", "closed", "counts", "missing_ranks", "world_size", "steps")
    said = {name: bundle[name] for name in kept if bundle[name] is not None}
    if bundle["trace"]["conflicts"]:
        said["trace_conflicts"] = bundle["trace"]["conflicts"]
    return {**said, "actions": bundle["actions"]["count"], "bundle": f"sha256:{digest}", "omitted": 0}


def _add_trace(record: dict[str, Any], trace: Mapping[str, Any]) -> None:
    for name in ("trace_id", "parent_trace_id"):
        if trace[name] is not None:
            record[name] = trace[name]
    if trace["parent_action"] is not None:
        record["input_refs"] = [{"uri": f"aep://{trace['parent_action']}"}]


def _add_checkpoints(record: dict[str, Any], found: Sequence[Action]) -> None:
    for action in found:
        ref = {"uri": action.extra.get("uri") or action.name or action.action_id}
        digest = action.digest_in or action.digest_out
        if digest is not None:
            ref["digest"] = digest
        refs = record.setdefault("input_refs" if action.op == LOAD else "output_refs", [])
        if ref not in refs:
            refs.append(ref)


def _add_actions(record: dict[str, Any], found: Sequence[Action], bundle: Mapping[str, Any]) -> None:
    size, count = len(emit.canonical_record(record)), bundle["actions"]["count"]
    for action in found:
        said = action_records.in_agent_record(action, bundle["attempt"])
        size += len(orjson.dumps(said)) + 1
        if size > _MAX_CANONICAL or len(record["actions"]) > MAX_ACTIONS:
            break
        record["actions"].append(said)
    record["training"]["omitted"] = count - (len(record["actions"]) - 1)
