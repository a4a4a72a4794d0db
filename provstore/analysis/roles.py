"""What ranks of the same role did between the same instances, and who left out a call or made one too many.

Two ranks have the same role when they made the same calls, in kinds of groups, over the last instances of a group that
holds both. What one of them did after that is then held against the others, and against its own habit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from provstore.analysis.case import Case
from provstore.analysis.tokens import Tokens
from provstore.graph.calltable import Integers
from provstore.graph.matching import is_complete
from provstore.model.dump import COLLECTIVE

_TAIL_INSTANCES = 3
_ROLE_INSTANCES = 16
_MOST_CALLS = 4
_LONGEST_TAIL = 4096
_CONTEXT = 8


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where one rank's calls part from those of its role."""

    rank: int
    kind: str
    """``skipped_call`` or ``extra_call``."""
    row: int
    """Skipped: the rank's own call that came too early. Extra: the call too many."""
    model_row: int
    """Skipped: the call of another rank, or of an earlier time, that this rank left out. Extra: equal to ``row``."""
    group: int
    """The rank's group in which the call is missing or too many."""
    calls: int
    peers: tuple[int, ...] = ()
    """Ranks that did otherwise; empty when only the rank's own habit speaks."""
    agreeing: int = 0
    """Later calls that are equal again once the difference is taken out."""


@dataclass(frozen=True, slots=True)
class _Troop:
    """Ranks of one role with what each did since the anchor."""

    ranks: tuple[int, ...]
    tails: dict[int, Integers]
    """Rank → its rows since the anchor."""


