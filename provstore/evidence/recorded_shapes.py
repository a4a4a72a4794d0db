"""Shapes of the records that tell of actions: the action, its epoch's bundle and link, escalations, faults, control."""

from __future__ import annotations

from collections.abc import Mapping

from provstore.evidence.shape_checks import (
    Checks,
    is_count,
    is_count_or_none,
    is_double_or_none,
    is_flag,
    is_hex,
    is_long,
    is_mode,
    is_ranks,
    is_ref,
    is_span,
    is_spans,
    is_text,
    is_values,
    list_of,
    object_of,
    one_of,
    or_none,
)
from provstore.model import evidence
from provstore.model.recording import CLASSES, SHORTFALLS
from provstore.model.signals import SEEN

SIDES = ("in", "out", "call")
_RULES = ("P1", "P2")
_SHAPES = list_of(list_of(is_count))
_TEXTS = list_of(is_text)
_COUNTS = list_of(object_of(count=is_count, name=is_text))

TRAINING_NEEDED: Checks = {
    "policy_mode": is_mode,
    "policy_reason": is_text,
    "shortfall": list_of(one_of(SHORTFALLS)),
}
TRAINING: Checks = {
    "carried_by": _TEXTS,
    "dtypes_in": _TEXTS,
    "dtypes_out": _TEXTS,
    "epoch": is_count,
    "escalations": _TEXTS,
    "finite_in": is_flag,
    "finite_out": is_flag,
    "group": is_text,
    "name": is_text,
    "notes": is_values,
    "op_id": is_count,
    "out_as_in": lambda value: value is True,
    "peer": is_count,
    "reduce_op": is_text,
    "root": is_count,
    "seq": is_count,
    "shapes_in": _SHAPES,
    "shapes_out": _SHAPES,
    "side": one_of(SIDES),
    "step": is_count,
    "step_basis": one_of(("recorded",)),
}
"""Members of an action's ``training`` that may be absent."""
_ACTION_OPTIONAL: Checks = {
    "causal_chain_id": is_text,
    "delta_ref": is_ref,
    "evidence_refs": list_of(is_ref),
    "parent_action_id": is_text,
    "post_state_digest": is_text,
    "pre_state_digest": is_text,
    "state_digest_kind": is_text,
}
OWN: Mapping[str, Checks] = {
    evidence.ACTION: {
        "action_id": is_text,
        "at": is_long,
        "rank": is_count,
        "recording_mode": is_mode,
        "side_effect_class": one_of(CLASSES),
        "state_changing": is_flag,
        "timestamp_ms": is_count,
        "tool_name": is_text,
        "training": object_of(TRAINING, **TRAINING_NEEDED),
        **_ACTION_OPTIONAL,
    },
    evidence.EPOCH_BUNDLE: {
        "actions": object_of(count=is_count, sha256=is_hex),
        "blobs": list_of(object_of(bytes=is_count, lines=is_count_or_none, rank=is_count_or_none, role=is_text,
                                   sha256=is_hex)),
        "checkpoint": or_none(is_text),
        "close_reason": or_none(is_text),
        "closed": is_flag,
        "counts": object_of(policy_mode=_COUNTS, policy_reason=_COUNTS, recording_mode=_COUNTS, shortfall=_COUNTS,
                            side_effect_class=_COUNTS),
        "environment": or_none(is_text),
        "epoch": is_count,
        "epoch_basis": one_of(("recorded", "stated")),
        "escalations": _TEXTS,
        "faults": is_count,
        "follows": or_none(is_hex),
        "late_ranks": is_spans,
        "missing_ranks": is_spans,
        "part": is_count,
        "policy": object_of(digest=or_none(is_text), mode_floor=or_none(is_mode), table_digest=or_none(is_text)),
        "policy_mode": is_mode,
        "policy_reason": is_text,
        "ranks": or_none(list_of(object_of(actions=is_count, first=is_count_or_none, last=is_count_or_none,
                                           rank=is_count))),
        "recording_mode": is_mode,
        "run_side_effect_class_max": one_of(CLASSES),
        "source": one_of(("capture", "dumps")),
        "steps": or_none(is_span),
        "trace": object_of(conflicts=_TEXTS, parent_action=or_none(is_text), parent_trace_id=or_none(is_text),
                           trace_id=or_none(is_text)),
        "unreadable": is_count,
        "world_size": is_count_or_none,
    },
    evidence.EPOCH_LINK: {
        "aep": or_none(is_hex),
        "aep_bytes": is_count,
        "aep_prev": or_none(is_hex),
        "bundle": is_hex,
        "evidence_epochs": list_of(object_of(number=is_count, sha256=is_hex)),
        "prev": or_none(is_hex),
    },
    evidence.ESCALATION: {
        "close_reason": or_none(is_text),
        "closed_ns": or_none(is_long),
        "closed_step": is_count_or_none,
        "event": one_of(("opened", "extended", "closed")),
        "evidence": _TEXTS,
        "latched": is_flag,
        "number": is_count,
        "opened_ns": is_long,
        "opened_step": is_count_or_none,
        "reason": or_none(is_text),
        "rule": one_of(_RULES),
        "scope": is_text,
        "source": is_text,
        "threshold": is_double_or_none,
        "trigger": is_text,
        "value": is_double_or_none,
    },
    evidence.EXTERNAL_SIGNAL: {
        "because": or_none(is_hex),
        "code": or_none(is_text),
        "device": or_none(is_text),
        "file": object_of(bytes=is_count, sha256=is_hex),
        "host": or_none(is_text),
        "line": is_hex,
        "offset": is_count,
        "opens": or_none(is_text),
        "ranks": or_none(is_ranks),
        "scope": or_none(is_text),
        "seen_ns": is_long,
        "source": is_text,
        "step": is_count_or_none,
        "text": is_text,
        "trigger": or_none(is_text),
        "values": is_values,
        "what": one_of(SEEN),
    },
    evidence.CAPTURE_FAULT: {"count": is_count, "error": is_text, "place": is_text},
    evidence.CONTROL: {
        "reason": or_none(is_text),
        "scope": or_none(is_text),
        "state": is_text,
        "what": is_text,
        "who": or_none(is_text),
    },
}  # fmt: skip
OPTIONAL: Mapping[str, frozenset[str]] = {evidence.ACTION: frozenset(_ACTION_OPTIONAL)}
"""Kind → members that may be absent."""
