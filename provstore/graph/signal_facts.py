"""What was seen beside a job as nodes: pure, from record lines alone; an escalation derives from what opened it.

A line of the watcher is an entity, attributed to the ranks or the host that it concerns, else influenced by the run.
Like all evidence, lines are shown as they are, and what a line does not say, or says in another type, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from provstore.errors import InputError
from provstore.graph.action_facts import ESCALATION_LABELS, RUN_LABELS
from provstore.graph.columns import without_empty
from provstore.graph.dump_facts import run_nodes
from provstore.graph.recorded_ids import escalation_iri, training_run_iri
from provstore.graph.said import integer, objects, string, tagged_integer
from provstore.model import canonical, ids
from provstore.model.block import Block, Column, Nodes, Relations, Value
from provstore.model.evidence import EXTERNAL_SIGNAL
from provstore.model.signals import CLOSED, ORDER

SIGNAL_LABELS = ("Element", "Entity", "ExternalSignal")
HOST_LABELS = ("Element", "Agent", "Host")
_ENTITY, _AGENT = ("Element", "Entity"), ("Element", "Agent")
_MAX_RANKS = 10_000
_NAMED = ("fault_class", "name", "group", "op", "seq", "confidence", "is_context", "value", "threshold", "xid")
_TYPES: Mapping[str, type] = {"seq": int, "xid": int, "is_context": bool, "value": float, "threshold": float}
"""Of named values, where it is not text."""

Said = Mapping[str, Any]


def signal_iri(run: str, attempt: int, line: str) -> str:
    """Return the id of what a line of a watcher tells, by the line's SHA-256."""
    return f"{ids.attempt_iri(run, attempt)}/signal/{ids.component(line)}"


def host_iri(run: str, attempt: int, host: str) -> str:
    """Return the id of a host of one attempt."""
    return f"{ids.attempt_iri(run, attempt)}/host/{ids.component(host)}"


def signal_block(run: str, attempt: int, first: int, said: Sequence[Said]) -> Block | None:
    """Return what records of external signals are in the graph; ``None`` where there is none.

    Args:
        run: Where the records were put.
        attempt: Its incarnation.
        first: Index in the run tree of the first.
        said: Their members; of other kinds, nothing is shown here.
    """
    if not any(one.get("kind") == EXTERNAL_SIGNAL for one in said):
        return None
    facts = _Facts(run, attempt)
    for at, one in enumerate(said):
        if one.get("kind") == EXTERNAL_SIGNAL:
            facts.signal(one, first + at)
    return facts.block()


def own_signals(block: Block) -> list[str]:
    """Return the ids of the nodes that only these records give."""
    return [key for nodes in block.nodes if nodes.labels == SIGNAL_LABELS for key in nodes.keys]


