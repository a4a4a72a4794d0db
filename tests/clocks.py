"""A clock for tests of what depends on time."""

from __future__ import annotations

MILLISECOND = 1_000_000
"""In nanoseconds."""


class Clock:
    """A time that moves when it is told to."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def pass_ms(self, milliseconds: float) -> None:
        self.now_ns += int(milliseconds * MILLISECOND)
