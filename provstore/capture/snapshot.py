"""``dump``: the recorders of this process and a sidecar that says what the dumps cannot, as files, now."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provstore.capture.fail_open import say_once, tried
from provstore.capture.job_facts import JobFacts, environment_number, look
from provstore.capture.recorders import read_recorders, recorder_settings, setting_faults
from provstore.capture.torch_library import load_torch
from provstore.evidence import whole_files

SIDECAR_SCHEMA = "provstore-fr-sidecar/1"
_WAIT_FOR_OTHER_DUMP_SECONDS = 5.0

_turn = threading.Lock()


@dataclass(frozen=True, slots=True)
class Stillness:
    """For how long nothing had moved, and after how long that counts."""

    seconds: float
    limit_seconds: float

    def stated(self) -> dict[str, int]:
        """Return it as members of a sidecar."""
        return {"still_ns": int(self.seconds * 1e9), "still_limit_ns": int(self.limit_seconds * 1e9)}


@dataclass(frozen=True, slots=True)
class DumpReport:
    """What one dump left behind."""

    rank: int | None
    files: tuple[Path, ...]
    errors: tuple[str, ...]
    """What could not be read or written, and why; the same lines are in the sidecar."""


def dump(
    directory: str | os.PathLike[str],
    reason: str = "asked",
    *,
    run: str | None = None,
    attempt: int | None = None,
    still: Stillness | None = None,
) -> DumpReport:
    """Write the Flight Recorder dumps of this process, and a sidecar, into a directory that is made if missing.

    Files: ``fr_<backend>_rank_<r>`` for each recorder that was used, ``fr_meta_rank_<r>.json``. Safe in any thread and
    at any time after ``init_process_group``, also while a collective hangs. Never raises into training: failures are in
    the report, in the sidecar and in the log.

    Args:
        directory: Where the files go.
        reason: Why now; kept in the sidecar.
        run: Name of the run; default is torchrun's run id.
        attempt: Number of the restart; default is torchrun's restart count.
        still: For how long nothing had moved, where that is why; kept in the sidecar.

    Raises:
        ConfigError: torch is not installed.
    """
    torch = load_torch()
    stated: dict[str, object] = {"run": run or _launcher_run(), "reason": reason, **(still.stated() if still else {})}
    has_turn = _turn.acquire(timeout=_WAIT_FOR_OTHER_DUMP_SECONDS)
    report, fault = tried(_dump, torch, Path(directory), stated, attempt)
    if has_turn:
        _turn.release()
    if report is None:
        say_once(f"dump: {directory}: {fault}")
        return DumpReport(None, (), (f"dump: {fault}",))
    return report


def _dump(torch: Any, directory: Path, stated: Mapping[str, object], attempt: int | None) -> DumpReport:
    facts = look(torch)
    if facts.rank is None:
        say_once(f"dump: {directory}: the rank is unknown: no process group and no RANK in the environment")
        return DumpReport(None, (), facts.errors)
    recordings = read_recorders(torch, facts.backends)
    errors = list(dict.fromkeys((*facts.errors, *setting_faults(torch), *recordings.errors)))
    written = []
    for backend, data in recordings.pickles.items():
        path = directory / f"fr_{re.sub(r'[^A-Za-z0-9.-]', '-', backend)}_rank_{facts.rank}"
        if _write(path, data, errors):
            written.append((path, data))
    number = environment_number("TORCHELASTIC_RESTART_COUNT") if attempt is None else attempt
    sidecar = _sidecar(torch, facts, {**stated, "attempt": number}, written, errors)
    path = directory / f"fr_meta_rank_{facts.rank}.json"
    files = [name for name, _ in written]
    if _write(path, json.dumps(sidecar, indent=1).encode() + b"\n", errors):
        files.append(path)
    for error in errors:
        say_once(error)
    return DumpReport(facts.rank, tuple(files), tuple(errors))


def _write(path: Path, data: bytes, errors: list[str]) -> bool:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        whole_files.write(path, data, None)
    except OSError as error:
        errors.append(f"{path.name}: not written: {error.strerror or error}")
        return False
    return True


def _sidecar(
    torch: Any, facts: JobFacts, stated: dict[str, object], written: list[tuple[Path, bytes]], errors: list[str]
) -> dict[str, object]:
    """Return the sidecar's JSON object; keys are those of the reader."""
    return {
        "schema": SIDECAR_SCHEMA,
        "rank": facts.rank,
        "local_rank": environment_number("LOCAL_RANK"),
        "world_size": facts.world_size,
        **stated,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "torch_version": str(torch.__version__),
        "backends": list(facts.backends),
        "dumped_at_ns": time.time_ns(),
        "monotonic_ns": time.monotonic_ns(),
        "device": dict(facts.device),
        "settings": recorder_settings(),
        "files": [
            {"name": path.name, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for path, data in written
        ],
        "process_groups": [dict(group) for group in facts.process_groups],
        "errors": list(errors),
    }


def _launcher_run() -> str | None:
    """Return torchrun's run id; its default is the word ``none``."""
    run = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return None if run == "none" else run