@dataclass(slots=True)
class _Facts:
    run: str
    attempt: int
    _rows: dict[tuple[str, ...], dict[str, dict[str, Value | None]]] = field(default_factory=dict)
    _pairs: dict[str, dict[tuple[str, str], None]] = field(default_factory=dict)

    def signal(self, said: Said, index: int) -> None:
        """Show what one line tells."""
        line, what = string(said.get("line")), string(said.get("what"))
        if line is None or what is None:
            return
        because, opens = string(said.get("because")), string(said.get("opens"))
        is_event = what not in {ORDER, CLOSED} or (what == ORDER and because is None)
        if is_event:
            self._event(said, line, what, index)
        if what == ORDER and opens is not None:
            key = self._escalation(said, opens)
            cause = signal_iri(self.run, self.attempt, because or line)
            self._rows.setdefault(_ENTITY, {}).setdefault(cause, {})
            self._relate("WAS_DERIVED_FROM", key, cause)

    def block(self) -> Block:
        """Return all of it."""
        nodes = [run_nodes(self.run, self.attempt)]
        for own in self._rows.get(SIGNAL_LABELS, ()):
            # Referred to as a cause.
            self._rows.get(_ENTITY, {}).pop(own, None)
        for labels, rows in self._rows.items():
            names = dict.fromkeys(name for row in rows.values() for name in row)
            columns: dict[str, Column] = {name: [row.get(name) for row in rows.values()] for name in names}
            if rows:
                nodes.append(Nodes(labels, list(rows), without_empty(columns)))
        relations = tuple(
            Relations(kind, [source for source, _ in pairs], [target for _, target in pairs])
            for kind, pairs in self._pairs.items()
        )
        return Block(self.run, self.attempt, tuple(nodes), relations)

    def _event(self, said: Said, line: str, what: str, index: int) -> None:
        key = signal_iri(self.run, self.attempt, line)
        ranks, host = _ranks(said.get("ranks")), string(said.get("host"))
        row: dict[str, Value | None] = {
            "kind": what,
            "leaf_index": index,
            "summary": string(said.get("text")),
            "ranks": ranks or None,
            "host": host,
            "step": integer(said.get("step")),
            "at_ns": tagged_integer(said.get("at")),
            "seen_ns": tagged_integer(said.get("seen_ns")),
        }
        row |= {name: string(said.get(name)) for name in ("source", "trigger", "code", "device")}
        row |= _named(said.get("values"))
        self._node(SIGNAL_LABELS, key, row)
        for rank in ranks:
            self._rows.setdefault(_AGENT, {}).setdefault(ids.rank_iri(self.run, self.attempt, rank), {})
            self._relate("WAS_ATTRIBUTED_TO", key, ids.rank_iri(self.run, self.attempt, rank))
        if host is not None:
            self._node(HOST_LABELS, host_iri(self.run, self.attempt, host), {"host": host})
            self._relate("WAS_ATTRIBUTED_TO", key, host_iri(self.run, self.attempt, host))
        if not ranks and host is None:
            self._node(RUN_LABELS, training_run_iri(self.run, self.attempt), {})
            self._relate("WAS_INFLUENCED_BY", key, training_run_iri(self.run, self.attempt))

    def _escalation(self, said: Said, opens: str) -> str:
        """Show the escalation that an order opens, with what the ranks that obeyed it say of it too."""
        source, _, name = opens.rpartition("/")
        key = escalation_iri(self.run, self.attempt, source, name)
        rule = _named(said.get("values"), ("rule",))
        row: dict[str, Value | None] = {"source": source, "escalated": string(said.get("scope")), **rule}
        self._node(ESCALATION_LABELS, key, {**row, "trigger": string(said.get("trigger"))})
        return key

    def _node(self, labels: tuple[str, ...], key: str, row: Mapping[str, Value | None]) -> None:
        held = self._rows.setdefault(labels, {}).setdefault(key, {})
        held.update(run=self.run, attempt=self.attempt)
        held.update({name: value for name, value in row.items() if value is not None})

    def _relate(self, kind: str, source: str, target: str) -> None:
        self._pairs.setdefault(kind, {})[source, target] = None


def _named(values: object, names: Sequence[str] = _NAMED) -> dict[str, Value | None]:
    """Return some of the named values of a record, those of the type that the graph has for them."""
    found: dict[str, Value | None] = {}
    for one in objects(values):
        name = string(one.get("n"))
        value = _value(one.get("t"), one.get("v"))
        if name is not None and name in names and type(value) is _TYPES.get(name, str):
            found[name] = value
    return found


def _value(kind: object, value: object) -> Value | None:
    if kind == "b" and type(value) is bool:
        return value
    text = string(value)
    if kind == "s" or text is None:
        return text
    try:
        return canonical.tagged_double(text) if kind == "f" else tagged_integer(text) if kind == "i" else None
    except InputError:
        return None


def _ranks(value: object) -> list[int]:
    found = value if isinstance(value, list) else []
    return [one for one in found[:_MAX_RANKS] if type(one) is int and one >= 0]
