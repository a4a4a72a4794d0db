"""What a dump states about itself, its rank and its groups, as nodes, and back again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace

import orjson

from provstore.graph.columns import without_empty
from provstore.model import ids
from provstore.model.block import Block, Column, Nodes, Relations
from provstore.model.dump import ABSENT, Calls, Dump, Group, Quarantined, Refusal, Sidecar, TensorRecord

_SIDECAR_DIGITS = 16
_PLAIN = (
    "rank",
    "size_bytes",
    "form",
    "version",
    "backend",
    "host",
    "comm_lib_version",
    "entry_count",
    "wrapped",
    "active_only",
    "eventless",
    "seq_comparable",
    "record_ids_stated",
)


def dump_key(dump: Dump, run: str, attempt: int) -> str:
    """Return the id of a dump as read: the same bytes read with another sidecar state more, so they are another id."""
    beside = f"+{dump.sidecar.digest[:_SIDECAR_DIGITS]}" if dump.sidecar else ""
    return ids.dump_iri(run, attempt, dump.rank, dump.digest + beside)


def run_nodes(run: str, attempt: int) -> Nodes:
    """Return the node that lists one attempt of a run."""
    return Nodes(("Run",), [f"{run}/{attempt}"], {"run": [run], "attempt": [attempt]})


def dump_nodes(dump: Dump, run: str, attempt: int) -> list[Nodes]:
    """Return the nodes of the run, the rank, its process groups and the dump itself."""
    host = dump.sidecar.host if dump.sidecar and dump.sidecar.host else dump.host
    rank: dict[str, Column] = {"run": [run], "attempt": [attempt], "rank": [dump.rank], "host": [host]}
    header: dict[str, Column] = {
        "run": [run],
        "attempt": [attempt],
        "rank": [dump.rank],
        "backend": [dump.backend],
        "sha256": [dump.digest],
        "file": [dump.file],
        "size_bytes": [dump.size_bytes],
        "form": [dump.form],
        "version": [dump.version],
        "status": ["partial" if dump.quarantined else "ok"],
        "dumped_at_ns": [dump.sidecar.dumped_at_ns if dump.sidecar else None],
        "extra": [orjson.dumps(_header(dump), option=orjson.OPT_SORT_KEYS).decode()],
    }
    return [
        run_nodes(run, attempt),
        Nodes(("Element", "Agent", "Rank"), [ids.rank_iri(run, attempt, dump.rank)], without_empty(rank)),
        _group_nodes(dump, run, attempt),
        Nodes(("Element", "Entity", "Dump"), [dump_key(dump, run, attempt)], without_empty(header)),
    ]


def dump_relations(dump: Dump, run: str, attempt: int) -> list[Relations]:
    """Return the attribution of the dump to its rank."""
    return [
        Relations("WAS_ATTRIBUTED_TO", [dump_key(dump, run, attempt)], [ids.rank_iri(run, attempt, dump.rank)]),
    ]


def refusal_block(refusals: Iterable[Refusal], run: str, attempt: int) -> Block:
    """Return the facts that files were refused, so that a diagnosis from the store knows them too."""
    kept = [refusal for refusal in refusals if not refusal.skipped]
    columns: dict[str, Column] = {
        "run": [run] * len(kept),
        "attempt": [attempt] * len(kept),
        "rank": [refusal.rank for refusal in kept],
        "file": [refusal.file for refusal in kept],
        "reason": [refusal.reason for refusal in kept],
        "sha256": [refusal.digest for refusal in kept],
        "size_bytes": [refusal.size_bytes for refusal in kept],
        "status": ["refused"] * len(kept),
    }
    keys = [refusal_key(refusal, run, attempt) for refusal in kept]
    nodes = Nodes(("Element", "Entity", "RefusedDump"), keys, without_empty(columns))
    return Block(run, attempt, (run_nodes(run, attempt), nodes) if kept else ())


def refusal_key(refusal: Refusal, run: str, attempt: int) -> str:
    """Return the id of a file that was refused."""
    return f"{ids.attempt_iri(run, attempt)}/refused/{_who(refusal)}/{refusal.digest or 'unread'}"


def _who(refusal: Refusal) -> str:
    """Return whose file was refused: the rank, else the name of the file."""
    return str(refusal.rank) if refusal.rank is not None else ids.component(refusal.file.rpartition("/")[2])


def tensor_block(records: Sequence[TensorRecord], run: str, attempt: int) -> Block:
    """Return the facts of a tensor record: which values were finite."""
    prefix = f"{ids.attempt_iri(run, attempt)}/values/"
    columns: dict[str, Column] = {
        "run": [run] * len(records),
        "attempt": [attempt] * len(records),
        "rank": [record.rank for record in records],
        "name": [record.group for record in records],
        "seq": [record.seq for record in records],
        "side": [record.side for record in records],
        "is_finite": [record.finite for record in records],
        "nan_count": [record.nan_count for record in records],
        "inf_count": [record.inf_count for record in records],
    }
    keys = [f"{prefix}{ids.component(r.group)}/{r.seq}/{r.rank}/{r.side}" for r in records]
    nodes = Nodes(("Element", "Entity", "TensorValues"), keys, columns)
    return Block(run, attempt, (run_nodes(run, attempt), nodes) if records else ())


def _group_nodes(dump: Dump, run: str, attempt: int) -> Nodes:
    facts = {}
    for group in dump.groups:
        backend = group.backend or dump.backend
        key = ids.group_key(group.name, group.ranks)
        facts[ids.group_iri(run, attempt, backend, key)] = (group, backend, key)
    columns: dict[str, Column] = {
        "run": [run] * len(facts),
        "attempt": [attempt] * len(facts),
        "backend": [backend for _, backend, _ in facts.values()],
        "group": [key for _, _, key in facts.values()],
        "name": [group.name for group, _, _ in facts.values()],
        "desc": [group.desc or None for group, _, _ in facts.values()],
        "ranks": [None if group.ranks is None else list(group.ranks) for group, _, _ in facts.values()],
    }
    return Nodes(("Element", "Entity", "ProcessGroup"), list(facts), without_empty(columns))


def _header(dump: Dump) -> dict[str, object]:
    """Return what the dump states and no column holds, as JSON values."""
    header: dict[str, object] = {name: getattr(dump, name) for name in _PLAIN}
    header["groups"] = [_group_header(group, dump.backend) for group in dump.groups]
    header["threads"] = [list(thread) for thread in dump.threads]
    header["warnings"] = list(dump.warnings)
    header["quarantined"] = [asdict(entry) for entry in dump.quarantined]
    header["extra"] = dict(dump.extra)
    if dump.sidecar:
        sidecar = asdict(replace(dump.sidecar, groups=(), path=""))
        header["sidecar"] = {name: value for name, value in sidecar.items() if value not in (None, (), {}, "")}
    return header


def _group_header(group: Group, backend: str) -> dict[str, object]:
    facts = asdict(replace(group, ranks=None))
    facts["group"] = ids.group_key(group.name, group.ranks)
    facts["backend"] = group.backend or backend
    return {name: value for name, value in facts.items() if value not in (None, ABSENT)}


def dump_from_facts(row: Mapping[str, object], ranks: Mapping[str, tuple[int, ...] | None]) -> Dump:
    """Return a dump without calls from the properties of its node.

    Args:
        row: Properties of a ``:Dump`` node.
        ranks: Group as it stands in ids → its members, from the ``:ProcessGroup`` nodes.
    """
    header = orjson.loads(str(row["extra"]))
    groups = tuple(
        Group(**{name: value for name, value in facts.items() if name != "group"}, ranks=ranks.get(facts["group"]))
        for facts in header["groups"]
    )
    sidecar = header.get("sidecar")
    return Dump(
        **{name: header[name] for name in _PLAIN},
        file=str(row["file"]),
        digest=str(row["sha256"]),
        calls=Calls(),
        groups=groups,
        signatures=(),
        stacks=(),
        threads=tuple((thread, name) for thread, name in header["threads"]),
        quarantined=tuple(Quarantined(**entry) for entry in header["quarantined"]),
        warnings=tuple(header["warnings"]),
        extra=header["extra"],
        sidecar=None if sidecar is None else Sidecar(**{**sidecar, "errors": tuple(sidecar.get("errors", ()))}),
    )
