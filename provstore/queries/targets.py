"""The grammar of targets, and which element of a store one names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from provstore.cypher import query
from provstore.errors import InputError
from provstore.graph.recorded_ids import bundle_iri, checkpoint_iri
from provstore.model import ids, short_forms
from provstore.model.group_names import is_called
from provstore.model.ids import rank_set
from provstore.model.short_forms import ShortForm
from provstore.queries import tensor_states
from provstore.queries.rows import Row, integer, integers, text, texts
from provstore.queries.tensor_states import NamedTensor
from provstore.stores import GraphStore

_EPOCH = re.compile(r"epoch:(?P<run>.*):(?P<number>[0-9]+)", re.DOTALL)
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_OWNER = re.compile(r"/(?:p2p|local)/(\d+)/s?\d+$")
_SIDE = re.compile(r"/(\d+)/(in|out|call)$")
_FORMS = (
    "tensor:R:SEQ:in|out, tensor.grad/R/STEP/NAME, act:R:OP:SEQ, rR:seqSEQ, p2p:R:OPID, rank:R[:pg:NAME], "
    "epoch:RUN:N, sha256:DIGEST, the address of a checkpoint, or a full id"
)


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a target may lie; ``None`` leaves that part open."""

    run: str | None = None
    attempt: int | None = None
    group: str | None = None
    """Name or description of a process group; ``default`` means the one described as ``default_pg``."""


_QUERY_OF = {"seq": "number", "p2p_seq": "message", "op_id": "operation"}


@dataclass(frozen=True, slots=True)
class _Found:
    iri: str
    backend: str
    group: str
    op: str


def runs(store: GraphStore) -> list[tuple[str, int]]:
    """Return (run, attempt) of everything in the store, in order."""
    return [(text(row, "run"), integer(row, "attempt")) for row in store.run(query("read/runs/list"))]


def resolve(store: GraphStore, target: str, scope: Scope = Scope()) -> str:
    """Return the id of the one element that ``target`` names.

    Raises:
        InputError: The text is no target, names nothing in the scope, or names several elements (all are listed).
    """
    direct = _direct(store, target)
    if direct is not None:
        return direct
    if (epoch := _EPOCH.fullmatch(target)) is not None:
        return _epoch(store, target, epoch["run"], short_forms.whole(target, "epoch", epoch["number"]), scope)
    wanted = tensor_states.parse(target) or _parse(target)
    candidates = runs(store)
    if scope.run is not None:
        candidates = [pair for pair in candidates if pair[0] == scope.run]
    if scope.attempt is not None:
        candidates = [pair for pair in candidates if pair[1] == scope.attempt]
    if not candidates:
        known = ", ".join(f"{run} attempt {attempt}" for run, attempt in runs(store)) or "none"
        raise InputError(f"{target}: {_scope_text(scope)}: no such run; the store holds {known}")
    found = [iri for run, attempt in candidates for iri in _find(store, wanted, run, attempt, scope)]
    distinct = list(dict.fromkeys(found))
    if not distinct:
        raise InputError(f"{target}: {_scope_text(scope)}: {_why_nothing(store, wanted, candidates, scope)}")
    if len(distinct) > 1:
        listed = "\n  ".join(distinct[:20]) + (f"\n  … and {len(distinct) - 20} more" if len(distinct) > 20 else "")
        raise InputError(
            f"{target}: {_scope_text(scope)}: names {len(distinct)} elements:\n  {listed}",
            hint="narrow it with --run, --attempt or --group, or give one of these ids",
        )
    return distinct[0]


def call_record(store: GraphStore, iri: str) -> str:
    """Return the id of the entity that carries the record of the call an element belongs to.

    Raises:
        InputError: The element is no part of one rank's call.
    """
    activity = activity_of(iri)
    if activity is None:
        owner = _OWNER.search(iri)
        before = None if owner is None else f"{iri}/{owner[1]}"
    else:
        before = iri[: iri.rindex("/")]
    sides = [] if before is None else [f"{before}/{side}" for side in ("in", "out", "call")]
    for side in sides:
        for row in store.run(query("read/targets/element"), {"iri": side}):
            if "Call" in texts(row, "labels"):
                return side
    raise InputError(
        f"{iri.removeprefix(ids.BASE)}: call: it is no call of one rank",
        hint="name one, such as rR:seqN or tensor:R:SEQ:in",
    )


def activity_of(iri: str) -> str | None:
    """Return the id of the call that an entity's id names, None when the id names no side of a call."""
    cut = _SIDE.search(iri)
    return iri[: cut.start()] if cut else None


def _direct(store: GraphStore, target: str) -> str | None:
    if (digest := _DIGEST.fullmatch(target)) is not None:
        rows = [text(row, "iri") for row in store.run(query("read/targets/by_digest"), {"sha256": digest[1]})]
        if len(rows) > 1:
            raise InputError(f"{target}: names {len(rows)} elements: {', '.join(rows)}")
        if not rows:
            raise InputError(f"{target}: the store: names nothing in the store")
        return rows[0]
    for iri in (target, ids.BASE + target, *_checkpoints(target)):
        if any(True for _ in store.run(query("read/targets/element"), {"iri": iri})):
            return iri
    return None


def _checkpoints(target: str) -> list[str]:
    """Return the id of the checkpoint of this address or path; what is no text has none."""
    try:
        return [checkpoint_iri(target)]
    except ValueError:
        return []


def _epoch(store: GraphStore, target: str, run: str, number: int, scope: Scope) -> str:
    """Return the id of the bundle that signs an evidence epoch."""
    attempts = [attempt for name, attempt in runs(store) if name == run and scope.attempt in (None, attempt)]
    # Imported documents belong to the run without a name, which is not listed.
    found = [iri for attempt in attempts or [0] if _exists(store, iri := bundle_iri(run, attempt, number))]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(f"{target}: {_scope_text(scope)}: no such evidence epoch")
    raise InputError(f"{target}: {_scope_text(scope)}: {len(found)} attempts have it", hint="narrow it with --attempt")


