"""Every finding that a test of this folder brings about says why it is less than certain, or is certain."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from provstore.analysis import build, suspicion
from provstore.model.finding import Finding


@pytest.fixture(autouse=True)
def no_doubt_without_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at each finding where it is made."""
    make: Callable[..., Finding] = Finding

    def looked_at(**members: object) -> Finding:
        finding = make(**members)
        assert finding.confidence == "certain" or finding.caveats, f"{finding.confidence} without a reason: {finding}"
        return finding

    for place in (build, suspicion):
        monkeypatch.setattr(place, "Finding", looked_at)
