"""Sizes of what ranks put into one reduction, and who of them stands out; pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from provstore.analysis.action_order import ActionOrder
from provstore.model.action import Action

COMPARED_IN = frozenset(("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor"))
"""Operations into which ranks put values of one kind, so that their sizes can be compared."""
_NOT_WHOLE = ("float", "bfloat", "complex")
_SUMS = frozenset((None, "sum", "avg", "premul_sum"))

ALARM = 6.0
"""Robust distance at which the score is 0.8."""
_LEAST_SPREAD = 0.15
"""Decades; at the alarm a factor of 8: ranks that lie closer together than this differ by their batches."""
_LEAST_SIZE = 1e-45
"""Nothing is nearer to zero: what is exactly zero has no decade."""
LEAST_RANKS = 4
_LEAST_HISTORY = 3
_FEW_VALUES = 8
"""Fewer values than these are figures, such as a loss, a norm or the number of samples."""
_SPREAD_OF_FIGURES = 0.5
"""Decades; at the alarm a factor of 1,000: a last batch may be that much shorter."""
_SCORE_LIMIT = 0.8


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the values of one side of an action are."""

    norm: float
    abs_max: float


SizesOf = Callable[[Action], Sizes | None]


def is_sum(action: Action) -> bool:
    """Return whether what ranks put into a call is added up, as far as its operator is known."""
    return action.op in COMPARED_IN and action.reduce_op in _SUMS


def outliers(run: ActionOrder, sizes_of: SizesOf) -> tuple[list[tuple[Action, float]], int]:
    """Return the actions that lie far from those of the other ranks, and in how many calls too few ranks have sizes.

    A rank that differs so in all its calls, because of its place in the model, is not unusual.
    """
    shifts: dict[str, tuple[float, float]] = {}
    few = 0
    for rows in run.instances.values():
        told = {one.action_id: size for one in rows if _is_compared(one) and (size := sizes_of(one))}
        few += 2 <= len(told) < LEAST_RANKS
        if len(told) >= LEAST_RANKS:
            shifts.update(_shifts(told))
    shifted = [run.by_id[name] for name in shifts]
    zeros = [_is_zero(sizes_of(one)) for one in shifted]
    away = _distances(shifted, list(shifts.values()), zeros)
    # A rank that has ended its last step, as one has whose data is used up first, joins in with zeros.
    with_steps = {one.rank for one in run.actions if one.step is not None}
    return [
        (one, far)
        for one, far, is_zero in zip(shifted, away, zeros, strict=True)
        if abs(far) >= ALARM
        and score_of(far) > _SCORE_LIMIT
        and not (is_zero and (_is_figure(one) or (one.step is None and one.rank in with_steps)))
    ], few


def _is_compared(action: Action) -> bool:
    """Return whether an input is of values that are alike on all ranks by their kind: not counters, flags, maxima."""
    if not is_sum(action) or action.finite_in is False:
        return False
    return not action.dtypes_in or all(name.startswith(_NOT_WHOLE) for name in action.dtypes_in)


def _is_figure(action: Action) -> bool:
    return action.shapes_in is not None and sum(map(math.prod, action.shapes_in)) < _FEW_VALUES


def _is_zero(size: Sizes | None) -> bool:
    return size is not None and size.abs_max == 0


def _distances(actions: Sequence[Action], shifts: Sequence[tuple[float, float]], zeros: Sequence[bool]) -> list[float]:
    """Return how many robust spreads each action lies from the middle, beyond what its rank does as a habit.

    Of norm and largest value, the one that lies farther away counts. The spread is that of all calls of the group:
    among the few ranks of one call it is small by chance at times. A habit is one of calls of the same kind. Zeros
    have no decade: they tell nothing of other calls, and are a habit where a rank puts them in every other time.
    """
    of_group: dict[str | None, list[int]] = defaultdict(list)
    of_kind: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for at, one in enumerate(actions):
        if not zeros[at]:
            of_group[one.group].append(at)
        of_kind[one.rank, one.group, one.op, one.shapes_in].append(at)
    farthest = [0.0] * len(actions)
    for column in zip(*shifts, strict=True):
        spreads = {
            group: max(1.4826 * median([abs(column[at]) for at in places]), _LEAST_SPREAD)
            for group, places in of_group.items()
        }
        for places in of_kind.values():
            own = [column[at] for at in places if not zeros[at]]
            habit = median(own) if len(own) > _LEAST_HISTORY else 0.0
            one = actions[places[0]]
            spread = max(spreads.get(one.group, 0.0), _SPREAD_OF_FIGURES if _is_figure(one) else _LEAST_SPREAD)
            has_zeros = len(places) > _LEAST_HISTORY and 2 * len(own) <= len(places)
            for at in places:
                away = 0.0 if has_zeros and zeros[at] else (column[at] - habit) / spread
                if abs(away) > abs(farthest[at]):
                    farthest[at] = away
    return farthest


def _shifts(sizes: Mapping[str, Sizes]) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield how many decades norm and largest value of each lie from the middle of all.

    Where half of the ranks put in nothing but zeros, the others alone were to put in something.
    """
    norms = [_decades(size.norm) for size in sizes.values()]
    largest = [_decades(size.abs_max) for size in sizes.values()]
    middle, middle_largest = median(norms), median(largest)
    if 2 * sum(map(_is_zero, sizes.values())) >= len(sizes):
        return
    for name, norm, most in zip(sizes, norms, largest, strict=True):
        yield name, (norm - middle, most - middle_largest)


def _decades(size: float) -> float:
    return math.log10(max(abs(size), _LEAST_SIZE))


def score_of(distance: float) -> float:
    """Return the score of a robust distance: 0.8 at :data:`ALARM`, 0.9 at twice that, towards 1."""
    away = abs(distance)
    return _SCORE_LIMIT * away / ALARM if away < ALARM else 1 - 0.2 * ALARM / away
