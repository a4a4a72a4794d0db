"""The times that a run claims: never proof of anything, but odd ones are named."""

from __future__ import annotations

from dataclasses import dataclass, field

from provstore.errors import InputError
from provstore.evidence.moments import nanoseconds
from provstore.evidence.verify.findings import Notes

TEN_YEARS_NS = 3_652 * 86_400 * 1_000_000_000


@dataclass(slots=True)
class WallClock:
    """Compares wall times that one writer claims one after the other."""

    notes: Notes
    at_ns: int | None
    """When the verification takes place, if anybody said so."""
    _before: int | None = None
    _ranks_named: set[int | None] = field(default_factory=set)

    def bundle(self, epoch: int, wall: str, where: str) -> None:
        """Judge the wall time in a bundle."""
        try:
            now = nanoseconds(wall)
        except InputError:
            self.notes.add("clock-odd", f"its bundle claims {wall[:40]!r}, which is no time.", epoch=epoch, where=where)
            return
        reason = _step(self._before, now)
        if reason is None and self.at_ns is not None and abs(now - self.at_ns) >= TEN_YEARS_NS:
            reason = "is ten years or more away from the time of this verification"
        if reason is not None:
            self.notes.add("clock-odd", f"the wall time in its bundle, {wall}, {reason}.", epoch=epoch, where=where)
        self._before = now

    def record(self, rank: int | None, before: int, now: int, seq: int, epoch: int | None, where: str) -> None:
        """Name the first odd step of the times in one rank's records."""
        reason = _step(before, now)
        if reason is None or rank in self._ranks_named:
            return
        self._ranks_named.add(rank)
        whose = "the collector" if rank is None else f"rank {rank}"
        text = f"the time that {whose} claims {reason}; later steps of its clock are not listed."
        self.notes.add("clock-odd", text, epoch=epoch, seq=seq, rank=rank, where=where)


def _step(before: int | None, now: int) -> str | None:
    if before is None:
        return None
    if now < before:
        return "is before the one before it"
    return "is ten years or more after the one before it" if now - before >= TEN_YEARS_NS else None
