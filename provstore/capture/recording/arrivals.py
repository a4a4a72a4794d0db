"""What is on its way from a device to the host: asked for at the boundaries of steps, never waited for in between."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from provstore.capture.content.devices import Away, Device
from provstore.capture.content.shortfall import ShortfallError
from provstore.capture.fail_open import tried
from provstore.capture.recording.contents import Content, Side
from provstore.model.recording import NO_TENSOR_ACCESS

_LOOK_SECONDS = 0.002
"""So often a device is asked at the end, when nothing else is left to do."""


@dataclass(slots=True, eq=False)
class Arrival:
    """The flags and copies of one action."""

    content: Content
    done: Any
    """The event after which they are on the host."""
    hosts: list[Any]
    """In the order of the sides: of each the flag, if there is one, and the copies."""
    landed: Callable[[Arrival], None]
    """Told when they have come, or never will."""
    found: Callable[[], None] | None
    """Told when the flags are known."""
    scopes: list[str] = field(default_factory=list)
    """What was escalated meanwhile."""

    def land(self) -> None:
        """Give the content what has come."""
        rest = iter(self.hosts)
        for side, away in _away(self.content):
            if away.flag is not None:
                side.is_finite = bool(next(rest))
            if away.clones is not None:
                side.copies = tuple(next(rest) for _ in away.clones)
            side.away = None

    def give_up(self) -> None:
        """Let what does not come be let go safely."""
        for _, away in _away(self.content):
            away.device.abandon(_pieces(away))


class Arrivals:
    """What is under way, oldest first, by device; safe in several threads."""

    def __init__(self) -> None:
        self._under_way: dict[Device, deque[Arrival]] = {}
        self._lock = threading.Lock()

    def fetch(
        self, content: Content, landed: Callable[[Arrival], None], found: Callable[[], None] | None = None
    ) -> None:
        """Have the flags and copies of an action brought to the host.

        Raises:
            ShortfallError: They are on several devices, or of a dtype that cannot be brought.
        """
        aways = [away for _, away in _away(content)]
        device = aways[0].device
        if any(away.device is not device for away in aways):
            raise ShortfallError("action: devices: its sides are on several", reason=NO_TENSOR_ACCESS)
        pieces = [piece for away in aways for piece in _pieces(away)]
        try:
            hosts, done = device.fetch(pieces, [mark for away in aways for mark in away.marks])
        except BaseException:
            device.abandon(pieces)
            raise
        with self._lock:
            self._under_way.setdefault(device, deque()).append(Arrival(content, done, hosts, landed, found))

    def come(self) -> list[tuple[Arrival, str | None]]:
        """Return what has come, each with the fault that keeps it away, if one does; it is no longer under way."""
        found: list[tuple[Arrival, str | None]] = []
        with self._lock:
            for device, queue in self._under_way.items():
                # To ask for an event would end the capture of a graph.
                if queue and not device.is_capturing():
                    found += _come(queue)
        return found

    def deepen(self, scope: str) -> None:
        """Take note of what was escalated while these are under way."""
        with self._lock:
            for queue in self._under_way.values():
                for arrival in queue:
                    arrival.scopes.append(scope)

    def wait(self, seconds: float, arrive: Callable[[], None]) -> None:
        """Have what has come taken in until nothing is under way, for so long at most."""
        until = time.monotonic() + seconds
        arrive()
        while len(self) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
            arrive()

    def left(self) -> list[Arrival]:
        """Return what is still under way, and hold it no longer."""
        with self._lock:
            found = [arrival for queue in self._under_way.values() for arrival in queue]
            self._under_way.clear()
        return found

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._under_way.values()))


def _come(queue: deque[Arrival]) -> list[tuple[Arrival, str | None]]:
    """Take from a queue what has come; what was asked for later is done later."""
    found = []
    while queue:
        is_done, fault = tried(queue[0].done.query)
        if fault is None and not is_done:
            break
        found.append((queue.popleft(), fault))
    return found


def _away(content: Content) -> list[tuple[Side, Away]]:
    return [(side, side.away) for side in content.sides() if side.away is not None]


def _pieces(away: Away) -> list[Any]:
    flag = [] if away.flag is None else [away.flag]
    return [*flag, *(away.clones or ())]
