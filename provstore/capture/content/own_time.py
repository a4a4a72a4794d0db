"""Own time of recording, per step: how much there may be, what a piece of work is going to take, what it took."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

CALL_FLAG, FLAG = "call-flag", "flag"
DIGEST, STATISTICS, CLONE, SNAPSHOT = "digest", "statistics", "clone", "snapshot"
DEVICE_CLONE, RING_CLONE = "device-clone", "ring-clone"
CLONES = frozenset({CLONE, DEVICE_CLONE})
FLAGS = frozenset({CALL_FLAG, FLAG})

ASSUMED_STEP_NS = 100_000_000
"""Length of a step as long as none has ended."""
_STEPS = 64
_PIECES = 9
_FIRST_SIGHTS = 3
"""For so many pieces stands what is believed at first: the very first ones are slow, as nothing is warm then."""
_NANOSECONDS = {
    CALL_FLAG: (20_000, 0.3),
    FLAG: (20_000, 0.3),
    DIGEST: (40_000, 1.0),
    STATISTICS: (200_000, 1.5),
    CLONE: (20_000, 0.5),
    # The host only launches it, however many bytes the device copies.
    DEVICE_CLONE: (50_000, 0.0),
    RING_CLONE: (20_000, 0.5),
    SNAPSHOT: (100_000, 2.0),
}
"""Kind of work → what it takes at first sight, for a piece and for a byte."""
_HOOKS = "hooks"
_FIRST = (_HOOKS, CALL_FLAG, FLAG)
"""What has its time before all else, the most urgent first: hooks run whatever is decided, and flags are cheap."""
_MOST_DEBT_STEPS = 16
"""One slow moment, such as that of a busy host, must not end recording for good."""
_MOST_SAVED_STEPS = 16
"""So much of what steps left is kept, against a slow moment and for work that is too much for one share."""
_MOST_SHARES = 2
"""No step plans for more than this, whatever was saved."""
_LEAST_PART = 4
_SMALL_FLAG_NS = 80_000
"""A flag that is found sooner is always granted: it takes no longer than the hooks that ask for it, so leaving it out
would save next to nothing, and a value that is not finite would go unseen in every short step."""
_TRIED_AGAIN = FLAGS | {RING_CLONE}
"""What has some time in every step, and must not be left out for good because it was slow once."""


@dataclass(slots=True)
class Pace:
    """How one kind of work goes, in parts of what it takes at first sight: the middle of the last pieces."""

    _last: deque[float] = field(default_factory=lambda: deque((1.0,) * _FIRST_SIGHTS, _PIECES))
    factor: float = 1.0
    """What the next piece is believed to take; one slow or fast piece does not move it far."""

    def learn(self, took: float) -> None:
        """Take in one piece of work."""
        self._last.append(took)
        self.factor = sorted(self._last)[len(self._last) // 2]

    def forget(self) -> None:
        """Believe less in what made it look slow: what is never done again would never be found to be faster."""
        if self.factor > 1:
            self.learn(max(1.0, self.factor / 2))


class OwnTime:
    """The accounts of one rank: a share of each median step in the mean; what a step takes too much, others repay.

    Each share has an account of its own: what calm steps took too much must not cost the step that escalates.
    """

    def __init__(self) -> None:
        self._steps: deque[int] = deque(maxlen=_STEPS)
        self._step_ns = float(ASSUMED_STEP_NS)
        self._pace = {work: Pace() for work in _NANOSECONDS}
        self._saved_ns: dict[float, int] = {}
        """By share; negative where the steps that had it took too much until now."""
        self._done: set[str] = set()
        self._left: set[str] = set()
        """Kinds of work that were done, and that there was no time for, in this step."""
        self._needed_before = dict.fromkeys(_FIRST, 0)
        self._needed = dict.fromkeys(_FIRST, 0)
        """In this step, by what comes first; what there was no time for is needed too."""
        self._ring_ns = 0
        """Granted for copies to the ring in this step, out of the half share that is theirs."""
        self.spent_ns = 0
        """In this step."""
        self.chosen_ns = 0
        """The part of it that went into work that a coarser selection makes rarer."""
        self.promised_ns = 0
        """Of work that was granted and has not ended."""

    def allowance_ns(self, share: float) -> int:
        """Return how long this step may take in all."""
        whole = int(share * self._step_ns)
        there = whole + self._saved_ns.get(share, 0)
        return 0 if there < 0 else min(there, _MOST_SHARES * whole)

    def predicted_ns(self, work: str, size_bytes: int) -> int:
        """Return how long a piece of work is going to take."""
        piece, byte = _NANOSECONDS[work]
        return int(self._pace[work].factor * (piece + byte * size_bytes))

    def is_used_up(self, share: float) -> bool:
        """Return whether this step has no time left for anything but what comes first."""
        return self.spent_ns + self.promised_ns >= self.allowance_ns(share)

    def can_hold(self, size_bytes: int, share: float) -> bool:
        """Return whether there is time for a copy to the ring; where not, it is noted as left out."""
        needed_ns = self.predicted_ns(RING_CLONE, size_bytes)
        if self._ring_ns + needed_ns <= self._share_ns(share) // 2:
            return True
        if self.spent_ns + self.promised_ns + needed_ns <= self.allowance_ns(share):
            return True
        self._left.add(RING_CLONE)
        return False

    def can_fit(self, needed_ns: int, share: float) -> bool:
        """Return whether there can ever be time for something, however much is saved."""
        return needed_ns <= _MOST_SHARES * self._share_ns(share)

    def fits(self, work: str, needed_ns: int, share: float) -> bool:
        """Return whether there is time for it, beside what comes first and was needed in the last step."""
        is_flag = work in FLAGS
        if is_flag:
            self._needed[work] += needed_ns
            if needed_ns <= _SMALL_FLAG_NS and share > 0:
                return True
        # Half a share whatever else was taken: without the ring nothing is known of the steps before an escalation.
        if work == RING_CLONE and self._ring_ns + needed_ns <= self._share_ns(share) // 2:
            self._ring_ns += needed_ns
            return True
        taken = self.spent_ns + self.promised_ns + needed_ns
        allowed = self.allowance_ns(share)
        if is_flag:
            # The other half repays what steps before took too much.
            allowed = max(allowed, self._share_ns(share) // 2)
        # Where it is too much anyhow, which is usual in short steps, nothing else is looked at.
        if taken <= allowed and taken + self._kept_from(work) <= allowed:
            return True
        self._left.add(work)
        return False

    def _kept_from(self, work: str) -> int:
        """Return how long what comes before some work may still take in this step."""
        kept = 0
        for first in _FIRST:
            if first == work:
                break
            more = self._needed_before[first] - self._needed[first]
            if more > 0:
                kept += more
        return kept

    def took(self, work: str, size_bytes: int, nanoseconds: int) -> None:
        """Take in that a piece of work has ended."""
        piece, byte = _NANOSECONDS[work]
        self._pace[work].learn(nanoseconds / (piece + byte * size_bytes))
        self._done.add(work)
        self.spent_ns += nanoseconds
        if work not in FLAGS:
            self.chosen_ns += nanoseconds

    def hooks_took(self, nanoseconds: int) -> None:
        """Take in time that went into nothing that is asked for."""
        self.spent_ns += nanoseconds
        self._needed[_HOOKS] += nanoseconds

    def followed(self, nanoseconds: int) -> None:
        """Take in time that chosen work took beside what was measured of it."""
        self.spent_ns += nanoseconds
        self.chosen_ns += nanoseconds

    def is_idle(self, share: float) -> bool:
        """Return whether chosen work left half of the time that was there for it."""
        there_ns = self.allowance_ns(share) - (self.spent_ns - self.chosen_ns)
        return there_ns > 0 and self.chosen_ns * 2 <= there_ns

    def is_over(self, share: float) -> bool:
        """Return whether the step took too long, more than was saved, and chosen work has a part in it."""
        return self.chosen_ns > 0 and self.spent_ns > max(0, self._share_ns(share) + self._saved_ns.get(share, 0))

    def end_step(self, length_ns: int | None, share: float) -> None:
        """Begin the account of another step; ``None`` for the length of one whose begin was not seen."""
        whole, own = self._share_ns(share), self.spent_ns
        saved = self._saved_ns.get(share, 0) + whole - own
        self._saved_ns[share] = min(max(saved, -_MOST_DEBT_STEPS * whole), _MOST_SAVED_STEPS * whole)
        self._needed_before, self._needed = self._needed, dict.fromkeys(_FIRST, 0)
        self.spent_ns = self.chosen_ns = self._ring_ns = 0
        for work in (self._left & _TRIED_AGAIN) - self._done:
            self._pace[work].forget()
        self._left.clear()
        self._done.clear()
        if length_ns is not None:
            # A step that recording makes longer must not give it more time. But its own thread works beside training,
            # and what it did there must not make a short step look like none.
            self._steps.append(max(length_ns // _LEAST_PART, length_ns - own))
            self._step_ns = median(self._steps)

    def _share_ns(self, share: float) -> int:
        return int(share * self._step_ns)
