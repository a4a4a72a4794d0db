"""Who waits for whom: rank → the call it waits in → the ranks that keep that call from ending.

The graph is kept in this form, so that its size is linear in the members of the calls that are waited in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from provstore.analysis.case import Case
from provstore.analysis.presence import ABSENT_FROM, NO_DUMP, PASSED, UNKNOWN
from provstore.analysis.signatures import ROOTED
from provstore.graph.matching import payload
from provstore.model.dump import ABSENT

BEHIND, NOT_POSTED, BATCHED = "behind", "not_posted", "batched"

_STRENGTH = (NO_DUMP, ABSENT_FROM, NOT_POSTED, BEHIND, BATCHED, UNKNOWN)
"""Reasons for which a rank keeps others waiting, the best known first."""

BLOCKED, DEVICE, MISMATCH, HANG, SETTLING, FINE, IN_FLIGHT = (
    "blocked",
    "device",
    "mismatch",
    "hang",
    "settling",
    "fine",
    "in_flight",
)


@dataclass(frozen=True, slots=True)
class Blocker:
    """A rank that keeps a call from ending, and why."""

    rank: int
    reason: str
    """``absent``, ``behind``, ``not_posted``, ``batched`` (posted, in a batch that may wait for others), ``no_dump`` or
    ``unknown``."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """What one rank waits in."""

    rank: int
    row: int
    verdict: str
    blockers: tuple[Blocker, ...] = ()
    peers_done: tuple[int, ...] = ()
    """Members whose dumps show the same call done."""


@dataclass(frozen=True, slots=True)
class End:
    """Where walks end: a rank that waits for nobody, a call that cannot end, or a cycle."""

    kind: str
    """``host``, ``dead``, ``unknown``, ``device``, ``mismatch``, ``hang``, ``cycle``, ``in_flight``."""
    ranks: tuple[int, ...]
    row: int
    """The call of the end: the stopped one, or one of those that wait for it."""
    awaited: tuple[int, ...]
    """Rows that wait for the end's ranks directly."""
    victims: tuple[int, ...]


