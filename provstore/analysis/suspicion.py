"""Suspicion: the actions that a finding names, from what was recorded of their content; pure.

Nothing is suspicious for being recorded in full. What a suspicious action may have spoilt is affected, not suspicious.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from provstore.analysis.action_order import ActionOrder
from provstore.analysis.rank_lists import ranks_text
from provstore.analysis.replicas import Drift
from provstore.model.action import ACTIVATION, GRADIENT, Action
from provstore.model.finding import Culprit, Evidence, Finding, GroupName, Undecided
from provstore.model.suspicion import Suspicion, SuspiciousAction

ORIGIN, DISAGREEMENT, DRIFT, OUTLIER, REEXECUTION = (
    "nan-origin",
    "replica-disagreement",
    "replica-drift",
    "cross-rank-outlier",
    "reexecution-mismatch",
)
ALIKE_OUT = frozenset(("all_reduce", "all_gather", "all_gather_into_tensor", "broadcast"))
"""Operations after which every rank holds the same bytes."""
COMPARED_IN = frozenset(("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor"))
"""Operations into which ranks put values of one kind, so that their sizes can be compared."""

ALARM = 6.0
"""Robust distance at which the score is 0.8."""
_LEAST_SPREAD = 0.15
"""Decades; at the alarm a factor of 8: ranks that lie closer together than this differ by their batches."""
_LEAST_SIZE = 1e-45
"""Nothing is nearer to zero: what is exactly zero has no decade."""
_LEAST_RANKS = 4
_LEAST_HISTORY = 3
_SCORE_LIMIT = 0.8


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the values of one side of an action are."""

    norm: float
    abs_max: float


SizesOf = Callable[[Action], Sizes | None]
Losses = Mapping[int, Mapping[int, float]]


def suspicious(
    actions: Iterable[Action],
    sizes_of: SizesOf | None = None,
    *,
    losses: Losses | None = None,
    drifts: Sequence[Drift] = (),
    mismatches: Mapping[str, str] | None = None,
    accused: Mapping[str, Finding] | None = None,
) -> Suspicion:
    """Return the suspicious actions of one attempt, those they may have spoilt, and what could not be judged.

    Args:
        actions: All actions, in program order on each rank; ranks in any order.
        sizes_of: Sizes of what a rank put into an action, where its statistics are stored.
        losses: Rank → step → loss, as each rank stated it.
        drifts: Where ranks that held equal parameters stop doing so.
        mismatches: ``action_id`` → in words, how its stored output differs from what its inputs give.
        accused: ``action_id`` → the finding of a diagnosis that names it.
    """
    run = ActionOrder(list(actions))
    found: dict[tuple[str, str], SuspiciousAction] = {}
    undecided: list[Undecided] = []
    apart = list(_disagreements(run, undecided))
    for one in (
        *_origins(run, losses or {}, undecided),
        *apart,
        *_drifted(run, drifts, {one.action.rank: one.action for one in apart}, undecided),
        *_outliers(run, sizes_of, undecided),
        *_recomputed(run, mismatches or {}),
        *(SuspiciousAction(run.by_id[name], finding, 1.0) for name, finding in (accused or {}).items()
          if name in run.by_id),
    ):  # fmt: skip
        found.setdefault((one.action.action_id, one.finding.code), one)
    names = {name for name, _ in found}
    place = {one.action_id: at for at, one in enumerate(run.actions) if one.action_id in names}
    ordered = sorted(found.values(), key=lambda one: (place[one.action.action_id], one.finding.code))
    spoilt = run.after(names) - names
    affected = tuple(one.action_id for one in run.actions if one.action_id in spoilt) if spoilt else ()
    return Suspicion(tuple(ordered), affected, tuple(undecided), _coverage(run, sizes_of))


