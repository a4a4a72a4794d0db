"""What a replay may state in documents of the agent evidence family: closed schemas, so no member of our own.

A matching replay is claimed only after a check that found everything equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from provstore.errors import ConfigError
from provstore.evidence.replay import plan as plans
from provstore.evidence.replay.epoch import PRESENT
from provstore.evidence.replay.plan import RestorePlan

CHECKPOINT_EVIDENCE, FORK, CHECKPOINT, REPLAY_EVIDENCE = "checkpoint-evidence", "fork", "checkpoint", "replay-evidence"
FORK_REASONS = ("retry", "branch", "rollback", "experiment", "recovery", "other")
_SCHEMA_VERSION = "aep/v0.5"
_MS, _NS = 1_000, 1_000_000_000
_DIGITS = 16

Document = dict[str, object]


def checkpoint_id(plan: RestorePlan) -> str:
    """Return the name of the plan's checkpoint: the run and the head of its digest.

    Raises:
        ConfigError: The plan has no checkpoint.
    """
    item = plan.item(plans.CHECKPOINT)
    if item.state != PRESENT or item.digest is None:
        reason = "no digest of it was recorded" if item.state == PRESENT else item.state
        raise ConfigError(f"{plan.run}: epoch {plan.epoch}: checkpoint: {reason}: nothing can be stated of it")
    return f"{plan.run}-{item.digest.removeprefix('sha256:')[:_DIGITS]}"


def checkpoint_evidence(plan: RestorePlan, now_ns: int) -> Document:
    """Return that the state of a run was kept, and whether a fork begins with it.

    Raises:
        ConfigError: The plan has no checkpoint.
    """
    name = checkpoint_id(plan)
    return {
        "schema_version": _SCHEMA_VERSION,
        "created_at_ms": now_ns * _MS // _NS,
        "checkpoint_id": _fork_id(plan) if plan.is_fork else name,
        "parent_run_id": plan.run,
        "state_digest": plan.item(plans.CHECKPOINT).digest,
        "fork_of": name if plan.is_fork else None,
    }


def fork(plan: RestorePlan, reason: str, now_ns: int) -> Document:
    """Return that another line of training begins with a checkpoint.

    Raises:
        ConfigError: The plan is no fork, has no checkpoint, or the reason is none of those that exist.
    """
    if reason not in FORK_REASONS:
        raise ConfigError(f"{reason}: fork reason: not known; known are {', '.join(FORK_REASONS)}")
    if not plan.is_fork:
        raise ConfigError(f"{plan.run}: epoch {plan.epoch}: it skips nothing that the run did not skip: it is no fork")
    return {
        "fork_id": _fork_id(plan),
        "source_checkpoint_id": checkpoint_id(plan),
        "fork_reason": reason,
        "created_at": _iso(now_ns),
        "parent_run_id": plan.run,
    }


def checkpoint(plan: RestorePlan, now_ns: int) -> Document:
    """Return the checkpoint that a plan begins from.

    Raises:
        ConfigError: The plan has no checkpoint.
    """
    return {
        "checkpoint_id": checkpoint_id(plan),
        "state_digest": plan.item(plans.CHECKPOINT).digest,
        "created_at": _iso(now_ns),
        "parent_run_id": plan.run,
    }


def replay_evidence(plan: RestorePlan, check: Check, engine: str, now_ns: int) -> Document:
    """Return that an epoch was replayed with the same outcome.

    Raises:
        ConfigError: No check found everything equal, or the plan is a fork.
    """
    place = f"{plan.run}: epoch {plan.epoch}: replay-evidence"
    if not check.is_exact:
        raise ConfigError(f"{place}: refused: {check.text}")
    if plan.is_fork:
        raise ConfigError(f"{place}: refused: a fork is no replay")
    inputs = [f"sha256:{one}" for one in plan.bundles]
    inputs += [item.digest for item in plan.items if item.digest and item.name in _INPUTS]
    return {
        "schema_version": _SCHEMA_VERSION,
        "created_at_ms": now_ns * _MS // _NS,
        "run_id": plan.run,
        "seed": plan.item(plans.RNG).digest or "not recorded",
        "input_digests": inputs,
        "output_digest": check.output_digest,
        "engine_version": engine,
    }


class Check:
    """What was compared before a matching replay may be claimed.

    Args:
        is_exact: Everything was there and equal.
        text: What was found, in words.
        outputs: Digests of what was reproduced, in a stable order.
    """

    def __init__(self, text: str, outputs: Sequence[str], *, is_exact: bool) -> None:
        self.is_exact = is_exact and bool(outputs)
        self.text = text
        self.output_digest = "sha256:" + hashlib.sha256("\n".join(outputs).encode()).hexdigest()


def require_valid(kind: str, document: Mapping[str, object]) -> bool:
    """Check a document against its closed schema; return whether the schemas are installed.

    Raises:
        ConfigError: It does not fit.
    """
    from provstore.evidence.aep import schema

    found = schema.errors(kind, dict(document))
    if found:
        raise ConfigError(f"{kind}: {'; '.join(found)}")
    return found is not None


_INPUTS = (plans.CHECKPOINT, plans.RNG, plans.DATA, plans.SKIPS)


def _fork_id(plan: RestorePlan) -> str:
    """Equal plans make equal forks."""
    skipped = plan.item(plans.SKIPS).digest or ""
    return f"fork-{checkpoint_id(plan)}-{skipped.removeprefix('sha256:')[:_DIGITS]}"


def _iso(now_ns: int) -> str:
    return datetime.fromtimestamp(now_ns // _NS, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
