"""Shapes of records: which members a record of each kind has, and what may stand in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provstore.evidence import recorded_shapes
from provstore.evidence.shape_checks import (
    Check,
    is_count,
    is_count_or_none,
    is_flag,
    is_hex,
    is_keyid,
    is_mode,
    is_ranks,
    is_text,
    is_time,
    is_values,
    object_of,
    or_none,
)
from provstore.model import evidence

_NONE: frozenset[str] = frozenset()


def fault(value: Mapping[str, Any]) -> str | None:
    """Return which member of a record of a known kind is wrong, or nothing."""
    checks, optional = KINDS[value["kind"]], OPTIONAL.get(value["kind"], _NONE)
    if value.keys() != checks.keys() and not checks.keys() - optional <= value.keys() <= checks.keys():
        needed, allowed = ", ".join(sorted(checks.keys() - optional)), ", ".join(sorted(optional))
        return f"members: needs exactly {needed}" + (f"; may have {allowed}" if allowed else "")
    for name, said in value.items():
        if not checks[name](said):
            return f"{name}: is not what a record of kind {value['kind']} has there"
    return None


_COMMON: Mapping[str, Check] = {
    "at": is_time,
    "attempt": is_count,
    "kind": is_text,
    "n": is_count,
    "rank": is_count_or_none,
    "run": is_text,
    "schema": is_count,
}
OWN: Mapping[str, Mapping[str, Check]] = {
    evidence.INGEST: {
        "batch": is_count,
        "facts": object_of(encoding=lambda value: value in ("parquet", "lines"), rows=is_count, sha256=is_hex),
        "policy": object_of(mode=is_mode, reason=is_text),
        "quarantined": is_count,
        "source": or_none(
            object_of(
                element=or_none(is_text),
                kept=is_flag,
                reader=is_text,
                sha256=is_hex,
                size=is_count,
                version=is_text,
            )
        ),
    },
    evidence.OBSERVATION: {"name": is_text, "step": is_count_or_none, "values": is_values},
    evidence.DIGEST: {"name": is_text, "ranks": is_ranks, "sha256": is_hex, "step": is_count_or_none},
    evidence.POLICY: {"document": is_values, "mode": is_mode, "reason": is_text},
    evidence.RANK_CERTIFICATE: {"certified": is_count, "keyid": is_keyid, "public": is_hex},
    evidence.KEY_ROTATION: {"new": is_keyid, "old": is_keyid, "public": is_hex},
    evidence.RECOVERY: {"cause": is_text, "details": is_values},
    evidence.GAP: {"cause": is_text, "from": is_count_or_none, "lost": is_count},
    evidence.RUN_CLOSE: {
        "batches": is_count,
        "reason": lambda value: value in evidence.CLOSE_REASONS,
        "records": is_count,
    },
    **recorded_shapes.OWN,
}
OPTIONAL: Mapping[str, frozenset[str]] = recorded_shapes.OPTIONAL
"""Kind → members that may be absent."""
KINDS: Mapping[str, Mapping[str, Check]] = {kind: {**_COMMON, **own} for kind, own in OWN.items()}
"""Kind → member → whether a value may stand there."""
