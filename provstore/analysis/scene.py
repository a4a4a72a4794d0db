"""What a rule is given: the case, its wait graph and the roles of its ranks."""

from __future__ import annotations

from functools import cached_property

from provstore.analysis.blame import Judge
from provstore.analysis.case import Case
from provstore.analysis.lateness import Lateness, lateness
from provstore.analysis.roles import Roles
from provstore.analysis.values import Values
from provstore.analysis.waits import Waits
from provstore.model.dump import COLLECTIVE

_OWN_CALLS = 2.5
"""A straggler's own time exceeds that of its peers by its lateness in at least so many calls."""
_OWN_SHARE = 0.5
"""And by at least this share of the largest excess."""


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
    def judge(self) -> Judge:
        """Who is wrong when members of a call disagree, and what is usual."""
        return Judge(self.case, self.roles.tokens)

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
        return tuple(sorted(found, key=lambda one: (-one.median_ms, one.rank, one.group)))

    @cached_property
    def stragglers(self) -> tuple[Lateness, ...]:
        """Late ranks that no other late rank holds up, and that are not just what a clock known to be off shows."""
        late = [one for one in self.late if not is_clock(one) and not self._is_half_seen(one.rank)]
        most = max((one.own_excess_ms for one in late), default=0.0)
        slow = [one for one in late if one.own_excess_ms >= max(_OWN_CALLS * one.median_ms, _OWN_SHARE * most)]
        worst: dict[int, Lateness] = {}
        for one in slow:
            if not any(self._holds_up(other, one) for other in slow):
                worst.setdefault(one.rank, one)
        held = {one.rank for one in slow if any(self._holds_up(other, one) for other in slow)}
        found = tuple(one for rank, one in worst.items() if rank not in held)
        hidden = {one.rank for one in late if one.rank in self.case.hides_p2p}
        return found if len(hidden) < 2 else tuple(one for one in found if one.rank not in hidden)

    def _is_half_seen(self, rank: int) -> bool:
        """Return whether many of a rank's sends and receives have no recorded other end: it may wait for those."""
        table = self.case.table
        sent = (table.rank == rank) & (table.channel != COLLECTIVE)
        return bool(sent.any()) and float((self.case.partner[sent] < 0).mean()) > 0.25

    def _holds_up(self, other: Lateness, late: Lateness) -> bool:
        """Return whether ``late`` waits for ``other`` in the other's group, and may be late only by that."""
        members = self.case.table.groups[other.group]
        return other.rank != late.rank and late.rank in members and 2 * other.median_ms >= late.median_ms


def is_clock(late: Lateness) -> bool:
    """Return whether clocks that are known to be off may be all there is to a lateness.

    The bounds of a clock that is off leave room for about as much as its rank is late, so a lateness that is there in
    every call says nothing. Only one that comes and goes is shown by every offset inside the bounds.
    """
    if late.own_clock_off and not late.is_bimodal:
        return True
    if late.clocks_off > 1:
        return True
    return late.clocks_off > 0 and (late.is_constant or not late.is_steady)
