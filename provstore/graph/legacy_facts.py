"""Actions of an imported ``train-aep`` file as nodes: legacy actions of a training run, apart from those recorded here.

What the file claims of its mode stands beside what is true of it: no content came with it.
"""

from __future__ import annotations

from provstore.graph.action_facts import RUN_LABELS
from provstore.graph.columns import without_empty
from provstore.graph.dump_facts import run_nodes
from provstore.graph.recorded_ids import training_run_iri
from provstore.model import ids
from provstore.model.block import Block, Column, Nodes, Relations
from provstore.model.legacy import DIGEST_KIND, LegacyAction, LegacyEpoch

ACTION_LABELS = ("Element", "Activity", "LegacyAction")
FILE_LABELS = ("Element", "Entity", "LegacyBundle")
ATTEMPT = 0
"""The format knows no attempts."""
TRUE_MODE, SHORTFALL = "validation", "no-tensor-access"
_DIGITS = 16


def file_iri(run: str, sha256: str) -> str:
    """Return the id of an imported file."""
    return f"{ids.attempt_iri(run, ATTEMPT)}/legacy/{sha256}"


def action_iri(run: str, epoch: int, action: LegacyAction) -> str:
    """Return the id of a legacy action; equal claims have one id, whatever file and form they came in."""
    name = f"{ids.component(action.action_id)}/{action.ordinal}/{action.digest[:_DIGITS]}"
    return f"{ids.attempt_iri(run, ATTEMPT)}/legacy/{epoch}/{name}"


def legacy_block(found: LegacyEpoch) -> Block:
    """Return what an imported file is in the graph."""
    run, bundle = found.run, file_iri(found.run, found.sha256)
    keys = [action_iri(run, found.epoch, one) for one in found.actions]
    known = {(one.action_id, one.ordinal): key for one, key in zip(found.actions, keys)}
    file: dict[str, Column] = {
        "run": [run],
        "attempt": [ATTEMPT],
        "train_epoch": [found.epoch],
        "form": [found.form],
        "sha256": [found.sha256],
        "size_bytes": [found.size_bytes],
        "actions": [len(found.actions)],
    }
    activity = training_run_iri(run, ATTEMPT)
    nodes = [
        run_nodes(run, ATTEMPT),
        Nodes(FILE_LABELS, [bundle], file),
        Nodes(RUN_LABELS, [activity], {"run": [run], "attempt": [ATTEMPT]}),
    ]
    relations = [Relations("WAS_GENERATED_BY", [bundle], [activity])]
    if keys:
        nodes.append(Nodes(ACTION_LABELS, keys, _columns(found)))
        relations.append(Relations("WAS_INFLUENCED_BY", [bundle] * len(keys), keys))
    parents = [
        (key, known[one.parent_action_id, 0])
        for one, key in zip(found.actions, keys)
        if one.parent_action_id is not None and (one.parent_action_id, 0) in known
    ]
    if parents:
        relations.append(Relations("WAS_INFORMED_BY", [key for key, _ in parents], [to for _, to in parents]))
    return Block(run, ATTEMPT, tuple(nodes), tuple(relations))


def _columns(found: LegacyEpoch) -> dict[str, Column]:
    actions, count = found.actions, len(found.actions)
    columns: dict[str, Column] = {
        "run": [found.run] * count,
        "attempt": [ATTEMPT] * count,
        "train_epoch": [found.epoch] * count,
        "action_id": [one.action_id for one in actions],
        "ordinal": [one.ordinal for one in actions],
        "rank": [one.rank for one in actions],
        "seq": [one.seq for one in actions],
        "op": [one.op for one in actions],
        "claimed_mode": [one.claimed_mode for one in actions],
        "recorded_mode": [TRUE_MODE] * count,
        "shortfall": [[SHORTFALL] if one.claimed_mode != TRUE_MODE else None for one in actions],
        "digest_in": [one.digest_in for one in actions],
        "digest_out": [one.digest_out for one in actions],
        "digest_kind": [DIGEST_KIND if one.digest_in or one.digest_out else None for one in actions],
        "chain": [one.chain for one in actions],
        "at_ns": [one.timestamp_ns for one in actions],
        "extra": [one.statistics for one in actions],
        "body_digest": [one.digest for one in actions],
    }
    return without_empty(columns)
