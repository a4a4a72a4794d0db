"""A spike of the loss or of a gradient norm is told from noise by the median and the deviations of the last values."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provstore.errors import ConfigError
from provstore.evidence.recording.detectors import GradNorm, LossSpike
from provstore.evidence.recording.signals import score, signal
from tests.cost import how_many_times

finite = st.floats(-1e6, 1e6)


def read_all(detector, values):
    return [detector.update(value) for value in values]


@pytest.mark.parametrize(
    ("z", "t", "wanted"),
    [(0, 6, 0), (3, 6, 0.4), (6, 6, 0.8), (-6, 6, 0.8), (12, 6, 0.9), (24, 6, 0.95), (60, 6, 0.98), (2.5, 10, 0.2),
     (math.inf, 6, 1), (-math.inf, 6, 1), (0.2, 0.1, 0.9)],
)  # fmt: skip
def test_the_score_of_a_distance_is_the_one_of_the_equations(z, t, wanted):
    assert score(z, t) == pytest.approx(wanted, rel=1e-12)


@given(st.floats(1e-9, 1e9))
def test_the_threshold_itself_does_not_fire_and_anything_beyond_it_does(t):
    assert score(t, t) == 0.8
    assert score(math.nextafter(t, 0), t) <= 0.8
    assert score(math.nextafter(t, math.inf), t) > 0.8
    assert score(2 * t, t) == pytest.approx(0.9)
    assert score(math.inf, t) == 1


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300), st.floats(1e-9, 1e9))
def test_a_score_is_from_0_to_1_and_grows_with_the_distance(one, other, t):
    low, high = sorted((one, other), key=abs)

    assert 0 <= score(low, t) <= score(high, t) <= 1


@pytest.mark.parametrize(("z", "t"), [(math.nan, 6), (1, 0), (1, -1), (1, math.inf), (1, math.nan)])
def test_what_compares_with_nothing_has_no_score(z, t):
    with pytest.raises(ConfigError):
        signal("x", z, t)


@given(st.lists(finite, min_size=33, max_size=150))
def test_the_distance_is_that_of_the_formula_over_the_last_64_values(values):
    detector = LossSpike()
    *before, last = values
    read_all(detector, before)
    window = before[-64:]
    middle = statistics.median(window)
    mad = statistics.median(abs(value - middle) for value in window)
    wanted = (last - middle) / max(1.4826 * mad, 0.01 * abs(middle), 1e-12)

    reading = detector.update(last)

    assert reading.z == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    assert reading.threshold >= 6
    assert reading.is_firing == (reading.z > reading.threshold)
    assert reading.is_calm == (reading.z < 3)


def test_there_is_nothing_to_say_before_32_finite_losses():
    detector = LossSpike()

    assert read_all(detector, [2.0] * 20 + [math.nan, math.inf] + [2.0] * 12) == [None] * 34
    assert detector.update(2.0).z == 0


def test_a_constant_loss_fires_only_beyond_six_hundredths_of_it():
    # Median 2, no deviation: the scale is 0.02.
    detector, other = LossSpike(), LossSpike()
    read_all(detector, [2.0] * 64)
    read_all(other, [2.0] * 64)

    assert not detector.update(2.1199).is_firing
    assert other.update(2.1201).is_firing


def test_a_loss_of_zero_throughout_fires_at_the_first_other_value():
    detector = LossSpike()
    read_all(detector, [0.0] * 40)

    assert detector.update(1e-9).is_firing


def test_a_loss_that_falls_is_calm_however_far_it_falls():
    detector = LossSpike()
    read_all(detector, [2.0 + 0.01 * (i % 3) for i in range(64)])

    reading = detector.update(-50.0)

    assert (reading.is_firing, reading.is_calm, reading.signal.score) == (False, True, 0)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_says_nothing_here_and_leaves_the_window_as_it_was(odd):
    detector, untouched = LossSpike(), LossSpike()
    values = [2.0 + 0.1 * math.sin(i) for i in range(70)]
    read_all(detector, [*values, odd])
    read_all(untouched, values)

    assert detector.update(2.5) == untouched.update(2.5)


def test_the_largest_doubles_give_a_number():
    detector = LossSpike()
    read_all(detector, [1.7e308, -1.7e308] * 32)

    reading = detector.update(1.7e308)

    assert math.isfinite(reading.z)
    assert not reading.is_firing


def gauss(rng, share):
    return lambda _: 2.3 * (1 + share * rng.gauss(0, 1))


def laplace(rng, share):
    return lambda _: 2.3 * (1 + share * rng.choice((-1, 1)) * rng.expovariate(1))


def student5(rng, share):
    return lambda _: 2.3 * (1 + share * rng.gauss(0, 1) / math.sqrt(sum(rng.gauss(0, 1) ** 2 for _ in range(5)) / 5))


def falling(rng, share):
    """Steeply at first, then slowly, as losses do."""
    return lambda step: (2.3 + 8 / (1 + step / 30)) * (1 + share * rng.gauss(0, 1))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("noise", "share"),
    [(gauss, 0.002), (gauss, 0.01), (gauss, 0.05), (laplace, 0.003), (student5, 0.002), (falling, 0.01)],
)
def test_a_noisy_plateau_does_not_fire_in_10_000_steps(noise, share, seed):
    detector, loss = LossSpike(), noise(random.Random(seed), share)

    assert [step for step in range(10_000) if (seen := detector.update(loss(step))) and seen.is_firing] == []


@pytest.mark.parametrize("noise", [gauss, falling])
def test_the_threshold_is_6_while_the_noise_is_normal(noise):
    detector, loss = LossSpike(), noise(random.Random(3), 0.01)

    readings = [seen for step in range(5_000) if (seen := detector.update(loss(step)))]

    assert sum(seen.threshold == 6 for seen in readings) > 0.99 * len(readings)
    assert max(seen.threshold for seen in readings) < 7


@pytest.mark.parametrize(
    ("noise", "share", "most"), [(laplace, 0.01, 0.1), (laplace, 0.03, 0.1), (student5, 0.01, 0.5)]
)
def test_noise_with_a_heavier_tail_raises_the_threshold_so_that_few_of_its_outliers_fire(noise, share, most):
    beyond_six, firing = 0, 0
    for seed in range(5):
        detector, loss = LossSpike(), noise(random.Random(seed), share)
        for step in range(5_000):
            seen = detector.update(loss(step))
            beyond_six += seen is not None and seen.z > 6
            firing += seen is not None and seen.is_firing

    assert beyond_six >= 10
    assert firing <= beyond_six * most


@pytest.mark.parametrize("noise", [laplace, student5])
def test_a_spike_in_noise_with_a_heavy_tail_fires(noise):
    detector, loss = LossSpike(), noise(random.Random(2), 0.01)
    for step in range(3_000):
        detector.update(loss(step))

    assert detector.update(2.3 * 1.5).is_firing


def test_the_threshold_has_an_end_however_wild_the_noise_is():
    rng, detector = random.Random(5), LossSpike()

    readings = [detector.update(rng.paretovariate(1)) for _ in range(5_000)]

    assert max(seen.threshold for seen in readings if seen) == 16


@pytest.mark.parametrize("seed", range(5))
def test_a_noisy_gradient_norm_does_not_fire_in_10_000_steps(seed):
    rng, detector = random.Random(seed), GradNorm()

    readings = (detector.update(math.exp(rng.gauss(0, 0.3)), 2.0) for _ in range(10_000))

    assert not any(seen.is_firing for seen in readings if seen)


@pytest.mark.parametrize("seed", range(5))
def test_one_spike_in_a_noisy_loss_fires_at_its_step_and_nowhere_else(seed):
    detector, loss = LossSpike(), gauss(random.Random(seed), 0.02)

    firing = [
        step
        for step in range(2_000)
        if (seen := detector.update(loss(step) + (1.5 if step == 777 else 0))) and seen.is_firing
    ]

    assert firing == [777]


def test_a_gradient_norm_is_judged_on_its_logarithm():
    # log10 of the window: 1 ± 0.1, so median 1 and MAD 0.1; 1.4826 · 0.1 · 6 above 1 is 10 ** 1.88956.
    values = [10**1.1, 10**0.9] * 32
    detector, other = GradNorm(), GradNorm()
    read_all(detector, values)
    read_all(other, values)

    assert not detector.update(10**1.889).is_firing
    assert other.update(10**1.891).is_firing


def test_a_gradient_norm_of_zero_beside_a_finite_loss_fires_at_once():
    reading = GradNorm().update(0.0, 2.5)

    assert (reading.is_firing, reading.is_calm, reading.signal.score) == (True, False, 1)


@pytest.mark.parametrize("loss", [None, math.nan, math.inf])
def test_a_gradient_norm_of_zero_says_nothing_without_a_finite_loss(loss):
    assert GradNorm().update(0.0, loss) is None


def test_a_gradient_norm_below_zero_is_refused():
    with pytest.raises(ConfigError, match=r"^-1\.0: gradient norm: is negative$"):
        GradNorm().update(-1.0)


def test_a_gradient_norm_that_is_not_finite_says_nothing_here():
    detector = GradNorm()
    read_all(detector, [1.0] * 40)

    assert read_all(detector, [math.nan, math.inf]) == [None, None]


def test_a_step_costs_as_much_after_many_steps_as_after_few():
    rng = random.Random(1)
    values = [rng.random() for _ in range(20_000)]

    assert how_many_times(lambda: read_all(LossSpike(), values), lambda: read_all(LossSpike(), values[:5_000])) < 8
