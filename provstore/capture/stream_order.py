"""When what a call gave on a device can be read: in the order of a stream, which the host never sees.

A backend that works on a device tells that it is done when it has only launched its work, or on a thread and stream of
its own. What is read there may be read too early, or be overwritten meanwhile, and a wrong digest would accuse a
healthy rank. So outputs are read in two places alone: behind a call that its issuer waits for, on the issuer's stream;
and, of the buckets of DDP, at the end of the backward pass, where nobody has touched them yet.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from provstore.capture.fail_open import tried
from provstore.capture.wrapping import Wrapping

HOST = "cpu"
_BEGINS, _ENDS = "_start_coalescing", "_end_coalescing"


def is_on_device(tensors: Sequence[Any]) -> bool:
    """Return whether some of the tensors are not in the memory of the host."""
    for tensor in tensors:  # noqa: SIM110  asked several times of every call, and several times faster than any()
        if not tensor.is_cpu:
            return True
    return False


class Coalescing:
    """Sees which groups gather calls to launch them later together: what one of those gives is not known by itself."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._groups: weakref.WeakSet[Any] = weakref.WeakSet()
        around = {name: partial(self._around, is_begin=name == _BEGINS) for name in (_BEGINS, _ENDS)}
        self._methods = Wrapping(torch.distributed.ProcessGroup, around)

    def wrap(self) -> None:
        """Begin to see it, where there is an accelerator."""
        if self._torch.accelerator.current_accelerator(check_available=True) is not None:
            self._methods.wrap()

    def unwrap(self) -> None:
        """See it no longer."""
        self._methods.unwrap()

    def covers(self, group: Any) -> bool:
        """Return whether a group gathers calls now."""
        return group in self._groups

    def _around(self, original: Any, *, is_begin: bool) -> Any:
        @functools.wraps(original)
        def method(group: Any, *arguments: Any, **options: Any) -> Any:
            if is_begin:
                tried(self._groups.add, group)
            try:
                return original(group, *arguments, **options)
            finally:
                if not is_begin:
                    tried(self._groups.discard, group)

        return method


def at_end_of_backward(torch: Any, action: Callable[[], object]) -> bool:
    """Have something done at the end of the backward pass that this thread is in, on the stream of who called it.

    Returns:
        Whether it will be: not outside a backward pass.
    """
    _, fault = tried(torch.autograd.Variable._execution_engine.queue_callback, action)  # noqa: SLF001  public from 2.15
    return fault is None


def is_in_backward(torch: Any) -> bool:
    """Return whether this thread is within a backward pass; where torch does not tell, it is not known to be."""
    found, _ = tried(torch._C._current_graph_task_id)  # noqa: SLF001  torch has no public name for it
    return found is not None and found >= 0


def is_capturing(torch: Any, tensors: Sequence[Any]) -> bool:
    """Return whether what is launched now on the device of some tensors becomes part of a graph."""
    found = [tensor.device for tensor in tensors if tensor.device.type != HOST]
    asked, _ = tried(lambda: torch.get_device_module(found[0]).is_current_stream_capturing)
    return asked is not None and bool(asked())
