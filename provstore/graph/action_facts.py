"""Recorded actions, epochs and escalations as nodes: pure, from record lines alone, and never an ancestor of a tensor.

An action leads to what it is about; nothing that a tensor derives from leads to an action. Like all evidence, lines are
shown as they are, and what a line does not say, or says in another type, is left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from provstore.graph.dump_facts import run_nodes
from provstore.graph.recorded_ids import (
    action_iri,
    checkpoint_iri,
    epoch_iri,
    escalation_iri,
    side_iri,
    tensor_iri,
    training_run_iri,
)
from provstore.graph.said import integer, objects, string, tagged_integer
from provstore.model import canonical, ids
from provstore.model.block import Block, Column, Nodes, Relations, Value

ACTION_LABELS = ("Element", "Activity", "Action")
EPOCH_LABELS = ("Element", "Entity", "EpochBundle")
RUN_LABELS = ("Element", "Activity", "TrainingRun")
CHECKPOINT_LABELS = ("Element", "Entity", "Checkpoint")
ESCALATION_LABELS = ("Element", "Entity", "Escalation")
TENSOR_LABELS = ("Element", "Entity", "TensorState")
KINDS = frozenset(("action", "epoch-bundle", "escalation"))
"""Kinds of records that are shown here."""
_ACTIVITY, _ENTITY, _AGENT = ("Element", "Activity"), ("Element", "Entity"), ("Element", "Agent")
_SAVE, _LOAD, _TENSOR, _GRADIENT = "checkpoint.save", "checkpoint.load", "tensor.", "grad"
_SECOND, _MAX_DIGITS = 2, 10
_MAX_RANKS = 4_096

Said = Mapping[str, Any]


def action_block(run: str, attempt: int, first: int, said: Sequence[Said]) -> Block | None:
    """Return what recorded actions, epochs and escalations are in the graph; ``None`` where there is none.

    Args:
        run: Where the records were put.
        attempt: Its incarnation.
        first: Index in the run tree of the first.
        said: Their members; of other kinds, nothing is shown here.
    """
    if not any(string(one.get("kind")) in KINDS for one in said):
        return None
    facts = _Facts(run, attempt)
    for at, one in enumerate(said):
        kind = one.get("kind")
        if kind == "action":
            facts.action(one, first + at)
        elif kind == "epoch-bundle":
            facts.epoch(one, first + at)
        elif kind == "escalation":
            facts.escalation(one)
    return facts.block()


def own_keys(block: Block) -> list[str]:
    """Return the ids of the nodes that only these records give."""
    return [key for nodes in block.nodes if nodes.labels in {ACTION_LABELS, EPOCH_LABELS} for key in nodes.keys]


@dataclass(slots=True)
class _Facts:
    run: str
    attempt: int
    _rows: dict[tuple[str, ...], dict[str, dict[str, Value | None]]] = field(default_factory=dict)
    """Labels → id → properties."""
    _pairs: dict[str, dict[tuple[str, str], None]] = field(default_factory=dict)

    def action(self, said: Said, index: int) -> None:
        """Show an action."""
        action_id, rank, training = string(said.get("action_id")), integer(said.get("rank")), said.get("training")
        if action_id is None or rank is None or not isinstance(training, dict):
            return
        key = action_iri(self.run, self.attempt, action_id)
        row = _action_row(said, training)
        self._node(ACTION_LABELS, key, {**row, "leaf_index": index, "rank": rank})
        self._refer(_AGENT, "WAS_ASSOCIATED_WITH", key, ids.rank_iri(self.run, self.attempt, rank))
        if (parent := string(said.get("parent_action_id"))) is not None:
            self._refer(_ACTIVITY, "WAS_INFORMED_BY", key, action_iri(self.run, self.attempt, parent))
        chain = string(said.get("causal_chain_id"))
        if chain is not None:
            instance = f"{ids.attempt_iri(self.run, self.attempt)}/{chain}"
            self._refer(_ACTIVITY, "WAS_INFLUENCED_BY", key, instance)
            side = string(training.get("side")) or "in"
            self._refer(_ENTITY, "USED", key, ids.side_iri(instance, rank, side))
        for name in _texts(training.get("escalations")) or ():
            source, _, escalation = name.rpartition("/")
            target = escalation_iri(self.run, self.attempt, source or f"rank:{rank}", escalation)
            self._node(ESCALATION_LABELS, target, {})
            self._relate("WAS_INFLUENCED_BY", key, target)
        op = str(row["op"])
        if op.startswith(_TENSOR):
            self._tensor(key, rank, row, training)
        elif op in {_SAVE, _LOAD}:
            self._checkpoint(key, op, row)

    def epoch(self, said: Said, index: int) -> None:
        """Show an epoch's bundle and the run that it is of."""
        epoch, part = integer(said.get("epoch")), integer(said.get("part")) or 0
        if epoch is None:
            return
        key, run = epoch_iri(self.run, self.attempt, epoch, part), training_run_iri(self.run, self.attempt)
        self._node(EPOCH_LABELS, key, {**_epoch_row(said), "leaf_index": index})
        trace = said.get("trace")
        facts = trace if isinstance(trace, dict) else {}
        names = ("trace_id", "parent_trace_id", "parent_action")
        self._node(RUN_LABELS, run, {name: string(facts.get(name)) for name in names})
        self._relate("WAS_GENERATED_BY", key, run)

    def escalation(self, said: Said) -> None:
        """Show an escalation; what its later states add stands on the same node."""
        source, number = string(said.get("source")), integer(said.get("number"))
        if source is None or number is None:
            return
        key = escalation_iri(self.run, self.attempt, source, f"esc-{number}")
        names = ("trigger", "rule", "reason", "close_reason")
        row: dict[str, Value | None] = {name: string(said.get(name)) for name in names}
        row["source"], row["escalated"] = source, string(said.get("scope"))
        for name in ("opened_step", "closed_step"):
            row[name] = integer(said.get(name))
        row["opened_ns"] = tagged_integer(said.get("opened_ns"))
        row["closed_ns"] = tagged_integer(said.get("closed_ns"))
        self._node(ESCALATION_LABELS, key, row)

    def block(self) -> Block:
        """Return all of it."""
        nodes = [run_nodes(self.run, self.attempt)]
        for own in self._rows.get(ACTION_LABELS, ()):
            # Referred to before it came.
            self._rows.get(_ACTIVITY, {}).pop(own, None)
        for labels, rows in self._rows.items():
            nodes.append(Nodes(labels, list(rows), self._columns(list(rows.values()))))
        relations = tuple(
            Relations(kind, [source for source, _ in pairs], [target for _, target in pairs])
            for kind, pairs in self._pairs.items()
        )
        return Block(self.run, self.attempt, tuple(nodes), relations)

    def _columns(self, rows: Sequence[Mapping[str, Value | None]]) -> Mapping[str, Column]:
        columns: dict[str, list[Value | None]] = {}
        for at, row in enumerate(rows):
            for name, value in row.items():
                column = columns.get(name)
                if column is None:
                    column = columns[name] = [None] * len(rows)
                column[at] = value
        return columns

    def _tensor(self, key: str, rank: int, row: Mapping[str, Value | None], training: Said) -> None:
        name, step, op = row.get("name"), integer(training.get("step")), str(row["op"])
        if not isinstance(name, str):
            return
        kind = op.removeprefix(_TENSOR)
        state = tensor_iri(self.run, self.attempt, rank, step, name, kind)
        facts: dict[str, Value | None] = {
            "rank": rank,
            "name": name,
            "step": step,
            "kind": kind,
            "digest_out": row.get("digest_out"),
        }
        self._node(TENSOR_LABELS, state, facts)
        self._relate("USED", key, state)
        if kind == _GRADIENT and (before := _added_to(name)) is not None:
            # Each is what the parameter holds then: the sum of all so far.
            former = tensor_iri(self.run, self.attempt, rank, step, before, kind)
            self._node(TENSOR_LABELS, former, {"rank": rank, "name": before, "step": step, "kind": kind})
            self._relate("WAS_DERIVED_FROM", state, former)
        for carrier in _texts(training.get("carried_by")) or ():
            entity = side_iri(self.run, self.attempt, carrier, rank)
            self._rows.setdefault(_ENTITY, {}).setdefault(entity, {})
            self._relate("WAS_DERIVED_FROM", entity, state)

    def _checkpoint(self, key: str, op: str, row: Mapping[str, Value | None]) -> None:
        uri = row.get("name")
        if not isinstance(uri, str):
            return
        target, run = checkpoint_iri(uri), training_run_iri(self.run, self.attempt)
        self._add(CHECKPOINT_LABELS, target, {"uri": uri, "digest_out": row.get("digest_out")})
        self._node(RUN_LABELS, run, {})
        self._relate("USED", key, target)
        if op == _SAVE:
            self._relate("WAS_GENERATED_BY", target, run)
        else:
            self._relate("USED", run, target)

    def _node(self, labels: tuple[str, ...], key: str, row: Mapping[str, Value | None]) -> None:
        self._add(labels, key, {"run": self.run, "attempt": self.attempt, **row})

    def _add(self, labels: tuple[str, ...], key: str, row: Mapping[str, Value | None]) -> None:
        held = self._rows.setdefault(labels, {}).setdefault(key, {})
        held.update({name: value for name, value in row.items() if value is not None})

    def _refer(self, labels: tuple[str, ...], kind: str, source: str, target: str) -> None:
        """Relate to a node that another record or a dump describes."""
        if labels is _ACTIVITY and target in self._rows.get(ACTION_LABELS, ()):
            labels = ACTION_LABELS
        self._rows.setdefault(labels, {}).setdefault(target, {})
        self._relate(kind, source, target)

    def _relate(self, kind: str, source: str, target: str) -> None:
        self._pairs.setdefault(kind, {})[source, target] = None


