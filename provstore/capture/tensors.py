"""``record``: which values each rank put into and got from its collectives, finite or not, one JSON line each."""

from __future__ import annotations

import atexit
import itertools
import json
import os
import threading
import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provstore.capture.fail_open import say_once, tried
from provstore.capture.torch_library import (
    distributed_world,
    last_collective,
    live_groups,
    load_torch,
)

TENSOR_RECORD_SCHEMA = "provstore-tensor-record/1"
_FIRST_HOOK_NUMBER = 0x50525653
_POINT_TO_POINT = frozenset({"SEND", "RECV"})
_IN_PLACE = frozenset({"ALLREDUCE", "ALLREDUCE_COALESCED", "BROADCAST", "REDUCE"})

_hook_numbers = itertools.count(_FIRST_HOOK_NUMBER)


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


@dataclass(slots=True)
class _GroupCalls:
    """Where one group stands."""

    group: str
    reference: weakref.ref[Any]
    sends_and_receives: int = 0
    under_way: dict[int, tuple[int, list[tuple[int, int]], Sequence[Any]]] = field(default_factory=dict)
    """By the hook's number of a call: collectives before it, what each input holds, its outputs."""

    def is_root(self, call: Any) -> bool:
        """Whether this rank is the call's root, in the group's own numbers."""
        group = self.reference()
        return group is not None and bool(call.root == group.rank())

    def so_far(self) -> int:
        """Return the ``collective_seq_id`` of the latest call: gloo's own counter counts sends and receives too."""
        return last_collective(self.reference()) - self.sends_and_receives


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
        self._hook_numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def attach(self) -> None:
        """Record groups made since; done by itself at the next collective of a recorded group."""
        for group, name in live_groups(self._torch):
            if group not in self._hook_numbers:
                self._attach(group, name)

    def close(self) -> None:
        """Stop recording and take the hooks off."""
        atexit.unregister(self.close)
        for group, number in list(self._hook_numbers.items()):
            self._guarded(group.unregister_pre_hook, number)
            self._guarded(group.unregister_post_hook, number)
        self._hook_numbers.clear()
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
        if not hasattr(self._torch.distributed.ProcessGroup, "register_pre_hook"):
            raise RuntimeError(f"torch {self._torch.__version__} has no hooks on collectives: needs torch>=2.15")
        if not live_groups(self._torch):
            raise RuntimeError("no process group: call record after init_process_group")
        self._rank = int(self._torch.distributed.get_rank())
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"tensor_rank_{self._rank}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        self.attach()
        atexit.register(self.close)

    def _attach(self, group: Any, name: str) -> None:
        """Put the hooks on one group, if the numbers of its calls can be told."""
        number = next(_hook_numbers)
        self._hook_numbers[group] = number
        if not _is_all_gloo(self._torch, group):
            self.gaps[f"group {name}: not on gloo alone: the numbers of its calls cannot be told"] += 1
            return
        if last_collective(group) > 0:
            self.gaps[f"group {name}: was used before it was recorded: the numbers of its calls cannot be told"] += 1
            return
        calls = _GroupCalls(name, weakref.ref(group))
        group.register_pre_hook(number, lambda call: self._guarded(self._before, calls, call))
        group.register_post_hook(number, lambda call: self._guarded(self._after, calls, call))

    def _before(self, calls: _GroupCalls, call: Any) -> None:
        """Read the inputs: an operation in place overwrites them."""
        if call.name.name in _POINT_TO_POINT:
            calls.sends_and_receives += 1
            return
        if call.input_tensors or call.output_tensors:
            inputs, outputs = _sides(call, is_root=calls.is_root(call))
            counts = [self._count([tensor]) for tensor in inputs]
            calls.under_way[call.op_id] = calls.so_far(), counts, outputs

    def _after(self, calls: _GroupCalls, call: Any) -> None:
        """Write the inputs under the number the call got, and have the outputs read when the call is done."""
        if len(live_groups(self._torch)) != len(self._hook_numbers):
            self.attach()
        if call.op_id not in calls.under_way:
            return
        before, counts, outputs = calls.under_way.pop(call.op_id)
        seq = calls.so_far()
        if seq == before + 1:
            self._write(calls.group, seq, "in", _sum(counts))
            self._await(calls.group, seq, outputs, call)
        elif seq == before + len(counts):
            for number, count in enumerate(counts, before + 1):
                self._write(calls.group, number, "in", count)
            self.gaps[f"out of {call.name.name}: gloo makes one call of each of its inputs"] += len(counts)
        else:
            self.gaps[f"{call.name.name}: gloo counts it as {seq - before} calls"] += 1

    def _await(self, group: str, seq: int, outputs: Sequence[Any], call: Any) -> None:
        """Have the outputs read when the call is done, before whoever waits for it goes on."""
        try:
            future = call.work.get_future()
        except RuntimeError:
            self.gaps[f"out of {call.name.name}: gloo does not tell when it is done"] += 1
            return
        future.then(lambda done: self._guarded(self._when_done, group, seq, outputs, done))

    def _when_done(self, group: str, seq: int, outputs: Sequence[Any], done: Any) -> None:
        _, fault = tried(done.value)
        if fault is not None:
            self.gaps["out of a call that failed"] += 1
            return
        self._write(group, seq, "out", self._count(outputs))

    def _count(self, tensors: Sequence[Any]) -> tuple[int, int]:
        """Return (NaN values, infinite values) of some tensors.

        Raises:
            ValueError: One of them cannot be read here.
        """
        with self._torch.no_grad():
            for tensor in tensors:
                if tensor.device.type != "cpu" or tensor.layout != self._torch.strided:
                    raise ValueError("a tensor is not dense or not in the memory of the CPU")
            return _sum([_non_finite(self._torch, tensor) for tensor in tensors])

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


def _sides(call: Any, *, is_root: bool) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return what this rank puts in, and what will hold what it gets.

    A buffer that only waits for data is no input; who puts in or gets nothing has no value that is not finite.
    """
    name = call.name.name
    inputs = () if name == "BROADCAST" and not is_root else call.input_tensors
    if name in {"REDUCE", "GATHER"} and not is_root:
        return inputs, ()
    return inputs, call.output_tensors or (call.input_tensors if name in _IN_PLACE else ())


def _is_all_gloo(torch: Any, group: Any) -> bool:
    config = str(distributed_world(torch).pg_backend_config.get(group, ""))
    return all(part.rpartition(":")[2] == "gloo" for part in config.split(","))


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
