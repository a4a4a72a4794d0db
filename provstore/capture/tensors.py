"""``record``: which values each rank put into and got from its collectives, finite or not, one JSON line each."""

from __future__ import annotations

import atexit
import json
import os
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from provstore.capture.collective_calls import OVERWRITTEN, CallHooks
from provstore.capture.content.finite import non_finite
from provstore.capture.fail_open import say_once, tried
from provstore.capture.live_calls import LiveCall, LiveGroup
from provstore.capture.torch_library import live_groups, load_torch

TENSOR_RECORD_SCHEMA = "provstore-tensor-record/1"


def record(directory: str | os.PathLike[str]) -> TensorRecorder:
    """Start to write ``tensor_rank_<r>.jsonl`` and return the recorder; call it after ``init_process_group``.

    Every collective of every gloo group is read before it is issued (``in``) and, where gloo tells when it is done,
    after (``out``). Reading costs one pass over each tensor. What could not be recorded is counted in
    ``TensorRecorder.gaps``: calls of other backends, and of groups that were used before ``record``. Needs torch 2.15;
    on an older one the recorder writes nothing, says so once in the log, and ``TensorRecorder.problem`` holds why.

    Raises:
        ConfigError: torch is not installed.
    """
    recorder = TensorRecorder(load_torch(), Path(directory).absolute())
    recorder.start()
    return recorder


class TensorRecorder:
    """A running tensor record. Nothing in it raises into training; what it could not read is in ``gaps``."""

    def __init__(self, torch: Any, directory: Path) -> None:
        self.problem: str | None = None
        """Why nothing is recorded, or ``None``."""
        self.gaps: Counter[str] = Counter()
        """How many sides of calls were not recorded, by reason."""
        self._torch = torch
        self._directory = directory
        self._rank = -1
        self._file: int | None = None
        self._hooks = CallHooks(torch, self, self._guarded)
        self._lock = threading.Lock()

    def close(self) -> None:
        """Stop recording and take the hooks off."""
        atexit.unregister(self.close)
        self._hooks.detach()
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None
        for reason, count in self.gaps.items():
            say_once(f"tensor record of rank {self._rank}: {reason}: {count}")

    def start(self) -> None:
        """Begin; ``record`` has done it."""
        _, fault = tried(self._open)
        if fault is not None:
            self.problem = f"tensor record: {fault}"
            say_once(self.problem)

    def _open(self) -> None:
        if not self._hooks.has_hooks:
            raise RuntimeError(f"torch {self._torch.__version__} has no hooks on collectives: needs torch>=2.15")
        if not live_groups(self._torch):
            raise RuntimeError("no process group: call record after init_process_group")
        self._rank = int(self._torch.distributed.get_rank())
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"tensor_rank_{self._rank}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        self._hooks.attach()
        atexit.register(self.close)

    def before(self, call: LiveCall) -> None:
        """Read the inputs: an operation in place overwrites them."""
        if not call.is_point_to_point and (call.inputs or call.outputs):
            call.memo = [self._count([tensor]) for tensor in call.inputs]

    def issued(self, call: LiveCall) -> None:
        """Write the inputs under the number the call got."""
        if call.memo is None or call.seq is None:
            return
        if call.parts == 1:
            self._write(call.group.name, call.seq, "in", _sum(call.memo))
            return
        for number, count in enumerate(call.memo, call.seq):
            self._write(call.group.name, number, "in", count)

    def done(self, call: LiveCall) -> None:
        """Write the outputs."""
        if call.memo is None or call.seq is None:
            return
        counts = self._count(call.outputs)
        if call.is_overwritten():
            self.lost(call, OVERWRITTEN)
        else:
            self._write(call.group.name, call.seq, "out", counts)

    def lost(self, call: LiveCall, reason: str) -> None:
        """Count what cannot be told."""
        if call.is_point_to_point:
            return
        if call.seq is None:
            self.gaps[reason] += 1
        elif reason == "a call that failed":
            self.gaps[f"out of {reason}"] += 1
        else:
            self.gaps[f"out of {call.name}: {reason}"] += call.parts

    def unseen(self, group: LiveGroup, first: int, count: int) -> None:
        """Nothing: it only records where torch has hooks, which see every call."""

    def skipped(self, group: str, reason: str) -> None:
        """Count a group that is not recorded."""
        self.gaps[f"group {group}: {reason}"] += 1

    def _count(self, tensors: Sequence[Any]) -> tuple[int, int]:
        """Return (NaN values, infinite values) of some tensors.

        Raises:
            ValueError: One of them cannot be read here.
        """
        with self._torch.no_grad():
            for tensor in tensors:
                if tensor.device.type != "cpu" or tensor.layout != self._torch.strided:
                    raise ValueError("a tensor is not dense or not in the memory of the CPU")
            return _sum([non_finite(self._torch, tensor) for tensor in tensors])

    def _write(self, group: str, seq: int, side: str, counts: tuple[int, int]) -> None:
        line = {
            "schema": TENSOR_RECORD_SCHEMA,
            "rank": self._rank,
            "group": group,
            "seq": seq,
            "side": side,
            "finite": counts == (0, 0),
            "nan_count": counts[0],
            "inf_count": counts[1],
        }
        self._append(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        """Write one line whole; after a torn one, on a full disk, nothing more is written."""
        with self._lock:
            if self._file is not None and os.write(self._file, line) != len(line):
                os.close(self._file)
                self._file = None
                self.problem = "tensor record: stopped: the disk is full"

    def _guarded(self, action: Any, *arguments: Any) -> None:
        """Run something whose failure must not reach training: torch passes a hook's exception on."""
        _, fault = tried(action, *arguments)
        if fault is not None:
            self.gaps[fault[:200]] += 1


def _sum(counts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return sum(nan for nan, _ in counts), sum(inf for _, inf in counts)
