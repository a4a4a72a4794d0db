"""Taint: how far a call is from a tensor that was found not finite, within a step or a few.

Lineage is known by memory alone: a call that takes in what a tainted call gave, in the same storage and not written to
since. What the program makes of a tensor by itself is not seen; nothing is said of it then. Nothing is followed, and
next to nothing is done, until something is found.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from provstore.capture.fail_open import tried

MOST_HOPS = 3
_MOST_MARKS = 1024


@dataclass(slots=True)
class _Mark:
    """A part of a storage that came from a tensor that was not finite."""

    storage: Any
    """A weak reference: the memory may go, but no other storage takes its identity meanwhile."""
    begin: int
    end: int
    version: int
    hops: int
    """From the tensor that was found: 0 for that tensor itself."""
    age: int = 0


class Taint:
    """What is tainted on this rank.

    Args:
        torch: The module.
        window_steps: After the ends of so many steps nothing is tainted any more; 0 follows nothing.
    """

    def __init__(self, torch: Any, window_steps: int = 1) -> None:
        self._torch = torch
        self._window_steps = window_steps
        self._marks: dict[int, list[_Mark]] = {}
        """By identity of the storage."""
        self._gradients: dict[str, int] = {}
        """Name of a gradient that was not finite → its age."""
        self._count = 0
        self._lock = threading.Lock()

    @property
    def is_active(self) -> bool:
        """Whether anything is tainted."""
        return bool(self._marks or self._gradients)

    def length(self, tensors: Sequence[Any], gradients: Iterable[str] = ()) -> int:
        """Return how many hops a call is from what was found, 0 where none is known.

        Args:
            tensors: What the call takes in.
            gradients: Names of those that it carries.
        """
        if not self.is_active:
            return 0
        with self._lock:
            hops = [0] if any(name in self._gradients for name in gradients) else []
            hops += [mark.hops for tensor in tensors for mark in self._within(tensor) if _is_unwritten(mark, tensor)]
        nearest = min(hops, default=MOST_HOPS)
        return nearest + 1 if nearest < MOST_HOPS else 0

    def found(self, tensors: Sequence[Any], gradient: str | None = None) -> None:
        """Take note of tensors that are not finite, and of the name of the gradient that they are."""
        if not self._window_steps:
            return
        with self._lock:
            if gradient is not None and len(self._gradients) < _MOST_MARKS:
                self._gradients[gradient] = 0
            for tensor in tensors:
                self._mark(tensor, 0)

    def gave(self, tensors: Sequence[Any], length: int, *, is_finite: bool | None) -> None:
        """Take note of what a call gave: what was there before is gone, and it is as far off as the call.

        Args:
            tensors: Its outputs.
            length: Of the call itself, 0 where it is not tainted.
            is_finite: Whether they are; ``None`` where nobody looked.
        """
        if not self._marks and not length and is_finite is not False:
            return
        with self._lock:
            for tensor in tensors:
                self._unmark(tensor)
                if self._window_steps and (is_finite is False or 0 < length < MOST_HOPS):
                    self._mark(tensor, 0 if is_finite is False else length)

    def end_step(self) -> None:
        """Let the window move on."""
        if not self.is_active:
            return
        with self._lock:
            self._gradients = {name: age + 1 for name, age in self._gradients.items() if age + 1 < self._window_steps}
            for marks in self._marks.values():
                for mark in marks:
                    mark.age += 1
            self._keep(lambda mark: mark.age < self._window_steps)

    def _mark(self, tensor: Any, hops: int) -> None:
        version, _ = tried(getattr, tensor, "_version")
        place, _ = tried(_place_of, tensor)
        if version is None or place is None or self._count >= _MOST_MARKS:
            return
        storage, begin, end = place
        weak = self._torch.multiprocessing.reductions.StorageWeakRef(storage)
        self._marks.setdefault(storage._cdata, []).append(_Mark(weak, begin, end, version, hops))  # noqa: SLF001
        self._count += 1

    def _unmark(self, tensor: Any) -> None:
        gone = set(map(id, self._within(tensor)))
        if gone:
            self._keep(lambda mark: id(mark) not in gone)

    def _within(self, tensor: Any) -> list[_Mark]:
        """Return the marks in the memory of a tensor."""
        place, _ = tried(_place_of, tensor) if self._marks else (None, None)
        if place is None:
            return []
        storage, begin, end = place
        marks = self._marks.get(storage._cdata, ())  # noqa: SLF001
        return [mark for mark in marks if begin < mark.end and mark.begin < end]

    def _keep(self, is_kept: Any) -> None:
        kept = {key: [mark for mark in marks if is_kept(mark)] for key, marks in self._marks.items()}
        self._marks = {key: marks for key, marks in kept.items() if marks}
        self._count = sum(map(len, self._marks.values()))


def _is_unwritten(mark: _Mark, tensor: Any) -> bool:
    version, _ = tried(getattr, tensor, "_version")
    return version == mark.version


def _place_of(tensor: Any) -> tuple[Any, int, int] | None:
    """Return the storage of a tensor, and where its elements begin and end in it; ``None`` where it has no elements.

    Raises:
        Exception: It has no storage of its own, as a sparse one.
    """
    if not tensor.numel():
        return None
    size = int(tensor.element_size())
    begin = int(tensor.storage_offset()) * size
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.untyped_storage(), begin, begin + (last + 1) * size
