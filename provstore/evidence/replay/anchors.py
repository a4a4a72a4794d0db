"""Anchors of a re-run beside the stored ones: which step and rank differ first, and in what."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from provstore.evidence.replay.epoch import Row

KINDS = ("missing", "data", "cursor", "rng", "order", "params")
"""What may differ at a step, in the order in which a difference of one causes that of the next."""
NAMES = ("cursor", "rng", "order", "params")
"""Of these, what an anchor holds."""
MEANING: Mapping[str, str] = {
    "missing": "the step itself",
    "data": "sample ids",
    "cursor": "number of batches",
    "rng": "states of the random number generators",
    "order": "calls issued",
    "params": "parameters",
}

_Place = tuple[int, int, int]
"""Epoch, step, rank."""


@dataclass(frozen=True, slots=True)
class KindDifference:
    """What two runs say of one kind of anchor: where it differs first, and on which ranks there."""

    kind: str
    """Of ``KINDS``."""
    compared: int
    """Ranks and steps of which both runs hold it."""
    different: int
    epoch: int | None = None
    step: int | None = None
    ranks: tuple[int, ...] = ()
    """All that differ at the first step that does."""

    @property
    def place(self) -> tuple[int, int] | None:
        """Epoch and step of the first difference."""
        return None if self.epoch is None or self.step is None else (self.epoch, self.step)

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "kind": self.kind,
            "compared": self.compared,
            "different": self.different,
            "epoch": self.epoch,
            "step": self.step,
            "ranks": list(self.ranks),
        }


@dataclass(frozen=True, slots=True)
class AnchorDifference:
    """One anchor that differs."""

    epoch: int
    step: int
    rank: int
    names: tuple[str, ...]
    """Of ``KINDS``, the cause before what follows from it."""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {"epoch": self.epoch, "step": self.step, "rank": self.rank, "anchors": list(self.names)}


@dataclass(frozen=True, slots=True)
class AnchorComparison:
    """What comparing the anchors of two runs gives."""

    other: str
    compared: int
    """Anchors of a rank and step that both runs have."""
    different: int
    first: AnchorDifference | None
    not_probed: int = 0
    """Anchors whose parameters were not probed in one of the runs."""
    per_rank: tuple[AnchorDifference, ...] = ()
    kinds: tuple[KindDifference, ...] = ()
    """Each kind judged by itself, the first that differs first; of one step in the order of ``KINDS``."""
    steps: int = 0
    """Steps of which both runs have an anchor."""
    generators: tuple[str, ...] = ()
    """Random number generators whose kept states differ where such states differ first; none kept, none named."""
    lacking: Mapping[str, int] = field(default_factory=dict)
    """What the re-run does not hold at anchors that hold it of the run, and at how many."""

    @property
    def is_equal(self) -> bool:
        """Whether there were anchors, and all that was stored of them is reached again."""
        return self.first is None and self.compared > 0 and not self.lacking

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "other": self.other,
            "compared": self.compared,
            "different": self.different,
            "not_probed": self.not_probed,
            "equal": self.is_equal,
            "first_difference": self.first.to_dict() if self.first else None,
            "per_rank": [one.to_dict() for one in self.per_rank],
            "kinds": [one.to_dict() for one in self.kinds],
            "steps": self.steps,
            "generators": list(self.generators),
            "lacking": dict(self.lacking),
        }


def compare_anchors(
    stored: Iterable[Row],
    rerun: Iterable[Row],
    other: str,
    data: tuple[Sequence[Row], Sequence[Row]] = ((), ()),
) -> AnchorComparison:
    """Return which anchors of a re-run differ from the stored ones, step by step.

    Args:
        stored: Anchors of the run.
        rerun: Anchors of the re-run.
        other: Name of the re-run.
        data: Rows of batches of both, where they are known: whose samples a step had.
    """
    left, right = _by_place(stored), _by_place(rerun)
    ids = _ids(data[0], left), _ids(data[1], right)
    tallies = {kind: _Tally() for kind in KINDS}
    not_probed, lacking = 0, Counter[str]()
    found: list[AnchorDifference] = []
    # Batches of a step that has no anchor are compared, too: a rank may have died in it.
    for place in sorted(left.keys() | right.keys() | (ids[0].keys() & ids[1].keys())):
        one, two = left.get(place), right.get(place)
        is_lone = (one is None) != (two is None)
        values: dict[str, tuple[object, object]] = {"data": (ids[0].get(place), ids[1].get(place))}
        if one is not None and two is not None:
            not_probed += one.get("params") is None or two.get("params") is None
            values |= {name: (one.get(name), two.get(name)) for name in NAMES}
            lacking.update(name for name in NAMES if one.get(name) is not None and two.get(name) is None)
        if one is not None or two is not None:
            values["missing"] = (is_lone, False)
        names = tuple(kind for kind in KINDS if kind in values and tallies[kind].differs(place, *values[kind]))
        if names:
            found.append(AnchorDifference(*place, names))
    kinds = sorted((tallies[kind].of(kind) for kind in KINDS if tallies[kind].compared), key=_first_first)
    firsts: dict[int, AnchorDifference] = {}
    for difference in found:
        firsts.setdefault(difference.rank, difference)
    both = left.keys() & right.keys()
    return AnchorComparison(
        other,
        len(both),
        len(found),
        _cause(found, kinds),
        not_probed,
        tuple(firsts[rank] for rank in sorted(firsts)),
        tuple(kinds),
        len({place[:2] for place in both}),
        lacking={name: lacking[name] for name in NAMES if lacking[name]},
    )


@dataclass(slots=True)
class _Tally:
    """Counts one kind, place by place in their order."""

    compared: int = 0
    different: int = 0
    first: tuple[int, int] | None = None
    ranks: list[int] = field(default_factory=list)

    def differs(self, place: _Place, one: object, two: object) -> bool:
        """Count what two runs hold; what only one of them holds says nothing."""
        if one is None or two is None:
            return False
        self.compared += 1
        if one == two:
            return False
        self.different += 1
        if self.first in {None, place[:2]}:
            self.first = place[:2]
            self.ranks.append(place[2])
        return True

    def of(self, kind: str) -> KindDifference:
        """Return what was counted."""
        epoch, step = self.first or (None, None)
        return KindDifference(kind, self.compared, self.different, epoch, step, tuple(self.ranks))


def _first_first(one: KindDifference) -> tuple[bool, tuple[int, int], int]:
    return one.place is None, one.place or (0, 0), KINDS.index(one.kind)


def _cause(found: Sequence[AnchorDifference], kinds: Sequence[KindDifference]) -> AnchorDifference | None:
    """Return, of the first step that differs, the lowest rank on which the earliest kind does."""
    if not found:
        return None
    first = kinds[0]
    return next(one for one in found if (one.epoch, one.step) == first.place and one.rank in first.ranks)


def _by_place(rows: Iterable[Row]) -> dict[_Place, Row]:
    return {(row["epoch"], row["step"], row["rank"]): row for row in rows}


def _ids(
    rows: Iterable[Row], anchors: Mapping[tuple[int, int, int], Row]
) -> dict[tuple[int, int, int], tuple[str, ...]]:
    """Return the digests of the samples of each epoch, step and rank.

    A batch that was written long before its step ended does not name it: then it is of the first step by whose end the
    rank had noted so many.
    """
    found: dict[_Place, tuple[str, ...]] = {}
    noted = _noted(anchors)
    for row in rows:
        if row.get("skipped"):
            continue
        epoch, step, rank = row["epoch"], row.get("step"), row["rank"]
        if step is None:
            steps, counts = noted.get((epoch, rank), ((), ()))
            at = bisect_right(counts, row["batch"])
            if at == len(steps):
                continue
            step = steps[at]
        found[epoch, step, rank] = (*found.get((epoch, step, rank), ()), row["ids_digest"])
    return found


def _noted(anchors: Mapping[_Place, Row]) -> dict[tuple[int, int], tuple[Sequence[int], Sequence[int]]]:
    """Return steps and how many batches had been noted by the end of each, by epoch and rank.

    One that has steps without an anchor, or counted anew within the epoch, is left out.
    """
    told: dict[tuple[int, int], list[tuple[int, int | None]]] = {}
    for (epoch, step, rank), row in sorted(anchors.items()):
        told.setdefault((epoch, rank), []).append((step, row.get("cursor")))
    found: dict[tuple[int, int], tuple[Sequence[int], Sequence[int]]] = {}
    for place, pairs in told.items():
        steps, counts = [step for step, _ in pairs], [count for _, count in pairs if type(count) is int]
        if len(counts) == len(steps) == steps[-1] - steps[0] + 1 and counts == sorted(counts):
            found[place] = steps, counts
    return found
