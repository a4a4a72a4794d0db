"""Turns the calls that a live recording saw on one rank into facts: the ids, labels and relations that a dump gives.

What a dump tells otherwise or not at all (its recorder's counters, times, states, stacks) is left to it: both can be
taken in, in any order. What the recording says of a call stands in a ``:Signature`` of its own, named by ``captured``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from provstore.graph.columns import constant, without_empty
from provstore.graph.dump_facts import run_nodes
from provstore.graph.weave import signature_key
from provstore.model import ids
from provstore.model.block import Block, Nodes, Relations, Value

COLLECTIVE, SEND, RECV = "collective", "send", "recv"
ON_BOTH_SIDES = frozenset(("all_reduce", "all_reduce_coalesced", "broadcast", "reduce"))
"""They work in place: a dump states their tensor as what every member puts in, and as what it gets."""

_ENTITY, _ACTIVITY = ("Element", "Entity"), ("Element", "Activity")
_CALL, _OUTPUT, _GROUP = (*_ENTITY, "Call"), (*_ENTITY, "Output"), (*_ENTITY, "ProcessGroup")
_COLLECTIVE, _POINT_TO_POINT = (*_ACTIVITY, "Collective"), (*_ACTIVITY, "PointToPoint")
_RANK, _SIGNATURE = ("Element", "Agent", "Rank"), ("Signature",)
_BARE = frozenset((_ENTITY, _ACTIVITY, _SIGNATURE))

Row = dict[str, Value | None]


@dataclass(frozen=True, slots=True)
class CapturedGroup:
    """A process group as a recording states it."""

    backend: str
    group: str
    """As it stands in ids: ``name@ranks``."""
    name: str
    desc: str | None = None
    ranks: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class CapturedCall:
    """One call of one rank."""

    chain: str
    """Local part of the instance's id: ``<backend>/<group>/<seq>``."""
    op: str
    backend: str
    group: str
    channel: str
    """``collective``, ``send`` or ``recv``."""
    seq: int | None
    """Of a send or receive, the number of the group's last collective before it."""
    op_id: int | None
    peer: int | None
    input_sizes: tuple[tuple[int, ...], ...]
    output_sizes: tuple[tuple[int, ...], ...]
    input_dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]
    is_done: bool
    """It was seen that its output is there."""
    is_known: bool = True
    """False for a call of which nothing but its number was seen."""
    is_part: bool = False
    """One of several that the backend makes of a call of the program, whose tensors stand in the first of them."""

    def sides(self) -> tuple[bool, bool]:
        """Return whether the rank puts something in, and whether it gets something."""
        given, got = bool(self.input_sizes), bool(self.output_sizes)
        if self.is_part:
            return True, True
        if self.op in ON_BOTH_SIDES:
            return given or got, given or got
        return given and self.channel != RECV, got and self.channel != SEND


@dataclass(slots=True)
class _LastCall:
    """Where a rank stands in its program."""

    activity: str | None = None
    output: str | None = None
    """Of the latest call that has one, where it is known to exist; ``None`` where it is not."""


@dataclass(slots=True)
class _Table:
    """Nodes of one kind, all with the same properties."""

    keys: list[str] = field(default_factory=list)
    columns: dict[str, list[Value | None]] = field(default_factory=dict)

    def add(self, key: str, row: Mapping[str, Value | None]) -> None:
        """Add a node."""
        self.keys.append(key)
        for name, value in row.items():
            self.columns.setdefault(name, []).append(value)

    def nodes(self, labels: tuple[str, ...], scope: Mapping[str, Value]) -> Nodes:
        """Return them, each with the facts of ``scope`` too."""
        return Nodes(labels, self.keys, {**constant(scope, len(self.keys)), **without_empty(self.columns)})


