"""Agents' records and actions as nodes: pure, from one file alone, under ids that no other file can change.

A record is known by the digest of its content, an action by the record that is the first of its chain to tell it. So
files may come in any order, and again, and a longer copy of a chain adds only what is new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from provstore.graph.columns import without_empty
from provstore.graph.said import objects, string
from provstore.model import ids
from provstore.model.agent_record import StatedAction, StatedFile, StatedRecord
from provstore.model.block import Block, Column, Nodes, Relations, Value

FILE_LABELS = ("Element", "Entity", "AgentFile")
RECORD_LABELS = ("Element", "Entity", "AgentRecord")
ACTION_LABELS = ("Element", "Activity", "AgentAction")
RUN_LABELS = ("Element", "Activity", "AgentRun")
EMITTER_LABELS = ("Element", "Agent", "Emitter")
NAME_LABELS = ("Element", "Agent", "Delegator")
REFERENCE_LABELS = ("Element", "Entity", "Reference")
RESULT_LABELS = ("Element", "Entity", "ActionResult")

_PLACE = f"{ids.BASE}agent"
_BODY_DIGITS = 16
_LINK_DIGITS = 64
_NS_IN_MS = 1_000_000
_INT64 = 2**63

Said = Mapping[str, Any]
Row = Mapping[str, Value | None]


def file_iri(sha256: str) -> str:
    """Return the id of a file of agent evidence, named by its bytes."""
    return f"{_PLACE}/file/{sha256}"


def run_iri(run_id: str) -> str:
    """Return the id of an agent's run."""
    return f"{_PLACE}/run/{ids.component(run_id)}"


def record_iri(digest: str) -> str:
    """Return the id of a record, named by the digest of its canonical form without signatures."""
    return f"{_PLACE}/record/{digest}"


def action_iri(record: str, action_id: str, body: str) -> str:
    """Return the id of an action that a record is the first of its chain to tell."""
    return f"{record_iri(record)}/action/{ids.component(action_id)}/{body[:_BODY_DIGITS]}"


def emitter_iri(agent_id: str | None, keyid: str | None) -> str:
    """Return the id of who made a record, by the name and the key that it states."""
    return f"{_PLACE}/emitter/{ids.component(agent_id or '')}/{ids.component(keyid or '')}"


def reference_iri(uri: str, digest: str | None = None) -> str:
    """Return the id of something that a record refers to, in the state that it names."""
    return f"{_PLACE}/reference/{ids.component(uri)}" + ("" if digest is None else f"/{ids.component(digest)}")


def agent_block(stated: StatedFile) -> Block:
    """Return what a file of agent evidence is in the graph; it belongs to no training run."""
    facts = _Facts()
    size: Row = {"sha256": stated.sha256, "size_bytes": stated.size_bytes, "kind": stated.container}
    facts.node(FILE_LABELS, file_iri(stated.sha256), size)
    for one in stated.records:
        facts.record(one)
        facts.relate("WAS_DERIVED_FROM", record_iri(one.digest), file_iri(stated.sha256))
    return facts.block()


