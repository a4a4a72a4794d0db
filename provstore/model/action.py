"""Actions: one event of a training run on one rank, with the content that was really stored of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TENSOR_V1, TENSORS_V1 = "provstore-tensor-v1", "provstore-tensors-v1"
"""Schemes of digests: of one tensor, of several in argument order."""

GRADIENT, ACTIVATION, STEP, LOAD, SAVE, BATCH = (
    "tensor.grad",
    "tensor.activation",
    "optimizer.step",
    "checkpoint.load",
    "checkpoint.save",
    "data.next_batch",
)
"""Operations that are no collective."""


@dataclass(frozen=True, slots=True)
class Action:
    """One action of one rank. What is not known is ``None`` and is left out of its record."""

    action_id: str
    """Unique in (run, attempt), equal when recorded again: ``<backend>/<group>/<seq>/<rank>`` for a collective,
    ``<backend>/<group>/p2p/<rank>/<op_id>`` for a send or receive (the local part of the instance's id and the rank),
    ``<op>/<rank>/<step>[/<name>]`` for other events. Components are percent-encoded as in ``model.ids``."""
    op: str
    """Operation without library: ``all_reduce``, ``tensor.grad``, …"""
    rank: int
    at_ns: int
    side_effect_class: str
    mode: str
    """What was really stored: ``validation``, ``delta`` or ``full``."""
    policy_mode: str
    """What was demanded."""
    policy_reason: str
    epoch: int | None = None
    """Training epoch."""
    step: int | None = None
    """Training step, only where it was recorded."""
    backend: str | None = None
    group: str | None = None
    """Process group as it stands in ids: ``name@ranks``."""
    seq: int | None = None
    op_id: int | None = None
    peer: int | None = None
    side: str | None = None
    """Which entity carries the call's record: ``in``, ``out`` or ``call``."""
    chain: str | None = None
    """Local part of the instance's id, equal on all its ranks: ``<backend>/<group>/<seq>``."""
    parent: str | None = None
    """``action_id`` of the previous action of this rank."""
    shortfall: tuple[str, ...] = ()
    escalations: tuple[str, ...] = ()
    """Ids of the escalations in force."""
    finite_in: bool | None = None
    finite_out: bool | None = None
    digest_in: str | None = None
    digest_out: str | None = None
    digest_kind: str | None = None
    shapes_in: tuple[tuple[int, ...], ...] | None = None
    shapes_out: tuple[tuple[int, ...], ...] | None = None
    dtypes_in: tuple[str, ...] | None = None
    dtypes_out: tuple[str, ...] | None = None
    reduce_op: str | None = None
    """``sum``, ``avg``, ``product``, ``min``, ``max``, …; ``None`` where not known."""
    root: int | None = None
    """Global rank."""
    delta_ref: str | None = None
    """``sha256:`` of the line of statistics."""
    evidence_refs: tuple[str, ...] = ()
    """``sha256:`` of stored snapshots and other evidence."""
    name: str | None = None
    """Of a parameter, module, checkpoint or batch."""
    carried_by: tuple[str, ...] = ()
    """Of a tensor event: ``action_id`` of the calls that carry it."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Further named texts, such as ``uri``."""


@dataclass(frozen=True, slots=True)
class TraceContext:
    """What launched a run, as it was received; nothing is invented."""

    trace_id: str | None = None
    parent_trace_id: str | None = None
    parent_action: str | None = None
    """``<run_id>/<action_id>``."""
    conflicts: tuple[str, ...] = ()
    """Other values of the trace id that other sources gave."""