def _origins(run: ActionOrder, losses: Losses, undecided: list[Undecided]) -> Iterable[SuspiciousAction]:
    """Yield the actions into which a rank put values that are not finite while all that reached it was finite."""
    # Activations may hold infinities on purpose, as masks do: what follows from them tells.
    first = {
        rank: next((one for one in rows if _is_spoilt(one) and one.op != ACTIVATION), None)
        for rank, rows in run.ranks.items()
    }
    found = []
    for rank, one in first.items():
        # A gradient takes in nothing that is recorded with it: it is its rank's computing.
        is_own = one is not None and one.op == GRADIENT
        if one is None or (one.finite_in is not False and not is_own):
            continue
        before = run.ranks[rank][: run.ranks[rank].index(one)]
        surety = _surety(before)
        if surety is not None:
            text = f"rank {rank}: {_put_in_words(run, one)}; all it had before was finite"
            found.append(_named(run, one, ORIGIN, text, is_sure=surety, parameter=one.name if is_own else None))
    if not found:
        found = [_named(run, one, ORIGIN, text, is_sure=False) for one, text in _of_losses(run, losses)]
    spoilt = sorted(rank for rank, one in first.items() if one is not None)
    if spoilt and not found:
        what = (
            f"ranks {ranks_text(spoilt)} hold values that are not finite; who had them first is not recorded: flags of "
            "earlier calls are missing"
        )
        step = "record the flags of every call: raise the time limit"
        undecided.append(Undecided("no_values", what, step, tuple(spoilt)))
    masks = sorted({one.rank for one in run.actions if one.op == ACTIVATION and _is_spoilt(one)})
    if masks and not spoilt:
        what = (
            f"ranks {ranks_text(masks)}: activations hold values that are not finite, and no gradient or call that is "
            "recorded after them does: they may be meant so"
        )
        undecided.append(Undecided("no_values", what, "look at these activations: provstore trace", tuple(masks)))
    yield from found


def _put_in_words(run: ActionOrder, action: Action) -> str:
    """Return in words what a rank did that had values that are not finite first."""
    if action.op != GRADIENT:
        return f"puts values that are not finite into {_words(action)}"
    text = f"computes values that are not finite in {action.name or 'a tensor'}, {_words(action)}"
    carrier = next((run.by_id[name] for name in action.carried_by if name in run.by_id), None)
    return text if carrier is None else f"{text}, carried by {_words(carrier)}"


def _is_spoilt(action: Action) -> bool:
    return action.finite_in is False or action.finite_out is False


def _surety(before: Sequence[Action]) -> bool | None:
    """Return whether everything that reached the rank was finite; ``None`` when it may have got the values.

    A rank whose own input was finite is taken to have been sound until then, which is less than sure.
    """
    for one in reversed(before):
        if one.chain is None or one.shapes_out == ():
            continue
        if one.finite_out is not True:
            return None
        if one.finite_in is True:
            calls = (other for other in before if other.chain is not None and other.shapes_out != ())
            return all(other.finite_out is True for other in calls)
    return True


def _of_losses(run: ActionOrder, losses: Losses) -> list[tuple[Action, str]]:
    """Return the first reduction of the ranks whose loss is the first that is not finite, while others are finite."""
    steps = sorted({step for of_rank in losses.values() for step in of_rank})
    for step in steps:
        said = {rank: of_rank[step] for rank, of_rank in losses.items() if step in of_rank}
        bad = sorted(rank for rank, value in said.items() if not math.isfinite(value))
        if not bad:
            continue
        if len(said) < len(run.ranks) or len(bad) == len(said):
            return []
        found = []
        for rank in bad:
            rows = (one for one in run.ranks[rank] if one.step == step and one.op in COMPARED_IN)
            action = next(rows, None)
            if action is not None:
                text = (
                    f"rank {rank}: its loss at step {step} is {said[rank]}, and that of other ranks is finite there; "
                    f"{_words(action)} is the first reduction that can carry it"
                )
                found.append((action, text))
        return found
    return []