def _added_to(name: str) -> str | None:
    """Return the name of the gradient that another was accumulated onto within a step; ``None`` of a first one."""
    parameter, sign, count = name.rpartition("#")
    if not (sign and parameter and count.isdecimal() and len(count) < _MAX_DIGITS and int(count) > 1):
        return None
    return parameter if int(count) == _SECOND else f"{parameter}#{int(count) - 1}"


def _action_row(said: Said, training: Said) -> dict[str, Value | None]:
    """Return what an action's node shows; library and operation are one text in a record of a call."""
    tool = string(said.get("tool_name")) or ""
    backend, colon, op = tool.partition(":") if "group" in training else ("", "", tool)
    return {
        "action_id": string(said.get("action_id")),
        "backend": backend if colon else None,
        "op": op,
        "group": string(training.get("group")),
        "seq": integer(training.get("seq")),
        "op_id": integer(training.get("op_id")),
        "peer": integer(training.get("peer")),
        "side": string(training.get("side")) or ("in" if "group" in training else None),
        "step": integer(training.get("step")),
        "train_epoch": integer(training.get("epoch")),
        "at_ns": tagged_integer(said.get("at")),
        "chain": string(said.get("causal_chain_id")),
        "side_effect_class": string(said.get("side_effect_class")),
        "recorded_mode": string(said.get("recording_mode")),
        "policy_mode": string(training.get("policy_mode")),
        "policy_reason": string(training.get("policy_reason")),
        "shortfall": _texts(training.get("shortfall")) or None,
        "escalations": _texts(training.get("escalations")) or None,
        "is_finite_in": _flag(training.get("finite_in")),
        "is_finite_out": _flag(training.get("finite_out")),
        "digest_in": string(said.get("pre_state_digest")),
        "digest_out": string(said.get("post_state_digest")),
        "digest_kind": string(said.get("state_digest_kind")),
        "delta_ref": string(said.get("delta_ref")),
        "name": string(training.get("name")),
    }


