"""Comparing the recorded calls of two runs, one epoch at a time; it goes on after the first difference."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from provstore.analysis.divergence import divergence as words
from provstore.analysis.divergence.alignment import (
    GroupFacts,
    Key,
    Placed,
    Shifts,
    aligned,
    both_placed,
    key_of,
    shifts_of,
)
from provstore.analysis.divergence.divergence import KINDS, Correlation, Coverage, Divergence, Event, Point
from provstore.analysis.divergence.reading import Reading, reading_of
from provstore.errors import InputError
from provstore.model.action import LOAD, SAVE, Action

_NS = 1_000_000_000
_LATEST = (1 << 62, 0, 0, 0)
_Order = tuple[int, int, int, int]
"""Epoch, step, place in the rank's program, and what of the call differs."""


@dataclass(slots=True)
class _Seen:
    """What holds on one side of what was compared so far."""

    point: Point
    order: _Order


@dataclass(slots=True)
class _Instance:
    """What the ranks say of the inputs of one instance."""

    equal: set[int] = field(default_factory=set)
    different: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)


class Comparison:
    """Takes in two runs epoch by epoch.

    Args:
        names: Name of the first and of the second run.
        groups: Process groups of both.
        context: How many steps from the first difference an event may be away.
    """

    def __init__(
        self,
        names: tuple[str, str],
        groups: tuple[Mapping[str, GroupFacts], Mapping[str, GroupFacts]],
        *,
        context: int = 5,
    ) -> None:
        self._names, self._context = names, context
        self._aligned = aligned(*groups)
        self._coverage, self._counts = Coverage(), dict[str, int]()
        self._firsts: dict[int, _Seen] = {}
        self._equals: dict[int, tuple[Action, str, _Order]] = {}
        """By rank: what was equal last, before anything of the rank differed."""
        self._inputs: dict[tuple[object, ...], _Instance] = {}
        self._offsets: dict[str, int] = {}
        self._step_ns: dict[str, dict[int, int]] = {name: {} for name in names}
        """By run: step → when something of it was first recorded; the clocks of two runs say nothing to each other."""
        self._earliest: dict[int, _Order] = {}
        self._groups = groups

    def epoch(self, number: int, a: Iterable[Action], b: Iterable[Action], *, is_by_rank: bool = False) -> None:
        """Compare one epoch: of both runs what was recorded in it.

        Args:
            number: The epoch.
            a: Actions of the first run.
            b: Actions of the second run.
            is_by_rank: Both come rank by rank in ascending order, so that one rank at a time is enough.

        Raises:
            InputError: They do not.
        """
        a, b = (a, b) if is_by_rank else (_sorted(a), _sorted(b))
        for left, right in _by_rank(a, b):
            self._rank(number, left, right)
        # Only the inputs of the first differences are asked for later.
        kept = {_of_point(one.point) for one in self._firsts.values()}
        self._inputs = {key: said for key, said in self._inputs.items() if key in kept}

    def _rank(self, number: int, a: Sequence[Action], b: Sequence[Action]) -> None:
        """Compare what one rank did."""
        left, right, lone = both_placed(a, b)
        self._coverage.skip("setup-of-one-process", lone)
        shifts = shifts_of(left, right, self._aligned)
        for (group, _), shift in shifts.items():
            if shift:
                self._offsets.setdefault(group, shift)
        theirs = dict(_keyed(right, self._aligned, shifts))
        for name, side in zip(self._names, (left, right), strict=True):
            for one in side:
                if one.action.step is not None:
                    self._step_ns[name].setdefault(one.action.step, one.action.at_ns)
        for key, one in _keyed(left, {}, {}):
            other = theirs.pop(key, None)
            if other is None:
                self._lone(number, one, bool(b), is_first=True)
            else:
                self._pair(number, one, other.action)
        for one in theirs.values():
            self._lone(number, one, bool(a), is_first=False)

    def result(self, events: Sequence[Event] = ()) -> Divergence:
        """Return what was found."""
        first = self._first()
        point = last = reading = None
        correlations: tuple[Correlation, ...] = ()
        if first is not None:
            point = replace(first.point, ranks=self._alike(first))
            last = self._last_equal(point.ranks)
            reading = reading_of(point, self._reading(first, point))
            correlations = tuple(self._near(point, events))
        return Divergence(
            *self._names,
            first_divergence=point,
            per_rank={rank: one.point for rank, one in self._firsts.items()},
            last_equal=last,
            reading=reading,
            coverage=self._coverage,
            counts=self._counts,
            groups=tuple((old, new) for new, old in sorted(self._aligned.items()) if old != new),
            offsets=self._offsets,
            correlations=correlations,
        )

    def _first(self) -> _Seen | None:
        """Return the first difference of all ranks, of one step the cause before what can follow from it.

        Places in the programs of two ranks say nothing to each other: an output of a call comes first only where all
        ranks put into it what they put in before.
        """
        first = min(self._firsts.values(), key=lambda one: one.order, default=None)
        if first is None or not _is_output_of_call(first.point) or self._are_inputs_equal(first.point):
            return first
        same = (one for one in self._firsts.values() if one.order[:2] == first.order[:2])
        return min((one for one in same if _is_local(one.point)), key=lambda one: one.order, default=first)

    def _are_inputs_equal(self, point: Point) -> bool:
        inputs = self._inputs.get(_of_point(point), _Instance())
        return not inputs.different and not inputs.unknown and len(inputs.equal) >= self._members(point)

    def _members(self, point: Point) -> int:
        """Return how many ranks take part in a call, where its group says so."""
        facts = self._groups[0].get(point.group or "")
        return 0 if facts is None else len(facts.ranks)

    def _pair(self, epoch: int, one: Placed, b: Action) -> None:
        a, step, place = one.action, one.bucket[0], one.place
        for what, where, was, now in _facts(a, b):
            self._differs(epoch, step, place, _point(what, epoch, a, where, was, now))
        inputs = self._instance_of(a)
        for side, kind, left, right in (
            ("in", words.INPUT, a.digest_in, b.digest_in),
            ("out", words.OUTPUT, a.digest_out, b.digest_out),
        ):
            state = self._digests(a, b, left, right)
            if side == "in":
                held = {"equal": inputs.equal, "different": inputs.different}.get(state, inputs.unknown)
                held.add(a.rank)
            if state == "unknown":
                continue
            order = (epoch, step, place, KINDS.index(kind))
            if order < self._earliest.get(a.rank, _LATEST):
                self._earliest[a.rank] = order
            if state == "different":
                self._differs(epoch, step, place, _point(kind, epoch, a, side, left, right))
            elif a.rank not in self._firsts:
                self._equals[a.rank] = (a, side, order)

    def _instance_of(self, action: Action) -> _Instance:
        key = _instance(action)
        found = self._inputs.get(key)
        if found is None:
            found = self._inputs[key] = _Instance()
        return found

    def _digests(self, a: Action, b: Action, left: str | None, right: str | None) -> str:
        """Return whether two digests are equal or different, and count it."""
        if left is None or right is None:
            if not (left is None and right is None and not a.shapes_in and not a.shapes_out):
                missing = "neither" if left is None and right is None else "a" if left is None else "b"
                reason = "no-digest-in-both" if missing == "neither" else f"no-digest-in-{missing}"
                self._coverage.skip(reason)
            return "unknown"
        if a.digest_kind != b.digest_kind:
            self._coverage.skip("digest-schemes-differ")
            return "unknown"
        self._coverage.compared += 1
        if left == right:
            self._coverage.equal += 1
            return "equal"
        self._coverage.different += 1
        return "different"

    def _lone(self, epoch: int, one: Placed, rank_is_there: bool, *, is_first: bool) -> None:
        action = one.action
        kind = words.SEQUENCE_MISSING if rank_is_there else words.RANK_MISSING
        there, absent = action.action_id, None
        point = _point(kind, epoch, action, None, *((there, absent) if is_first else (absent, there)))
        self._differs(epoch, one.bucket[0], one.place, point)
        self._coverage.skip("missing-in-b" if is_first else "missing-in-a")

    def _differs(self, epoch: int, step: int, place: int, point: Point) -> None:
        kind = point.kind or words.METADATA
        self._counts[kind] = self._counts.get(kind, 0) + 1
        order = (epoch, step, place, KINDS.index(kind))
        for rank in point.ranks:
            held = self._firsts.get(rank)
            if held is None or order < held.order:
                self._firsts[rank] = _Seen(point, order)

    def _alike(self, first: _Seen) -> tuple[int, ...]:
        """Return the ranks whose first difference is of the same instance and kind."""
        same = (
            first.point.kind,
            first.point.op,
            first.point.group,
            first.point.seq,
            first.point.step,
            first.point.name,
        )
        return tuple(
            sorted(
                rank
                for rank, one in self._firsts.items()
                if (one.point.kind, one.point.op, one.point.group, one.point.seq, one.point.step, one.point.name)
                == same
            )
        )

    def _last_equal(self, ranks: Sequence[int]) -> Point | None:
        before = [self._equals[rank] for rank in ranks if rank in self._equals]
        if not before:
            return None
        action, side, order = max(before, key=lambda one: one[2])
        return _point(None, order[0], action, side, None, None)

    def _reading(self, first: _Seen, point: Point) -> Reading:
        inputs = self._inputs.get(_of_point(point), _Instance())
        is_first = all(self._earliest.get(rank, first.order)[:3] >= first.order[:3] for rank in point.ranks)
        members = inputs.equal | inputs.different | inputs.unknown
        return Reading(
            equal=len(inputs.equal),
            different=len(inputs.different),
            ranks=max(len(members), self._members(point)),
            is_first_observed=is_first,
        )

    def _near(self, point: Point, events: Sequence[Event]) -> Iterator[Correlation]:
        """Yield the events within some steps of the difference; by time where an event names no step."""
        step = point.step
        if step is None:
            return
        for event in events:
            known = self._step_ns.get(event.run, {})
            times = [ns for at, ns in known.items() if abs(at - step) <= self._context]
            if event.step is not None:
                if abs(event.step - step) <= self._context:
                    yield Correlation(event, event.step - step, None)
            elif event.at_ns is not None and times and min(times) <= event.at_ns <= max(times):
                yield Correlation(event, None, (event.at_ns - known.get(step, event.at_ns)) / _NS)