def _disagreements(run: ActionOrder, undecided: list[Undecided]) -> Iterable[SuspiciousAction]:
    """Yield the minority where ranks that must hold the same bytes do not."""
    blamed: set[int] = set()
    for rows in run.instances.values():
        if rows[0].op not in ALIKE_OUT:
            continue
        held: dict[tuple[str | None, str], list[Action]] = defaultdict(list)
        for one in rows:
            if one.digest_out is not None:
                held[one.digest_kind, one.digest_out].append(one)
        if len({kind for kind, _ in held}) != 1 or len(held) < 2:
            continue
        largest = max(held.values(), key=len)
        total = sum(map(len, held.values()))
        if len(largest) * 2 <= total:
            ranks = tuple(sorted(one.rank for one in rows))
            what = (
                f"{_words(rows[0])}: ranks {ranks_text(ranks)} must hold the same bytes and do not; none has a majority"
            )
            undecided.append(Undecided("tie", what, "compare the outputs with a re-execution", ranks))
            continue
        for group in held.values():
            for one in group if group is not largest else ():
                if one.rank in blamed:
                    continue
                blamed.add(one.rank)
                text = (
                    f"rank {one.rank}: holds other bytes than {len(largest)} of {total} ranks after {_words(one)}, "
                    "which gives all of them the same"
                )
                yield _named(run, one, DISAGREEMENT, text)


def _drifted(
    run: ActionOrder, drifts: Sequence[Drift], blamed: Mapping[int, Action], undecided: list[Undecided]
) -> Iterable[SuspiciousAction]:
    """Yield, for each rank that no longer holds what its like hold, its first call that can have met the change.

    A rank that got other bytes from a call before is named for that already: other parameters follow from it.
    """
    for drift in drifts:
        if not drift.minority:
            undecided.append(drift.undecided())
        for rank in drift.minority:
            before = blamed.get(rank)
            if before is not None and (before.epoch or 0, before.step or 0) <= drift.place[:2]:
                continue
            rows = run.ranks.get(rank, [])
            one = next((row for row in rows if drift.holds(row.epoch, row.step)), rows[-1] if rows else None)
            text = drift.text(rank)
            if one is None:
                undecided.append(Undecided("no_calls", text, "no call of this rank is recorded there", (rank,)))
                continue
            summary = f"{text}; {_words(one)} is its first call since"
            yield _named(run, one, DRIFT, summary, is_sure=drift.is_sure, evidence=drift.evidence(rank))


def _outliers(run: ActionOrder, sizes_of: SizesOf | None, undecided: list[Undecided]) -> Iterable[SuspiciousAction]:
    """Yield what a rank put into a reduction that is far larger or smaller than what the others put in.

    A rank that differs so in all its calls, because of its place in the model, is not unusual.
    """
    if sizes_of is None:
        return
    shifts: dict[str, tuple[float, float]] = {}
    few = 0
    for rows in run.instances.values():
        if rows[0].op in COMPARED_IN:
            said = {one.action_id: size for one in rows if one.finite_in is not False and (size := sizes_of(one))}
            few += 2 <= len(said) < _LEAST_RANKS
            if len(said) >= _LEAST_RANKS:
                shifts.update(_shifts(said))
    shifted = [run.by_id[name] for name in shifts]
    for one, away in zip(shifted, _distances(shifted, list(shifts.values())), strict=True):
        if abs(away) >= ALARM and score_of(away) > _SCORE_LIMIT:
            direction = "larger" if away > 0 else "smaller"
            text = (
                f"rank {one.rank}: what it puts into {_words(one)} is far {direction} than what the other ranks put in"
            )
            yield _named(run, one, OUTLIER, text, is_sure=False, distance=abs(away))
    if few:
        what = f"sizes of inputs: in {few} calls fewer than {_LEAST_RANKS} ranks have statistics: nobody stands out"
        undecided.append(
            Undecided("no_values", what, "compare with another run: provstore diff", (), blocks_answer=False)
        )


