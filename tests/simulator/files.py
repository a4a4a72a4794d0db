"""Writes recordings as real dump files: pickle or JSON, in the words of any known format version, with sidecars."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .program import Group
from .recorder import Entry, Recording

VERSIONS = ("none", "1.4", "2.1", "2.4", "2.9", "2.10")
PREFIXES = ("nccl_trace_rank_", "comm_lib_trace_rank_", "rank_", "_dump_", "nccl_trace_rank_node-07_")


@dataclass(frozen=True, slots=True)
class Style:
    """How dumps are written."""

    version: str = "2.10"
    form: str = "pickle"
    """``pickle``, ``json`` or ``both`` (the JSON twin in ``json/``)."""
    frames: bool = True
    prefix: str = "nccl_trace_rank_"
    sidecar: str = "none"
    """``none``, ``pgs`` (list of groups) or ``meta`` (the capture helper's)."""
    timeout_ms: int = 600_000
    line_shift: int = 0
    script: str = "/job/train.py"
    host_of: int = 8
    """Ranks a host."""

    @property
    def number(self) -> tuple[int, int]:
        """The version as a pair that compares; (0, 0) for the list without one."""
        if self.version == "none":
            return (0, 0)
        major, minor = self.version.split(".")
        return int(major), int(minor)


def write(folder: Path, recordings: Iterable[Recording], groups: Iterable[Group], style: Style) -> list[Path]:
    """Write one file (or twin) a recording, and the sidecars asked for; return the dump files."""
    folder.mkdir(parents=True, exist_ok=True)
    recordings, groups = list(recordings), list(groups)
    backends = {recording.backend for recording in recordings}
    written: list[Path] = []
    for recording in recordings:
        name = f"{style.prefix}{recording.rank}"
        if len(backends) > 1:
            name = f"fr_{recording.backend}_rank_{recording.rank}"
        written += _write_one(folder, name, recording, style)
    for rank in sorted({recording.rank for recording in recordings}):
        mine = [recording for recording in recordings if recording.rank == rank]
        _write_sidecar(folder, rank, mine, [group for group in groups if rank in group.ranks], style)
    return written


def _write_one(folder: Path, name: str, recording: Recording, style: Style) -> list[Path]:
    written = []
    if style.form in ("pickle", "both"):
        path = folder / name
        path.write_bytes(pickled(document(recording, style, {})))
        written.append(path)
    if style.form in ("json", "both"):
        path = folder / f"{name}.json"
        if style.form == "both":
            (folder / "json").mkdir(exist_ok=True)
            path = folder / "json" / f"rank_{recording.rank}.json"
        path.write_text(json.dumps(as_json(document(recording, replace(style, frames=False), {}))))
        written.append(path)
    return written


def pickled(value: object) -> bytes:
    """Return ``value`` as torch pickles it: protocol 2, no globals."""
    buffer = io.BytesIO()
    pickle.Pickler(buffer, protocol=2).dump(value)
    return buffer.getvalue()


def document(recording: Recording, style: Style, stacks: dict[int, list[dict[str, object]]]) -> object:
    """Return the whole dump as Python values; equal stacks are one object, as torch makes them."""
    entries = [_entry(entry, style, stacks) for entry in recording.entries]
    number = style.number
    if number == (0, 0):
        return entries
    top: dict[str, object] = {"version": style.version, "pg_config": _pg_config(recording, number)}
    if number >= (2, 6):
        library = "" if recording.backend == "gloo" else "2.27.5"
        top["comm_lib_version" if number >= (2, 10) else "nccl_version"] = library
    if number >= (2, 3):
        top["pg_status"] = {
            str(row.pg_id): {
                "last_enqueued_collective": row.enqueued,
                "last_started_collective": row.started,
                "last_completed_collective": row.completed,
            }
            for row in recording.statuses
        }
    top["entries"] = entries
    return top


def as_json(value: object) -> object:
    """Return a dump as torch writes it in JSON: 0 for None, counters of the status table as strings, no empty list."""
    assert isinstance(value, dict)
    top = dict(value)
    top["pg_status"] = {
        name: {key: str(count) for key, count in row.items()} for name, row in top.get("pg_status", {}).items()
    }
    top["nccl_comm_state"] = {}
    entries = []
    for entry in top.pop("entries"):
        plain: dict[str, Any] = {key: (0 if item is None else item) for key, item in entry.items() if key != "frames"}
        plain["process_group"] = list(plain["process_group"])
        entries.append(plain)
    if entries:
        top["entries"] = entries
    return top


def _pg_config(recording: Recording, number: tuple[int, int]) -> dict[object, object]:
    groups = [row.group for row in recording.statuses]
    if recording.backend == "gloo":
        members = [] if recording.has_subgroups or not groups else list(groups[0].ranks)
        return {"": {"name": "", "desc": "", "ranks": str(members)}}
    if number < (2, 0):
        return {row.pg_id: list(row.group.ranks) for row in recording.statuses}
    return {group.name: {"name": group.name, "desc": group.desc, "ranks": str(list(group.ranks))} for group in groups}


def _entry(entry: Entry, style: Style, stacks: dict[int, list[dict[str, object]]]) -> dict[str, object]:
    number = style.number
    sizes = {"input_sizes": _lists(entry.ins), "output_sizes": _lists(entry.outs)}
    frames = stacks.setdefault(entry.site, stack(entry.site, style))
    if number == (0, 0):
        row: dict[str, object] = {
            "pg_id": entry.pg_id, "seq_id": entry.single_seq, "profiling_name": entry.name,
            "time_created_us": entry.created_ns // 1000, **sizes, "state": entry.state, "retired": entry.retired,
            "frames": frames,
        }  # fmt: skip
        return row
    row = {"frames": frames} if style.frames or number < (2, 1) else {}
    row.update(record_id=entry.record_id, pg_id=entry.pg_id)
    if number >= (2, 1):
        row["process_group"] = (entry.group.name, entry.group.desc)
    if number >= (2, 9):
        row.update(thread_name="python", thread_id="140639689542528")
    if number >= (2, 1):
        row.update(collective_seq_id=entry.seq, p2p_seq_id=0 if entry.name.startswith("gloo") else entry.p2p_seq)
    else:
        row["seq_id"] = entry.single_seq
    row.update(op_id=entry.op_id, profiling_name=entry.name, time_created_ns=entry.created_ns)
    if entry.duration_ms is not None:
        row["duration_ms"] = entry.duration_ms
    row.update(sizes)
    if number >= (2, 1):
        row.update(input_dtypes=[entry.dtype] * len(entry.ins), output_dtypes=[entry.dtype] * len(entry.outs))
    row.update(
        state=entry.state,
        time_discovered_started_ns=entry.started_ns,
        time_discovered_completed_ns=entry.completed_ns,
        retired=entry.retired,
    )
    if number >= (2, 3):
        row["timeout_ms"] = style.timeout_ms
    if number >= (2, 1):
        row["is_p2p"] = entry.is_p2p
    return row


def _lists(shapes: tuple[tuple[int, ...], ...]) -> list[list[int]]:
    return [list(shape) for shape in shapes]


def stack(site: int, style: Style) -> list[dict[str, object]]:
    """Return the stack of a line of the training script, innermost frame first."""
    torch_home = "/opt/venv/lib/python3.11/site-packages/torch"
    rows = [
        ("all_reduce", f"{torch_home}/distributed/distributed_c10d.py", 3245),
        ("wrapper", f"{torch_home}/distributed/c10d_logger.py", 83),
        (f"part_{site // 10}", style.script, site + style.line_shift),
        ("_call_impl", f"{torch_home}/nn/modules/module.py", 1775),
        ("train_step", style.script, 410 + style.line_shift),
        ("main", style.script, 480 + style.line_shift),
        ("<module>", style.script, 500 + style.line_shift),
    ]
    return [{"name": name, "filename": file, "line": line} for name, file, line in rows]


def _write_sidecar(folder: Path, rank: int, mine: list[Recording], groups: list[Group], style: Style) -> None:
    if style.sidecar == "none":
        return
    configs = {
        (group.name, group.ranks): {
            "pg_name": group.name,
            "pg_desc": group.desc,
            "backend_config": f"cpu:gloo,cuda:{group.backend}",
            "pg_size": len(group.ranks),
            "ranks": list(group.ranks),
        }
        for group in groups
    }
    rows = list(configs.values())
    if style.sidecar == "pgs":
        (folder / f"pgs_{rank}.json").write_text(json.dumps(rows))
        return
    meta = {
        "schema": "provstore-fr-sidecar/1", "rank": rank, "local_rank": rank % style.host_of,
        "world_size": max(len(group.ranks) for group in groups), "run": "simulated", "attempt": 0,
        "host": f"node{rank // style.host_of}", "pid": 4000 + rank, "torch_version": "2.13.0",
        "backends": sorted({recording.backend for recording in mine}), "reason": "simulated",
        "dumped_at_ns": max(recording.dumped_ns for recording in mine), "monotonic_ns": 1, "device": {}, "settings": {},
        "files": [], "process_groups": rows, "errors": [],
    }  # fmt: skip
    (folder / f"fr_meta_rank_{rank}.json").write_text(json.dumps(meta))


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hex digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
