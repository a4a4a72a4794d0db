"""What a damaged journal has lost of one attempt, as far as what is left of it shows."""

from __future__ import annotations

from dataclasses import dataclass

DAMAGED = "journal-damaged"
"""Code of the finding that all of this follows from."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Where records and bundles are gone together with numbers of the journal that cannot be read."""

    records: tuple[tuple[int, int], ...] = ()
    """First index that is gone, and the first one behind it that is here."""
    tail: tuple[int, int] | None = None
    """First index behind the last record, where more may be gone, and how many bundles stand before that loss."""
    bundles: frozenset[int] = frozenset()
    """Positions of bundles before which others may be gone."""

    @property
    def has_records(self) -> bool:
        """Whether records can be gone."""
        return bool(self.records or self.tail)

    def __bool__(self) -> bool:
        """Return whether anything of this attempt can be gone."""
        return bool(self.has_records or self.bundles)


MISSING, CUT_OFF, ALTERED, UNREADABLE = "missing", "cut off", "altered", "unreadable"
"""What can be wrong with bytes that are named by their SHA-256."""
