"""Accelerators, by the interface that torch has for all of them: what is read there, is read in the order of a stream.

Nothing here waits for a device. Copies and finite flags are put behind what the current stream has to do, and brought
to the host on a stream of their own; whether they are there is asked later. No work is done elsewhere than in the
threads of training: even to ask for an event from another thread would break a capture of a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from provstore.capture.content.digest import dense_local
from provstore.capture.content.finite import finite_flag
from provstore.capture.content.shortfall import ShortfallError, UnsupportedDtypeError
from provstore.capture.fail_open import tried
from provstore.model.recording import CLONE_BUDGET

_NEEDED = ("Stream", "Event", "stream", "current_stream", "current_device")


class Device:
    """One accelerator of this process.

    Args:
        torch: The module.
        device: With its index.
        module: What torch has for devices of its type, such as ``torch.cuda``.
    """

    def __init__(self, torch: Any, device: Any, module: Any) -> None:
        self._torch = torch
        self._device = device
        self._module = module
        self._side: Any = None

    def is_capturing(self) -> bool:
        """Whether what is launched now becomes part of a graph instead of being done."""
        asked = getattr(self._module, "is_current_stream_capturing", None)
        if asked is None:
            return False
        if self._module.current_device() == self._device.index:
            return bool(asked())
        with self._module.device(self._device.index):
            return bool(asked())

    def mark(self) -> Any:
        """Return an event that is done when all that the current stream has to do now is done."""
        event = self._module.Event()
        event.record(self._module.current_stream(self._device))
        return event

    def fetch(self, pieces: Sequence[Any], marks: Sequence[Any]) -> tuple[list[Any], Any]:
        """Begin to bring tensors to the host.

        Args:
            pieces: Contiguous tensors of this device, kept alive by the caller until the event is done.
            marks: Events after which they are what they shall be.

        Returns:
            Tensors in pinned memory, to be read when the event beside them is done.

        Raises:
            ShortfallError: One is of a dtype that cannot be copied.
        """
        torch = self._torch
        if self._side is None:
            self._side = self._module.Stream(self._device)
        with torch.no_grad(), self._module.stream(self._side):
            for mark in marks:
                self._side.wait_event(mark)
            hosts = [_begun(torch, piece) for piece in pieces]
            done = self._module.Event()
            done.record(self._side)
        return hosts, done

    def abandon(self, pieces: Sequence[Any]) -> None:
        """Let tensors go although a copy of them may be under way: their memory is not used again before its end."""
        for piece in pieces:
            if self._side is not None:
                tried(piece.record_stream, self._side)


@dataclass(slots=True)
class Away:
    """What was made of one side of an action on its device, and is not on the host yet."""

    device: Device
    flag: Any = None
    """A tensor with one truth: all values are finite."""
    clones: tuple[Any, ...] | None = None
    marks: list[Any] = field(default_factory=list)
    """Events after which flag and clones are what they shall be."""


class Devices:
    """The accelerators of this process whose tensors can be read."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._known: dict[Any, Device | None] = {}

    def of(self, tensors: Sequence[Any]) -> Device | None:
        """Return the accelerator on which some tensors are; ``None`` where they cannot be read in order now."""
        places = {tensor.device for tensor in tensors}
        if len(places) != 1:
            return None
        place = places.pop()
        if place not in self._known:
            self._known[place] = self._find(place)
        device = self._known[place]
        return None if device is None or device.is_capturing() else device

    def warm_up(self) -> None:
        """Do each piece of work once, if training has begun to use an accelerator.

        The first use of a kernel loads it, which can wait for the device: better now than between collectives.
        """
        torch = self._torch
        kind = _accelerator(torch)
        if kind is None or not getattr(torch.get_device_module(kind), "is_initialized", lambda: False)():
            return
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            tensors = [torch.zeros(2, dtype=dtype, device=kind)]
            device = self.of(tensors)
            if device is None:
                return
            flag, clones = flagged(torch, tensors), copied(torch, tensors)
            device.fetch([flag, *clones], [device.mark()])

    def _find(self, place: Any) -> Device | None:
        if place.index is None or place.type != _accelerator(self._torch):
            return None
        module = self._torch.get_device_module(place)
        return Device(self._torch, place, module) if all(hasattr(module, name) for name in _NEEDED) else None


def flagged(torch: Any, tensors: Sequence[Any]) -> Any:
    """Return a tensor of one truth, whether all values of some tensors are finite; ``None`` where their types say it.

    Raises:
        ShortfallError: The device has no memory left, or a tensor has no elements that can be tested there.
    """
    found = None
    with _as_shortfall(torch):
        for tensor in tensors:
            flag = finite_flag(torch, tensor)
            if flag is not None:
                found = flag if found is None else found.logical_and(flag)
    return found


def copied(torch: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Return contiguous copies of some tensors on their device, made in the order of its current stream.

    Raises:
        ShortfallError: The device has no memory left for them, or their elements cannot be copied.
    """
    with _as_shortfall(torch), torch.no_grad():
        return tuple(_copied(torch, tensor) for tensor in tensors)


@contextmanager
def _as_shortfall(torch: Any) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise ShortfallError("device: memory: none is left", reason=CLONE_BUDGET) from error
    except NotImplementedError as error:
        raise UnsupportedDtypeError(f"tensor: on its device: {error}") from error


def _copied(torch: Any, tensor: Any) -> Any:
    copy = dense_local(torch, tensor).clone(memory_format=torch.contiguous_format)
    # Conjugation and signs that are only noted are lost on the way to the host.
    return copy.resolve_conj().resolve_neg() if copy.is_conj() or copy.is_neg() else copy


def _begun(torch: Any, piece: Any) -> Any:
    host = torch.empty(piece.shape, dtype=piece.dtype, device="cpu", pin_memory=True)
    with _as_shortfall(torch):
        return host.copy_(piece, non_blocking=True)


def _accelerator(torch: Any) -> str | None:
    found = torch.accelerator.current_accelerator()
    return None if found is None else str(found.type)
