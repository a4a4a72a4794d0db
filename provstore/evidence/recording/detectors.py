"""Detectors of a training loop's own numbers: loss spikes, and gradient norms that leap or vanish."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from provstore.errors import ConfigError
from provstore.evidence.recording.signals import signal
from provstore.model.recording import AnomalySignal

LOSS_SPIKE, GRAD_NORM = "loss-spike", "grad-norm"
WINDOW, WARM_UP = 64, 32
THRESHOLD, CLEAR_THRESHOLD = 6.0, 3.0

_SIGMA_OF_MAD = 1.4826
"""Of a normal distribution: standard deviation over median absolute deviation."""
_LEAST_SHARE, _LEAST = 0.01, 1e-12

_TAIL_FROM, _RARE = 2.0, 1e-5
"""Distances from which the tail of a run's own noise is looked at, and how often noise alone may fire in a step."""
_LARGEST_THRESHOLD = 16.0
_MEMORY = 1 - 1 / 2048
# What a normal distribution has beyond two standard deviations, as if 256 steps of it had been seen.
_NORMAL_STEPS, _NORMAL_SHARE, _NORMAL_EXCESS = 256.0, 0.0228, 0.373


@dataclass(frozen=True, slots=True)
class Reading:
    """What a detector makes of one value."""

    z: float
    """Distance from the median of the values before, in robust standard deviations; upward is positive."""
    threshold: float
    """6, or more where the run's own noise has a heavier tail than a normal distribution."""
    is_firing: bool
    is_calm: bool
    """Below the threshold at which an escalation may end."""
    signal: AnomalySignal
    """Score 0 for what lies below the median: only upward is unusual."""


class LossSpike:
    """Tells whether a loss is far above the last 64 finite ones.

    Each value costs O(64); nothing is drawn at random and no clock is read.
    """

    trigger = LOSS_SPIKE

    def __init__(self) -> None:
        self._window = _Window()

    def update(self, loss: float) -> Reading | None:
        """Take the loss of one step and return what it says; None in the warm-up and for a loss that is not finite."""
        return self._window.reading(LOSS_SPIKE, float(loss))


class GradNorm:
    """Tells whether a gradient norm is far above the last 64, on a logarithmic scale, or has vanished."""

    trigger = GRAD_NORM

    def __init__(self) -> None:
        self._window = _Window()

    def update(self, norm: float, loss: float | None = None) -> Reading | None:
        """Take the norm of one step and return what it says.

        Args:
            norm: At least 0; one that is not finite says nothing here.
            loss: Of the same step; a norm of 0 beside a finite loss fires at once.

        Raises:
            ConfigError: The norm is negative.
        """
        norm = float(norm)
        if norm < 0:
            raise ConfigError(f"{norm!r}: gradient norm: is negative")
        if norm == 0.0:
            has_vanished = loss is not None and math.isfinite(loss)
            alarm = AnomalySignal(GRAD_NORM, 1.0)
            return Reading(-math.inf, THRESHOLD, True, False, alarm) if has_vanished else None
        return self._window.reading(GRAD_NORM, math.log10(norm) if math.isfinite(norm) else norm)


class _Window:
    """The last finite values, in order of time and of size."""

    __slots__ = ("_by_size", "_by_time", "_tail")

    def __init__(self) -> None:
        self._by_time: deque[float] = deque()
        self._by_size: list[float] = []
        self._tail = _Tail()

    def reading(self, source: str, value: float) -> Reading | None:
        """Hold a value against those before it, then take it in."""
        if not math.isfinite(value):
            return None
        z = self._distance(value) if len(self._by_time) >= WARM_UP else None
        self._take(value)
        if z is None:
            return None
        threshold = self._tail.threshold()
        if z <= threshold:
            self._tail.take(z)
        return Reading(z, threshold, z > threshold, z < CLEAR_THRESHOLD, signal(source, max(z, 0.0), threshold))

    def _distance(self, value: float) -> float:
        middle = _median(self._by_size)
        deviations = _deviations(self._by_size, middle)
        scale = max(_SIGMA_OF_MAD * _median(deviations), _LEAST_SHARE * abs(middle), _LEAST)
        # Halves, so that the difference of the largest and the smallest double is a number.
        return (value / 2 - middle / 2) / (scale / 2) if math.isfinite(scale) else 0.0

    def _take(self, value: float) -> None:
        if len(self._by_time) == WINDOW:
            del self._by_size[bisect_left(self._by_size, self._by_time.popleft())]
        self._by_time.append(value)
        insort(self._by_size, value)


class _Tail:
    """How far the noise of a run reaches upward, from the distances of its last thousands of steps that did not fire.

    Losses of small batches are skewed, and what is rare in a normal distribution is not rare in them. Beyond two
    standard deviations the tail is taken for exponential: the mean excess there says where it is so thin that noise
    explains nothing. With normal noise that lies below the plain threshold, which then holds.
    """

    __slots__ = ("_beyond", "_excess", "_steps")

    def __init__(self) -> None:
        self._steps = _NORMAL_STEPS
        self._beyond = _NORMAL_STEPS * _NORMAL_SHARE
        self._excess = self._beyond * _NORMAL_EXCESS

    def threshold(self) -> float:
        """Return beyond which distance a value is no noise."""
        share = self._beyond / self._steps
        if share <= _RARE:
            return THRESHOLD
        reach = _TAIL_FROM + self._excess / self._beyond * math.log(share / _RARE)
        return min(max(THRESHOLD, reach), _LARGEST_THRESHOLD)

    def take(self, z: float) -> None:
        """Take in the distance of one step."""
        self._steps = self._steps * _MEMORY + 1
        self._beyond *= _MEMORY
        self._excess *= _MEMORY
        if z > _TAIL_FROM:
            self._beyond += 1
            self._excess += z - _TAIL_FROM


def _median(by_size: Sequence[float]) -> float:
    half = len(by_size) // 2
    return by_size[half] if len(by_size) % 2 else by_size[half - 1] / 2 + by_size[half] / 2


def _deviations(by_size: Sequence[float], middle: float) -> list[float]:
    """Return the distances from ``middle`` in order of size; they fall up to it and rise from it."""
    at = bisect_left(by_size, middle)
    falling = [middle - value for value in islice(by_size, at)]
    rising = [value - middle for value in islice(by_size, at, None)]
    # Two runs: sorting them is one merge.
    return sorted([*reversed(falling), *rising])
