"""The questions that assistants may ask: causes and effects of a tensor, suspicious actions, one epoch in short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provstore import config
from provstore.api.assistant_terms import MAX_LIMIT, Argument, Page, Place, Tool, skipped
from provstore.api.opening import existing
from provstore.errors import InputError

if TYPE_CHECKING:
    from provstore.api.overview import Overview

_MAX_DEPTH = 50
_MAX_NODES = 100_000
_MOST_UNDECIDED = 50
"""What is left open more often than that says no more, and an answer has room for so much."""
_RUN = Argument("string", "Run; may be left out when the store holds one.")
_ATTEMPT = Argument("integer", "Incarnation of the run; the latest when not given.", least=0)
_EPOCH = Argument("integer", "Training epoch.", least=0)
_LIMIT = Argument("integer", "Rows at most.", least=1, most=MAX_LIMIT, default=50)
_CURSOR = Argument("string", "The `next` of the answer before, to go on behind it.")


def trace_tensor(given: Mapping[str, Any], place: Place) -> Page:
    """Return what a tensor may have come from, or what may have come from it, nearest first."""
    from provstore import api

    is_down = given["direction"] == "descendants"
    with api.open(place.store, journal=place.journal, read_only=True) as store:
        found = store.trace(
            given["entity_id"],
            down=is_down,
            depth=given["depth"],
            run=given["run"],
            attempt=given["attempt"],
            max_nodes=_MAX_NODES,
        )
    reasons = {edge.target: edge.relation for edge in found.edges} | (
        {edge.source: edge.relation for edge in found.edges} if is_down else {}
    )
    rows = [
        {
            "id": node.iri,
            "kind": node.kind,
            "label": node.label,
            "rank": node.rank,
            "op": node.op,
            "group": node.group,
            "seq": node.seq,
            "hops": node.hops,
            "reason": reasons.get(node.iri),
        }
        for node in found.nodes
    ]
    ranks = sorted({node.rank for node in found.nodes if node.rank is not None})
    head = {"entity_id": found.target, "label": found.root.label, "direction": found.direction}
    tail = {"total": len(rows), "ranks": ranks, "complete": found.complete, "notes": list(found.notes)}
    name = "causal_descendants" if is_down else "causal_ancestors"
    return Page(head, name, rows, given["limit"], skipped(given["cursor"]), tail)


def list_suspicious_actions(given: Mapping[str, Any], place: Place) -> Page:
    """Return the actions that a finding names, with score and reason; what they may have spoilt is only counted."""
    from provstore.api.escalations import earliest
    from provstore.api.overview import overview

    epoch = given["epoch"]
    seen = overview(_directory(place), given["run"], given["attempt"], epoch)
    opened = {name for one in seen.bundles if epoch in {None, one["epoch"]} for name in one["escalations"]}
    escalation = earliest(one for one in seen.escalations if epoch is None or _id(one) in opened)
    least, rank = given["min_score"], given["rank"]
    found = seen.suspicion
    rows = [one for one in found["suspicious"] if one["score"] >= least and rank in {None, one["rank"]}]
    tail = {
        "total": len(rows),
        "affected": found["affected"],
        "earliest_escalation": escalation,
        "undecided": found["undecided"][:_MOST_UNDECIDED],
        "coverage": found["coverage"],
        "basis": _basis(seen),
    }
    head = {"run": seen.run, "attempt": seen.attempt}
    return Page(head, "actions", rows, given["limit"], skipped(given["cursor"]), tail)


def summarize_epoch(given: Mapping[str, Any], place: Place) -> Page:
    """Return one training epoch in short: modes, shortfalls, escalations, findings, missing ranks, signatures."""
    from provstore.api.escalations import escalations_in_short
    from provstore.api.overview import listed, overview

    epoch = given["epoch"]
    seen = overview(_directory(place), given["run"], given["attempt"], epoch)
    parts = [one for one in seen.bundles if one["epoch"] == epoch]
    if not parts:
        known = sorted({one["epoch"] for one in seen.bundles})
        text = f"{seen.run}: attempt {seen.attempt}: epoch {epoch} is not stored; stored are {listed(known)}"
        raise InputError(text)
    opened = {name for part in parts for name in part["escalations"]}
    escalations = escalations_in_short(one for one in seen.escalations if _id(one) in opened)
    counts: dict[str, Counter[str]] = {}
    for part in parts:
        for name, rows in part["counts"].items():
            counts.setdefault(name, Counter()).update({row["name"]: row["count"] for row in rows})
    found = seen.suspicion
    head = {
        "run": seen.run,
        "attempt": seen.attempt,
        "epoch": epoch,
        "closed": parts[-1]["closed"],
        "actions": sum(part["actions"] for part in parts),
        "counts": {name: dict(sorted(counter.items())) for name, counter in sorted(counts.items())},
        "missing_ranks": [list(span) for span in parts[-1]["missing_ranks"]],
        "findings": dict(sorted(Counter(one["code"] for one in found["suspicious"]).items())),
        "first_non_finite": next((one for one in found["suspicious"] if one["code"] == "nan-origin"), None),
        "affected": found["affected"],
        "is_signed": seen.is_signed,
        "verified": {"evaluated": False, "reason": "provstore verify judges signatures"},
        "replay": {"evaluated": False, "reason": "provstore replay judges it"},
    }
    bundles = [{"bundle": part["digest"], "part": part["part"], "where": part["where"]} for part in parts]
    tail = {
        "escalations": escalations[:MAX_LIMIT],
        "undecided": found["undecided"][:_MOST_UNDECIDED],
        "basis": _basis(seen),
    }
    return Page(head, "bundles", bundles, MAX_LIMIT, 0, tail)


def _basis(seen: Overview) -> dict[str, object]:
    """Return what the answer was taken from: whoever doubts what is kept can have it compared."""
    if seen.is_kept:
        return {"journal_read": False, "meaning": "kept when it was recorded; provstore verify compares it"}
    return {"journal_read": True, "meaning": "worked out from the records now"}


def _id(escalation: Mapping[str, Any]) -> str:
    return f"{escalation['source']}/esc-{escalation['number']}"


def _directory(place: Place) -> Path:
    uri = config.store_uri(place.store)
    return existing(config.journal_directory(uri, place.journal), uri)


TOOLS = (
    Tool(
        "trace_tensor",
        "What a tensor may have come from (ancestors) or have influenced (descendants), on all ranks; nearest first.",
        {
            "entity_id": Argument(
                "string", "Target such as tensor:2:3:out, tensor.grad/2/30/0.weight, r2:seq3 or an id.", is_needed=True
            ),
            "run": _RUN,
            "attempt": _ATTEMPT,
            "direction": Argument(
                "string", "Causes or effects.", choices=("ancestors", "descendants"), default="ancestors"
            ),
            "depth": Argument("integer", "Hops at most.", least=1, most=_MAX_DEPTH, default=_MAX_DEPTH),
            "limit": _LIMIT,
            "cursor": _CURSOR,
        },
        trace_tensor,
    ),
    Tool(
        "list_suspicious_actions",
        "Actions that a finding names: origin of a NaN, with the batches that its rank had in that step (a fact, "
        "no cause; of several it is not recorded which it had then), disagreeing replica, rank whose parameters "
        "are no longer those of its replicas, outlier, re-execution mismatch. An action is never listed for having "
        "been recorded in full; earliest_escalation tells where to begin to look.",
        {
            "run": _RUN,
            "attempt": _ATTEMPT,
            "epoch": _EPOCH,
            "rank": Argument("integer", "Only actions of this rank.", least=0),
            "min_score": Argument("number", "Least score.", least=0, most=1, default=0),
            "limit": _LIMIT,
            "cursor": _CURSOR,
        },
        list_suspicious_actions,
    ),
    Tool(
        "summarize_epoch",
        "One training epoch: what was recorded how deep and why, what fell short, escalations, findings.",
        {
            "run": _RUN,
            "attempt": _ATTEMPT,
            "epoch": Argument("integer", "Training epoch.", is_needed=True, least=0),
        },
        summarize_epoch,
    ),
)
"""All tools, in the order in which they are shown."""
