"""Writes small dump files as every release of the recorder did, from one description of the calls.

Independent of the reader: what each version holds is restated here from the format's own history.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VERSIONS = (None, "1.4", "2.1", "2.4", "2.9", "2.10", "3.0")
T0 = 1_760_000_000_000_000_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a recorder."""

    name: str = "nccl:all_reduce"
    seq: int = 1
    record_id: int = 0
    group: str = "0"
    pg_id: int = 0
    p2p_seq: int = 0
    op_id: int = 0
    is_p2p: bool = False
    inputs: Sequence[Sequence[int]] = ((8,),)
    outputs: Sequence[Sequence[int]] = ((8,),)
    dtype: str = "Float"
    state: str = "completed"
    retired: bool = True
    created_ns: int = T0
    started_ns: int | None = None
    completed_ns: int | None = T0 + 5_000_000
    duration_ms: float | None = None
    frames: Sequence[tuple[str, str, int]] = (("all_reduce", "train.py", 7),)
    more: Mapping[str, object] = field(default_factory=dict)
    """Further keys, or replacements of keys."""


GROUPS: Mapping[str, tuple[str, Sequence[int]]] = {"0": ("default_pg", (0, 1))}
"""Name → (description, ranks)."""


def table(
    version: str | None,
    entries: Iterable[Entry],
    groups: Mapping[str, tuple[str, Sequence[int]]] = GROUPS,
    **more: object,
) -> Any:
    """Return what a recorder of that version pickles."""
    frames: dict[tuple[str, str, int], dict[str, object]] = {}
    rows = [_row(version, entry, groups, frames) for entry in entries]
    if version is None:
        return rows
    pair = tuple(map(int, version.split(".")))
    top: dict[str, Any] = {"version": version}
    if pair < (2, 0):
        top["pg_config"] = {int(name): list(ranks) for name, (_, ranks) in groups.items()}
    else:
        top["pg_config"] = {
            name: {"name": name, "desc": desc, "ranks": str(list(ranks))} for name, (desc, ranks) in groups.items()
        }
    if (2, 6) <= pair <= (2, 9):
        top["nccl_version"] = "2.27.3"
    elif pair > (2, 9):
        top["comm_lib_version"] = "2.27.5"
    top["entries"] = rows
    return top | more


def _row(version: str | None, entry: Entry, groups: Any, frames: Any) -> dict[str, object]:
    pair = tuple(map(int, version.split("."))) if version else (0, 0)
    row: dict[str, object] = {
        "frames": [frames.setdefault(frame, dict(zip(("name", "filename", "line"), frame))) for frame in entry.frames],
        "pg_id": entry.pg_id,
        "profiling_name": entry.name,
        "input_sizes": [list(shape) for shape in entry.inputs],
        "output_sizes": [list(shape) for shape in entry.outputs],
        "state": entry.state,
        "retired": entry.retired,
    }
    if version is None:
        return row | {"seq_id": entry.seq, "time_created_us": entry.created_ns // 1000, **entry.more}
    row |= {
        "record_id": entry.record_id,
        "op_id": entry.op_id,
        "time_created_ns": entry.created_ns,
        "time_discovered_started_ns": entry.started_ns,
        "time_discovered_completed_ns": entry.completed_ns,
    }
    if entry.duration_ms is not None:
        row["duration_ms"] = entry.duration_ms
    if pair < (2, 0):
        return row | {"seq_id": entry.seq, **entry.more}
    desc = groups.get(entry.group, ("undefined", ()))[0]
    row |= {
        "process_group": (entry.group, desc),
        "collective_seq_id": entry.seq,
        "p2p_seq_id": entry.p2p_seq,
        "input_dtypes": [entry.dtype] * len(entry.inputs),
        "output_dtypes": [entry.dtype] * len(entry.outputs),
        "is_p2p": entry.is_p2p,
    }
    if pair >= (2, 3):
        row["timeout_ms"] = 600_000
    if pair >= (2, 9):
        row |= {"thread_id": "140", "thread_name": "pt_main_thread"}
    return row | dict(entry.more)


def write_pickle(path: Path, value: object) -> Path:
    """Write a value as torch does: pickle protocol 2."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(value, protocol=2))
    return path


def write_json(path: Path, value: Mapping[str, Any]) -> Path:
    """Write a dump as torch's JSON: no frames, 0 for None, string counters, no entries key when there are none."""
    top = {key: item for key, item in value.items() if key != "entries"}
    status = value.get("pg_status", {})
    top["pg_status"] = {key: {name: str(number) for name, number in row.items()} for key, row in status.items()}
    top["nccl_comm_state"] = {}
    rows = [
        {key: 0 if item is None else item for key, item in row.items() if key != "frames"} for row in value["entries"]
    ]
    if rows:
        top["entries"] = rows
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(top, sort_keys=True, separators=(",", ":")), encoding="utf-8")
    return path


def write_groups(path: Path, groups: Mapping[str, tuple[str, Sequence[int]]]) -> Path:
    """Write a bare list of groups, as ``_get_all_pg_configs`` gives it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(group_list(groups)), encoding="utf-8")
    return path


def write_sidecar(path: Path, rank: int, groups: Mapping[str, tuple[str, Sequence[int]]], **more: object) -> Path:
    """Write the capture helper's sidecar."""
    value = {"schema": "provstore-fr-sidecar/1", "rank": rank, "process_groups": group_list(groups)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value | more), encoding="utf-8")
    return path


def group_list(groups: Mapping[str, tuple[str, Sequence[int]]]) -> list[dict[str, object]]:
    """Return groups as torch.distributed lists them."""
    return [
        {"pg_name": name, "pg_desc": desc, "backend_config": "cpu:gloo", "pg_size": len(ranks), "ranks": list(ranks)}
        for name, (desc, ranks) in groups.items()
    ]


def ring(count: int, **same: Any) -> list[Entry]:
    """Return ``count`` collectives in a row, numbered from 1, one millisecond apart."""
    return [
        Entry(**({"seq": at + 1, "record_id": at, "op_id": at + 1, "created_ns": T0 + at * 1_000_000} | same))
        for at in range(count)
    ]
