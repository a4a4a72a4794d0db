"""Faults of the recorder, as its lines tell them: each once, with how often and on which ranks it was seen."""

from __future__ import annotations

from dataclasses import dataclass, field

from provstore.model.recording_report import FaultReport


@dataclass(slots=True)
class Faults:
    """The faults of one attempt."""

    run: str
    attempt: int
    _seen: dict[tuple[str, str], dict[tuple[int, int], int]] = field(default_factory=dict)
    """Place and error → rank and file → how often; a line tells how often it was until then."""

    def add(self, place: str, error: str, rank: int, file: int, count: int) -> None:
        """Take in one line.

        Args:
            place: Where it was.
            error: What it was.
            rank: On which rank.
            file: Number of the file: each process counts anew.
            count: How often that process had seen it.
        """
        counts = self._seen.setdefault((place, error), {})
        counts[rank, file] = max(counts.get((rank, file), 0), count)

    def reports(self) -> list[FaultReport]:
        """Return them, the most frequent first."""
        found = [
            FaultReport(
                self.run, self.attempt, place, error, sum(counts.values()), tuple(sorted({rank for rank, _ in counts}))
            )
            for (place, error), counts in self._seen.items()
        ]
        return sorted(found, key=lambda one: (-one.count, one.where, one.error))
