"""Own time of recording, per step: how much there may be, what a piece of work is going to take, what it took."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median

FLAG, DIGEST, STATISTICS, CLONE, SNAPSHOT = "flag", "digest", "statistics", "clone", "snapshot"

ASSUMED_STEP_NS = 100_000_000
"""Length of a step as long as none has ended."""
_STEPS = 64
_NANOSECONDS = {
    FLAG: (20_000, 0.3),
    DIGEST: (40_000, 1.0),
    STATISTICS: (200_000, 1.5),
    CLONE: (20_000, 0.5),
    SNAPSHOT: (100_000, 2.0),
}
"""Kind of work → what it takes at first sight, for a piece and for a byte."""
_FORGETS = 0.1
_MOST_DEBT_STEPS = 16
"""One slow moment, such as that of a busy host, must not end recording for good."""


@dataclass(slots=True)
class Pace:
    """How one kind of work goes, in parts of what it takes at first sight."""

    factor: float = 1.0

    def learn(self, took: float) -> None:
        """Take in one piece of work: believe a slower one at once, a faster one by and by."""
        self.factor = took if took > self.factor else self.factor + _FORGETS * (took - self.factor)


class OwnTime:
    """The account of one rank; one step has a share of the median step, less what the last one took too much."""

    def __init__(self) -> None:
        self._steps: deque[int] = deque(maxlen=_STEPS)
        self._pace = {work: Pace() for work in _NANOSECONDS}
        self._debt_ns = 0
        self._flags_before_ns = 0
        self._flags_ns = 0
        self.spent_ns = 0
        """In this step."""
        self.chosen_ns = 0
        """The part of it that went into work that a coarser selection makes rarer."""
        self.promised_ns = 0
        """Of work that was granted and has not ended."""

    def allowance_ns(self, share: float) -> int:
        """Return how long this step may take in all."""
        return max(0, self._share_ns(share) - self._debt_ns)

    def predicted_ns(self, work: str, size_bytes: int) -> int:
        """Return how long a piece of work is going to take."""
        piece, byte = _NANOSECONDS[work]
        return int(self._pace[work].factor * (piece + byte * size_bytes))

    def fits(self, work: str, needed_ns: int, share: float) -> bool:
        """Return whether there is time for it; time that flags took in the last step is kept for flags."""
        kept = 0 if work == FLAG else max(0, self._flags_before_ns - self._flags_ns)
        return self.spent_ns + self.promised_ns + needed_ns + kept <= self.allowance_ns(share)

    def took(self, work: str, size_bytes: int, nanoseconds: int) -> None:
        """Take in that a piece of work has ended."""
        piece, byte = _NANOSECONDS[work]
        self._pace[work].learn(nanoseconds / (piece + byte * size_bytes))
        self.spent_ns += nanoseconds
        if work == FLAG:
            self._flags_ns += nanoseconds
        else:
            self.chosen_ns += nanoseconds

    def is_idle(self, share: float) -> bool:
        """Return whether chosen work left half of the time that was there for it."""
        there_ns = self.allowance_ns(share) - (self.spent_ns - self.chosen_ns)
        return there_ns > 0 and self.chosen_ns * 2 <= there_ns

    def is_over(self, share: float) -> bool:
        """Return whether the step took too long and chosen work has a part in it."""
        return self.chosen_ns > 0 and self.spent_ns > self.allowance_ns(share)

    def end_step(self, length_ns: int | None, share: float) -> None:
        """Begin the account of another step; ``None`` for the length of one whose begin was not seen."""
        whole, own = self._share_ns(share), self.spent_ns
        self._debt_ns = min(max(0, self._debt_ns + own - whole), _MOST_DEBT_STEPS * whole)
        self._flags_before_ns, self._flags_ns = self._flags_ns, 0
        self.spent_ns = self.chosen_ns = 0
        if length_ns is not None:
            # A step that recording makes longer must not give it more time.
            self._steps.append(max(0, length_ns - own))

    def _share_ns(self, share: float) -> int:
        return int(share * (median(self._steps) if self._steps else ASSUMED_STEP_NS))