def _parse(target: str) -> ShortForm:
    found = short_forms.short_form(target)
    if found is not None:
        return found
    raise InputError(
        f"{target}: not a target, and no element has this id; targets are {_FORMS}",
        hint="docs/reference/targets.md tells what each names; --json gives full ids",
    )


def _find(store: GraphStore, wanted: ShortForm | NamedTensor, run: str, attempt: int, scope: Scope) -> list[str]:
    """Return the ids of what is wanted in one attempt."""
    if isinstance(wanted, NamedTensor):
        return [iri for iri in wanted.iris(run, attempt) if _exists(store, iri)]
    if wanted.form == short_forms.RANK:
        return _rank(store, run, attempt, wanted.rank, wanted.group)
    calls = _calls(store, run, attempt, scope, _counter(wanted), wanted)
    if not calls and _counter(wanted) == "p2p_seq":
        # Some recorders keep no counter of sends and receives; their operations are counted all together.
        calls = _calls(store, run, attempt, scope, "op_id", wanted)
    if wanted.form == short_forms.CALL:
        return [call.iri for call in calls]
    if wanted.form == short_forms.TENSOR:
        sides = [f"{activity_of(call.iri)}/{wanted.rank}/{wanted.side}" for call in calls]
        return [side for side in sides if _exists(store, side)]
    return [str(activity_of(call.iri)) for call in calls if wanted.op in (None, call.op)]


def _why_nothing(
    store: GraphStore, wanted: ShortForm | NamedTensor, candidates: Iterable[tuple[str, int]], scope: Scope
) -> str:
    """Return what there is instead: the ranks, or the calls of that rank and number."""
    asked = query("read/targets/ranks")
    ranks = [integer(row, "rank") for pair in candidates for row in store.run(asked, _scope(*pair))]
    if ranks and wanted.rank not in ranks:
        return f"there is no rank {wanted.rank}; there are {rank_set(ranks)}"
    if isinstance(wanted, NamedTensor):
        return tensor_states.why_nothing(store, wanted, candidates)
    if wanted.form not in (short_forms.TENSOR, short_forms.ACT):
        return "names nothing in the store"
    calls = [
        f"{call.op} of {call.group}"
        for run, attempt in candidates
        for call in _calls(store, run, attempt, scope, "seq", wanted)
    ]
    if not calls:
        return f"rank {wanted.rank} has no call #{wanted.number}{_of_group(scope)}"
    lacks = f"has no {wanted.side} side" if wanted.form == short_forms.TENSOR else f"is not {wanted.op}"
    return f"call #{wanted.number} of rank {wanted.rank} ({', '.join(dict.fromkeys(calls))}) {lacks}"


def _rank(store: GraphStore, run: str, attempt: int, rank: int, group: str | None) -> list[str]:
    iri = ids.rank_iri(run, attempt, rank)
    if not _exists(store, iri):
        return []
    if group is not None:
        members = [row for row in _groups(store, run, attempt) if is_called(row, group)]
        if not any(row["ranks"] is None or rank in integers(row, "ranks") for row in members):
            return []
    return [iri]


def _counter(wanted: ShortForm) -> str:
    """Return which of a call's counters the number of a target is."""
    if wanted.form == short_forms.P2P:
        return "op_id"
    return "p2p_seq" if wanted.op in ("send", "recv") else "seq"


def _calls(store: GraphStore, run: str, attempt: int, scope: Scope, counter: str, wanted: ShortForm) -> list[_Found]:
    name = f"read/targets/by_{_QUERY_OF[counter]}"
    where = {"rank": wanted.rank, counter: wanted.number}
    rows = list(store.run(query(name), {"run": run, "attempt": attempt, **where}))
    keys = sorted({text(row, "signature") for row in rows})
    asked = {row["key"]: row for row in store.run(query("read/dumps/signatures"), {"keys": keys})}
    found = [
        _Found(text(row, "iri"), text(s, "backend"), text(s, "group"), text(s, "op"))
        for row in rows
        if (s := asked.get(row["signature"])) is not None
    ]
    if scope.group is not None:
        members = {(g["backend"], g["group"]) for g in _groups(store, run, attempt) if is_called(g, scope.group)}
        found = [f for f in found if (f.backend, f.group) in members]
    return _without_undeclared_twins(found)


def _without_undeclared_twins(found: list[_Found]) -> list[_Found]:
    """Leave out what was recorded under a group without members when the same group is known with them."""
    declared = {(f.backend, f.group.split("@")[0]) for f in found if not f.group.endswith("@unknown")}
    return [f for f in found if not f.group.endswith("@unknown") or (f.backend, f.group.split("@")[0]) not in declared]


def _groups(store: GraphStore, run: str, attempt: int) -> list[Row]:
    return list(store.run(query("read/dumps/groups"), {"run": run, "attempt": attempt}))


def _exists(store: GraphStore, iri: str) -> bool:
    return any(True for _ in store.run(query("read/targets/element"), {"iri": iri}))


def _scope(run: str, attempt: int) -> dict[str, object]:
    return {"run": run, "attempt": attempt}


def _of_group(scope: Scope) -> str:
    return f" in a group called {scope.group}" if scope.group is not None else ""


def _scope_text(scope: Scope) -> str:
    parts = [
        f"{name} {value}"
        for name, value in (("run", scope.run), ("attempt", scope.attempt), ("group", scope.group))
        if value is not None
    ]
    return ", ".join(parts) or "the whole store"
