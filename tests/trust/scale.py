"""How much each row of the trust matrix does: a share of its number in every run, all of it in the long run.

``PROVSTORE_LONG=1`` asks for the long numbers; ``PROVSTORE_TRUST_<NAME>`` sets one of them; ``PROVSTORE_TRUST_SEED``
repeats a run's choices. Every test that chooses prints its seed, which pytest shows when it fails.
"""

from __future__ import annotations

import math
import os
import random

LONG = os.environ.get("PROVSTORE_LONG") == "1"
SHARE = 0.4
"""Part of the numbers of every run that is done, the same for all rows, so that the matrix fits beside the suite."""


def times(name: str, every: int, long: int) -> int:
    """Return how often the row does what ``name`` counts; ``every`` and ``long`` are the numbers of the matrix."""
    given = os.environ.get(f"PROVSTORE_TRUST_{name}")
    if given is not None:
        return int(given)
    return long if LONG else max(1, math.ceil(every * SHARE))


def seed(what: str) -> int:
    """Return the seed of one test's choices, printed with the test's output."""
    given = os.environ.get("PROVSTORE_TRUST_SEED")
    chosen = int(given) if given else random.SystemRandom().randrange(1 << 31)
    print(f"{what}: PROVSTORE_TRUST_SEED={chosen}")
    return chosen


def luck(what: str) -> random.Random:
    """Return a source of choices with such a seed."""
    return random.Random(f"{what} {seed(what)}")
