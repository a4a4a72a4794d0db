"""What a trace shows of an element: most of it stands in the id; operation, line and group name are looked up."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from provstore.cypher import query
from provstore.model import ids
from provstore.model.trace import TraceNode
from provstore.queries.rows import Row, optional_integer, optional_text, text
from provstore.queries.targets import activity_of
from provstore.queries.tensor_states import WORDS
from provstore.stores import GraphStore

_CHUNK = 5_000
_KINDS = {"in": "input", "out": "output", "call": "call"}
_TENSOR = re.compile(
    r"(?P<run>[^/]+)/(?P<attempt>\d+)/tensor/(?P<rank>\d+)/(?P<step>\d+|~)/(?P<name>[^/]+)/(?P<kind>[^/]+)"
)
_CHECKPOINT = re.compile(r"checkpoint/(?P<uri>[^/]+)")
_RUN = re.compile(r"(?P<run>[^/]+)/(?P<attempt>\d+)/(?:run|bundle/(?P<epoch>\d+)(?:/(?P<part>\d+))?)")
_AGENT_RUN = re.compile(r"agent/run/(?P<name>[^/]+)")
_ACTION = re.compile(r"(?P<run>[^/]+)/(?P<attempt>\d+)/action/(?P<action>.+)")
_ID = re.compile(
    r"(?P<run>[^/]+)/(?P<attempt>\d+)/(?:rank/(?P<agent>\d+)|dump/(?P<dumped>\d+)/(?P<dump>\S+)|(?P<backend>[^/]+)/(?P<group>[^/]+@[^/]+)"
    r"(?:/(?:p2p/(?P<sender>\d+)/(?P<op_id>s?\d+)|(?:local/(?P<local>\d+)/)?(?P<seq>-?\d+))(?:/(?P<rank>\d+)/(?P<side>in|out|call))?)?)"
)


def describe(
    store: GraphStore, iris: Sequence[str], hops: Mapping[str, int], *, detailed: bool = True
) -> list[TraceNode]:
    """Return the elements as a trace shows them.

    Args:
        store: Where they are.
        iris: Their ids.
        hops: Id → hops from the target, for those that are known.
        detailed: Look up operations, lines and group names; without, only what the ids say.
    """
    facts = _details(store, iris) if detailed else {}
    names = _group_names(store, iris) if detailed else {}
    return [_node(iri, facts.get(iri), names, hops.get(iri)) for iri in iris]


def short(iri: str) -> str:
    """Return an id without the common prefix."""
    return iri.removeprefix(ids.BASE)


def is_tensor_of_step(iri: str) -> bool:
    """Return whether an id is that of a recorded gradient, activation or module input."""
    return _TENSOR.fullmatch(short(iri)) is not None


@dataclass(frozen=True, slots=True)
class _Details:
    op: str | None
    source: str | None
    message: int | None = None
    """Counter of a send or receive among those of its rank, as findings name it; None where the recorder keeps none."""


def _details(store: GraphStore, iris: Sequence[str]) -> dict[str, _Details]:
    """Return operation and source line of the calls among ``iris``; outputs and activities take those of their call."""
    calls = sorted({record for iri in iris for record in _records(iri)})
    rows: dict[str, Row] = {}
    for at in range(0, len(calls), _CHUNK):
        for row in store.run(query("read/lineage/elements"), {"iris": calls[at : at + _CHUNK]}):
            if row["signature"] is not None:
                rows[text(row, "iri")] = row
    ops = _by_key(store, "read/dumps/signatures", {text(row, "signature") for row in rows.values()}, "op")
    lines = _by_key(
        store, "read/dumps/stacks", {text(row, "stack") for row in rows.values() if row["stack"]}, "user_frame"
    )
    details: dict[str, _Details] = {}
    for iri in iris:
        found = [rows[record] for record in _records(iri) if record in rows]
        if found:
            stack = optional_text(found[0], "stack")
            message = optional_integer(found[0], "p2p_seq") or None
            details[iri] = _Details(ops.get(text(found[0], "signature")), lines.get(stack or ""), message)
    for iri, known in list(details.items()):
        if (activity := activity_of(iri)) is not None:
            details.setdefault(activity, known)
    bare = sorted(iri for iri in iris if iri not in details and activity_of(iri) is None)
    for at in range(0, len(bare), _CHUNK):
        for row in store.run(query("read/lineage/operations"), {"iris": bare[at : at + _CHUNK]}):
            details[text(row, "iri")] = _Details(text(row, "op"), None)
    return details


def _records(iri: str) -> list[str]:
    """Return the ids under which the call of an element may be recorded, the likeliest first."""
    activity = activity_of(iri)
    if activity is not None:
        before = iri[: iri.rindex("/")]
        return [f"{before}/in", f"{before}/out", f"{before}/call"]
    named = _ID.fullmatch(short(iri))
    if named is None:
        return []
    rank = named["sender"] or named["local"]
    if rank is None:
        return []
    return [f"{iri}/{rank}/{side}" for side in _KINDS]


def _by_key(store: GraphStore, name: str, keys: set[str], column: str) -> dict[str, str]:
    if not keys:
        return {}
    rows = store.run(query(name), {"keys": sorted(keys)})
    return {text(row, "key"): text(row, column) for row in rows if row[column] is not None}


def _group_names(store: GraphStore, iris: Sequence[str]) -> dict[str, str]:
    """Return id of a process group → what people call it: its description and name."""
    scopes = {(ids.component_text(m["run"]), int(m["attempt"])) for i in iris if (m := _ID.fullmatch(short(i)))}
    names = {}
    for run, attempt in sorted(scopes):
        for row in store.run(query("read/dumps/groups"), {"run": run, "attempt": attempt}):
            desc, name = optional_text(row, "desc"), text(row, "name")
            names[text(row, "iri")] = f"{desc} ({name})" if desc else name or text(row, "group")
    return names


def _node(iri: str, details: _Details | None, names: Mapping[str, str], hops: int | None) -> TraceNode:
    named = _ID.fullmatch(short(iri))
    op = details.op if details else None
    source = details.source if details else None
    if named is None:
        return _recorded_node(iri, hops) or TraceNode(iri, "element", short(iri), hops=hops)
    run, attempt = ids.component_text(named["run"]), int(named["attempt"])
    if named["agent"] is not None:
        return TraceNode(iri, "rank", f"rank {named['agent']}", run, attempt, int(named["agent"]), hops=hops)
    if named["dump"] is not None:
        owner = int(named["dumped"])
        return TraceNode(iri, "dump", f"dump {named['dump'][:12]} of rank {owner}", run, attempt, owner, hops=hops)
    group = named["group"]
    shown = names.get(f"{ids.attempt_iri(run, attempt)}/{named['backend']}/{group}", group)
    if named["seq"] is None and named["op_id"] is None:
        return TraceNode(iri, "group", f"group {shown}", run, attempt, group=group, group_name=shown, hops=hops)
    stated = named["rank"] or named["sender"] or named["local"]
    rank = int(stated) if stated is not None else None
    kind = _KINDS[named["side"]] if named["side"] else ("collective" if named["op_id"] is None else op or "send")
    number = int(named["seq"]) if named["seq"] is not None else None
    unknown = "collective" if named["op_id"] is None else "send/recv"
    message = details.message if details and named["op_id"] is not None else None
    call = f"{op or unknown} #{named['seq'] or message or named['op_id']} of {shown}"
    label = call if named["side"] is None else f"{kind} of {call}"
    if rank is not None:
        label += f", rank {rank}"
    return TraceNode(iri, kind, label, run, attempt, rank, group, op, number, hops, source, shown)


def _recorded_node(iri: str, hops: int | None) -> TraceNode | None:
    """Return a tensor of a step, or a recorded action; ``None`` for anything else."""
    if (one := _TENSOR.fullmatch(short(iri))) is not None:
        name, kind = ids.component_text(one["name"]), ids.component_text(one["kind"])
        step = None if one["step"] == "~" else int(one["step"])
        word, rank = WORDS.get(kind, kind), int(one["rank"])
        label = f"{word} of {name}, rank {rank}, {'step not recorded' if step is None else f'step {step}'}"
        place = ids.component_text(one["run"]), int(one["attempt"]), rank
        return TraceNode(iri, word, label, *place, op=f"tensor.{kind}", hops=hops, step=step, name=name)
    if (one := _ACTION.fullmatch(short(iri))) is not None:
        run, attempt = ids.component_text(one["run"]), int(one["attempt"])
        return TraceNode(iri, "action", f"action {one['action']}", run, attempt, hops=hops)
    if (one := _RUN.fullmatch(short(iri))) is not None:
        run, attempt = ids.component_text(one["run"]), int(one["attempt"])
        what = "" if one["epoch"] is None else f"recorded epoch {one['epoch']} of "
        part = "" if one["part"] is None else f", part {one['part']}"
        return TraceNode(iri, "element", f"{what}run {run}, attempt {attempt}{part}", run, attempt, hops=hops)
    if (one := _AGENT_RUN.fullmatch(short(iri))) is not None:
        return TraceNode(iri, "element", f"agent run {ids.component_text(one['name'])}", hops=hops)
    if (one := _CHECKPOINT.fullmatch(short(iri))) is not None:
        uri = ids.component_text(one["uri"])
        return TraceNode(iri, "checkpoint", f"checkpoint {uri}", hops=hops, name=uri)
    return None