def compare(
    names: tuple[str, str],
    groups: tuple[Mapping[str, GroupFacts], Mapping[str, GroupFacts]],
    epochs: Iterable[int],
    actions: tuple[Callable[[int], Iterable[Action]], Callable[[int], Iterable[Action]]],
    *,
    events: Sequence[Event] = (),
    context: int = 5,
    by_rank: Collection[int] = (),
) -> Divergence:
    """Return where two runs part, reading one epoch of both at a time; of those in ``by_rank`` one rank at a time."""
    comparison = Comparison(names, groups, context=context)
    for epoch in epochs:
        comparison.epoch(epoch, actions[0](epoch), actions[1](epoch), is_by_rank=epoch in by_rank)
    return comparison.result(events)


def _keyed(given: Iterable[Placed], names: Mapping[str, str], shifts: Shifts) -> Iterator[tuple[Key, Placed]]:
    """Yield each action with its key; of equal keys the later is told apart."""
    seen: dict[Key, int] = {}
    for one in given:
        key = key_of(one, names, shifts)
        again = seen.get(key, 0)
        seen[key] = again + 1
        yield (*key, again), one


def _sorted(actions: Iterable[Action]) -> list[Action]:
    """Return actions rank by rank; those of a rank keep their order."""
    return sorted(actions, key=lambda one: one.rank)


