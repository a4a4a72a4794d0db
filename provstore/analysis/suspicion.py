"""Suspicion: the actions that a finding names, from what was recorded of their content; pure.

Nothing is suspicious for being recorded in full. What a suspicious action may have spoilt is affected, not suspicious.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from provstore.analysis.action_order import ActionOrder
from provstore.analysis.outliers import LEAST_RANKS, SizesOf, is_sum, outliers, score_of
from provstore.analysis.passing import Passing, is_own_input, is_spoilt, lasting
from provstore.analysis.rank_lists import ranks_text
from provstore.analysis.replicas import Drift
from provstore.model.action import ACTIVATION, GRADIENT, Action
from provstore.model.codes import ACTION_FINDINGS, FINDINGS
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
ONLY_LOSSES = "only its loss says so: whether what it puts into the call was finite is not recorded"
OWN_STATE = "the state that a checkpoint holds may have parts that are a rank's own"
SIZE_ONLY = "only sizes were compared: another batch, or its place in the model, may explain it"
NEXT_STEPS = {
    one.name: (one.what_to_do[0].lower() + one.what_to_do[1:]).rstrip(".") for one in (*FINDINGS, *ACTION_FINDINGS)
}
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
    passing = Passing(run)
    first, harmless = lasting(run, passing, ACTIVATION)
    found = []
    for rank, one in first.items():
        # A gradient takes in nothing that is recorded with it: it is its rank's computing.
        is_own = one.op == GRADIENT
        if not is_own and (one.finite_in is not False or not is_own_input(one)):
            continue
        passed = {row.action_id for row in harmless[rank]}
        before = [row for row in run.ranks[rank][: run.ranks[rank].index(one)] if row.action_id not in passed]
        doubts = _doubts(before)
        if doubts is not None:
            all_else = "all else that" if passed else "all"
            had = "it is known to have had" if doubts else "it had"
            text = f"rank {rank}: {_put_in_words(run, one)}; {all_else} {had} before was finite"
            found.append(_named(run, one, ORIGIN, text, doubts=doubts, parameter=one.name if is_own else None))
    if not found:
        found = [
            _named(run, one, ORIGIN, text, doubts=(ONLY_LOSSES,)) for one, text in _of_losses(run, losses, passing)
        ]
    undecided.extend(_passed(harmless))
    spoilt = sorted(first)
    if spoilt and not found:
        what = (
            f"ranks {ranks_text(spoilt)} hold values that are not finite; who had them first is not recorded: flags of "
            "earlier calls are missing"
        )
        step = "record the flags of every call: raise the time limit"
        undecided.append(Undecided("no_values", what, step, tuple(spoilt)))
    masks = sorted({one.rank for one in run.actions if one.op == ACTIVATION and is_spoilt(one)})
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
    carrier = _carrier(run, action)
    return text if carrier is None else f"{text}, carried by {_words(carrier)}"


def _carrier(run: ActionOrder, action: Action) -> Action | None:
    """Return the first recorded call that carries a tensor."""
    return next((run.by_id[name] for name in action.carried_by if name in run.by_id), None)


def _passed(harmless: Mapping[int, Sequence[Action]]) -> Iterable[Undecided]:
    """Yield that values were not finite for a time, where a rank put them in itself; nobody is accused of it."""
    own = {
        rank: [one for one in rows if one.op == GRADIENT or (one.finite_in is False and is_own_input(one))]
        for rank, rows in harmless.items()
    }
    ranks = tuple(sorted(rank for rank, rows in own.items() if rows))
    if ranks:
        what = (
            f"ranks {ranks_text(ranks)}: values that are not finite, first in {_words(own[ranks[0]][0])}, are gone in "
            "later steps: left out, as a scaler of the loss does, or meant so, as padding and the start of a maximum"
        )
        yield Undecided("no_values", what, "look at what the step did", ranks, blocks_answer=False)


def _doubts(before: Sequence[Action]) -> tuple[str, ...] | None:
    """Return what is not sure of it that all that reached a rank was finite; ``None`` when it may have got the values.

    A rank whose own input was finite is taken to have been sound until then, which is less than sure.
    """
    for one in reversed(before):
        if one.chain is None or one.shapes_out == ():
            continue
        if one.finite_out is not True:
            return None
        if one.finite_in is True:
            calls = [other for other in before if other.chain is not None and other.shapes_out != ()]
            silent = [other for other in calls if other.finite_out is not True]
            return () if not silent else (_unflagged(one, silent, len(calls)),)
    return ()


def _unflagged(sound: Action, silent: Sequence[Action], calls: int) -> str:
    what = f"{_words(silent[0])} and {len(silent) - 1} more" if len(silent) > 1 else _words(silent[0])
    return (
        f"of {calls} calls that it had before, what {len(silent)} gave it is not known to be finite: {what}; it is "
        f"taken to have been sound until {_words(sound)}, because what it put into that was finite"
    )


def _of_losses(run: ActionOrder, losses: Losses, passing: Passing) -> list[tuple[Action, str]]:
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
            rows = (one for one in run.ranks[rank] if one.step == step and is_sum(one) and one.finite_in is not True)
            action = next(rows, None)
            if action is not None and not passing.is_harmless(action):
                text = (
                    f"rank {rank}: its loss at step {step} is {said[rank]}, and that of other ranks is finite there; "
                    f"{_words(action)} is the first reduction that can carry it"
                )
                found.append((action, text))
        if found:
            return found
    return []


def _disagreements(run: ActionOrder, undecided: list[Undecided]) -> Iterable[SuspiciousAction]:
    """Yield the minority where ranks that must hold the same bytes do not."""
    blamed: set[int] = set()
    apart: set[int] = set()
    for every in run.instances.values():
        if every[0].op not in ALIKE_OUT:
            continue
        # A digest is that of type and shape too: the same bytes have another one in another shape.
        rows = _of_one_form(every)
        apart |= {one.rank for one in every if one.digest_out is not None} - {one.rank for one in rows}
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
    if apart:
        what = f"ranks {ranks_text(sorted(apart))} hold what a call gave in another form than the others: not compared"
        undecided.append(Undecided("no_values", what, "give it one shape and type", tuple(sorted(apart)), False))


def _of_one_form(rows: Sequence[Action]) -> Sequence[Action]:
    """Return the actions of an instance that have the operation, shapes and types that most of them have."""
    forms: dict[object, list[Action]] = defaultdict(list)
    for one in rows:
        forms[one.op, one.shapes_out, one.dtypes_out].append(one)
    return max(forms.values(), key=len)


def _drifted(
    run: ActionOrder, drifts: Sequence[Drift], blamed: Mapping[int, Action], undecided: list[Undecided]
) -> Iterable[SuspiciousAction]:
    """Yield, for each rank that no longer holds what its like hold, its first call that can have met the change.

    A rank that got other bytes from a call before is named for that already: other parameters follow from it.
    """
    for drift in drifts:
        alone = _learning_apart(run, drift)
        if not drift.minority or alone:
            undecided.append(drift.undecided(alone))
        for rank in drift.minority:
            if rank in alone:
                continue
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
            doubts = () if drift.is_sure else (OWN_STATE,)
            yield _named(run, one, DRIFT, summary, doubts=doubts, evidence=drift.evidence(rank))


def _learning_apart(run: ActionOrder, drift: Drift) -> tuple[int, ...]:
    """Return the members of a drift that take no part in what most of them add up, as far as that is recorded."""
    sums = [rows for rows in run.instances.values() if is_sum(rows[0])]
    meanwhile = [rows for rows in sums if drift.holds(rows[0].epoch, rows[0].step) and drift.reaches(rows[0])]
    sets = {rank: {rank} for rank in drift.members}
    for ranks in {tuple(sorted({one.rank for one in rows})) for rows in meanwhile or sums}:
        met = [rank for rank in ranks if rank in sets]
        joined = set[int]().union(*(sets[rank] for rank in met))
        sets |= dict.fromkeys(joined, joined)
    together = max(sets.values(), key=len)
    return tuple(rank for rank in drift.members if rank not in together) if len(together) > 1 else ()


def _outliers(run: ActionOrder, sizes_of: SizesOf | None, undecided: list[Undecided]) -> Iterable[SuspiciousAction]:
    """Yield what a rank put into a reduction that is far larger or smaller than what the others put in."""
    if sizes_of is None:
        return
    far, few = outliers(run, sizes_of)
    for one, away in far:
        direction = "larger" if away > 0 else "smaller"
        text = f"rank {one.rank}: what it puts into {_words(one)} is far {direction} than what the other ranks put in"
        yield _named(run, one, OUTLIER, text, doubts=(SIZE_ONLY,), distance=abs(away))
    if few:
        what = f"sizes of inputs: in {few} calls fewer than {LEAST_RANKS} ranks have statistics: nobody stands out"
        undecided.append(
            Undecided("no_values", what, "compare with another run: provstore diff", (), blocks_answer=False)
        )


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
    doubts: tuple[str, ...] = (),
    distance: float | None = None,
    evidence: Sequence[Evidence] = (),
    parameter: str | None = None,
) -> SuspiciousAction:
    key = hashlib.sha256(f"{code}\0{action.action_id}".encode()).hexdigest()[:16]
    call = action if action.chain is not None else _carrier(run, action)
    finding = Finding(
        key=key,
        code=code,
        kind=code.replace("-", "_"),
        summary=f"{summary}.",
        confidence="probable" if doubts else "certain",
        culprits=(Culprit(action.rank),),
        victims=tuple(sorted(run.ranks_after(action.action_id) - {action.rank})),
        group=_group(run, action if call is None else call),
        op=action.op,
        channel=None if call is None else "collective" if call.op_id is None or call.peer is None else "p2p",
        seq=action.seq if call is None else call.seq,
        evidence=tuple(evidence),
        caveats=doubts,
        next_step=NEXT_STEPS[code],
        measures={} if distance is None else {"robust_distance": distance},
        parameter=parameter,
        action_id=action.action_id,
        epoch=action.epoch,
        step=action.step,
        carried_by=action.carried_by,
    )
    return SuspiciousAction(action, finding, 1.0 if distance is None else score_of(distance))


def _group(run: ActionOrder, call: Action) -> GroupName | None:
    """Return the group of a call with those of its ranks that are recorded in it."""
    if call.group is None:
        return None
    ranks = None if call.chain is None else tuple(sorted({one.rank for one in run.instances[call.chain]}))
    return GroupName(call.group, "", ranks, "observed")


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
