"""Epoch bundles: what one record says of all actions of a training epoch, equal wherever they are recorded.

A bundle's digest is the SHA-256 of its canonical record without ``n``, the only member that depends on what else a
store holds.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from provstore.evidence import actions
from provstore.model import canonical
from provstore.model.action import Action, TraceContext
from provstore.model.canonical import Json
from provstore.model.evidence import MODES
from provstore.model.recording import CLASSES, READ

ACTIONS = "actions"
STATISTICS, SNAPSHOTS_INDEX, SNAPSHOT, ANCHORS, DATA, RNG, RNG_STATE, STEPS, TENSORS, CHECKPOINTS, RANKS, HEADERS = (
    "statistics",
    "snapshots-index",
    "snapshot",
    "anchors",
    "data",
    "rng",
    "rng-state",
    "steps",
    "tensors",
    "checkpoints",
    "ranks",
    "headers",
)
SAMPLERS = "samplers"
"""Roles of blobs. All but ``snapshot`` and ``rng-state`` are canonical JSON lines, one object a line."""
BYTES = frozenset((SNAPSHOT, RNG_STATE))
"""Roles of blobs that are bytes and no lines."""
MAX_RANKS_INSIDE = 256
NOTHING = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes kept beside the records, named by their SHA-256."""

    role: str
    sha256: str
    size_bytes: int
    lines: int | None = None
    """``None`` for bytes that are no lines."""
    rank: int | None = None

    def to_json(self) -> dict[str, Json]:
        """Return it as it stands in a bundle."""
        return {
            "bytes": self.size_bytes,
            "lines": self.lines,
            "rank": self.rank,
            "role": self.role,
            "sha256": self.sha256,
        }


