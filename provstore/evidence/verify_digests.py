"""Digests that ranks must share: who stands alone, and who contradicts a majority."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MOST_OPEN = 100_000
"""Groups that wait for a rank; beyond it the check is not finished."""


@dataclass(frozen=True, slots=True)
class Stated:
    """One rank's word about a shared digest."""

    rank: int
    sha256: str
    seq: int


@dataclass(frozen=True, slots=True)
class Doubt:
    """A digest that nobody confirms, or on which ranks disagree."""

    name: str
    step: int | None
    stated: tuple[Stated, ...]
    """Whom it concerns: the ranks that contradict the majority, or all when nobody can be named."""
    majority: int
    """Ranks that state the same; 0 when there is no majority."""
    group: int
    """Ranks that should."""


@dataclass(slots=True)
class Digests:
    """The digest records of a run, group by group; a group is forgotten as soon as it is whole and agrees."""

    is_full: bool = False
    """True when there were more open groups than are kept."""
    _open: dict[tuple[str, int | None, tuple[int, ...]], dict[int, list[Stated]]] = field(default_factory=dict)
    _doubts: list[Doubt] = field(default_factory=list)

    def take(self, said: dict[str, Any], seq: int) -> None:
        """Take note of one digest record."""
        key = (said["name"], said["step"], tuple(said["ranks"]))
        rank = said["rank"] if said["rank"] is not None else -1
        group = self._open.get(key)
        if group is None:
            if len(self._open) >= MOST_OPEN:
                self.is_full = True
                return
            group = self._open[key] = {}
        words = group.setdefault(rank, [])
        if all(one.sha256 != said["sha256"] for one in words):
            words.append(Stated(rank, said["sha256"], seq))
        if group.keys() >= set(key[2]):
            self._settle(key, group)
            del self._open[key]

    def doubts(self) -> Iterator[Doubt]:
        """Yield what is in doubt after the last record."""
        for key, group in self._open.items():
            self._settle(key, group)
        self._open.clear()
        yield from self._doubts

    def _settle(self, key: tuple[str, int | None, tuple[int, ...]], group: dict[int, list[Stated]]) -> None:
        name, step, ranks = key
        words = [one for said in group.values() for one in said]
        members = [one for one in words if one.rank in ranks]
        present = {one.rank for one in members}
        if len(present) < 2:
            self._doubts.append(Doubt(name, step, tuple(words), 0, len(ranks)))
            return
        # A rank outside the group confirms nothing, and neither does a rank that states two digests.
        sure = Counter(said[0].sha256 for rank, said in group.items() if rank in ranks and len(said) == 1)
        top, count = max(sure.items(), key=lambda item: (item[1], item[0]), default=("", 0))
        others = tuple(one for one in words if one.sha256 != top)
        if not others:
            return
        if 2 * count > len(present):
            self._doubts.append(Doubt(name, step, others, count, len(ranks)))
        else:
            self._doubts.append(Doubt(name, step, tuple(words), 0, len(ranks)))
