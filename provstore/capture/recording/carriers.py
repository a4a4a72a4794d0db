"""Which call carries the gradient of which parameter: by the memory it moves, and by the buckets of DDP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from provstore.capture.collective_calls import LiveCall
from provstore.capture.fail_open import tried

_ALL_REDUCE = "ALLREDUCE"


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

    def carried(self, call: LiveCall) -> list[str]:
        """Return the names of the gradients that a call, about to be issued, carries; each is carried once."""
        if not self._ready or call.is_point_to_point:
            return []
        keys = [key for tensor in call.inputs for key in self._inside(tensor)] or self._in_bucket(call)
        return [name for name, _ in (self._ready.pop(key) for key in dict.fromkeys(keys))]

    def end_step(self) -> None:
        """Forget what no call carried, and let the next backward pass begin with the first bucket."""
        self._ready.clear()
        self._by_storage.clear()
        for buckets in self._buckets:
            buckets.begin()

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
        self._is_final = False
        self._backward_passes = 0
        self._next = 0
        self._known = self._look()

    def begin(self) -> None:
        """Expect the first bucket of another backward pass.

        The model is asked here and not when a bucket is issued: its reducer holds its lock then.
        """
        self._backward_passes += 1
        self._next = 0
        if not self._is_final:
            self._known = self._look()

    def next_if(self, group: Any, tensor: Any, ready: Mapping[int, Any]) -> list[int]:
        """Return the parameters of the next bucket if this tensor can be nothing else, else nothing."""
        if group is not self._model.process_group:
            return []
        if self._next >= len(self._known):
            return []
        bucket = self._known[self._next]
        fits = (
            sum(parameter.numel() for parameter in bucket) == tensor.numel()
            and all(parameter.dtype == tensor.dtype for parameter in bucket)
            and all(id(parameter) in ready for parameter in bucket)
        )
        if not fits:
            return []
        self._next += 1
        return [id(parameter) for parameter in bucket]

    def _look(self) -> list[list[Any]]:
        said = self._model._get_ddp_logging_data()  # noqa: SLF001  torch has no public name for it
        rebuilt = str(said.get("rebuilt_per_bucket_param_indices", ""))
        if said.get("has_rebuilt_buckets") and rebuilt:
            buckets = [[self._parameters[int(at)] for at in part.split()] for part in rebuilt.split(",")]
            self._is_final = _sizes(buckets) == _numbers(said.get("rebuilt_bucket_sizes"))
            return buckets if self._is_final else []
        # DDP makes its buckets anew after the first pass, unless it looks for unused parameters, and tells it later.
        if self._backward_passes and not said.get("find_unused_parameters"):
            return []
        return self._first_buckets(_numbers(said.get("bucket_sizes")))

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
