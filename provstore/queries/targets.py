"""The grammar of targets, and which element of a store one names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from provstore.cypher import query
from provstore.errors import InputError
from provstore.model import ids
from provstore.queries.rows import Row, integer, integers, text
from provstore.stores import GraphStore

_SHORT_FORMS = {
    "tensor": re.compile(r"tensor:(?P<rank>\d+):(?P<number>\d+):(?P<side>in|out|call)"),
    "act": re.compile(r"act:(?P<rank>\d+):(?P<op>[^:]+):(?P<number>\d+)"),
    "call": re.compile(r"r(?P<rank>\d+):seq(?P<number>\d+)"),
    "p2p": re.compile(r"p2p:(?P<rank>\d+):(?P<number>\d+)"),
    "rank": re.compile(r"rank:(?P<rank>\d+)(?::pg:(?P<group>.+))?"),
}
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_SIDE = re.compile(r"/(\d+)/(in|out|call)$")
_FORMS = "tensor:R:SEQ:in|out, act:R:OP:SEQ, rR:seqSEQ, p2p:R:OPID, rank:R[:pg:NAME], sha256:DIGEST, or a full id"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a target may lie; ``None`` leaves that part open."""

    run: str | None = None
    attempt: int | None = None
    group: str | None = None
    """Name or description of a process group; ``default`` means the one described as ``default_pg``."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    form: str
    rank: int
    number: int
    op: str | None
    side: str | None
    group: str | None


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
    wanted = _parse(target)
    candidates = runs(store)
    if scope.run is not None:
        candidates = [pair for pair in candidates if pair[0] == scope.run]
    if scope.attempt is not None:
        candidates = [pair for pair in candidates if pair[1] == scope.attempt]
    if not candidates:
        raise InputError(f"{target}: {_scope_text(scope)}: the store holds no such run")
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
    for iri in (target, ids.BASE + target):
        if any(True for _ in store.run(query("read/targets/element"), {"iri": iri})):
            return iri
    return None


def _parse(target: str) -> _Wanted:
    for form, pattern in _SHORT_FORMS.items():
        found = pattern.fullmatch(target)
        if found is not None:
            parts = found.groupdict()
            number = int(parts.get("number") or 0)
            return _Wanted(form, int(parts["rank"]), number, parts.get("op"), parts.get("side"), parts.get("group"))
    raise InputError(f"{target}: not a target, and no element has this id; targets are {_FORMS}")


def _find(store: GraphStore, wanted: _Wanted, run: str, attempt: int, scope: Scope) -> list[str]:
    """Return the ids of what is wanted in one attempt."""
    if wanted.form == "rank":
        return _rank(store, run, attempt, wanted.rank, wanted.group)
    is_message = wanted.form == "p2p" or wanted.op in ("send", "recv")
    number = "op_id" if is_message else "seq"
    calls = _calls(store, run, attempt, scope, {"rank": wanted.rank, number: wanted.number})
    if wanted.form == "call":
        return [call.iri for call in calls]
    if wanted.form == "tensor":
        sides = [f"{activity_of(call.iri)}/{wanted.rank}/{wanted.side}" for call in calls]
        return [side for side in sides if _exists(store, side)]
    return [str(activity_of(call.iri)) for call in calls if wanted.op in (None, call.op)]


def _why_nothing(store: GraphStore, wanted: _Wanted, candidates: Iterable[tuple[str, int]], scope: Scope) -> str:
    """Return what there is instead: the calls of that rank and number."""
    if wanted.form not in ("tensor", "act"):
        return "names nothing in the store"
    calls = [
        f"{call.op} of {call.group}"
        for run, attempt in candidates
        for call in _calls(store, run, attempt, scope, {"rank": wanted.rank, "seq": wanted.number})
    ]
    if not calls:
        return f"rank {wanted.rank} has no call #{wanted.number}"
    lacks = f"has no {wanted.side} side" if wanted.form == "tensor" else f"is not {wanted.op}"
    return f"call #{wanted.number} of rank {wanted.rank} ({', '.join(dict.fromkeys(calls))}) {lacks}"


def _rank(store: GraphStore, run: str, attempt: int, rank: int, group: str | None) -> list[str]:
    iri = ids.rank_iri(run, attempt, rank)
    if not _exists(store, iri):
        return []
    if group is not None:
        members = [row for row in _groups(store, run, attempt) if _names(row, group)]
        if not any(row["ranks"] is None or rank in integers(row, "ranks") for row in members):
            return []
    return [iri]


def _calls(store: GraphStore, run: str, attempt: int, scope: Scope, where: Mapping[str, int]) -> list[_Found]:
    name = "read/targets/by_number" if "seq" in where else "read/targets/by_operation"
    rows = list(store.run(query(name), {"run": run, "attempt": attempt, **where}))
    keys = sorted({text(row, "signature") for row in rows})
    asked = {row["key"]: row for row in store.run(query("read/dumps/signatures"), {"keys": keys})}
    found = [
        _Found(text(row, "iri"), text(s, "backend"), text(s, "group"), text(s, "op"))
        for row in rows
        if (s := asked.get(row["signature"])) is not None
    ]
    if scope.group is not None:
        wanted = {(g["backend"], g["group"]) for g in _groups(store, run, attempt) if _names(g, scope.group)}
        found = [f for f in found if (f.backend, f.group) in wanted]
    return _without_undeclared_twins(found)


def _without_undeclared_twins(found: list[_Found]) -> list[_Found]:
    """Leave out what was recorded under a group without members when the same group is known with them."""
    declared = {(f.backend, f.group.split("@")[0]) for f in found if not f.group.endswith("@unknown")}
    return [f for f in found if not f.group.endswith("@unknown") or (f.backend, f.group.split("@")[0]) not in declared]


def _groups(store: GraphStore, run: str, attempt: int) -> list[Row]:
    return list(store.run(query("read/dumps/groups"), {"run": run, "attempt": attempt}))


def _names(group: Row, name: str) -> bool:
    if name == "default":
        return group["desc"] == "default_pg"
    return name in (group["name"], group["desc"], group["group"])


def _exists(store: GraphStore, iri: str) -> bool:
    return any(True for _ in store.run(query("read/targets/element"), {"iri": iri}))


def _scope_text(scope: Scope) -> str:
    parts = [
        f"{name} {value}"
        for name, value in (("run", scope.run), ("attempt", scope.attempt), ("group", scope.group))
        if value is not None
    ]
    return ", ".join(parts) or "the whole store"
