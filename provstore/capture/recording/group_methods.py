"""Methods of ``ProcessGroup``, wrapped: they tell how a call reduces and, where torch has no hooks, that it happens.

Calls that C++ makes, such as those of DDP's reducer, do not pass here.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from provstore.capture.collective_calls import CallHooks
from provstore.capture.fail_open import tried
from provstore.capture.wrapping import Wrapping

_here = threading.local()
_numbers = itertools.count(1 << 40)

_REDUCES = (
    "allreduce",
    "allreduce_coalesced",
    "reduce",
    "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_single",
    "reduce_scatter_tensor_coalesced",
    "reduce_scatter_single_coalesced",
)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Where a method has its tensors: positions of outputs and inputs among its arguments."""

    name: str
    outputs: int | None = None
    inputs: int | None = None
    position: int | None = None
    """Of the other end."""


_SHAPES = {
    "allreduce": _Shape("ALLREDUCE", inputs=0),
    "allreduce_coalesced": _Shape("ALLREDUCE_COALESCED", inputs=0),
    "broadcast": _Shape("BROADCAST", inputs=0),
    "reduce": _Shape("REDUCE", inputs=0),
    "allgather": _Shape("ALLGATHER", outputs=0, inputs=1),
    "_allgather_base": _Shape("ALLGATHER_BASE", outputs=0, inputs=1),
    "all_gather_single": _Shape("ALLGATHER_BASE", outputs=0, inputs=1),
    "allgather_coalesced": _Shape("ALLGATHER_COALESCED", outputs=0, inputs=1),
    "allgather_into_tensor_coalesced": _Shape("ALLGATHER_INTO_TENSOR_COALESCED", outputs=0, inputs=1),
    "all_gather_single_coalesced": _Shape("ALLGATHER_INTO_TENSOR_COALESCED", outputs=0, inputs=1),
    "reduce_scatter": _Shape("REDUCE_SCATTER", outputs=0, inputs=1),
    "_reduce_scatter_base": _Shape("REDUCE_SCATTER_BASE", outputs=0, inputs=1),
    "reduce_scatter_single": _Shape("REDUCE_SCATTER_BASE", outputs=0, inputs=1),
    "reduce_scatter_tensor_coalesced": _Shape("REDUCE_SCATTER_TENSOR_COALESCED", outputs=0, inputs=1),
    "reduce_scatter_single_coalesced": _Shape("REDUCE_SCATTER_TENSOR_COALESCED", outputs=0, inputs=1),
    "alltoall": _Shape("ALLTOALL", outputs=0, inputs=1),
    "alltoall_base": _Shape("ALLTOALL_BASE", outputs=0, inputs=1),
    "all_to_all_single": _Shape("ALLTOALL_BASE", outputs=0, inputs=1),
    "gather": _Shape("GATHER", outputs=0, inputs=1),
    "scatter": _Shape("SCATTER", outputs=0, inputs=1),
    "barrier": _Shape("BARRIER"),
    "send": _Shape("SEND", inputs=0, position=1),
    "recv": _Shape("RECV", outputs=0, position=1),
    "recv_anysource": _Shape("RECV", outputs=0),
}


@dataclass(frozen=True, slots=True)
class _Name:
    name: str


@dataclass(slots=True)
class _Args:
    """What a hook of torch would be given."""

    name: _Name
    input_tensors: Sequence[Any]
    output_tensors: Sequence[Any]
    root: int
    async_op: bool
    op_id: int = field(default_factory=lambda: next(_numbers))
    work: Any = None


class GroupMethods:
    """The wrapped methods, from ``wrap`` to ``unwrap``."""

    def __init__(self, torch: Any, hooks: CallHooks, guard: Callable[..., None]) -> None:
        self._kind = torch.distributed.ReduceOp.RedOpType
        self._hooks = hooks
        self._guard = guard
        names = _REDUCES if hooks.has_hooks else (*_REDUCES, *_SHAPES)
        around = {name: partial(self._around, name) for name in names}
        self._methods = Wrapping(torch.distributed.ProcessGroup, around)

    def wrap(self) -> None:
        """Begin to see calls that pass through Python."""
        self._methods.wrap()

    def unwrap(self) -> None:
        """See them no longer."""
        self._methods.unwrap()

    def _around(self, name: str, original: Any) -> Any:
        sees = not self._hooks.has_hooks and name in _SHAPES

        @functools.wraps(original)
        def method(group: Any, *arguments: Any, **options: Any) -> Any:
            outer = getattr(_here, "reduce_op", None)
            _here.reduce_op = tried(self._reduce_op, arguments, options)[0] if name in _REDUCES else None
            try:
                args = tried(self._seen_before, name, group, arguments, options)[0] if sees else None
                work = original(group, *arguments, **options)
                if args is not None:
                    args.work = work
                    self._guard(self._seen_after, group, args)
                return work
            finally:
                _here.reduce_op = outer

        return method

    def _reduce_op(self, arguments: Sequence[Any], options: Any) -> str | None:
        for value in (*arguments, *options.values()):
            op = getattr(value, "reduceOp", value)
            kind = getattr(op, "op", op)
            if isinstance(kind, self._kind):
                return str(kind.name).lower()
        return None

    def _seen_before(self, name: str, group: Any, arguments: Sequence[Any], options: Any) -> _Args | None:
        live = self._hooks.group_of(group)
        if live is None:
            self._guard(self._hooks.attach)
            live = self._hooks.group_of(group)
        if live is None:
            return None
        shape = _SHAPES[name]
        given = list(arguments)
        settings = next((one for one in (*given, *options.values()) if hasattr(one, "asyncOp")), None)
        args = _Args(
            _Name(shape.name),
            _flat(given[shape.inputs]) if shape.inputs is not None else (),
            _flat(given[shape.outputs]) if shape.outputs is not None else (),
            int(given[shape.position]) if shape.position is not None else int(getattr(settings, "rootRank", -1)),
            bool(getattr(settings, "asyncOp", True)),
        )
        self._guard(self._hooks.before, live, args)
        return args

    def _seen_after(self, group: Any, args: _Args) -> None:
        live = self._hooks.group_of(group)
        if live is not None:
            self._hooks.after(live, args)


def reduce_op_under_way() -> str | None:
    """Return how the call that this thread is making reduces; ``None`` where that did not pass through Python."""
    found: str | None = getattr(_here, "reduce_op", None)
    return found


def _flat(value: Any) -> tuple[Any, ...]:
    """Return the tensors of an argument: one, a list, or a list of lists."""
    if isinstance(value, list | tuple):
        return tuple(tensor for part in value for tensor in _flat(part))
    return (value,)
