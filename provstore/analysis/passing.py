"""Values that are not finite and do no harm: overwritten, meant so, or left out by the program; pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from provstore.analysis.action_order import ActionOrder
from provstore.analysis.outliers import is_sum
from provstore.model.action import GRADIENT, LOAD, Action

_OVERWRITTEN = frozenset(("broadcast", "_broadcast_oop", "scatter"))
_RECEIVES = frozenset(("recv", "irecv"))
_EXTREMES = frozenset(("min", "max"))

SOUND_STEPS = 5
"""So many steps in a row, later, show that nothing was spoilt."""

_Place = tuple[int, int]
"""Training epoch and step."""
_Kind = tuple[str, str | None, tuple[tuple[int, ...], ...] | None]


class Passing:
    """Tells of values that are not finite whether they went no further.

    A scaler of the loss lets gradients overflow at times and leaves out their step, padding and masks hold NaN or
    infinities on purpose, and a buffer holds anything before it is written. What spoils training stays: nothing that is
    summed over ranks is finite again, unless a checkpoint is loaded.
    """

    def __init__(self, run: ActionOrder) -> None:
        self._sums: dict[_Place, list[Action]] = defaultdict(list)
        for one in run.actions:
            if one.step is not None and is_sum(one):
                self._sums[one.epoch or 0, one.step].append(one)
        self._places = sorted(self._sums)
        self._loads: dict[int, list[_Place]] = defaultdict(list)
        for one in run.actions:
            if one.op == LOAD:
                self._loads[one.rank].append((one.epoch or 0, one.step or 0))
        self._usual: set[tuple[int, str, str | None]] = set()
        """Kinds of calls whose values that are not finite did no harm to a rank before."""

    def is_harmless(self, one: Action) -> bool:
        """Return whether values that are not finite went no further than this action; to be asked in program order."""
        if one.op == GRADIENT or is_sum(one):
            return self._passes(one)
        kind = (one.rank, one.op, one.group)
        if _is_overwritten(one) or kind in self._usual:
            return True
        if not self._passes(one):
            return False
        self._usual.add(kind)
        return True

    def _passes(self, one: Action) -> bool:
        """Return whether what the rank puts into sums soon is finite, and stays so for some steps."""
        if one.step is None:
            return False
        place = (one.epoch or 0, one.step)
        spoilt = {_kind(row) for row in self._sums.get(place, ()) if is_spoilt(row)}
        # A gradient that no sum of its step holds may be added to others first: then nothing later may be spoilt.
        is_held_back = one.op == GRADIENT and not spoilt
        sound = 0
        for rows in self._after(place, self._loads.get(one.rank, ())):
            if any(map(is_spoilt, rows)):
                if is_held_back:
                    return False
                sound = 0
                continue
            own = (row for row in rows if row.rank == one.rank and row.finite_in is True)
            sound += any(not spoilt or _kind(row) in spoilt for row in own)
            if sound >= SOUND_STEPS and not is_held_back:
                return True
        return sound >= SOUND_STEPS

    def _after(self, place: _Place, loads: Sequence[_Place]) -> Iterator[list[Action]]:
        """Yield the sums of each later step, until a checkpoint is loaded: that makes everything sound again."""
        until = next((load for load in loads if load >= place), None)
        for later in self._places[bisect_right(self._places, place) :]:
            if until is not None and later > until:
                return
            yield self._sums[later]


def lasting(run: ActionOrder, passing: Passing, ignored: str) -> tuple[dict[int, Action], dict[int, list[Action]]]:
    """Return, by rank, the first action that may have spoilt something, and those before it that did no harm.

    Args:
        run: All actions.
        passing: Tells of values that are not finite whether they went on.
        ignored: Operation whose actions are passed over.
    """
    first: dict[int, Action] = {}
    harmless: dict[int, list[Action]] = {}
    for rank, rows in run.ranks.items():
        harmless[rank] = []
        for one in rows:
            if not is_spoilt(one) or one.op == ignored:
                continue
            if not passing.is_harmless(one):
                first[rank] = one
                break
            harmless[rank].append(one)
    return first, harmless


def is_own_input(one: Action) -> bool:
    """Return whether a rank puts something into a call, and not only a buffer that the call writes to."""
    if one.op in _RECEIVES:
        return False
    return one.op not in _OVERWRITTEN or one.root is None or one.root == one.rank


def is_spoilt(one: Action) -> bool:
    """Return whether values that are not finite were seen on one side of an action."""
    return one.finite_in is False or one.finite_out is False


def _is_overwritten(one: Action) -> bool:
    """Return whether a call leaves nothing of what a rank put into it that is not finite."""
    if not is_own_input(one):
        return one.finite_out is not False
    return one.op == "all_reduce" and one.reduce_op in _EXTREMES and one.finite_out is True


def _kind(one: Action) -> _Kind:
    return one.op, one.group, one.shapes_in