def _epoch_row(said: Said) -> dict[str, Value | None]:
    actions = said.get("actions")
    counts = said.get("counts")
    shortfall = counts.get("shortfall") if isinstance(counts, dict) else None
    return {
        "train_epoch": integer(said.get("epoch")),
        "part": integer(said.get("part")),
        "bundle_digest": _bundle_digest(said),
        "is_ended": _flag(said.get("closed")),
        "end_reason": string(said.get("close_reason")),
        "actions": integer(actions.get("count")) if isinstance(actions, dict) else None,
        "recorded_mode": string(said.get("recording_mode")),
        "policy_mode": string(said.get("policy_mode")),
        "policy_reason": string(said.get("policy_reason")),
        "shortfall": [one["name"] for one in objects(shortfall) if isinstance(one.get("name"), str)] or None,
        "side_effect_class": string(said.get("run_side_effect_class_max")),
        "world_size": integer(said.get("world_size")),
        "missing_ranks": _spread(said.get("missing_ranks")) or None,
        "escalations": _texts(said.get("escalations")) or None,
        "counts": orjson.dumps(counts, option=orjson.OPT_SORT_KEYS).decode() if isinstance(counts, dict) else None,
    }


def _bundle_digest(said: Said) -> str:
    """Return the digest under which a bundle is known: of its record without its number."""
    return hashlib.sha256(canonical.encode({name: one for name, one in said.items() if name != "n"})).hexdigest()


def _spread(found: object) -> list[int]:
    """Return the ranks in a list of [first, last], as many as a node shows."""
    ranks: list[int] = []
    for pair in found if isinstance(found, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and all(type(one) is int for one in pair):
            ranks += range(pair[0], min(pair[1], pair[0] + _MAX_RANKS) + 1)
    return ranks[:_MAX_RANKS]


def _texts(found: object) -> list[str] | None:
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else None


def _flag(value: object) -> bool | None:
    return value if type(value) is bool else None
