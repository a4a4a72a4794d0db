"""``record``: which values each rank put into and got from its collectives, finite or not, one JSON line each."""

from __future__ import annotations

import atexit
import itertools
import json
import logging
import os
import threading
import weakref
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from provstore.capture.job_facts import look
from provstore.capture.torch_library import load_torch

TENSOR_RECORD_SCHEMA = "provstore-tensor-record/1"
_FIRST_HOOK_NUMBER = 0x50525653
_POINT_TO_POINT = frozenset({"SEND", "RECV"})
_NO_DATA = frozenset({"BARRIER", "SPLIT", "NEW_WINDOW"})

_log = logging.getLogger("provstore.capture")
_hook_numbers = itertools.count(_FIRST_HOOK_NUMBER)


def record(directory: str | os.PathLike[str]) -> TensorRecorder:
    """Start to write ``tensor_rank_<r>.jsonl`` and return the recorder; call it after ``init_process_group``.

    Every collective of every group is read before it is issued (``in``) and, where its backend tells when it is done,
    after (``out``). Reading costs one pass over each tensor. Tensors that are not in the memory of the CPU are not read.
    Needs torch 2.15 or later; on an older one the recorder writes nothing, says so once in the log, and
    ``TensorRecorder.problem`` holds the reason.

    Raises:
        ConfigError: torch is not installed.
    """
    recorder = TensorRecorder(load_torch(), Path(directory).absolute())
    recorder._start()
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
        self._attached: dict[str, tuple[Any, int]] = {}
        self._under_way: dict[tuple[str, int], list[Any]] = {}
        self._lock = threading.Lock()

    def attach(self) -> None:
        """Record groups made since; done by itself at the next collective of a recorded group."""
        for group, name in list(self._torch.distributed.distributed_c10d._world.pg_names.items()):
            if name not in self._attached:
                self._attach(group, name)

    def close(self) -> None:
        """Stop recording and take the hooks off."""
        atexit.unregister(self.close)
        for reference, number in self._attached.values():
            group = reference()
            if group is not None:
                self._guarded(group.unregister_pre_hook, number)
                self._guarded(group.unregister_post_hook, number)
        self._attached.clear()
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None
        for reason, count in self.gaps.items():
            _log.warning("tensor record of rank %s: %s: %s", self._rank, reason, count)

    def _start(self) -> None:
        try:
            if not hasattr(self._torch.distributed.ProcessGroup, "register_pre_hook"):
                raise RuntimeError(f"torch {self._torch.__version__} has no hooks on collectives: needs torch>=2.15")
            self._rank = look(self._torch).rank if self._torch.distributed.is_initialized() else -1
            if self._rank < 0:
                raise RuntimeError("no process group: call record after init_process_group")
            self._directory.mkdir(parents=True, exist_ok=True)
            path = self._directory / f"tensor_rank_{self._rank}.jsonl"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
            self.attach()
            atexit.register(self.close)
        except Exception as error:
            self.problem = f"tensor record: {error}"
            _log.warning("%s", self.problem)

    def _attach(self, group: Any, name: str) -> None:
        number = next(_hook_numbers)
        reference = weakref.ref(group)
        group.register_pre_hook(number, lambda call: self._guarded(self._before, name, call))
        group.register_post_hook(number, lambda call: self._guarded(self._after, name, reference, call))
        self._attached[name] = reference, number

    def _before(self, group: str, call: Any) -> None:
        """Read the inputs: an operation in place overwrites them."""
        if call.name.name in _POINT_TO_POINT or call.name.name in _NO_DATA:
            return
        counts = self._count(call.input_tensors)
        self._under_way[group, call.op_id] = [counts, call.output_tensors or call.input_tensors]

    def _after(self, group: str, reference: Any, call: Any) -> None:
        """Write the inputs under the number the call got, and read the outputs when the call is done."""
        if len(self._torch.distributed.distributed_c10d._world.pg_names) != len(self._attached):
            self.attach()
        counts, outputs = self._under_way.pop((group, call.op_id), (None, ()))
        if not outputs:
            return
        seq = reference()._get_sequence_number_for_group()
        self._write(group, seq, "in", counts)
        try:
            future = call.work.get_future()
        except RuntimeError:
            self.gaps[f"out of {call.name.name}: its backend does not tell when it is done"] += 1
            return
        future.then(lambda done: self._guarded(self._when_done, group, seq, outputs, done))

    def _when_done(self, group: str, seq: int, outputs: Sequence[Any], done: Any) -> None:
        try:
            done.value()
        except Exception:
            self.gaps["out of a call that failed"] += 1
            return
        self._write(group, seq, "out", self._count(outputs))

    def _count(self, tensors: Sequence[Any]) -> tuple[int, int] | None:
        """Return (NaN values, infinite values) of some tensors; ``None`` when one of them cannot be read here."""
        nan_count = inf_count = 0
        with self._torch.no_grad():
            for tensor in tensors:
                if tensor.device.type != "cpu" or tensor.layout != self._torch.strided:
                    return None
                found = _non_finite(self._torch, tensor)
                nan_count, inf_count = nan_count + found[0], inf_count + found[1]
        return nan_count, inf_count

    def _write(self, group: str, seq: int, side: str, counts: tuple[int, int] | None) -> None:
        if counts is None:
            self.gaps[f"{side}: a tensor is not in the memory of the CPU"] += 1
            return
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
        with self._lock:
            if self._file is not None:
                os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def _guarded(self, action: Any, *arguments: Any) -> None:
        """Run something whose failure must not reach training: torch passes a hook's exception on."""
        try:
            action(*arguments)
        except Exception as error:
            self.gaps[f"{type(error).__name__}: {error}"[:200]] += 1


def _non_finite(torch: Any, tensor: Any) -> tuple[int, int]:
    """Return (NaN values, infinite values); one sum in float32 settles a tensor without any."""
    if not tensor.is_floating_point() and not tensor.is_complex():
        return 0, 0
    values = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    if values.element_size() == 1:
        values = values.float()
    if bool(torch.isfinite(values.sum(dtype=torch.float32))):
        return 0, 0
    return int(values.isnan().sum()), int(values.isinf().sum())
