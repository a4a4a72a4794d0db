"""Lineage: everything an element may have come from, everything that may have come from it, and paths between two."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from provstore.cypher import query
from provstore.model.trace import Trace, TraceEdge
from provstore.queries import checkpoints
from provstore.queries.describe import describe, is_tensor_of_step, short
from provstore.queries.rows import text, texts
from provstore.queries.targets import activity_of
from provstore.stores import GraphStore

MEASURED_NODES = 20_000
"""Up to this many nodes a trace carries its relationships and the hops of each node."""
_CHUNK = 5_000
_ALIAS = "SAME_AS"
_RANK = re.compile(r"/rank/\d+$")
_MAY = (
    "which rank is the root of a collective is not recorded, so every member's input counts as a cause: "
    "read it as 'may have influenced'"
)
_NOT_SEEN = "not seen to end: a recording tells which outputs were there, and not whether a call still waits"
_PROGRAM_ORDER = frozenset({"WAS_INFORMED_BY", "WAS_INFLUENCED_BY", "DERIVED_PROGRAM_ORDER"})
_PRODUCED = frozenset({"WAS_GENERATED_BY", "DERIVED_GENERATED_BY"})


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a trace may go."""

    depth: int | None = None
    """Hops; a step to an alias of the same thing is none."""
    max_nodes: int | None = None
    timeout_seconds: float | None = None


def trace(
    store: GraphStore, iri: str, *, down: bool = False, data_only: bool = False, limits: Limits = Limits()
) -> Trace:
    """Return the ancestors of an element, or with ``down`` its descendants.

    Args:
        store: Where to look.
        iri: Id of the element.
        down: Follow effects instead of causes.
        data_only: Leave out program order, which says only that one call of a rank came before another.
        limits: Bounds; an answer that hits one says ``complete: False`` and why.
    """
    start: str = iri
    notes: list[str] = []
    if not down:
        start, notes = _beginning(store, iri)
    deadline = None if limits.timeout_seconds is None else time.monotonic() + limits.timeout_seconds
    if limits.depth is None and not data_only and limits.max_nodes is None and deadline is None:
        found = _closure(store, start, down)
    else:
        found = _walk(store, start, down, data_only, limits, deadline)
    found = _of_loaded_states(store, start, down, found, notes)
    if start != iri:
        found = replace(
            found, hops={start: 0, **found.hops} if found.hops else found.hops, members=[start, *found.members]
        )
    if found.members and any(activity_of(one) for one in (iri, *found.members)):
        notes.append(_MAY)
    elif _RANK.search(iri):
        notes.append("a rank is an agent: lineage leads through its calls, so ask for one of them, such as rR:seqN")
    return _answer(store, iri, "descendants" if down else "ancestors", found, notes)


def path(store: GraphStore, iri: str, target: str) -> Trace:
    """Return one shortest path from an effect to one of its causes; empty when there is none."""
    found = list(store.run(query("read/lineage/path"), {"iri": iri, "target": target}))
    if not found:
        return _answer(store, iri, "path", _Found([], [], {}), [f"no path leads from it to {short(target)}"])
    iris = texts(found[0], "iris")
    relations = texts(found[0], "relations")
    edges = [TraceEdge(a, r, b) for a, r, b in zip(iris, relations, iris[1:])]
    shared = checkpoints.addresses(store, iris[1:])
    if len(checkpoints.without_others(shared, edges, iri, down=False)) < len(edges):
        notes = [*checkpoints.notes(shared, iris), f"so no path that is known leads from it to {short(target)}"]
        return _answer(store, iri, "path", _Found([], [], {}), notes)
    return _answer(store, iri, "path", _Found(iris, edges, {i: at for at, i in enumerate(iris)}), [])


@dataclass(frozen=True, slots=True)
class _Found:
    members: Sequence[str]
    edges: Sequence[TraceEdge] | None
    hops: Mapping[str, int]
    reason: str | None = None
    frontier_left: int = 0