class Waits:
    """The wait graph of a case."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._looked_at: dict[int, Wait] = {}
        self.of_rank: dict[int, Wait] = {}
        for rank, rows in case.pending_of.items():
            found = self._standing(rank, rows)
            if found is not None:
                self.of_rank[rank] = found
        self._look_again_at_idle()
        self._confirm_devices()

    def _look_again_at_idle(self) -> None:
        """Take an idle rank that others wait for as waiting in a call that itself never left the work list.

        Without completion events a call counts as settled when a later one of its group is; that is no proof.
        """
        case = self._case
        awaited = {blocker.rank for wait in self.of_rank.values() for blocker in wait.blockers}
        for rank in sorted(awaited - set(self.of_rank)):
            rows = [row for row in case.unretired_of.get(rank, ()) if row not in case.pending_of.get(rank, ())]
            for row in rows:
                wait = self._judge(rank, row)
                if wait.verdict in (BLOCKED, MISMATCH, HANG) and not any(b.rank == rank for b in wait.blockers):
                    self.of_rank[rank] = wait
                    break

    def _standing(self, rank: int, rows: list[int]) -> Wait | None:
        """Return what a rank waits in: its oldest pending call that is not merely settling."""
        for row in rows:
            wait = self._judge(rank, row)
            if wait.verdict != SETTLING:
                return wait
        return None

    def _judge(self, rank: int, row: int) -> Wait:
        case = self._case
        age = case.age_seconds(row)
        if age is not None and age < case.limit_seconds(row) and not case.progress.timed_out[row]:
            return Wait(rank, row, IN_FLIGHT)
        if case.is_p2p(row):
            return self._judge_p2p(rank, row)
        found = self._instance(int(case.instances.of_row[row]))
        return Wait(rank, row, found.verdict, found.blockers, found.peers_done)

    def _instance(self, at: int) -> Wait:
        if at not in self._looked_at:
            self._looked_at[at] = self._look_at_instance(at)
        return self._looked_at[at]

    def _look_at_instance(self, at: int) -> Wait:
        case, found = self._case, self._case.instances
        rows = found.calls(at)
        progress, row = case.progress, int(rows[0])
        group, number = int(found.group[at]), int(found.number[at])
        done = [case.rank(int(r)) for r in rows if progress.done[r]]
        settled = bool((progress.settled[rows] & (case.table.retired[rows] == 1)).any())
        here = {case.rank(int(r)) for r in rows}
        blockers = []
        for rank in case.table.groups[group].ranks:
            if rank in here:
                continue
            place = case.presence.towards(rank, group, number)
            if place.state == PASSED and place.done:
                done.append(rank)
            elif place.state == NO_DUMP:
                blockers.append(Blocker(rank, NO_DUMP))
            elif place.state in (ABSENT_FROM, UNKNOWN):
                blockers.append(Blocker(rank, place.state, place.reason))
        absent = [item for item in blockers if item.reason != UNKNOWN]
        blockers += [b for r in rows if (b := self._behind(int(r))) is not None]
        if found.disagreement[at] >= 0 and not case.excused(at) and not done:
            return Wait(-1, row, MISMATCH)
        if not case.table.groups[group].declared and len(case.table.groups[group].ranks) == 1:
            return Wait(-1, row, BLOCKED, (Blocker(-1, UNKNOWN, "membership_unknown"),))
        if done and not case.is_reliable(group):
            return Wait(-1, row, BLOCKED, (Blocker(-1, UNKNOWN, "seq_not_comparable"),))
        if done and not (absent and case.signature(row).op in ROOTED):
            return Wait(-1, row, DEVICE, peers_done=tuple(sorted(done)))
        if settled and not absent:
            return Wait(-1, row, SETTLING)
        if blockers:
            return Wait(-1, row, BLOCKED, tuple(blockers), tuple(sorted(done)))
        return Wait(-1, row, HANG)

    def _behind(self, row: int) -> Blocker | None:
        """Return the call's own rank as a blocker when it waits in an older call."""
        case = self._case
        rank = case.rank(row)
        pending = case.pending_of.get(rank)
        if not pending or not case.progress.pending[row] or case.table.turn[pending[0]] >= case.table.turn[row]:
            return None
        return None if self._same_batch(pending[0], row) else Blocker(rank, BEHIND)

    def _same_batch(self, one: int, other: int) -> bool:
        table = self._case.table
        return one == other or bool(
            table.batch[one] != ABSENT
            and table.batch[one] == table.batch[other]
            and table.dump[one] == table.dump[other]
        )

    def _judge_p2p(self, rank: int, row: int) -> Wait:
        """Judge a send or receive together with the others of its batch, which start together."""
        batch = [other for other in self._case.pending_of.get(rank, ()) if self._same_batch(row, other)] or [row]
        waits = [self._look_at_p2p(rank, one) for one in batch]
        for wait in waits:
            if wait.verdict == MISMATCH:
                return wait
        blockers = tuple(blocker for wait in waits for blocker in wait.blockers)
        if blockers:
            hard = [wait.row for wait in waits if any(one.reason != BATCHED for one in wait.blockers)]
            first = hard[0] if hard else next(wait.row for wait in waits if wait.blockers)
            return Wait(rank, first, BLOCKED, blockers)
        return next((wait for wait in waits if wait.verdict == HANG), waits[0])

    def _look_at_p2p(self, rank: int, row: int) -> Wait:
        case, table = self._case, self._case.table
        peer, partner = int(table.peer[row]), int(case.partner[row])
        if peer == ABSENT:
            return Wait(rank, row, BLOCKED, (Blocker(-1, UNKNOWN, "membership_unknown"),))
        if partner < 0:
            return Wait(rank, row, BLOCKED, (self._missing_partner(row, peer),))
        if case.progress.done[partner]:
            if case.is_counted[row]:
                return Wait(rank, row, DEVICE, peers_done=(peer,))
            reason = NOT_POSTED if peer in case.pending_of else UNKNOWN
            return Wait(rank, row, BLOCKED, (Blocker(peer, reason, "ring_wrapped"),))
        if case.progress.settled[partner]:
            return Wait(rank, row, SETTLING)
        if not case.progress.pending[partner]:
            return Wait(rank, row, BLOCKED, (Blocker(peer, UNKNOWN, "active_only"),))
        channels = int(table.channel[row]), int(table.channel[partner])
        if payload(case.signature(row), channels[0]) != payload(case.signature(partner), channels[1]):
            return Wait(rank, row, MISMATCH)
        behind = self._behind(partner)
        if behind is None and (table.batch[row] != ABSENT or table.batch[partner] != ABSENT):
            behind = Blocker(peer, BATCHED)
        return Wait(rank, row, BLOCKED, (behind,)) if behind is not None else Wait(rank, row, HANG)

    def _missing_partner(self, row: int, peer: int) -> Blocker:
        case, table = self._case, self._case.table
        if not case.presence.has_dump(peer):
            return Blocker(peer, NO_DUMP)
        at = case.presence.dump_of(peer, int(table.group[row]))
        if at is None:
            return Blocker(peer, UNKNOWN, "missing_dump")
        dump = table.dumps[at]
        if dump.wrapped and len(dump.calls) and dump.calls.created_ns[0] > int(table.created[row]):
            return Blocker(peer, UNKNOWN, "ring_wrapped")
        return Blocker(peer, NOT_POSTED)

    def _confirm_devices(self) -> None:
        """Keep a call that peers have done as a device's fault only when somebody is held up by it."""
        awaited = {blocker.rank for wait in self.of_rank.values() for blocker in wait.blockers}
        for rank, wait in self.of_rank.items():
            if wait.verdict == DEVICE:
                age = self._case.age_seconds(wait.row)
                old = age is not None and age >= self._case.limit_seconds(wait.row)
                if not (rank in awaited or old or self._case.progress.timed_out[wait.row]):
                    self.of_rank[rank] = Wait(rank, wait.row, FINE, peers_done=wait.peers_done)

    @cached_property
    def ends(self) -> tuple[End, ...]:
        """Where the walks end, each with the ranks that reach it."""
        found = list(self._stops())
        found += self._sinks()
        reached = {rank for end in found for rank in (*end.ranks, *end.victims)}
        for ranks in self._cycles(set(self.of_rank) - reached):
            rows = tuple(self.of_rank[rank].row for rank in ranks)
            inside = [b for rank in ranks for b in self.of_rank[rank].blockers if b.rank in ranks]
            kind = HANG if all(blocker.reason == BATCHED for blocker in inside) else "cycle"
            found.append(End(kind, ranks, min(rows, key=self._case.order), rows, self._reaching(ranks)))
        return tuple(found)

    def _stops(self) -> Iterator[End]:
        by_place: dict[tuple[str, int], list[Wait]] = {}
        for wait in self.of_rank.values():
            if wait.verdict in (DEVICE, IN_FLIGHT):
                by_place.setdefault((wait.verdict, -1 - wait.rank), []).append(wait)
            elif wait.verdict in (MISMATCH, HANG):
                by_place.setdefault((wait.verdict, self.place(wait.row)), []).append(wait)
        awaited = self._awaited()
        for (verdict, _), waits in by_place.items():
            ranks = tuple(sorted(wait.rank for wait in waits))
            if verdict == IN_FLIGHT and ranks[0] not in awaited:
                continue
            rows = tuple(row for rank in ranks for row in awaited.get(rank, ()))
            row = min((wait.row for wait in waits), key=self._case.order)
            yield End(verdict, ranks, row, rows, self._reaching(ranks))

    def reason(self, row: int, rank: int) -> str:
        """Return why a call waits for a rank; ``""`` when nobody waits in it, or not for that rank."""
        wait = self.of_rank.get(self._case.rank(row))
        known = () if wait is None or wait.row != row else wait.blockers
        return next((blocker.reason for blocker in known if blocker.rank == rank), "")

    def place(self, row: int) -> int:
        """Return one number for a collective instance, or for the two ends of a send and its receive."""
        at = int(self._case.instances.of_row[row])
        if at >= 0:
            return at
        partner = int(self._case.partner[row])
        return len(self._case.instances) + (min(row, partner) if partner >= 0 else row)

    def _awaited(self) -> dict[int, list[int]]:
        """Return for each rank the rows that wait for it."""
        found: dict[int, list[int]] = {}
        for wait in self.of_rank.values():
            for blocker in wait.blockers:
                if blocker.rank != wait.rank:
                    found.setdefault(blocker.rank, []).append(wait.row)
        return found

    def _sinks(self) -> Iterator[End]:
        reasons: dict[int, str] = {}
        for wait in self.of_rank.values():
            for blocker in wait.blockers:
                if blocker.rank not in self.of_rank or blocker.rank < 0:
                    known = reasons.get(blocker.rank)
                    if known is None or _STRENGTH.index(blocker.reason) < _STRENGTH.index(known):
                        reasons[blocker.rank] = blocker.reason
        awaited = self._awaited()
        for rank, reason in sorted(reasons.items()):
            rows = tuple(awaited[rank])
            kind = {NO_DUMP: "dead", UNKNOWN: "unknown"}.get(reason, "host")
            yield End(kind, (rank,), min(rows, key=self._case.order), rows, self._reaching((rank,)))

    def _reaching(self, ranks: Iterable[int]) -> tuple[int, ...]:
        """Return the ranks whose walk leads to one of ``ranks``, those themselves left out."""
        goal = set(ranks)
        seen, queue = set(goal), deque(goal)
        while queue:
            for waiting in self._waiting_for.get(queue.popleft(), ()):
                if waiting not in seen:
                    seen.add(waiting)
                    queue.append(waiting)
        return tuple(sorted(seen - goal))

    @cached_property
    def _waiting_for(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for wait in self.of_rank.values():
            for blocker in wait.blockers:
                if blocker.rank != wait.rank:
                    found.setdefault(blocker.rank, []).append(wait.rank)
        return found

    def _cycles(self, among: set[int]) -> list[tuple[int, ...]]:
        """Return the cycles among ranks that reach no other end: strongly connected sets of two and more."""
        order: list[int] = []
        seen: set[int] = set()
        for root in sorted(among):
            stack = [] if root in seen else [(root, iter(self._next(root, among)))]
            seen.add(root)
            while stack:
                rank, following = stack[-1]
                step = next((one for one in following if one not in seen), None)
                if step is None:
                    order.append(rank)
                    stack.pop()
                else:
                    seen.add(step)
                    stack.append((step, iter(self._next(step, among))))
        found, taken = [], set()
        for root in reversed(order):
            if root in taken:
                continue
            component, queue = {root}, deque([root])
            while queue:
                for one in self._waiting_for.get(queue.popleft(), ()):
                    if one in among and one not in taken and one not in component:
                        component.add(one)
                        queue.append(one)
            taken |= component
            if len(component) > 1:
                found.append(tuple(sorted(component)))
        return found

    def _next(self, rank: int, among: set[int]) -> list[int]:
        return [b.rank for b in self.of_rank[rank].blockers if b.rank in among and b.rank != rank]

    def chain(self, goal: Iterable[int]) -> list[tuple[Wait, Blocker]]:
        """Return the longest of the shortest walks to ``goal``, step by step from a waiting rank."""
        ranks = set(goal)
        towards: dict[int, int] = {}
        seen, queue = set(ranks), deque(sorted(ranks))
        last = None
        while queue:
            at = queue.popleft()
            for waiting in sorted(self._waiting_for.get(at, ())):
                if waiting not in seen:
                    seen.add(waiting)
                    towards[waiting] = at
                    queue.append(waiting)
                    last = waiting
        steps = []
        while last is not None and last in towards:
            wait = self.of_rank[last]
            after = towards[last]
            steps.append((wait, next(b for b in wait.blockers if b.rank == after)))
            last = after
        return steps