def _distances(actions: Sequence[Action], shifts: Sequence[tuple[float, float]]) -> list[float]:
    """Return how many robust spreads each action lies from the middle, beyond what its rank does as a habit.

    Of norm and largest value, the one that lies farther away counts. The spread is that of all calls of the group:
    among the few ranks of one call it is small by chance at times.
    """
    of_group: dict[str | None, list[int]] = defaultdict(list)
    of_rank: dict[tuple[int, str | None], list[int]] = defaultdict(list)
    for at, one in enumerate(actions):
        of_group[one.group].append(at)
        of_rank[one.rank, one.group].append(at)
    farthest = [0.0] * len(actions)
    for column in zip(*shifts, strict=True):
        spreads = {
            group: max(1.4826 * median([abs(column[at]) for at in places]), _LEAST_SPREAD)
            for group, places in of_group.items()
        }
        for (_, group), places in of_rank.items():
            own = [column[at] for at in places]
            habit, spread = median(own) if len(own) > _LEAST_HISTORY else 0.0, spreads[group]
            for at, shift in zip(places, own, strict=True):
                away = (shift - habit) / spread
                if abs(away) > abs(farthest[at]):
                    farthest[at] = away
    return farthest


def _shifts(sizes: Mapping[str, Sizes]) -> dict[str, tuple[float, float]]:
    """Return how many decades norm and largest value of each lie from the middle of all."""
    norms = [math.log10(max(abs(size.norm), _LEAST_SIZE)) for size in sizes.values()]
    largest = [math.log10(max(abs(size.abs_max), _LEAST_SIZE)) for size in sizes.values()]
    middle, middle_largest = median(norms), median(largest)
    return {
        name: (norm - middle, most - middle_largest) for name, norm, most in zip(sizes, norms, largest, strict=True)
    }


def score_of(distance: float) -> float:
    """Return the score of a robust distance: 0.8 at :data:`ALARM`, 0.9 at twice that, towards 1."""
    away = abs(distance)
    return _SCORE_LIMIT * away / ALARM if away < ALARM else 1 - 0.2 * ALARM / away


def _recomputed(run: ActionOrder, mismatches: Mapping[str, str]) -> Iterable[SuspiciousAction]:
    for name, words in mismatches.items():
        if name in run.by_id:
            one = run.by_id[name]
            text = f"rank {one.rank}: the stored output of {_words(one)} is not what the stored inputs give: {words}"
            yield _named(run, one, REEXECUTION, text)


def _named(
    run: ActionOrder,
    action: Action,
    code: str,
    summary: str,
    *,
    is_sure: bool = True,
    distance: float | None = None,
    evidence: Sequence[Evidence] = (),
    parameter: str | None = None,
) -> SuspiciousAction:
    key = hashlib.sha256(f"{code}\0{action.action_id}".encode()).hexdigest()[:16]
    group = None if action.group is None else GroupName(action.group, "", None, "observed")
    finding = Finding(
        key=key,
        code=code,
        kind=code.replace("-", "_"),
        summary=f"{summary}.",
        confidence="certain" if is_sure else "probable",
        culprits=(Culprit(action.rank),),
        victims=tuple(sorted(run.ranks_after(action.action_id) - {action.rank})),
        group=group,
        op=action.op,
        seq=action.seq,
        evidence=tuple(evidence),
        measures={} if distance is None else {"robust_distance": distance},
        parameter=parameter,
    )
    return SuspiciousAction(action, finding, 1.0 if distance is None else score_of(distance))


def _words(action: Action) -> str:
    number = f" #{action.seq}" if action.seq is not None else ""
    group = f" in group {action.group}" if action.group is not None else ""
    step = f" at step {action.step}" if action.step is not None else ""
    return f"{action.op}{number}{group}{step}"


def _coverage(run: ActionOrder, sizes_of: SizesOf | None) -> dict[str, int]:
    # A barrier has no tensors: nothing is missing of it.
    calls = [one for one in run.actions if one.chain is not None and (one.side != "call" or one.shortfall)]
    return {
        "actions": len(run.actions),
        "calls": len(calls),
        "with_flags": sum(one.finite_in is not None or one.finite_out is not None for one in calls),
        "with_digests": sum(one.digest_out is not None for one in calls),
        "with_statistics": 0 if sizes_of is None else sum(sizes_of(one) is not None for one in calls),
    }