def _of_loaded_states(store: GraphStore, start: str, down: bool, found: _Found, notes: list[str]) -> _Found:
    """Return a trace without what only another state of a checkpoint leads to; who saved over whom is noted."""
    shared = checkpoints.addresses(store, (start, *found.members))
    if not shared:
        return found
    if found.edges is not None:
        edges = checkpoints.without_others(shared, found.edges, start, down=down)
        hops = _hops(start, edges, down)
        lost = _hops(start, found.edges, down).keys() - hops.keys()
        found = replace(
            found,
            members=[one for one in found.members if one not in lost],
            edges=[edge for edge in edges if not {edge.source, edge.target} & lost],
            hops={one: hop for one, hop in found.hops.items() if one not in lost},
        )
    notes += checkpoints.notes(shared, {start, *found.members})
    return found


def _closure(store: GraphStore, iri: str, down: bool) -> _Found:
    name = "read/lineage/descendants" if down else "read/lineage/ancestors"
    members = [text(row, "iri") for row in store.run(query(name), {"iri": iri})]
    members = [member for member in members if member != iri]
    if len(members) > MEASURED_NODES:
        return _Found(members, None, {})
    edges = list(_steps(store, [iri, *members], down))
    known = {iri, *members}
    edges = [edge for edge in edges if edge.source in known and edge.target in known]
    hops = _hops(iri, edges, down)
    return _Found(sorted(members, key=lambda i: (hops.get(i, 0), i)), edges, hops)


def _walk(store: GraphStore, iri: str, down: bool, data_only: bool, limits: Limits, deadline: float | None) -> _Found:
    """Breadth first, one query a hop; an alias stands at the hop of what it is an alias of."""
    going = _Going({iri: 0}, [])
    frontier, level, reason = [iri], 0, None
    while frontier:
        if deadline is not None and time.monotonic() > deadline:
            reason = "timeout"
            break
        beyond = _onward(going, frontier, level, down, lambda iris: _steps(store, iris, down, data_only))
        if limits.depth is not None and level >= limits.depth:
            frontier, reason = beyond, "max_depth" if beyond else None
            break
        level += 1
        going.hops.update(dict.fromkeys(beyond, level))
        frontier = beyond
        if limits.max_nodes is not None and len(going.hops) - 1 > limits.max_nodes:
            reason = "max_nodes"
            break
    members = [member for member in going.hops if member != iri][: limits.max_nodes]
    known = {iri, *members}
    edges = [edge for edge in dict.fromkeys(going.edges) if edge.source in known and edge.target in known]
    hops = {member: hop for member, hop in going.hops.items() if member in known}
    return _Found(members, edges, hops, reason, len(frontier) if reason else 0)


_Steps = Callable[[Sequence[str]], Iterable[TraceEdge]]


@dataclass(slots=True)
class _Going:
    """A walk on its way."""

    hops: dict[str, int]
    edges: list[TraceEdge]


def _onward(going: _Going, frontier: Sequence[str], level: int, down: bool, steps: _Steps) -> list[str]:
    """Return what lies one hop beyond the elements at ``level``; their aliases join that level."""
    beyond: dict[str, None] = {}
    pending = list(frontier)
    while pending:
        found = list(steps(pending))
        going.edges += found
        ends = [(edge.relation == _ALIAS, edge.source if down else edge.target) for edge in found]
        pending = list(dict.fromkeys(end for is_alias, end in ends if is_alias and end not in going.hops))
        going.hops.update(dict.fromkeys(pending, level))
        beyond.update(dict.fromkeys(end for is_alias, end in ends if not is_alias))
    return [end for end in beyond if end not in going.hops]


def _steps(store: GraphStore, iris: Sequence[str], down: bool, data_only: bool = False) -> Iterator[TraceEdge]:
    one_hop = query("read/lineage/effects" if down else "read/lineage/causes")
    for at in range(0, len(iris), _CHUNK):
        for row in store.run(one_hop, {"iris": list(iris[at : at + _CHUNK])}):
            relation = text(row, "relation")
            if not (data_only and relation in _PROGRAM_ORDER):
                yield TraceEdge(text(row, "source"), relation, text(row, "target"))


