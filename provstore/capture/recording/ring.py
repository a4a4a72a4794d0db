"""The ring of recent steps: copies of calls that the budgets left out, in case something escalates soon after."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from provstore.capture.recording.contents import Content

STEPS = 3
"""So many steps before the one under way."""


@dataclass(slots=True, eq=False)
class Held:
    """One call that is held."""

    content: Content
    late: Callable[[], None]
    """Writes it down after all."""
    group: str
    drop: Callable[[], None]
    age: int = 0
    """Steps since it was put in."""


class Ring:
    """What is held, oldest first."""

    def __init__(self, steps: int = STEPS) -> None:
        self._steps = steps
        self._held: deque[Held] = deque()
        self._lock = threading.Lock()

    def put(self, held: Held) -> None:
        """Hold a call."""
        with self._lock:
            self._held.append(held)

    def end_step(self) -> None:
        """Drop what is older than the last steps."""
        with self._lock:
            for held in self._held:
                held.age += 1
            dropped = []
            while self._held and self._held[0].age > self._steps:
                dropped.append(self._held.popleft())
        for one in dropped:
            one.drop()

    def take(self, scope: str) -> list[Held]:
        """Return what is held of a scope, oldest first, and hold it no longer."""
        with self._lock:
            taken = [held for held in self._held if covers(scope, held.group)]
            gone = set(map(id, taken))
            self._held = deque(held for held in self._held if id(held) not in gone)
        return taken

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            dropped, self._held = list(self._held), deque()
        for one in dropped:
            one.drop()


def covers(scope: str, group: str) -> bool:
    """Whether what is escalated for a scope of this rank is so for the calls of a group."""
    kind, _, name = scope.partition(":")
    return kind != "group" or group == name
