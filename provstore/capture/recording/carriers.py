"""Which call carries the gradient of which parameter: by the memory it moves, and by the buckets of DDP.

DDP cuts its parameters into buckets when it is made, and once more after its first backward pass, in the order in which
gradients became ready. Rank 0 then tells the others by two broadcasts, which are seen here like any other call.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from provstore.capture.fail_open import tried
from provstore.capture.live_calls import LiveCall

_ALL_REDUCE, _BROADCAST = "ALLREDUCE", "BROADCAST"
_INDEX_DTYPE = "torch.int32"
"""Of the tensors in which DDP tells its buckets."""
_TELLS = ("torch.nn.parallel.distributed", "_pre_forward")
"""Module and method of DDP that has its reducer make them anew."""

NOT_KNOWN = "which gradients the buckets of DDP hold is not known"
NO_SUCH_CALL = "no call of the step is of the size and type of its bucket"


def tells_buckets(call: LiveCall) -> bool:
    """Return whether a call, about to be issued, is one in which DDP tells its new buckets, as who makes it shows."""
    if call.name != _BROADCAST or len(call.outputs) != 1 or str(call.outputs[0].dtype) != _INDEX_DTYPE:
        return False
    frame = sys._getframe(1)  # noqa: SLF001  the stack itself would hold every caller
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("provstore.capture."):
        frame = frame.f_back
    return (frame.f_globals.get("__name__"), frame.f_code.co_name) == _TELLS


class Carriers:
    """The gradients that are ready and that no call has carried yet.

    What is not certain is not said: a gradient that was copied into a buffer by the program itself has no carrier.
    """

    def __init__(self) -> None:
        self._ready: dict[int, tuple[str, Any]] = {}
        """By identity of the parameter."""
        self._by_storage: dict[int, list[int]] = {}
        self._buckets: list[_Buckets] = []

    def watch(self, model: Any, names: Mapping[int, str]) -> None:
        """Look at the buckets of a model, if it is wrapped by DDP."""
        if hasattr(model, "_get_ddp_logging_data") and hasattr(model, "process_group"):
            self._buckets.append(_Buckets(model, names))

    def is_ready(self, name: str, parameter: Any) -> None:
        """Take note of a gradient that was just accumulated."""
        key = id(parameter)
        self._ready[key] = (name, parameter)
        storage, _ = tried(_storage, parameter.grad)
        if storage is not None:
            self._by_storage.setdefault(storage, []).append(key)

    @property
    def has_models(self) -> bool:
        """Whether a model is looked at that is wrapped by DDP."""
        return bool(self._buckets)

    @property
    def has_ready(self) -> bool:
        """Whether gradients are ready that no call has carried."""
        return bool(self._ready)

    def carried(self, call: LiveCall) -> list[str]:
        """Return the names of the gradients that a call, about to be issued, carries; each is carried once."""
        for buckets in self._meant(call):
            buckets.expect()
        if not self._ready or call.is_point_to_point:
            return []
        keys = [key for tensor in call.inputs for key in self._inside(tensor)] or self._in_bucket(call)
        return [name for name, _ in (self._ready.pop(key) for key in dict.fromkeys(keys))]

    def saw_result(self, call: LiveCall) -> None:
        """Look at what a call gave: a broadcast may be the one in which DDP tells its buckets."""
        meant = self._meant(call)
        # Of two models that it may be of it says nothing; and what lies on a device is not waited for.
        if len(meant) == 1 and call.outputs[0].device.type == "cpu":
            meant[0].take(call.outputs[0].tolist())

    def why_not(self) -> dict[str, str]:
        """Return why nothing carries the gradients that are ready, by name; those of no DDP model are not in it."""
        return {
            name: buckets.reason
            for buckets in self._buckets
            for key, (name, _) in self._ready.items()
            if buckets.holds(key)
        }

    def is_of_ddp(self, call: LiveCall) -> bool:
        """Return whether a call is an all_reduce in a group of a model that is wrapped by DDP."""
        return call.name == _ALL_REDUCE and any(one.is_in(call.group.reference()) for one in self._buckets)

    def end_step(self) -> None:
        """Forget what no call carried, and let the next backward pass begin with the first bucket."""
        self._ready.clear()
        self._by_storage.clear()
        for buckets in self._buckets:
            buckets.begin()

    def _meant(self, call: LiveCall) -> list[_Buckets]:
        """Return the models that a broadcast may tell the new buckets of."""
        if call.name != _BROADCAST or not self._buckets:
            return []
        tensor = call.outputs[0] if len(call.outputs) == 1 else None
        if tensor is None or str(tensor.dtype) != _INDEX_DTYPE:
            return []
        return [one for one in self._buckets if one.may_be_told(call.group.reference(), tensor)]

    def _inside(self, tensor: Any) -> list[int]:
        storage, _ = tried(_storage, tensor)
        if storage is None or storage not in self._by_storage:
            return []
        begin = tensor.data_ptr()
        end = begin + tensor.numel() * tensor.element_size()
        return [
            key
            for key in self._by_storage[storage]
            if key in self._ready and begin <= self._ready[key][1].grad.data_ptr() < end
        ]

    def _in_bucket(self, call: LiveCall) -> list[int]:
        if call.name != _ALL_REDUCE or len(call.inputs) != 1:
            return []
        for buckets in self._buckets:
            found = buckets.next_if(call.group.reference(), call.inputs[0], self._ready)
            if found:
                return found
        return []


class _Buckets:
    """The buckets of one DDP model; its reducer issues them in order."""

    def __init__(self, model: Any, names: Mapping[int, str]) -> None:
        self._model = model
        ignored: frozenset[str] = frozenset(getattr(model, "parameters_to_ignore", ()))
        self._parameters = [
            parameter
            for name, parameter in model.module.named_parameters()
            if parameter.requires_grad and name not in ignored and id(parameter) in names
        ]
        self._keys = frozenset(map(id, self._parameters))
        self._is_final = False
        self._next = 0
        self._told: list[Any] | None = None
        """Parameters in the order of the new buckets, as rank 0 told it; how many lie in each comes next."""
        self._kept: list[list[Any]] = []
        """What was known before it was about to tell."""
        said = self._model._get_ddp_logging_data()  # noqa: SLF001  torch has no public name for it
        # Past its first pass, DDP may have made them anew already; where it looks for unused parameters it never does.
        is_fresh = not said.get("iteration") or bool(said.get("find_unused_parameters"))
        self._known = self._first_buckets(_numbers(said.get("bucket_sizes"))) if is_fresh else []
        self._look()

    def begin(self) -> None:
        """Expect the first bucket of another backward pass.

        The model is asked here and not when a bucket is issued: its reducer holds its lock then.
        """
        self._next = 0
        if not self._is_final:
            self._look()

    @property
    def reason(self) -> str:
        """Why a call that carries one of its gradients is not found."""
        return NO_SUCH_CALL if self._known else NOT_KNOWN

    def holds(self, key: int) -> bool:
        """Return whether a parameter is one of the model's."""
        return key in self._keys

    def may_be_told(self, group: Any, tensor: Any) -> bool:
        """Return whether a broadcast tensor may be of this model's new buckets: their order, or their sizes."""
        if self._is_final or group is not self._model.process_group:
            return False
        return self._told is not None or tensor.numel() == len(self._parameters) + 1

    def expect(self) -> None:
        """Know nothing from now on: rank 0 is about to tell, and it may not be seen."""
        self._kept, self._known = self._known or self._kept, []

    def take(self, numbers: Sequence[int]) -> None:
        """Take in what rank 0 told: first the order of the parameters and the number of buckets, then their sizes."""
        told, self._told = self._told, None
        *order, count = numbers
        if told is not None and min(numbers) > 0 and sum(numbers) == len(told):
            ends = [0, *itertools.accumulate(numbers)]
            self._known, self._kept, self._next = [told[a:b] for a, b in itertools.pairwise(ends)], [], 0
        elif told is None and count > 0 and sorted(order) == list(range(len(self._parameters))):
            self._told = [self._parameters[at] for at in order]
        elif told is None:
            self._known, self._kept = self._kept, []

    def is_in(self, group: Any) -> bool:
        """Return whether the model reduces its gradients in a group."""
        return group is not None and group is self._model.process_group

    def next_if(self, group: Any, tensor: Any, ready: Mapping[int, Any]) -> list[int]:
        """Return the parameters of the next bucket if this tensor can be nothing else, else nothing."""
        if group is not self._model.process_group or not self._known:
            return []
        bucket = self._known[self._next]
        fits = (
            sum(parameter.numel() for parameter in bucket) == tensor.numel()
            and all(parameter.dtype == tensor.dtype for parameter in bucket)
            and all(id(parameter) in ready for parameter in bucket)
        )
        if not fits:
            return []
        self._next = (self._next + 1) % len(self._known)
        return [id(parameter) for parameter in bucket]

    def _look(self) -> None:
        """Ask the model for its new buckets; it tells them later than rank 0 does."""
        said = self._model._get_ddp_logging_data()  # noqa: SLF001  torch has no public name for it
        rebuilt = str(said.get("rebuilt_per_bucket_param_indices", ""))
        if said.get("has_rebuilt_buckets") and rebuilt:
            buckets = [[self._parameters[int(at)] for at in part.split()] for part in rebuilt.split(",")]
            self._is_final = _sizes(buckets) == _numbers(said.get("rebuilt_bucket_sizes"))
            self._known = buckets if self._is_final else []

    def _first_buckets(self, sizes: Sequence[int]) -> list[list[Any]]:
        """Return the buckets before the first pass: parameters from the last to the first, cut where the sizes say."""
        left, buckets = list(self._parameters), []
        for size in sizes:
            bucket: list[Any] = []
            while left and _sizes([bucket])[0] < size:
                bucket.insert(0, left.pop())
            buckets.append(bucket)
        return buckets if not left and _sizes(buckets) == list(sizes) else []


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _sizes(buckets: Sequence[Sequence[Any]]) -> list[int]:
    return [sum(parameter.numel() * parameter.element_size() for parameter in bucket) for bucket in buckets]


def _numbers(text: object) -> list[int]:
    return [int(part) for part in str(text or "").split(",") if part.strip().isdecimal()]
