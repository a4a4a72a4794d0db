"""What was acknowledged, what is there, what was tried: each within the next, in order."""

from __future__ import annotations

from collections.abc import Sequence


def is_within(part: Sequence[object], whole: Sequence[object]) -> bool:
    """Return whether ``part`` is ``whole`` with items left out."""
    rest = iter(whole)
    return all(item in rest for item in part)
