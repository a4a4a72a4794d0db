"""Ranks that held equal parameters and no longer do: at which step that began, and whose differ; pure.

Ranks are compared only while all of them were equal at every step that they share: parts of a model that is spread
over ranks never are, and are never compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from provstore.analysis.rank_lists import ranks_text
from provstore.model.action import Action
from provstore.model.finding import Evidence, Undecided

PARAMETERS, STATE = "parameters", "parameters or other state in a checkpoint"
_NEXT = "run it again from the checkpoint before and compare: provstore replay --against"

Place = tuple[int, int, int]
"""Training epoch, step, and which of several of that step."""


@dataclass(frozen=True, slots=True)
class Held:
    """The digest of what one rank held after a step."""

    rank: int
    place: Place
    digest: str
    ref: str
    """``sha256:`` of the stored table that says so."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Ranks of which some are no longer equal to the others."""

    place: Place
    """The first step after which they differ."""
    last_equal: Place
    members: tuple[int, ...]
    """All that were equal until then and have a digest there."""
    minority: tuple[int, ...]
    """Those that differ from a strict majority; empty where there is none."""
    refs: tuple[str, ...]
    """Of what is equal last and of what differs first."""
    sides: int
    """How many different values there are."""
    what: str = PARAMETERS

    @property
    def is_sure(self) -> bool:
        """Whether what differs is the parameters alone: the state of a checkpoint may hold what is a rank's own."""
        return self.what == PARAMETERS

    def holds(self, epoch: int | None, step: int | None) -> bool:
        """Return whether a call of this epoch and step came after what was equal last."""
        since = min(self.place[:2], (self.last_equal[0], self.last_equal[1] + 1))
        return step is not None and (self.place[0] if epoch is None else epoch, step) >= since

    def evidence(self, rank: int) -> tuple[Evidence, ...]:
        """Return the stored tables that say so."""
        name = "anchors" if self.is_sure else "checkpoints"
        return tuple(Evidence(name, ref, rank) for ref in self.refs)

    def text(self, rank: int) -> str:
        """Return in words how one rank differs."""
        others = len(self.members) - len(self.minority)
        return (
            f"rank {rank}: holds other {self.what} than {others} of {len(self.members)} ranks after step "
            f"{self.place[1]} of epoch {self.place[0]}, and held equal ones after step {self.last_equal[1]} of epoch "
            f"{self.last_equal[0]}"
        )

    def reaches(self, action: Action) -> bool:
        """Return whether what differs comes after a call, or in its step."""
        return action.step is not None and (action.epoch or 0, action.step) <= self.place[:2]

    def undecided(self, alone: Sequence[int] = ()) -> Undecided:
        """Return that ranks differ and none of them is named.

        Args:
            alone: Ranks that took no part in what the others added up since all were equal.
        """
        names = ranks_text(self.members)
        is_usual = bool(alone) or self.sides == len(self.members) > 2
        what = (
            f"ranks {names}: hold other {self.what} than each other after step {self.place[1]} of epoch "
            f"{self.place[0]}, and held equal ones after step {self.last_equal[1]} of epoch {self.last_equal[0]}; "
        )
        what += f"{_are(alone)} no part in what the others add up" if alone else "none has a majority"
        what += "; where ranks train apart for a time that is usual" if is_usual else ""
        return Undecided("tie", what, _NEXT, self.members, blocks_answer=not is_usual)


def _are(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]} has" if len(ranks) == 1 else f"ranks {ranks_text(ranks)} have"


@dataclass(slots=True)
class _Group:
    """Ranks that were equal at every step so far."""

    ranks: frozenset[int]
    last: Place | None = None
    refs: tuple[str, ...] = ()


def drifts(held: Iterable[Held], what: str = PARAMETERS) -> list[Drift]:
    """Return where ranks that were equal stop being so, in the order of steps.

    What follows from a difference is no further one: ranks that differ are not compared again, those of the majority
    are.

    Args:
        held: Digests of ranks and steps, in any order.
        what: What they are digests of, in words.
    """
    steps: dict[Place, dict[int, Held]] = defaultdict(dict)
    for one in held:
        steps[one.place][one.rank] = one
    found: list[Drift] = []
    groups: list[_Group] = []
    known: set[int] = set()
    for place in sorted(steps):
        at = steps[place]
        groups = [left for group in groups for left in _compared(group, place, at, found)]
        groups += _begun(place, [one for rank, one in sorted(at.items()) if rank not in known])
        known |= at.keys()
    return [replace(one, what=what) for one in found]


def _begun(place: Place, newcomers: Sequence[Held]) -> list[_Group]:
    """Return the groups of ranks that are equal where they are first seen."""
    return [
        _Group(frozenset(one.rank for one in side), place, _refs(side))
        for side in _sides(newcomers)
        if len(side) > 1
    ]  # fmt: skip


def _compared(group: _Group, place: Place, at: dict[int, Held], found: list[Drift]) -> list[_Group]:
    """Return what is left of a group after a step; ranks without a digest there are as they were."""
    there = [at[rank] for rank in sorted(group.ranks) if rank in at]
    if len(there) < 2:
        return [group]
    sides = _sides(there)
    if len(sides) == 1:
        group.last, group.refs = place, _refs(there)
        return [group]
    largest = max(sides, key=len)
    has_majority = 2 * len(largest) > len(there)
    minority = tuple(one.rank for side in sides if side is not largest for one in side) if has_majority else ()
    members = tuple(one.rank for one in there)
    refs = tuple(dict.fromkeys((*group.refs, *_refs(there))))
    found.append(Drift(place, group.last or place, members, tuple(sorted(minority)), refs, len(sides)))
    left = (group.ranks - set(members)) | {one.rank for one in largest}
    return [_Group(frozenset(left), group.last, group.refs)] if has_majority and len(left) > 1 else []


def _sides(given: Sequence[Held]) -> list[list[Held]]:
    found: dict[str, list[Held]] = {}
    for one in given:
        found.setdefault(one.digest, []).append(one)
    return list(found.values())


def _refs(given: Sequence[Held]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.ref for one in given))
