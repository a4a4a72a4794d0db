"""Anchors of a re-run beside the stored ones: which step and rank differ first, and in what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from provstore.evidence.replay.epoch import Row

NAMES = ("order", "cursor", "rng", "params")
"""What an anchor holds, in the order in which a difference of one causes that of the next."""
MEANING: Mapping[str, str] = {
    "order": "calls issued",
    "cursor": "batches consumed",
    "rng": "states of the random number generators",
    "params": "parameters",
    "data": "sample ids of the step",
    "missing": "the step itself",
}


@dataclass(frozen=True, slots=True)
class AnchorDifference:
    """One anchor that differs."""

    epoch: int
    step: int
    rank: int
    names: tuple[str, ...]
    """Of ``NAMES``, ``data``, or ``missing`` where one run has no anchor there."""

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

    @property
    def is_equal(self) -> bool:
        """Whether there were anchors, and all of them are equal."""
        return self.first is None and self.compared > 0

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
    ids = _ids(data[0]), _ids(data[1])
    compared = not_probed = 0
    found: list[AnchorDifference] = []
    for place in sorted(left.keys() | right.keys()):
        one, two = left.get(place), right.get(place)
        if one is None or two is None:
            found.append(AnchorDifference(*place, ("missing",)))
            continue
        compared += 1
        not_probed += one.get("params") is None or two.get("params") is None
        names = [name for name in NAMES if _differs(one.get(name), two.get(name))]
        if _differs(ids[0].get(place), ids[1].get(place)):
            names.insert(0, "data")
        if names:
            found.append(AnchorDifference(*place, tuple(names)))
    firsts: dict[int, AnchorDifference] = {}
    for difference in found:
        firsts.setdefault(difference.rank, difference)
    ranked = tuple(firsts[rank] for rank in sorted(firsts))
    return AnchorComparison(other, compared, len(found), found[0] if found else None, not_probed, ranked)


def _differs(one: object, two: object) -> bool:
    """What only one of them holds says nothing."""
    return one is not None and two is not None and one != two


def _by_place(rows: Iterable[Row]) -> dict[tuple[int, int, int], Row]:
    return {(row["epoch"], row["step"], row["rank"]): row for row in rows}


def _ids(rows: Iterable[Row]) -> dict[tuple[int, int, int], tuple[str, ...]]:
    found: dict[tuple[int, int, int], tuple[str, ...]] = {}
    for row in rows:
        if row.get("step") is not None and not row.get("skipped"):
            place = (row["epoch"], row["step"], row["rank"])
            found[place] = (*found.get(place, ()), row["ids_digest"])
    return found