def _hops(start: str, edges: Iterable[TraceEdge], down: bool) -> dict[str, int]:
    onward: dict[str, list[tuple[str, int]]] = {}
    for edge in edges:
        here, there = (edge.target, edge.source) if down else (edge.source, edge.target)
        onward.setdefault(here, []).append((there, 0 if edge.relation == _ALIAS else 1))
    hops = {start: 0}
    level = [start]
    while level:
        following: list[str] = []
        at = 0
        while at < len(level):
            for other, cost in onward.get(level[at], ()):
                if other not in hops:
                    hops[other] = hops[level[at]] + cost
                    (following if cost else level).append(other)
            at += 1
        level = following
    return hops


def _beginning(store: GraphStore, iri: str) -> tuple[str, list[str]]:
    """Return where the way up begins, and why it is not at the element itself where it is not."""
    if not is_tensor_of_step(iri):
        pending = _not_produced(store, iri)
        return (iri, []) if pending is None else (pending[0], [pending[1]])
    carriers: list[str] = []
    later, seen = [iri], {iri}
    while later and not carriers:
        # What was accumulated further is carried as a part of what came of it.
        derived = [edge.source for edge in _steps(store, later, down=True) if edge.relation == "WAS_DERIVED_FROM"]
        carriers = [one for one in derived if not is_tensor_of_step(one)]
        later = [one for one in derived if one not in seen]
        seen.update(later)
    if not carriers:
        return iri, ["nothing recorded leads to it: no recorded call carried it, and what made it is no call"]
    *_, last = sorted(carriers, key=_call_order)
    output = f"{last.rpartition('/')[0]}/out"
    activity = str(activity_of(last))
    (call,) = describe(store, [activity], {})
    pending = _not_produced(store, output)
    what = f"what the rank got out of {call.label}, which carried it"
    said = f"it was recorded before any rank's was added to it, and nothing recorded leads to that; shown is {what}"
    return (output, [said]) if pending is None else (pending[0], [said, pending[1]])


def _call_order(side: str) -> tuple[int, str]:
    number = str(activity_of(side)).rpartition("/")[2].removeprefix("s")
    return int(number) if number.isdigit() else -1, side


def _not_produced(store: GraphStore, iri: str) -> tuple[str, str] | None:
    """Return (activity, note) when the id is the output of a call that no dump shows to be done."""
    activity = activity_of(iri)
    if activity is None or not iri.endswith("/out"):
        return None
    if any(edge.relation in _PRODUCED for edge in _steps(store, [iri], down=False)):
        return None
    # Of a call that is not done nothing but what was put into it has the dump's facts.
    sides = (f"{iri.removesuffix('out')}in", iri)
    told = [row for side in sides for row in store.run(query("read/collectives/about_tensor"), {"iri": side})]
    facts = next((row for row in told if row.get("record_id") is not None), None)
    if facts is None:
        return activity, f"{_NOT_SEEN}; these are the ancestors of the call itself"
    since = f" since {facts['created_ns']} ns" if facts.get("created_ns") is not None else ""
    line = f", called at {facts['user_frame']}" if facts.get("user_frame") else ""
    return activity, f"not produced: the call is pending{since}{line}; these are the ancestors of the call itself"


def _answer(store: GraphStore, iri: str, direction: str, found: _Found, notes: Sequence[str]) -> Trace:
    members = list(found.members)
    root, *nodes = describe(store, [iri, *members], {**found.hops, iri: 0}, detailed=len(members) <= MEASURED_NODES)
    kinds = Counter(node.kind for node in nodes)
    edges = tuple(found.edges or ())
    counts = {
        "nodes": len(nodes),
        "relationships": len(edges),
        "hops": max(found.hops.values(), default=0),
        "frontier_left": found.frontier_left,
        "omitted_at_least": found.frontier_left,
        **{f"kind:{kind}": count for kind, count in sorted(kinds.items())},
    }
    if found.edges is None:
        notes = [*notes, f"more than {MEASURED_NODES} elements: relationships and hops are left out; ask for a depth"]
    return Trace(
        target=iri,
        direction=direction,
        nodes=tuple(nodes),
        edges=edges,
        root=root,
        complete=found.reason is None,
        reason=found.reason,
        counts=counts,
        edges_omitted=found.edges is None,
        notes=tuple(notes),
    )
