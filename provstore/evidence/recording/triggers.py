"""Triggers of escalations: what each opens, how it ends, and for how many steps."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from provstore.errors import ConfigError
from provstore.evidence.recording.policy import P1, P2

CALM, HOLD, ATTEMPT, STEPS = "calm", "hold", "attempt", "steps"
"""How a trigger ends: after calm steps, after the hold alone, with the attempt, after a stated number of steps."""

CLEAR, DEESCALATED, STEPS_OVER, BUDGET, END_OF_EPOCH, END_OF_ATTEMPT = (
    "clear",
    "deescalated",
    "steps-over",
    "escalation-budget-exhausted",
    "end-of-epoch",
    "end-of-attempt",
)
_SCOPE = re.compile(r"rank:(?:0|[1-9][0-9]{0,8})|group:.+|host:.+|epoch|run", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Trigger:
    """What opens escalations, and how they end."""

    rule: str
    ends: str
    is_capped: bool = True
    """Whether the number of escalated steps in an epoch is limited."""


TRIGGERS = {
    "loss-spike": Trigger(P2, CALM),
    "grad-norm": Trigger(P2, CALM),
    "non-finite": Trigger(P2, CALM),
    "replica-disagreement": Trigger(P2, CALM),
    "detector": Trigger(P2, CALM),
    "xid": Trigger(P1, ATTEMPT, is_capped=False),
    "desync": Trigger(P1, HOLD),
    "prometheus": Trigger(P1, CALM),
    "manual": Trigger(P1, STEPS, is_capped=False),
}


@dataclass(frozen=True, slots=True)
class EscalationSettings:
    """How long escalations last, in steps.

    Raises:
        ConfigError: One of them is no positive integer.
    """

    min_steps: int = 10
    """After it was opened."""
    hold_steps: int = 50
    """After the last firing."""
    clear_steps: int = 20
    """In a row below the clear threshold."""
    most_cycles: int = 3
    """More of them in ``cycle_window`` steps latch the scope to the end of the epoch."""
    cycle_window: int = 200
    max_steps: int = 500
    """Escalated steps of one scope in one epoch."""

    def __post_init__(self) -> None:
        """Refuse what is no number of steps."""
        for name in self.__slots__:
            if type(value := getattr(self, name)) is not int or value < 1:
                raise ConfigError(f"escalation: {name}: {value!r} is no positive integer")


DEFAULTS = EscalationSettings()


def chosen(trigger: str, ends: str | None = None, steps: int | None = None) -> Trigger:
    """Return the trigger of a name, with another end where one is stated.

    Raises:
        ConfigError: There is no such trigger or end, or the number of steps does not fit the end.
    """
    kind = TRIGGERS.get(trigger)
    if kind is None:
        raise ConfigError(f"{trigger}: trigger: is none of {', '.join(TRIGGERS)}")
    if ends not in (None, CALM, HOLD, ATTEMPT, STEPS):
        raise ConfigError(f"{ends}: end of an escalation: is none of {CALM}, {HOLD}, {ATTEMPT}, {STEPS}")
    kind = kind if ends is None else replace(kind, ends=ends)
    if (kind.ends == STEPS) != (type(steps) is int and steps > 0):
        raise ConfigError(
            f"{trigger}: steps: {steps!r}: a number of steps belongs to what ends after it, and only there"
        )
    return kind


def require_scope(scope: str) -> None:
    """Refuse what is no scope.

    Raises:
        ConfigError: It is neither ``rank:<r>``, ``group:<name>``, ``host:<h>``, ``epoch`` nor ``run``.
    """
    if _SCOPE.fullmatch(scope) is None:
        raise ConfigError(f"{scope!r}: scope: is neither rank:<r>, group:<name>, host:<h>, epoch nor run")