class Roles:
    """Compares ranks with those of their role."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.tokens = Tokens(case)
        self._rows: dict[int, Integers] = {}
        self._troops: dict[int, dict[int, _Troop]] = {}
        self._found: dict[int, Divergence | None] = {}

    def divergence(self, rank: int) -> Divergence | None:
        """Return where ``rank`` left its role in the last steps; None when it did not, or nobody can tell."""
        if rank not in self._found:
            self._found[rank] = self._against_peers(rank) or self._against_habit(rank)
        return self._found[rank]

    def divergence_in(self, rank: int, groups: Iterable[int]) -> Divergence | None:
        """Return where ``rank`` parts from most other ranks when only calls in groups of some kinds are looked at."""
        kinds = frozenset(self._kind(group) for group in groups)
        for group in self._groups_of(rank):
            troop = self._gather(group, kinds).get(rank)
            if troop is not None and len(troop.ranks) > 3:
                model, agreeing = self._consensus(troop, rank)
                found = self._compare(rank, troop.tails[rank], model, agreeing) if len(agreeing) > 2 else None
                if found is not None:
                    return found
        return None

    def _kind(self, group: int) -> tuple[str, str, int]:
        item = self._case.table.groups[group]
        return item.backend, item.desc, len(item.ranks)

    def divergences(self, ranks: Iterable[int]) -> list[Divergence]:
        """Return the divergences of ``ranks``, in their order."""
        return [found for rank in ranks if (found := self.divergence(rank)) is not None]

    def next_expected(self, rank: int) -> int | None:
        """Return a call of a role peer that equals the one ``rank`` should have made next; None when nobody tells."""
        for group in self._groups_of(rank):
            troop = self._troops_of(group).get(rank)
            if troop is None or len(troop.ranks) < 2:
                continue
            mine = troop.tails[rank]
            ahead = [
                troop.tails[peer]
                for peer in troop.ranks
                if peer != rank
                and len(troop.tails[peer]) > len(mine)
                and self._equal(mine, troop.tails[peer][: len(mine)])
            ]
            if ahead:
                return int(max(ahead, key=len)[len(mine)])
        return None

    def calls_since_anchor(self, row: int) -> int:
        """Return how many calls the rank of a call made before it, since the last instances of its largest group."""
        rank, turn = self._case.rank(row), self._case.table.turn
        for group in self._groups_of(rank):
            troop = self._troops_of(group).get(rank)
            if troop is not None:
                return int((turn[troop.tails[rank]] < turn[row]).sum())
        return 0

    def is_one_early(self, row: int) -> bool:
        """Return whether a rank's call usually comes one call later: two changed places, or one was left out."""
        rows = self._rows_of(self._case.rank(row))
        at = int(np.flatnonzero(rows == row)[0])
        if at < 3:
            return False
        tokens = self.tokens.in_job[rows]
        before = np.flatnonzero(tokens[: at - 2] == tokens[at - 1])
        return bool((tokens[before + 2] == tokens[at]).any()) and not bool((tokens[before + 1] == tokens[at]).any())

    def _groups_of(self, rank: int) -> list[int]:
        groups = self._case.table.groups
        mine = [at for at, group in enumerate(groups) if rank in group and len(group.ranks) > 1]
        return sorted(mine, key=lambda at: (-len(groups[at].ranks), at))

    def _rows_of(self, rank: int) -> Integers:
        if rank not in self._rows:
            table = self._case.table
            spans = [table.rows_of_dump(at) for at, dump in enumerate(table.dumps) if dump.rank == rank]
            rows = np.concatenate([np.arange(span.start, span.stop) for span in spans] or [np.empty(0, np.int64)])
            self._rows[rank] = rows[np.argsort(table.turn[rows], kind="stable")].astype(np.int64)
        return self._rows[rank]

    def _equal(self, one: Integers, other: Integers) -> bool:
        tokens = self.tokens.in_job
        return len(one) == len(other) and bool((tokens[one] == tokens[other]).all())

    def _troops_of(self, group: int) -> dict[int, _Troop]:
        """Return for each member of a group the ranks of its role in it."""
        if group not in self._troops:
            self._troops[group] = self._gather(group)
        return self._troops[group]

    def _gather(self, group: int, kinds: frozenset[tuple[str, str, int]] | None = None) -> dict[int, _Troop]:
        """Return the troops of a group; with ``kinds``, judged by the calls in groups of these kinds only."""
        anchors = self._anchors(group)
        members = [rank for rank in self._case.table.groups[group].ranks if self._case.presence.has_dump(rank)]
        by_role: dict[tuple[object, ...], list[tuple[int, Integers]]] = {}
        for rank in members:
            rows = self._rows_of(rank)
            if any(dump.active_only for dump in self._case.table.dumps if dump.rank == rank):
                continue
            places = [int(np.searchsorted(self._case.table.turn[rows], turn)) for turn in anchors.get(rank, ())]
            if not places and not self._from_the_start(rank):
                continue
            tail = places[max(0, len(places) - _TAIL_INSTANCES)] if places else 0
            before, after = (rows[places[0] : tail] if places else rows[:0]), rows[tail:][:_LONGEST_TAIL]
            if kinds is not None:
                before, after = self._only(before, kinds), self._only(after, kinds)
            standing = () if kinds is not None else self._standing(rank, not len(before))
            by_role.setdefault((self.tokens.in_job[before].tobytes(), *standing), []).append((rank, after))
        found = {}
        for parts in by_role.values():
            troop = _Troop(tuple(rank for rank, _ in parts), dict(parts))
            found.update(dict.fromkeys(troop.ranks, troop))
        return found

    def _only(self, rows: Integers, kinds: frozenset[tuple[str, str, int]]) -> Integers:
        wanted = [at for at in range(len(self._case.table.groups)) if self._kind(at) in kinds]
        return rows[np.isin(self._case.table.group[rows], wanted)]

    def _from_the_start(self, rank: int) -> bool:
        return all(is_complete(dump) for dump in self._case.table.dumps if dump.rank == rank)

    def _standing(self, rank: int, new: bool) -> tuple[object, ...]:
        """Return what makes a role before anything was called: kinds of groups, and the place in a pipeline's."""
        return tuple(
            sorted(
                (
                    group.desc,
                    len(group.ranks),
                    group.ranks.index(rank) if at in self._pipelines or (new and group.has_p2p) else -1,
                )
                for at, group in enumerate(self._case.table.groups)
                if rank in group
            )
        )

    @cached_property
    def _pipelines(self) -> frozenset[int]:
        """Groups whose members differ by their place: sends and receives that form no ring, or none recorded at all."""
        table = self._case.table
        used = set(np.unique(table.group).tolist())
        found = {at for at, group in enumerate(table.groups) if at not in used and len(group.ranks) > 1}
        ways: dict[int, dict[int, set[int]]] = {}
        rows = np.flatnonzero(table.channel != COLLECTIVE)
        seen = np.unique(np.stack((table.group[rows], table.rank[rows], self.tokens.way[rows])), axis=1)
        for group, rank, way in seen.T.tolist():
            ways.setdefault(group, {}).setdefault(rank, set()).add(way)
        for group, of_rank in ways.items():
            members = len(table.groups[group].ranks)
            if len({frozenset(way) for way in of_rank.values()}) > 1 or len(of_rank) < members or members < 3:
                found.add(group)
        return frozenset(found)

    def _anchors(self, group: int) -> dict[int, list[int]]:
        """Return, for each member, the turns of its calls in the last instances that every dumped member entered."""
        found, case = self._case.instances, self._case
        low, high = (int(at) for at in np.searchsorted(found.group, (group, group + 1)))
        members = sum(case.presence.has_dump(rank) for rank in case.table.groups[group].ranks)
        whole = [at for at in range(high - 1, low - 1, -1) if found.start[at + 1] - found.start[at] == members]
        turns: dict[int, list[int]] = {}
        for at in reversed(whole[: _ROLE_INSTANCES + _TAIL_INSTANCES]):
            for row in found.calls(at).tolist():
                turns.setdefault(case.rank(row), []).append(int(case.table.turn[row]))
        return turns

    def _against_peers(self, rank: int) -> Divergence | None:
        for group in self._groups_of(rank):
            troop = self._troops_of(group).get(rank)
            if troop is None or len(troop.ranks) < 2:
                continue
            model, agreeing = self._consensus(troop, rank)
            found = self._compare(rank, troop.tails[rank], model, agreeing) if agreeing else None
            if found is None:
                continue
            instead = int(model[int(np.flatnonzero(troop.tails[rank] == found.row)[0])])
            if len(agreeing) > 1 or self._was_habit(found, instead):
                return found
        return None

    def _was_habit(self, found: Divergence, instead: int) -> bool:
        """Return whether the rank itself used to do as its one peer did, and never as it does now."""
        rows = self._rows_of(found.rank)
        places = self._places_before(rows, int(np.flatnonzero(rows == found.row)[0]), shortest=2)
        followers = {int(self.tokens.in_job[rows[place]]) for place in places}
        now, usual = int(self.tokens.in_job[found.row]), int(self.tokens.in_job[instead])
        return usual in followers and now not in followers

    def habit(self, rank: int, row: int) -> tuple[bool | None, Divergence | None]:
        """Return whether a call is what its rank used to do there, None without a past, and how it departs."""
        rows = self._rows_of(rank)
        at = int(np.flatnonzero(rows == row)[0])
        before = self._places_before(rows, at, shortest=2)
        tokens = self.tokens.in_job[rows]
        if not len(before) or self._case.table.dumps[int(self._case.table.dump[row])].active_only:
            return None, None
        if (tokens[before] == tokens[at]).any():
            return True, None
        skipped = [place for place in before.tolist() if place + 1 < at and tokens[place + 1] == tokens[at]]
        if not skipped and not (tokens[:at] == tokens[at]).any():
            return False, None
        kind = "skipped_call" if skipped else "extra_call"
        return False, self._divergence(kind, row, int(rows[skipped[-1]]) if skipped else row)

    def _places_before(self, rows: Integers, at: int, shortest: int) -> Integers:
        """Return where, earlier, a call stood after the longest run of calls that now precedes call ``at``."""
        tokens = self.tokens.in_job[rows]
        for length in range(min(_CONTEXT, at - 1), shortest - 1, -1):
            windows = np.lib.stride_tricks.sliding_window_view(tokens[: at - 1], length)
            before = np.flatnonzero((windows == tokens[at - length : at]).all(axis=1)) + length
            if len(before):
                return before
        return np.empty(0, dtype=np.int64)

    def _consensus(self, troop: _Troop, rank: int) -> tuple[Integers, tuple[int, ...]]:
        """Return the longest tail with which most peers of ``rank`` agree as far as they got, and those peers."""
        tokens = self.tokens.in_job
        peers = [peer for peer in troop.ranks if peer != rank]
        distinct: dict[bytes, list[int]] = {}
        for peer in peers:
            distinct.setdefault(tokens[troop.tails[peer]].tobytes(), []).append(peer)
        support: Counter[bytes] = Counter()
        for longer in distinct:
            support[longer] = sum(len(ranks) for shorter, ranks in distinct.items() if longer.startswith(shorter))
        best = max(support, key=lambda tail: (support[tail], len(tail), tail))
        agreeing = [peer for tail, ranks in distinct.items() if best.startswith(tail) for peer in ranks]
        if 2 * len(agreeing) <= len(peers):
            return troop.tails[rank], ()
        return troop.tails[distinct[best][0]], tuple(sorted(agreeing))

    def _compare(self, rank: int, mine: Integers, model: Integers, peers: tuple[int, ...]) -> Divergence | None:
        tokens = self.tokens.in_job
        shared = min(len(mine), len(model))
        differs = np.flatnonzero(tokens[mine[:shared]] != tokens[model[:shared]])
        if not len(differs):
            return None
        at = int(differs[0])
        for calls in range(1, _MOST_CALLS + 1):
            skipped = self._agreement(mine[at:], model[at + calls :])
            extra = self._agreement(mine[at + calls :], model[at:])
            if skipped > 0 and skipped >= extra:
                return self._divergence(
                    "skipped_call", int(mine[at]), int(model[at]), calls=calls, peers=peers, agreeing=skipped
                )
            if extra > 0:
                return self._divergence(
                    "extra_call", int(mine[at]), int(mine[at]), calls=calls, peers=peers, agreeing=extra
                )
        if self._used_to_follow(rank, int(model[at]), int(mine[at])):
            return self._divergence("skipped_call", int(mine[at]), int(model[at]), peers=peers)
        if len(peers) < 2:
            return None
        return self._divergence("extra_call", int(mine[at]), int(mine[at]), peers=peers)

    def _used_to_follow(self, rank: int, first: int, second: int) -> bool:
        """Return whether calls like ``second`` came right after calls like ``first`` on this rank before ``second``."""
        tokens, rows = self.tokens.in_job, self._rows_of(rank)
        past = tokens[rows[: int(np.flatnonzero(rows == second)[0])]]
        pairs = (past[:-1] == tokens[first]) & (past[1:] == tokens[second])
        return bool(pairs.any())

    def _agreement(self, one: Integers, other: Integers) -> int:
        """Return how many calls both have in common when all of the shorter one are equal; else 0."""
        shared = min(len(one), len(other))
        return shared if shared and self._equal(one[:shared], other[:shared]) else 0

    def _divergence(
        self, kind: str, row: int, model_row: int, *, calls: int = 1, peers: tuple[int, ...] = (), agreeing: int = 0
    ) -> Divergence | None:
        rank = self._case.rank(row)
        group = self._own_group(rank, model_row)
        return None if group is None else Divergence(rank, kind, row, model_row, group, calls, peers, agreeing)

    def _own_group(self, rank: int, row: int) -> int | None:
        """Return the group of ``rank`` that plays the part which the group of ``row`` plays for its rank."""
        groups = self._case.table.groups
        model = self._case.group(row)
        if rank in model:
            return int(self._case.table.group[row])
        alike = [
            at
            for at, group in enumerate(groups)
            if rank in group
            and (group.backend, group.desc, len(group.ranks)) == (model.backend, model.desc, len(model.ranks))
        ]
        return alike[0] if len(alike) == 1 else None

    def _against_habit(self, rank: int) -> Divergence | None:
        """Look for a call that always stood between two calls of this rank, and now does not."""
        rows = self._rows_of(rank)[-_LONGEST_TAIL:]
        tokens = self.tokens.in_job[rows]
        for at in range(len(rows) - 1, max(len(rows) - 1 - 2 * _CONTEXT, _CONTEXT), -1):
            context = tokens[at - _CONTEXT : at]
            windows = np.lib.stride_tricks.sliding_window_view(tokens[: at - 1], _CONTEXT)
            before = np.flatnonzero((windows == context).all(axis=1)) + _CONTEXT
            if len(before) < 2 or (tokens[before] == tokens[at]).any():
                continue
            usual = {int(tokens[place]) for place in before}
            rest = tokens[at:]
            fits = [
                place
                for place in before.tolist()
                if place + 1 + len(rest) <= at and (tokens[place + 1 : place + 1 + len(rest)] == rest).all()
            ]
            if len(usual) == 1 and fits:
                model = int(rows[fits[-1]])
                return self._divergence("skipped_call", int(rows[at]), model, agreeing=len(rest))
        return None