@dataclass(slots=True)
class _Facts:
    _rows: dict[tuple[str, ...], dict[str, dict[str, Value | None]]] = field(default_factory=dict)
    _pairs: dict[str, dict[tuple[str, str], None]] = field(default_factory=dict)
    _named: dict[tuple[str, str], str] = field(default_factory=dict)
    """(chain or record, action id) → the action that a later one calls its parent."""

    def record(self, one: StatedRecord) -> None:
        """Show a record and the actions that it is the first to tell."""
        key, said = record_iri(one.digest), one.value
        run, context = string(said.get("run_id")), _object(said.get("run_context"))
        row = _traced(said) | {"agent_run": run, "kind": one.kind, "chain": one.chain, "record_digest": one.digest}
        row["version"], row["at_ns"] = string(said.get("schema_version")), _nanoseconds(said.get("created_at_ms"))
        self.node(RECORD_LABELS, key, row)
        if run is not None:
            self.node(RUN_LABELS, run_iri(run), {"agent_run": run})
            self.relate("WAS_GENERATED_BY", key, run_iri(run))
        before = one.before or _link(said)
        if before is not None:
            self.node(RECORD_LABELS, record_iri(before), {})
            self.relate("WAS_DERIVED_FROM", key, record_iri(before))
        emitters = self._emitters(one, context)
        for emitter in emitters:
            self.relate("WAS_ATTRIBUTED_TO", key, emitter)
        for action in one.actions:
            self._action(one, action, run, emitters)
        self._references(one, run)

    def _emitters(self, one: StatedRecord, context: Said) -> list[str]:
        agent = string(context.get("agent_id"))
        emitters = [emitter_iri(agent, keyid) for keyid in one.keyids or ((None,) if agent is not None else ())]
        for emitter, keyid in zip(emitters, one.keyids or (None,)):
            self.node(EMITTER_LABELS, emitter, {"agent_id": agent, "keyid": keyid})
            for name in _texts(context.get("delegation_chain")):
                delegator = f"{_PLACE}/delegator/{ids.component(name)}"
                self.node(NAME_LABELS, delegator, {"agent_id": name})
                self.relate("ACTED_ON_BEHALF_OF", emitter, delegator)
        return emitters

    def _action(self, one: StatedRecord, action: StatedAction, run: str | None, emitters: Sequence[str]) -> None:
        key, said = action_iri(one.digest, action.action_id, action.body), action.value
        self.node(ACTION_LABELS, key, _traced(one.value) | _action_row(one, action, run))
        self.relate("WAS_INFLUENCED_BY", record_iri(one.digest), key)
        for emitter in emitters:
            self.relate("WAS_ASSOCIATED_WITH", key, emitter)
        chain, parent = one.chain or one.digest, string(said.get("parent_action_id"))
        told = self._named.get((one.digest, parent)) or self._named.get((chain, parent)) if parent is not None else None
        if told is not None:
            self.relate("WAS_INFORMED_BY", key, told)
        self._named.setdefault((one.digest, action.action_id), key)
        self._named[chain, action.action_id] = key
        for uri in _texts(said.get("evidence_refs")):
            self.node(REFERENCE_LABELS, reference_iri(uri), {"uri": uri})
            self.relate("WAS_INFLUENCED_BY", reference_iri(uri), key)
        if (result := string(said.get("result_digest"))) is not None:
            self.node(RESULT_LABELS, f"{key}/result", {"agent_run": run, "stated_digest": result})
            self.relate("WAS_GENERATED_BY", f"{key}/result", key)
        for other in action.alternates:
            # PROV relates entities in this way, not activities: the records tell one action twice.
            self.node(RECORD_LABELS, record_iri(other), {})
            self.relate("ALTERNATE_OF", record_iri(one.digest), record_iri(other))

    def _references(self, one: StatedRecord, run: str | None) -> None:
        """Relate what a record as a whole took and gave to its one new action, else to the agent's run."""
        only = one.actions[0] if len(one.actions) == 1 else None
        act = run_iri(run) if run is not None else None
        if only is not None:
            act = action_iri(one.digest, only.action_id, only.body)
        for said in objects(one.value.get("input_refs")) if act is not None else ():
            if act is not None and (entity := self._reference(said)) is not None:
                self.relate("USED", act, entity)
        for said in objects(one.value.get("output_refs")) if act is not None else ():
            if act is not None and (entity := self._reference(said)) is not None:
                self.relate("WAS_GENERATED_BY", entity, act)

    def _reference(self, said: Said) -> str | None:
        uri, digest = string(said.get("uri")), string(said.get("digest"))
        if uri is None:
            return None
        key = reference_iri(uri, digest)
        self.node(REFERENCE_LABELS, key, {"uri": uri, "stated_digest": digest})
        return key

    def node(self, labels: tuple[str, ...], key: str, row: Row) -> None:
        """Show a node; what is known of it already stays."""
        held = self._rows.setdefault(labels, {}).setdefault(key, {})
        for name, value in row.items():
            if value is not None:
                held.setdefault(name, value)

    def relate(self, kind: str, source: str, target: str) -> None:
        """Show a relation, effect first."""
        self._pairs.setdefault(kind, {})[source, target] = None

    def block(self) -> Block:
        """Return all of it."""
        nodes = []
        for labels, rows in self._rows.items():
            names = dict.fromkeys(name for row in rows.values() for name in row)
            columns: dict[str, Column] = {name: [row.get(name) for row in rows.values()] for name in names}
            nodes.append(Nodes(labels, list(rows), without_empty(columns)))
        relations = [
            Relations(kind, [source for source, _ in pairs], [target for _, target in pairs])
            for kind, pairs in self._pairs.items()
        ]
        return Block("", 0, tuple(nodes), tuple(relations))


def _action_row(one: StatedRecord, action: StatedAction, run: str | None) -> dict[str, Value | None]:
    said = action.value
    return {
        "agent_run": run,
        "action_id": action.action_id,
        "body_digest": action.body,
        "chain": one.chain,
        "tool_name": string(said.get("tool_name")),
        "side_effect_class": string(said.get("side_effect_class")),
        "claimed_mode": string(said.get("recording_mode")),
        "at_ns": _nanoseconds(said.get("timestamp_ms")),
        "digest_in": string(said.get("pre_state_digest")),
        "digest_out": string(said.get("post_state_digest")),
        "digest_kind": string(said.get("state_digest_kind")),
        "refs": _texts(said.get("evidence_refs")) or None,
    }


def _traced(said: Said) -> dict[str, Value | None]:
    return {name: string(said.get(name)) for name in ("trace_id", "parent_trace_id")}


def _link(said: Said) -> str | None:
    """Return the record that another names before it, where the link has the form of a digest."""
    link = string(said.get("prev_record_hash"))
    is_digest = link is not None and len(link) == _LINK_DIGITS and not link.strip("0123456789abcdef")
    return link if is_digest else None


def _nanoseconds(value: object) -> int | None:
    """Return milliseconds as nanoseconds, where 64 bits hold them."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _INT64:
        return None
    found = int(value * _NS_IN_MS)
    return found if -_INT64 <= found < _INT64 else None


def _object(value: object) -> Said:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> list[str]:
    return list(dict.fromkeys(one for one in value if isinstance(one, str))) if isinstance(value, list) else []
