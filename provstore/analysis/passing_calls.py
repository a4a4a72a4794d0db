"""Calls whose recorded values were not finite and did no harm: overwritten, meant so, or left out by the program."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import median

import numpy as np

from provstore.analysis.case import Case
from provstore.analysis.passing import SOUND_STEPS
from provstore.graph.calltable import Integers
from provstore.model.dump import COLLECTIVE

BROADCASTS = frozenset(("broadcast", "_broadcast_oop"))
"""Who of their members sends is not in a dump."""
_SUMS = frozenset(
    (
        "all_reduce",
        "allreduce_coalesced",
        "reduce",
        "_reduce_oop",
        "reduce_scatter",
        "_reduce_scatter_base",
        "reduce_scatter_single",
        "reduce_scatter_tensor_coalesced",
        "REDUCE_SCATTER_coalesced",
    )
)
"""Their operator is not in a dump: a maximum is taken for a sum, unless its output shows that it is none."""
_SAME_OUT = frozenset(("all_reduce", "allreduce_coalesced", *BROADCASTS))
"""What one member gets is what all get: where it is finite, nothing of an input that is not is left."""

_FEW_RUNS = 3
"""Fewer runs of calls of one kind do not show how many of them a step holds."""

_Kind = tuple[int, str, tuple[tuple[int, ...], ...]]


def program_order(case: Case) -> Integers:
    """Return the rows of collectives by rank, and on each rank in program order."""
    table = case.table
    rows = np.flatnonzero(table.channel == COLLECTIVE)
    return rows[np.lexsort((table.turn[rows], table.rank[rows]))]


class PassingCalls:
    """Tells of calls with values that are not finite whether these went no further.

    As in :mod:`provstore.analysis.passing`, but neither steps nor operators nor loaded checkpoints are recorded here:
    five sums of a kind that was spoilt stand for five steps, or five times so many as usually come in a row.

    Args:
        case: The calls.
        finite_in: Row → whether its input was finite, where that is recorded.
        finite_out: The same of outputs.
    """

    def __init__(self, case: Case, finite_in: Mapping[int, bool], finite_out: Mapping[int, bool]) -> None:
        self._case, self._in, self._out = case, finite_in, finite_out
        self.overwritten: set[int] = set()
        """Rows whose input only lay in a buffer that the call wrote to."""
        self.gone: set[int] = set()
        """Rows whose values that are not finite left no trace in what the rank added up with others later."""
        bad = {row for told in (finite_in, finite_out) for row, is_finite in told.items() if not is_finite}
        order, ranks = program_order(case), case.table.rank
        spoilt = {int(ranks[row]) for row in bad}
        for rank in sorted(spoilt):
            self._look([int(row) for row in order[ranks[order] == rank]], bad)

    def _look(self, rows: list[int], bad: set[int]) -> None:
        """Note the calls of one rank that did no harm, up to the first that may have spoilt something."""
        usual: set[tuple[int, str]] = set()
        wanted = self._wanted(rows)
        for at, row in enumerate(rows):
            if row not in bad:
                continue
            op = self._case.signature(row).op
            kind = (int(self._case.table.group[row]), op)
            if op in BROADCASTS and self._out.get(row):
                self.overwritten.add(row)
            elif (op in _SAME_OUT and self._out.get(row)) or kind in usual or self._passes(rows, at, wanted):
                self.gone.add(row)
                if op not in _SUMS:
                    usual.add(kind)
            else:
                return

    def _wanted(self, rows: Sequence[int]) -> dict[_Kind, float]:
        """Return for each kind of sums how many of them, sound and in a row, are five steps."""
        runs: dict[_Kind, list[int]] = defaultdict(list)
        sums = (self._kind(row) for row in rows if self._case.signature(row).op in _SUMS)
        for kind, same in groupby(sums):
            runs[kind].append(sum(1 for _ in same))
        return {kind: SOUND_STEPS * (median(some) if len(some) >= _FEW_RUNS else 1) for kind, some in runs.items()}

    def _passes(self, rows: Sequence[int], at: int, wanted: Mapping[_Kind, float]) -> bool:
        """Return whether what the rank adds up with others soon is finite, and stays so for some calls."""
        spoilt = {self._kind(rows[at])} if self._case.signature(rows[at]).op in _SUMS else set()
        sound: Counter[_Kind] = Counter()
        for row in rows[at + 1 :]:
            if self._case.signature(row).op not in _SUMS:
                continue
            if self._out.get(row) is False or (self._in.get(row) is False and not self._out.get(row)):
                spoilt.add(self._kind(row))
                sound.clear()
            elif self._in.get(row):
                kind = self._kind(row)
                sound[kind] += 1
                if sound[kind] >= wanted[kind] and (not spoilt or kind in spoilt):
                    return True
        return False

    def _kind(self, row: int) -> _Kind:
        signature = self._case.signature(row)
        return int(self._case.table.group[row]), signature.op, signature.input_sizes
