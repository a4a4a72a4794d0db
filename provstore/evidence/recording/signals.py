"""Anomaly signals: how far a detector's distance from normal is, as one score from 0 to 1."""

from __future__ import annotations

import math

from provstore.errors import ConfigError
from provstore.model.recording import AnomalySignal

LIMIT = 0.8
"""A score above it escalates; the limit itself does not."""
CLEAR_LIMIT = 0.5
"""Below it a detector of the program's own is calm again."""

_JUST_ABOVE = math.nextafter(LIMIT, 1.0)


def score(z: float, threshold: float) -> float:
    """Return the score of a distance ``z`` from normal, for a detector that alarms beyond ``threshold``.

    Below the threshold the score is 0.8·|z|/t, from there on 1 − 0.2·t/|z|: t itself gives 0.8, which does not
    escalate, 2t gives 0.9, infinity 1.

    Args:
        z: Either sign; not NaN.
        threshold: Positive and finite.

    Raises:
        ConfigError: ``z`` is NaN, or the threshold not positive and finite.
    """
    if not 0 < threshold < math.inf:
        raise ConfigError(f"{threshold!r}: threshold: is not a positive, finite number")
    if math.isnan(z):
        raise ConfigError("nan: distance: compares with nothing, so it has no score")
    distance = abs(z)
    # The quotients are at most 1, so that rounding can lift nothing over the limit.
    if distance <= threshold:
        return LIMIT * (distance / threshold)
    return max(_JUST_ABOVE, 1.0 - 0.2 * (threshold / distance))


def signal(source: str, z: float, threshold: float) -> AnomalySignal:
    """Return the signal of a detector that saw the distance ``z`` and alarms beyond ``threshold``.

    Raises:
        ConfigError: As :func:`score`.
    """
    return AnomalySignal(source, score(z, threshold))
