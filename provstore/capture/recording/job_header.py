"""The first line of a capture file: run, process, groups, device, policy, trace context and what makes runs differ."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from provstore.capture.job_facts import environment_number, look
from provstore.capture.live_calls import LiveGroup
from provstore.model import canonical
from provstore.model.action import TraceContext

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_DETERMINISM_VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_LAUNCH_BLOCKING",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "PYTHONHASHSEED",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
)


def process_facts(torch: Any) -> dict[str, Any]:
    """Return what tells this process from others, and where it runs."""
    facts = look(torch)
    rank = facts.rank if facts.rank is not None else environment_number("RANK") or 0
    said: dict[str, Any] = {
        "rank": rank,
        "world_size": facts.world_size or environment_number("WORLD_SIZE") or 1,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "boot_id": boot_id(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "provstore": importlib.metadata.version("provstore"),
        "started_ns": time.time_ns(),
    }
    if facts.device:
        device = dict(facts.device)
        said["device"] = {**device, "index": int(device["index"])}
    return said


def boot_id() -> str | None:
    """Return what tells this boot of the host from others; ``None`` where the system has none."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip() or None
    except OSError:
        return None


def determinism(torch: Any) -> dict[str, Any]:
    """Return the settings that decide whether equal inputs give equal bits."""
    backends = torch.backends
    said: dict[str, Any] = {
        "deterministic_algorithms": bool(torch.are_deterministic_algorithms_enabled()),
        "warn_only": bool(torch.is_deterministic_algorithms_warn_only_enabled()),
        "cudnn_deterministic": bool(backends.cudnn.deterministic),
        "cudnn_benchmark": bool(backends.cudnn.benchmark),
        "matmul_precision": str(torch.get_float32_matmul_precision()),
        "threads": int(torch.get_num_threads()),
    }
    return said | {name: os.environ[name] for name in _DETERMINISM_VARIABLES if name in os.environ}


def environment_digest(process: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return the digest of what a re-run needs alike: releases, machine type, world size, determinism settings."""
    said = {name: process[name] for name in ("python", "torch", "world_size")}
    said |= {"machine": platform.machine(), "determinism": dict(settings)}
    return f"sha256:{hashlib.sha256(canonical.encode(said)).hexdigest()}"


def trace_members(context: TraceContext) -> dict[str, Any]:
    """Return a trace context without what is absent."""
    said = {
        "trace_id": context.trace_id,
        "parent_trace_id": context.parent_trace_id,
        "parent_action": context.parent_action,
        "conflicts": list(context.conflicts) or None,
    }
    return {name: value for name, value in said.items() if value is not None}


def group_members(group: LiveGroup) -> dict[str, Any]:
    """Return a process group as header and group lines state it."""
    return {
        "name": group.unique_name,
        "desc": group.description,
        "ranks": list(group.ranks),
        "backend": group.backend,
        "group": group.key,
    }


def without_userinfo(uri: str) -> str:
    """Return an address without user and password."""
    scheme, found, rest = uri.partition("://")
    if not found:
        return uri
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def file_facts(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return path, size and SHA-256 of files; those of a directory by their place in it.

    Raises:
        OSError: One cannot be read.
    """
    found = []
    for path in paths:
        files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        for file in files:
            with file.open("rb") as opened:
                digest = hashlib.file_digest(opened, "sha256").hexdigest()
            name = str(file.relative_to(path)) if path.is_dir() else file.name
            found.append({"path": name, "bytes": file.stat().st_size, "sha256": digest})
    return found