@dataclass(slots=True)
class CapturedCalls:
    """Takes the calls of one rank in program order; :meth:`block` gives their facts and begins anew."""

    run: str
    attempt: int
    rank: int
    count: int = 0
    """Calls since the last block."""
    _last: _LastCall = field(default_factory=_LastCall)
    _tables: dict[tuple[str, ...], _Table] = field(default_factory=dict)
    _pairs: dict[str, dict[tuple[str, str], None]] = field(default_factory=dict)
    _signatures: dict[object, str] = field(default_factory=dict)
    _groups: dict[tuple[str, str], None] = field(default_factory=dict)
    _base: str = ""
    _agent: str = ""

    def __post_init__(self) -> None:
        """Make what all ids begin with."""
        self._base = f"{ids.attempt_iri(self.run, self.attempt)}/"
        self._agent = ids.rank_iri(self.run, self.attempt, self.rank)

    def forget(self) -> None:
        """Know nothing of what came before: there is a gap, and no order is known across it."""
        self._last = _LastCall()

    def pass_over(self, call: CapturedCall) -> None:
        """Move on behind a call whose facts are known."""
        activity = self._base + call.chain
        self._move(call, activity, f"{activity}/{self.rank}/out", call.sides()[1])

    def add(self, call: CapturedCall) -> None:
        """Take a call."""
        activity = self._base + call.chain
        given, got = call.sides()
        before = f"{activity}/{self.rank}/"
        if not self.count:
            self._refer_back()
        self.count += 1
        self._groups[call.backend, call.group] = None
        self._instance(call, activity)
        if call.is_known:
            side = "in" if given else "out" if got else "call"
            self._record(call, before + side, side)
            if side == "out":
                self._relate("CALL_OF", before + side, activity)
            else:
                self._relate("USED", activity, before + side)
        if given and got:
            number = call.seq if call.channel == COLLECTIVE else None
            self._add(_OUTPUT, f"{before}out", {"rank": self.rank, "side": "out", "seq": number})
        if got and call.is_done:
            self._relate("WAS_GENERATED_BY", f"{before}out", activity)
        self._relate("WAS_ASSOCIATED_WITH", activity, self._agent)
        if self._last.activity is not None:
            self._relate("WAS_INFORMED_BY", activity, self._last.activity)
        if given and self._last.output is not None:
            self._relate("WAS_INFLUENCED_BY", f"{before}in", self._last.output)
        self._move(call, activity, f"{before}out", got)

    def block(self, groups: Mapping[tuple[str, str], CapturedGroup], host: str | None) -> Block:
        """Return the facts of the calls since the last block.

        Args:
            groups: What the recording states of process groups, by backend and id.
            host: Of the rank.
        """
        scope: dict[str, Value] = {"run": self.run, "attempt": self.attempt}
        self._add(_RANK, self._agent, {"rank": self.rank, "host": host})
        for backend, key in self._groups:
            found = groups.get((backend, key)) or CapturedGroup(backend, key, _name_of(key))
            self._add(_GROUP, ids.group_iri(self.run, self.attempt, backend, key), _group_row(found))
        nodes = [run_nodes(self.run, self.attempt)]
        nodes += [table.nodes(labels, {} if labels in _BARE else scope) for labels, table in self._tables.items()]
        relations = [
            Relations(kind, [source for source, _ in pairs], [target for _, target in pairs])
            for kind, pairs in self._pairs.items()
        ]
        self.count = 0
        self._tables, self._pairs, self._signatures, self._groups = {}, {}, {}, {}
        return Block(self.run, self.attempt, tuple(nodes), tuple(relations))

    def _refer_back(self) -> None:
        """Begin a block that stands for itself: what it leads back to is in another one."""
        if self._last.activity is not None:
            self._add(_ACTIVITY, self._last.activity, {})
        if self._last.output is not None:
            self._add(_ENTITY, self._last.output, {})

    def _move(self, call: CapturedCall, activity: str, output: str, has_output: bool) -> None:
        self._last.activity = activity
        if has_output:
            self._last.output = output if call.is_done else None

    def _instance(self, call: CapturedCall, activity: str) -> None:
        is_collective = call.channel == COLLECTIVE
        is_local = not is_collective or call.seq is None
        row: Row = {"backend": call.backend, "group": call.group, "rank": self.rank if is_local else None}
        row |= {"seq": call.seq} if is_collective else {"op_id": call.op_id}
        self._add(_COLLECTIVE if is_collective else _POINT_TO_POINT, activity, row)

    def _record(self, call: CapturedCall, key: str, side: str) -> None:
        is_collective = call.channel == COLLECTIVE
        row: Row = {
            "rank": self.rank,
            "side": side,
            "op_id": call.op_id,
            "peer": call.peer,
            "seq": call.seq if is_collective else None,
            "after_seq": None if is_collective else call.seq,
            "captured": self._signature(call),
        }
        self._add(_CALL, key, row)

    def _signature(self, call: CapturedCall) -> str:
        what = (call.op, call.backend, call.group, call.channel)
        known = (*what, call.input_sizes, call.output_sizes, call.input_dtypes, call.output_dtypes)
        if known not in self._signatures:
            row: Row = dict(zip(("op", "backend", "group", "channel"), what))
            for name in ("input_sizes", "output_sizes", "input_dtypes", "output_dtypes"):
                row[name] = orjson.dumps(getattr(call, name)).decode()
            self._signatures[known] = key = signature_key(row)
            self._add(_SIGNATURE, key, row)
        return self._signatures[known]

    def _add(self, labels: tuple[str, ...], key: str, row: Row) -> None:
        self._tables.setdefault(labels, _Table()).add(key, row)

    def _relate(self, kind: str, source: str, target: str) -> None:
        if source != target:
            self._pairs.setdefault(kind, {})[source, target] = None


def _group_row(group: CapturedGroup) -> Row:
    return {
        "backend": group.backend,
        "group": group.group,
        "name": group.name,
        "desc": group.desc or None,
        "ranks": None if group.ranks is None else list(group.ranks),
    }


def _name_of(key: str) -> str:
    """Return the name in a group's component of ids."""
    return ids.component_text(key.rpartition("@")[0])
