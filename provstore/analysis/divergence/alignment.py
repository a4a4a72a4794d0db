"""Which process group of one run is which of another, and which call is which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from provstore.model.action import LOAD, SAVE, Action
from provstore.model.recording import SETUP

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What is known of a process group beside its key."""

    desc: str | None
    ranks: tuple[int, ...]


def aligned(a: Mapping[str, GroupFacts], b: Mapping[str, GroupFacts]) -> dict[str, str]:
    """Return for each group of ``b`` the one of ``a`` that it is: by description and ranks, then by name.

    A description and rank set that several groups of one run share says nothing.
    """
    found, taken = {}, set[str]()
    left, right = _by_content(a), _by_content(b)
    for content, keys in right.items():
        if len(keys) == 1 and len(left.get(content, ())) == 1:
            found[keys[0]] = left[content][0]
            taken.add(left[content][0])
    for key in b:
        if key not in found and key not in taken:
            found[key] = key
    return found


def _by_content(groups: Mapping[str, GroupFacts]) -> dict[tuple[str, tuple[int, ...]], list[str]]:
    found: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for key, facts in groups.items():
        if facts.desc and facts.ranks:
            found.setdefault((facts.desc, facts.ranks), []).append(key)
    return found


Bucket = tuple[int, bool]
"""The last step that a rank had begun, and whether the call came after it: some calls belong to no step."""
Span = tuple[str, Bucket | None]
"""Group and bucket, or the group alone."""
Shifts = Mapping[Span, int]
"""What is added to sequence numbers of the second run."""
BEFORE_ALL: Bucket = (-1, True)


@dataclass(frozen=True, slots=True)
class Placed:
    """One action and where it stands in its rank's program."""

    action: Action
    bucket: Bucket
    place: int
    """Number among the rank's actions of the epoch."""


def both_placed(a: Sequence[Action], b: Sequence[Action]) -> tuple[list[Placed], list[Placed], int]:
    """Return the actions of a rank in both runs with their places, and how many were left out.

    A re-run of a later epoch loads a checkpoint first, and DDP tells its buckets in the second step of each process,
    which the run itself did before. Where the runs have other numbers of either, these are left out.
    """
    count = len(a) + len(b)
    for is_setup in (_tells_buckets, _loads):
        if sum(map(is_setup, a)) != sum(map(is_setup, b)):
            a, b = ([one for one in side if not is_setup(one)] for side in (a, b))
    return placed(a), placed(b), count - len(a) - len(b)


def _tells_buckets(action: Action) -> bool:
    return SETUP in action.extra


def _loads(action: Action) -> bool:
    return action.op == LOAD


def placed(actions: Iterable[Action]) -> list[Placed]:
    """Return actions with their places; each rank's stand in the order of its program."""
    lasts: dict[int, tuple[int, int]] = {}
    found = []
    for action in actions:
        step, place = lasts.get(action.rank, (BEFORE_ALL[0], 0))
        bucket = (step, True) if action.step is None else (action.step, False)
        lasts[action.rank] = (bucket[0], place + 1)
        found.append(Placed(action, bucket, place))
    return found


def shifts_of(a: Iterable[Placed], b: Iterable[Placed], names: Mapping[str, str]) -> dict[Span, int]:
    """Return by how much sequence numbers of groups of ``b`` are behind those of ``a``.

    A re-run that begins later counts from 0 again, and one that leaves out a batch counts on without it. Numbers of a
    step, or of the whole epoch, are shifted only when as many calls come from the first to the last in both runs:
    otherwise a lost call could make all others look different.
    """
    left, right = _spans(a, {}), _spans(b, names)
    found = {}
    for key, (first, last) in right.items():
        other = left.get(key)
        if other is not None and other[1] - other[0] == last - first:
            found[key] = other[0] - first
    return found


def _spans(given: Iterable[Placed], names: Mapping[str, str]) -> dict[Span, tuple[int, int]]:
    found: dict[Span, tuple[int, int]] = {}
    for one in given:
        action = one.action
        if action.group is not None and action.seq is not None:
            group = names.get(action.group, action.group)
            for key in ((group, None), (group, one.bucket)):
                first, last = found.get(key, (action.seq, action.seq))
                found[key] = (min(first, action.seq), max(last, action.seq))
    return found


def key_of(one: Placed, names: Mapping[str, str], shifts: Shifts) -> Key:
    """Return what a call or event is known by in both runs; never its place in a file."""
    action = one.action
    if action.group is None:
        # A checkpoint lies elsewhere in each run.
        return (action.rank, action.op, action.step, None if action.op in (LOAD, SAVE) else action.name)
    group = names.get(action.group, action.group)
    if action.seq is None:
        return (action.rank, group, "p2p", action.op_id, action.op)
    shift = shifts.get((group, one.bucket), shifts.get((group, None), 0))
    return (action.rank, group, action.seq + shift, action.op_id if _is_p2p(action) else None)


def _is_p2p(action: Action) -> bool:
    return "/p2p/" in action.action_id
