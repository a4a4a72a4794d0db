"""Tensor records joined with the calls: in which calls values stopped being finite, and which of them come first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from provstore.analysis.case import Case
from provstore.analysis.passing_calls import BROADCASTS, PassingCalls, program_order
from provstore.graph.calltable import Integers
from provstore.graph.matching import is_complete
from provstore.model.dump import COLLECTIVE, RECV, TensorRecord


@dataclass(frozen=True, slots=True)
class Origin:
    """One call in which values that are not finite began."""

    instance: int
    ranks: tuple[int, ...]
    """Ranks whose input was not finite; empty when all inputs were and an output was not."""
    rows: tuple[int, ...]
    victims: tuple[int, ...]
    nan_count: int
    inf_count: int


class Values:
    """What the tensor records of a case tell."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._bad_in: dict[int, list[tuple[int, TensorRecord]]] = {}
        self._bad_out: dict[int, list[int]] = {}
        self._known: dict[str, dict[int, bool]] = {"in": {}, "out": {}}
        """Row → whether its values were finite, by side."""
        self.unmatched: list[TensorRecord] = []
        row_of = self._row_of if case.evidence.tensors else {}
        bad: list[tuple[int, TensorRecord]] = []
        for record in case.evidence.tensors:
            row = row_of.get((record.rank, record.group, record.seq))
            if row is None:
                self.unmatched.append(record)
                continue
            told = self._known[record.side]
            told[row] = told.get(row, True) and record.finite
            if not record.finite:
                bad.append((row, record))
        passing = PassingCalls(case, self._known["in"], self._known["out"])
        harmless = passing.gone | passing.overwritten
        instance = case.instances.of_row
        for row, record in bad:
            if record.side == "in" and row not in harmless:
                self._bad_in.setdefault(int(instance[row]), []).append((row, record))
        # What a call gives follows from what was put in: where that did no harm, a member of which too little is
        # recorded later to tell names nobody.
        put_in = {int(instance[row]) for row, record in bad if record.side == "in" and row in passing.gone}
        for row, record in bad:
            at = int(instance[row])
            if record.side == "out" and row not in harmless and (at not in put_in or at in self._bad_in):
                self._bad_out.setdefault(at, []).append(row)
        gone = [row for row, record in bad if row in passing.gone and record.side == "in"]
        self.gone = tuple(sorted(gone or passing.gone, key=lambda row: (int(case.table.created[row]), row)))
        """Rows whose values that are not finite did no harm, the first first: of inputs, else of outputs alone."""

    @cached_property
    def _row_of(self) -> dict[tuple[int, str, int], int]:
        table = self._case.table
        rows = np.flatnonzero(table.channel == COLLECTIVE).tolist()
        names = [group.name for group in table.groups]
        return {(int(table.rank[row]), names[int(table.group[row])], int(table.seq[row])): row for row in rows}

    @cached_property
    def origins(self) -> tuple[Origin, ...]:
        """The calls in which values stopped being finite and that no other such call comes before."""
        left = set(self._bad_in) | set(self._bad_out)
        found = []
        while left:
            first = min(left, key=self._created)
            while earlier := (self._reached((first,), backward=True) & left) - {first}:
                nearest = min(earlier, key=self._created)
                left.discard(first)
                first = nearest
            found.append(self._origin(first))
            left -= self._reached((first,), backward=False) | {first}
        return tuple(found)

    @cached_property
    def gap(self) -> str | None:
        """Why the first call that is not finite may not be the origin: what came before, or who sends, is not known."""
        case = self._case
        for origin in self.origins:
            for row in origin.rows:
                span = case.table.rows_of_dump(int(case.table.dump[row]))
                for before in range(span.start, row):
                    has_input = bool(case.signature(before).input_sizes)
                    if has_input and not case.is_p2p(before) and before not in self._known["in"]:
                        return f"the input of #{case.seq(before)} of {case.group(before).desc} was not recorded"
            missing = self._not_told(origin) if origin.ranks else None
            if missing is not None:
                return missing
        return None

    def _not_told(self, origin: Origin) -> str | None:
        """Return why ranks that hold values that are not finite may not be those that they come from."""
        case, table = self._case, self._case.table
        row = origin.rows[0]
        calls = case.instances.calls(origin.instance).tolist()
        if case.signature(row).op in BROADCASTS:
            others_known = sum(one in self._known["in"] for one in calls) == len(case.group(row).ranks)
            if len(origin.rows) > 1 or not others_known or not self._bad_out.get(origin.instance):
                return f"the root of #{case.seq(row)} of {case.group(row).desc} is not recorded: others only receive"
        for row in origin.rows:
            rank = case.rank(row)
            received = (table.rank == rank) & (table.channel == RECV) & (table.turn < table.turn[row])
            if received.any() or rank in case.hides_p2p:
                return f"what rank {rank} received from single ranks before #{case.seq(row)} is not recorded"
            at = int(table.dump[row])
            earlier = range(table.rows_of_dump(at).start, row)
            if not is_complete(table.dumps[at]) and not any(self._known["in"].get(one) for one in earlier):
                return f"what rank {rank} put in before #{case.seq(row)} is not in its dump"
        return None

    def _created(self, at: int) -> tuple[int, int]:
        return int(self._case.table.created[self._case.instances.calls(at)].min()), at

    def _origin(self, at: int) -> Origin:
        inputs = self._bad_in.get(at, [])
        outputs = self._bad_out.get(at, [])
        table = self._case.table
        after = self._reached((at,), backward=False)
        hit = {int(table.rank[row]) for one in after for row in self._bad_out.get(one, ())}
        hit |= {int(table.rank[row]) for row in outputs}
        hit |= {int(table.rank[row]) for row in self._case.instances.calls(at)} if inputs and not outputs else set()
        return Origin(
            instance=at,
            ranks=tuple(sorted({record.rank for _, record in inputs})),
            rows=tuple(row for row, _ in inputs) or tuple(outputs),
            victims=tuple(sorted(hit)),
            nan_count=sum(record.nan_count for _, record in inputs),
            inf_count=sum(record.inf_count for _, record in inputs),
        )

    @cached_property
    def _order(self) -> tuple[Integers, Integers]:
        """Collective rows by rank and program order, and where each row stands in that list."""
        table, rows = self._case.table, program_order(self._case)
        place = np.full(len(table), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        return rows, place

    def _reached(self, start: Iterable[int], *, backward: bool) -> set[int]:
        """Return the instances that come before, or after, some instances on any rank."""
        rows, place = self._order
        found, ranks = self._case.instances, self._case.table.rank
        step = -1 if backward else 1
        seen, queue = set(start), deque(start)
        while queue:
            for row in found.calls(queue.popleft()).tolist():
                at = int(place[row]) + step
                if 0 <= at < len(rows) and ranks[rows[at]] == ranks[row]:
                    other = int(found.of_row[rows[at]])
                    if other not in seen:
                        seen.add(other)
                        queue.append(other)
        return seen
