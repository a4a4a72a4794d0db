"""What work costs, told so that it holds on every machine: beside other work of the same moment, never in seconds."""

from __future__ import annotations

import resource
from collections.abc import Callable


def cpu_seconds() -> float:
    """Return the CPU seconds that this process and its ended children have taken."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def how_many_times(work: Callable[[], object], beside: Callable[[], object], rounds: int = 5) -> float:
    """Return how many times as much CPU time the work takes as what is beside it, the least of each counting.

    The two take turns, so that a slow machine, or a slow moment of it, is slow for both. Work on four times as much is
    at most about four times as dear where the cost of a part is constant, and sixteen times where it grows with all.
    """
    least = [float("inf")] * 2
    for _ in range(rounds):
        for at, one in enumerate((work, beside)):
            before = cpu_seconds()
            one()
            least[at] = min(least[at], cpu_seconds() - before)
    return least[0] / least[1]
