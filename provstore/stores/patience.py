"""How long one operation on a store goes on when its server or the network fails in passing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

FIRST_DELAY_SECONDS = 0.1
LONGEST_DELAY_SECONDS = 5.0
Answer = TypeVar("Answer")


class Patience:
    """What one operation may lose to failures: its failed tries and the waits between them count, its work does not.

    All steps of the operation share it, so that an operation of many steps is bounded like one of a single step.

    Args:
        seconds: No new try begins when so much is lost.
        is_passing: Whether a failure may pass; any other is raised at once.
        clock: Gives seconds that never run backwards.
        wait: Waits for seconds.
    """

    def __init__(
        self,
        seconds: float,
        is_passing: Callable[[Exception], bool],
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._left = seconds
        self._is_passing = is_passing
        self._clock, self._wait = clock, wait

    def of(self, work: Callable[[], Answer], seconds: float | None = None) -> Answer:
        """Return what ``work`` gives, tried again until it succeeds or the patience is at its end.

        Args:
            work: Can be done again after it failed.
            seconds: A shorter patience for this step alone.

        Raises:
            Exception: What the last try raised.
        """
        keep = 0.0 if seconds is None else max(0.0, self._left - seconds)
        delay = FIRST_DELAY_SECONDS
        while True:
            began = self._clock()
            try:
                return work()
            except Exception as error:
                self._left -= self._clock() - began
                if not self._is_passing(error) or self._left - delay < keep:
                    raise
            self._wait(delay)
            self._left -= delay
            delay = min(2 * delay, LONGEST_DELAY_SECONDS)
