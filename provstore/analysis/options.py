"""What a diagnosis is asked, and the limits that its rules use."""

from __future__ import annotations

from dataclasses import dataclass

from provstore.errors import ConfigError

ABOUT = ("hang", "slow", "nan")


@dataclass(frozen=True, slots=True)
class Options:
    """The question and the limits; the defaults are those of the documentation."""

    about: str | None = None
    """``hang``, ``slow`` or ``nan``: answer only that, and say when it cannot be answered. None: whatever is wrong."""
    wait_limit_seconds: float = 30.0
    """A call younger than this, and than a tenth of its timeout, is in flight."""
    straggler_instances: int = 8
    straggler_last_share: float = 0.75
    straggler_cadence_share: float = 0.2
    straggler_floor_ms: float = 5.0

    def __post_init__(self) -> None:
        """Refuse a question that nobody can answer."""
        if self.about is not None and self.about not in ABOUT:
            raise ConfigError(f"{self.about}: about: not a question; there are {', '.join(ABOUT)}")