def _by_rank(a: Iterable[Action], b: Iterable[Action]) -> Iterator[tuple[list[Action], list[Action]]]:
    """Yield what each rank did in both runs, of which one rank is in memory at a time."""
    left, right = _Ranks(a), _Ranks(b)
    while left.rank is not None or right.rank is not None:
        rank = min(one.rank for one in (left, right) if one.rank is not None)
        yield left.take(rank), right.take(rank)


class _Ranks:
    """Actions of one run, rank by rank in ascending order.

    Raises:
        InputError: A rank comes after a higher one.
    """

    def __init__(self, actions: Iterable[Action]) -> None:
        self._groups = itertools.groupby(actions, key=lambda one: one.rank)
        self.rank: int | None = None
        """The next one."""
        self._actions: Iterable[Action] = ()
        self._read()

    def take(self, rank: int) -> list[Action]:
        """Return what a rank did, nothing where it is not the next one."""
        if rank != self.rank:
            return []
        found = list(self._actions)
        self._read()
        return found

    def _read(self) -> None:
        before = self.rank
        self.rank, self._actions = next(self._groups, (None, ()))
        if before is not None and self.rank is not None and self.rank < before:
            raise InputError(f"actions: rank {self.rank}: comes after rank {before}")


def _instance(action: Action) -> tuple[object, ...]:
    return (action.op, action.group, action.seq, action.step, action.name)


def _of_point(point: Point) -> tuple[object, ...]:
    return (point.op, point.group, point.seq, point.step, point.name)


def _is_output_of_call(point: Point) -> bool:
    return point.kind == words.OUTPUT and point.group is not None


def _is_local(point: Point) -> bool:
    """A state that is saved holds what all calls of the step left."""
    return not _is_output_of_call(point) and point.op not in (SAVE, LOAD)


def _facts(a: Action, b: Action) -> Iterator[tuple[str, str | None, str, str]]:
    """Yield what differs of two records of one call beside their digests."""
    if a.op != b.op:
        yield words.OP, None, a.op, b.op
        return
    if _described(a) == _described(b):
        return
    for kind, side, left, right in (
        (words.DTYPE, "in", a.dtypes_in, b.dtypes_in),
        (words.DTYPE, "out", a.dtypes_out, b.dtypes_out),
        (words.SHAPE, "in", a.shapes_in, b.shapes_in),
        (words.SHAPE, "out", a.shapes_out, b.shapes_out),
        (words.FINITE, "in", a.finite_in, b.finite_in),
        (words.FINITE, "out", a.finite_out, b.finite_out),
        (words.METADATA, "reduce_op", a.reduce_op, b.reduce_op),
        (words.METADATA, "root", a.root, b.root),
        (words.METADATA, "peer", a.peer, b.peer),
    ):
        if left is not None and right is not None and left != right:
            yield kind, side, _text(left), _text(right)


def _described(one: Action) -> tuple[object, ...]:
    described = (one.dtypes_in, one.dtypes_out, one.shapes_in, one.shapes_out, one.finite_in, one.finite_out)
    return (*described, one.reduce_op, one.root, one.peer)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join("x".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in value)
    return str(value)


def _point(kind: str | None, epoch: int, action: Action, side: str | None, a: str | None, b: str | None) -> Point:
    return Point(kind, epoch, action.step, action.op, action.group, action.seq, (action.rank,), side, action.name, a, b)
