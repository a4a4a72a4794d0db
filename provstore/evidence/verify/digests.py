"""Digests that ranks must share: who stands alone, and who contradicts a majority."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MOST_WAITING = 500_000
"""Digests in groups that wait for a rank; beyond it the check is not finished."""
_NO_RANK = -1


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
class _Group:
    words: dict[int, Stated] = field(default_factory=dict)
    """Rank → the first that it states."""
    more: list[Stated] = field(default_factory=list)
    """What a rank states against itself."""
    texts: dict[str, str] = field(default_factory=dict)
    """Each digest once, since all ranks should state the same."""


_Key = tuple[str, int | None, tuple[int, ...]]


@dataclass(slots=True)
class Digests:
    """The digest records of a run, group by group; a group is forgotten as soon as it is whole."""

    is_full: bool = False
    """True when more words waited for a rank than are kept."""
    _open: dict[_Key, _Group] = field(default_factory=dict)
    _ranks: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)
    _waiting: int = 0
    _doubts: list[Doubt] = field(default_factory=list)

    def take(self, said: dict[str, Any], seq: int) -> None:
        """Take note of one digest record."""
        if self._waiting >= MOST_WAITING:
            self.is_full = True
            return
        ranks = tuple(said["ranks"])
        # Many groups have the same ranks: each tuple is kept once.
        key = (said["name"], said["step"], self._ranks.setdefault(ranks, ranks))
        group = self._open.setdefault(key, _Group())
        sha256 = group.texts.setdefault(said["sha256"], said["sha256"])
        stated = Stated(_NO_RANK if said["rank"] is None else said["rank"], sha256, seq)
        first = group.words.setdefault(stated.rank, stated)
        self._waiting += 1
        if first.sha256 != sha256:
            group.more.append(stated)
        if len(group.words) >= len(ranks) and group.words.keys() >= set(ranks):
            self._settle(key, group)
            del self._open[key]
            self._waiting -= len(group.words) + len(group.more)

    def doubts(self) -> Iterator[Doubt]:
        """Yield what is in doubt after the last record."""
        for key, group in self._open.items():
            self._settle(key, group)
        self._open.clear()
        yield from self._doubts

    def _settle(self, key: _Key, group: _Group) -> None:
        name, step, ranks = key
        members = group.words.keys() & set(ranks)
        words = (*group.words.values(), *group.more)
        if len(members) < 2:
            self._doubts.append(Doubt(name, step, words, 0, len(ranks)))
            return
        if len(group.texts) == 1:
            return
        # A rank outside the group confirms nothing, and neither does a rank that states two digests.
        torn = {one.rank for one in group.more}
        sure = Counter(group.words[rank].sha256 for rank in members - torn)
        top, count = max(sure.items(), key=lambda item: (item[1], item[0]), default=("", 0))
        if 2 * count > len(members):
            others = tuple(one for one in words if one.sha256 != top)
            self._doubts.append(Doubt(name, step, others, count, len(ranks)))
        else:
            self._doubts.append(Doubt(name, step, words, 0, len(ranks)))
