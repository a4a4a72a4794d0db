"""The questions that assistants may ask: causes and effects of a tensor, suspicious actions, one epoch in short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provstore import config
from provstore.api.assistant import MAX_LIMIT, Argument, Page, Place, Tool, skipped
from provstore.api.opening import existing
from provstore.errors import InputError
from provstore.journal import Journal
from provstore.model.suspicion import Suspicion

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
    from provstore.api.suspecting import suspected
    from provstore.ingest import recording

    epoch = given["epoch"]
    with Journal.open(_directory(place), writable=False) as journal:
        run, attempt = _scope(journal, given["run"], given["attempt"])
        found = suspected(journal, run, attempt, epoch)
        parts = [one for one in recording.stored_bundles(journal, run, attempt) if epoch in {None, one.epoch}]
        opened = {name for part in parts for name in part.record["escalations"]}
        escalation = earliest(
            one
            for one in recording.escalations(journal, run, attempt)
            if epoch is None or f"{one['source']}/esc-{one['number']}" in opened
        )
    least, rank = given["min_score"], given["rank"]
    rows = [
        one.to_dict() for one in found.suspicious if one.score >= least and (rank is None or one.action.rank == rank)
    ]
    undecided = _undecided(found)
    tail = {
        "total": len(rows),
        "affected": len(found.affected),
        "earliest_escalation": escalation,
        "undecided": undecided,
        "coverage": dict(found.coverage),
    }
    return Page({"run": run, "attempt": attempt}, "actions", rows, given["limit"], skipped(given["cursor"]), tail)


def summarize_epoch(given: Mapping[str, Any], place: Place) -> Page:
    """Return one training epoch in short: modes, shortfalls, escalations, findings, missing ranks, signatures."""
    from provstore.api.escalations import escalations_in_short
    from provstore.api.suspecting import suspected
    from provstore.ingest import recording

    epoch = given["epoch"]
    with Journal.open(_directory(place), writable=False) as journal:
        run, attempt = _scope(journal, given["run"], given["attempt"])
        stored = recording.stored_bundles(journal, run, attempt)
        parts = [one for one in stored if one.epoch == epoch]
        if not parts:
            known = sorted({one.epoch for one in stored})
            text = f"{run}: attempt {attempt}: epoch {epoch} is not stored; stored are {_listed(known)}"
            raise InputError(text)
        found = suspected(journal, run, attempt, epoch)
        opened = {name for part in parts for name in part.record["escalations"]}
        escalations = [
            one
            for one in recording.escalations(journal, run, attempt)
            if f"{one['source']}/esc-{one['number']}" in opened
        ]
        signed = journal.evidence(run, attempt).last_bundle() is not None
    counts: dict[str, Counter[str]] = {}
    for part in parts:
        for name, rows in part.record["counts"].items():
            counts.setdefault(name, Counter()).update({row["name"]: row["count"] for row in rows})
    first = next((one for one in found.suspicious if one.finding.code == "nan-origin"), None)
    head = {
        "run": run,
        "attempt": attempt,
        "epoch": epoch,
        "closed": parts[-1].record["closed"],
        "actions": sum(part.record["actions"]["count"] for part in parts),
        "counts": {name: dict(sorted(counter.items())) for name, counter in sorted(counts.items())},
        "missing_ranks": [list(span) for span in parts[-1].record["missing_ranks"]],
        "findings": dict(sorted(Counter(one.finding.code for one in found.suspicious).items())),
        "first_non_finite": None if first is None else first.to_dict(),
        "affected": len(found.affected),
        "is_signed": signed,
        "verified": {"evaluated": False, "reason": "provstore verify judges signatures"},
        "replay": {"evaluated": False, "reason": "provstore replay judges it"},
    }
    undecided = _undecided(found)
    rows = [{"bundle": part.digest, "part": part.part, "where": part.where} for part in parts]
    tail = {"escalations": escalations_in_short(escalations)[:MAX_LIMIT], "undecided": undecided}
    return Page(head, "bundles", rows, MAX_LIMIT, 0, tail)


def _undecided(found: Suspicion) -> list[dict[str, object]]:
    told = found.undecided[:_MOST_UNDECIDED]
    return [{"code": one.code, "what": one.what, "ranks": list(one.ranks)} for one in told]


def _directory(place: Place) -> Path:
    uri = config.store_uri(place.store)
    return existing(config.journal_directory(uri, place.journal), uri)


def _scope(journal: Journal, run: str | None, attempt: int | None) -> tuple[str, int]:
    """Return run and attempt as they are meant; the latest attempt where none is given."""
    known = [scope for scope in journal.scopes() if scope[0]]
    fits = [scope for scope in known if run in {None, scope[0]} and attempt in {None, scope[1]}]
    runs = sorted({name for name, _ in fits})
    if not fits:
        text = f"{run}: no such run" if run is not None else "run: none is stored"
        raise InputError(f"{text}; stored are {_listed(sorted({name for name, _ in known}))}")
    if len(runs) > 1:
        raise InputError(f"run: several fit: {_listed(runs)}")
    return max(fits)


def _listed(found: list[Any]) -> str:
    names = ", ".join(map(str, found[:20])) or "none"
    return f"{names} and {len(found) - 20} more" if len(found) > 20 else names


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
        "Actions that a finding names: origin of a NaN, disagreeing replica, rank whose parameters are no longer those "
        "of its replicas, outlier, re-execution mismatch. An action is never listed for having been recorded in full; "
        "earliest_escalation tells where to begin to look.",
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