@dataclass(slots=True)
class Tally:
    """Counts actions of one epoch, in the order of ranks and of each rank's program."""

    count: int = 0
    latest_ns: int | None = None
    classes: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    policies: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By demanded mode and reason."""
    shortfalls: Counter[str] = field(default_factory=Counter)
    escalations: dict[str, None] = field(default_factory=dict)
    steps: tuple[int, int] | None = None
    ranks: dict[int, list[int | None]] = field(default_factory=dict)
    """Rank → number of actions, first and last ordinal."""
    _digest: Any = field(default_factory=hashlib.sha256)

    def add(self, action: Action, line: bytes, ordinal: int | None) -> None:
        """Count one action and its record."""
        self.count += 1
        if self.latest_ns is None or action.at_ns > self.latest_ns:
            self.latest_ns = action.at_ns
        self.classes[action.side_effect_class] += 1
        self.modes[action.mode] += 1
        self.policies[action.policy_mode, action.policy_reason] += 1
        if action.shortfall:
            self.shortfalls.update(action.shortfall)
        for name in action.escalations:
            self.escalations[name] = None
        if (step := action.step) is not None:
            self.steps = (step, step) if self.steps is None else (min(self.steps[0], step), max(self.steps[1], step))
        held = self.ranks.get(action.rank)
        if held is None:
            self.ranks[action.rank] = [1, ordinal, ordinal]
        else:
            held[0] = (held[0] or 0) + 1
            held[2] = ordinal
        self._digest.update(actions.content(line) + b"\n")

    @property
    def sha256(self) -> str:
        """SHA-256 of the records without their numbers, each with a line end, in the order of counting."""
        digest: str = self._digest.hexdigest()
        return digest

    @property
    def mode(self) -> str:
        """The weakest mode that was recorded; ``full`` when there was nothing to record."""
        return min(self.modes, key=MODES.index, default=MODES[-1])

    @property
    def policy(self) -> tuple[str, str]:
        """The strongest mode that was demanded, and why; of equal ones the reason that stood most often."""
        found = sorted(self.policies, key=lambda one: (-MODES.index(one[0]), -self.policies[one], one[1]))
        return found[0] if found else (MODES[0], "no action")

    @property
    def worst_class(self) -> str:
        """The worst side effect of an action."""
        return max(self.classes, key=CLASSES.index, default=READ)


@dataclass(frozen=True, slots=True)
class EpochFacts:
    """What a bundle says beside its actions."""

    epoch: int
    source: str
    """``dumps`` or ``capture``."""
    is_stated: bool = False
    """The number of the epoch was given for a ring of calls, not recorded."""
    part: int = 0
    follows: str | None = None
    """Digest of the part before this one."""
    is_closed: bool = True
    close_reason: str | None = None
    world_size: int | None = None
    missing_ranks: Sequence[int] = ()
    late_ranks: Sequence[int] = ()
    blobs: Sequence[Blob] = ()
    policy_digest: str | None = None
    table_digest: str | None = None
    mode_floor: str | None = None
    trace: TraceContext = field(default_factory=TraceContext)
    checkpoint: str | None = None
    environment: str | None = None
    faults: int = 0
    unreadable: int = 0
    escalations: Sequence[str] = ()


def own_members(tally: Tally, facts: EpochFacts, *, ranks_blob: bool = False) -> dict[str, Json]:
    """Return the members of a bundle's record; ``ranks_blob``: its ranks stand in a blob."""
    mode, reason = tally.policy
    trace = facts.trace
    return {
        "actions": {"count": tally.count, "sha256": tally.sha256},
        "blobs": [blob.to_json() for blob in facts.blobs],
        "checkpoint": facts.checkpoint,
        "close_reason": facts.close_reason,
        "closed": facts.is_closed,
        "counts": _counts(tally),
        "environment": facts.environment,
        "epoch": facts.epoch,
        "epoch_basis": "stated" if facts.is_stated else "recorded",
        "escalations": [*sorted({*tally.escalations, *facts.escalations})],
        "faults": facts.faults,
        "follows": facts.follows,
        "late_ranks": spans(facts.late_ranks),
        "missing_ranks": spans(facts.missing_ranks),
        "part": facts.part,
        "policy": {
            "digest": facts.policy_digest,
            "mode_floor": facts.mode_floor,
            "table_digest": facts.table_digest,
        },
        "policy_mode": mode,
        "policy_reason": reason,
        "ranks": None if ranks_blob else rank_rows(tally),
        "recording_mode": tally.mode,
        "run_side_effect_class_max": tally.worst_class,
        "source": facts.source,
        "steps": None if tally.steps is None else [*tally.steps],
        "trace": {
            "conflicts": [*trace.conflicts],
            "parent_action": trace.parent_action,
            "parent_trace_id": trace.parent_trace_id,
            "trace_id": trace.trace_id,
        },
        "unreadable": facts.unreadable,
        "world_size": facts.world_size,
    }


def rank_rows(tally: Tally) -> list[Json]:
    """Return how many actions each rank has, and its first and last position in program order."""
    return [
        {"actions": count, "first": first, "last": last, "rank": rank}
        for rank, (count, first, last) in sorted(tally.ranks.items())
    ]


def digest_of(record: Mapping[str, Any]) -> str:
    """Return the digest of a bundle, 64 hex digits."""
    return hashlib.sha256(canonical.encode({name: value for name, value in record.items() if name != "n"})).hexdigest()


def spans(ranks: Iterable[int]) -> list[Json]:
    """Return ranks as a list of [first, last], ascending."""
    found: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if found and found[-1][1] == rank - 1:
            found[-1][1] = rank
        else:
            found.append([rank, rank])
    return [[first, last] for first, last in found]


def spread(found: Iterable[Sequence[int]]) -> list[int]:
    """Return the ranks of a list that :func:`spans` made."""
    return [rank for first, last in found for rank in range(first, last + 1)]


def _counts(tally: Tally) -> dict[str, Json]:
    policy_modes, reasons = Counter[str](), Counter[str]()
    for (mode, reason), count in tally.policies.items():
        policy_modes[mode] += count
        reasons[reason] += count
    return {
        "policy_mode": _listed(policy_modes),
        "policy_reason": _listed(reasons),
        "recording_mode": _listed(tally.modes),
        "shortfall": _listed(tally.shortfalls),
        "side_effect_class": _listed(tally.classes),
    }


def _listed(found: Counter[str]) -> list[Json]:
    return [{"count": count, "name": name} for name, count in sorted(found.items())]
