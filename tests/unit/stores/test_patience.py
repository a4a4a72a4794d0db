"""How long a store bears failures that pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from provstore.stores.patience import Patience


class PassingError(Exception):
    """A failure that may pass."""


class Clock:
    """Time that only waits and tries move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def patience(clock: Clock, seconds: float) -> Patience:
    return Patience(seconds, lambda error: isinstance(error, PassingError), clock, clock.wait)


def failing(clock: Clock, times: int, seconds: float = 0.0) -> Callable[[], str]:
    """Return work that takes ``seconds`` and fails so many times, then succeeds."""
    left = [times]

    def work() -> str:
        clock.now += seconds
        if left[0]:
            left[0] -= 1
            raise PassingError("cut")
        return "done"

    return work


def test_waits_double_up_to_five_seconds() -> None:
    clock = Clock()
    assert patience(clock, 60).of(failing(clock, 8)) == "done"
    assert clock.waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])


def test_no_wait_goes_past_the_bound() -> None:
    """Doubling without a limit would wait 64 seconds at second 63 of a minute."""
    clock = Clock()
    with pytest.raises(PassingError):
        patience(clock, 60).of(failing(clock, 1000))
    assert 50 < clock.now <= 60


def test_failed_tries_count_and_work_that_succeeds_does_not() -> None:
    clock = Clock()
    one = patience(clock, 60)
    assert one.of(failing(clock, 0, seconds=500.0)) == "done"
    began = clock.now
    with pytest.raises(PassingError):
        one.of(failing(clock, 1000, seconds=14.0))
    assert clock.now - began <= 60 + 14


def test_steps_of_one_operation_share_its_patience() -> None:
    clock = Clock()
    one = patience(clock, 60)
    for _ in range(3):
        assert one.of(failing(clock, 8)) == "done"
    assert clock.now == pytest.approx(3 * 16.3)
    with pytest.raises(PassingError):
        one.of(failing(clock, 8))
    assert clock.now <= 60


def test_a_step_with_less_patience_leaves_the_rest() -> None:
    clock = Clock()
    one = patience(clock, 60)
    with pytest.raises(PassingError):
        one.of(failing(clock, 1000), 3.0)
    assert clock.now <= 3.0
    assert one.of(failing(clock, 8)) == "done"


def test_a_failure_that_stays_is_raised_at_once() -> None:
    clock = Clock()

    def refused() -> None:
        raise ValueError("log-in")

    with pytest.raises(ValueError, match="log-in"):
        patience(clock, 60).of(refused)
    assert clock.waits == []
