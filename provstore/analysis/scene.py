"""What a rule is given: the case, its wait graph and the roles of its ranks."""

from __future__ import annotations

from functools import cached_property

from provstore.analysis.case import Case
from provstore.analysis.lateness import Lateness, lateness
from provstore.analysis.roles import Roles
from provstore.analysis.values import Values
from provstore.analysis.waits import Waits


class Scene:
    """A case with the views on it that are worked out on first use."""

    def __init__(self, case: Case) -> None:
        self.case = case

    @cached_property
    def waits(self) -> Waits:
        """Who waits for whom."""
        return Waits(self.case)

    @cached_property
    def roles(self) -> Roles:
        """What ranks of the same role did, call by call."""
        return Roles(self.case)

    @cached_property
    def values(self) -> Values:
        """What the tensor records tell."""
        return Values(self.case)

    @cached_property
    def late(self) -> tuple[Lateness, ...]:
        """Ranks that are mostly last in a group by more than the limits, whatever the reason; the worst first."""
        asked = self.case.options
        found = [
            item
            for item in lateness(self.case)
            if item.median_ms >= max(asked.straggler_floor_ms, asked.straggler_cadence_share * item.cadence_ms)
        ]
        worst: dict[int, Lateness] = {}
        for item in sorted(found, key=lambda one: (-one.median_ms, one.rank, one.group)):
            worst.setdefault(item.rank, item)
        return tuple(worst.values())

    @cached_property
    def stragglers(self) -> tuple[Lateness, ...]:
        """Late ranks whose lateness is not just what a clock that is known to be off would show."""
        return tuple(one for one in self.late if not _is_clock(one))


def _is_clock(late: Lateness) -> bool:
    return late.offset_ms != 0 and late.is_constant and late.explained_by_clock
