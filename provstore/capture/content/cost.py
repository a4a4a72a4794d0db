"""What recording takes of the processor time of a rank, and whether that has to be said."""

from __future__ import annotations

import time
from collections.abc import Callable

_TOLD_ABOVE = (50, 20, 10, 5)
"""Percent of what the rank takes without recording: above the last of them it is said, in these steps."""
_LEAST_STEPS = 32
_LEAST_NS = 1_000_000_000
"""Of what recording took: less is no cost, whatever its share of a short job."""


class Cost:
    """The sum over the steps of an epoch in which nothing is escalated; more is allowed in the others, and wanted.

    Args:
        processor_ns: Gives what all threads of this process have had of the processor.
    """

    def __init__(self, processor_ns: Callable[[], int] = time.process_time_ns) -> None:
        self._processor_ns = processor_ns
        self._before_ns: int | None = None
        self._steps = self._own_ns = self._whole_ns = 0

    def end_step(self, own_ns: int, *, is_counted: bool) -> None:
        """Take in what recording took of a step; of the first nobody knows what the rest took."""
        now_ns = self._processor_ns()
        before_ns, self._before_ns = self._before_ns, now_ns
        if is_counted and before_ns is not None:
            self._steps += 1
            self._own_ns += own_ns
            self._whole_ns += now_ns - before_ns

    def end_epoch(self) -> str | None:
        """Return what is to be said of the epoch, ``None`` where recording cost little, and begin another."""
        steps, own_ns, rest_ns = self._steps, self._own_ns, self._whole_ns - self._own_ns
        self._steps = self._own_ns = self._whole_ns = 0
        for percent in _TOLD_ABOVE if steps >= _LEAST_STEPS and own_ns >= _LEAST_NS else ():
            if own_ns * 100 > percent * rest_ns:
                return (
                    f"recording took more than {percent} % of the processor time of training: calls and their flags "
                    "are never left out, however many there are in a step"
                )
        return None
