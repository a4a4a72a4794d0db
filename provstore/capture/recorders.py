"""The Flight Recorders of this process: their bytes, their settings, and what makes them useless.

The functions that read a recorder return a finished pickle; it is written as it is. Which of them exist depends on the
release and on the build, so each is looked for by name.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from provstore.capture.fail_open import tried
from provstore.capture.torch_library import FIRST_WITH_A_DEFAULT_BUFFER, distributed_bindings, too_old, torch_release

DEFAULT_BUFFER_ENTRIES = 2000
_BUFFER_SETTINGS = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_SHOWN_SETTINGS = (
    *_BUFFER_SETTINGS,
    "TORCH_INCLUDE_STACK_TRACE",
    "TORCH_INCLUDE_ONLY_ACTIVE",
    "TORCH_FR_CPP_STACK",
    "TORCH_FR_DUMP_TEMP_FILE",
    "TORCH_FR_DUMP_DYNAMIC_FILE_NAME",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
    "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_NCCL_ENABLE_TIMING",
    "TORCH_DIST_USE_NCCL2",
)
_OFF_WORDS = frozenset({"0", "n", "no", "f", "false"})


@dataclass(frozen=True, slots=True)
class Recordings:
    """What the recorders of one process gave."""

    pickles: dict[str, bytes]
    """Bytes of each recorder that is worth a file, by backend."""
    errors: tuple[str, ...] = ()


def read_recorders(torch: Any, backends: Iterable[str]) -> Recordings:
    """Return the bytes of every recorder of this process that was used.

    Recorders that hold nothing are left out beside one that holds something. When none does, the first one asked is
    kept, unless recording is off: an empty dump says that this rank issued nothing.

    ``backends`` names those of the job's groups, as far as known; gloo is always asked.
    """
    readers, errors = _readers(torch, dict.fromkeys((*backends, "gloo")))
    pickles: dict[str, bytes] = {}
    for backend, read in readers:
        data, fault = tried(read)
        if data is None:
            errors.append(f"{backend} recorder: {fault}")
        elif backend not in pickles or _holds_something(data):
            pickles[backend] = data
    used = {backend: data for backend, data in pickles.items() if _holds_something(data)}
    if not used and _buffer_entries(torch) > 0:
        used = dict(list(pickles.items())[:1])
    return Recordings(used, tuple(errors))


def recorder_settings() -> dict[str, str]:
    """Return the recorder's environment settings that are set in this process."""
    return {name: os.environ[name] for name in _SHOWN_SETTINGS if name in os.environ}


def setting_faults(torch: Any) -> list[str]:
    """Return one sentence for each setting that leaves the dumps empty or without source lines, naming the setting.

    The recorder reads its settings once, when the first process group is made.
    """
    faults = []
    old = too_old(torch)
    if old is not None:
        faults.append(old)
    if _buffer_entries(torch) == 0:
        faults.append("TORCH_FR_BUFFER_SIZE: 0: the recorder is off; set it to 2000 before init_process_group")
    if os.environ.get("TORCH_INCLUDE_STACK_TRACE", "1").lower() in _OFF_WORDS:
        faults.append(
            "TORCH_INCLUDE_STACK_TRACE: off: dumps will hold no source lines; unset it before init_process_group"
        )
    return faults


def prepare_stacks() -> None:
    """Load what torch itself loads the first time it writes stacks: its compiler package.

    It takes about a second and 150 MB. In the middle of a hang, from a file system that may be its cause, or beside a
    main thread that imports too, it would be too late.
    """
    importlib.import_module("torch._inductor.codecache")


def _buffer_entries(torch: Any) -> int:
    """Return the size of the ring as the recorder reads it: the first setting that is not empty, else the default."""
    for name in _BUFFER_SETTINGS:
        value = os.environ.get(name)
        if value:
            return int(value) if value.isdecimal() else DEFAULT_BUFFER_ENTRIES
    return DEFAULT_BUFFER_ENTRIES if torch_release(torch) >= FIRST_WITH_A_DEFAULT_BUFFER else 0


def _readers(torch: Any, backends: Iterable[str]) -> tuple[list[tuple[str, Callable[[], bytes]]], list[str]]:
    """Return (backend, function without arguments) for each recorder that this torch can be asked for, and why not."""
    bindings = distributed_bindings(torch)
    if bindings is None:
        return [], ["torch.distributed: not available in this build of torch: no recorder"]
    readers: list[tuple[str, Callable[[], bytes]]] = []
    errors = []
    generic = getattr(bindings, "_dump_fr_trace", None)
    if generic is None:
        errors.append(too_old(torch) or "torch: has no _dump_fr_trace: the recorders of gloo and others cannot be read")
    elif _takes_backend(generic):
        readers += [(name, lambda name=name: generic(True, True, False, backend=name)) for name in backends]  # type: ignore[misc]
    else:
        readers.append(("gloo", lambda: generic(True, True, False)))
    nccl = getattr(bindings, "_dump_nccl_trace", None)
    if nccl is not None:
        readers.append(("nccl", lambda: nccl(True, True, False)))
    return readers, errors


def _takes_backend(function: Any) -> bool:
    """Whether ``_dump_fr_trace`` has one recorder a backend (torch 2.15); a C++ function tells it only in its docs."""
    return "backend" in (function.__doc__ or "")


def _holds_something(data: bytes) -> bool:
    """Whether a dump has an entry or a group status; the keys of both are plain text in the pickle."""
    return b"profiling_name" in data or b"last_enqueued_collective" in data
