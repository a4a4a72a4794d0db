"""Collective instances: the calls of one group with one number, and where their signatures disagree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provstore.analysis.signatures import NOT_COMPARED, Demands
from provstore.graph.calltable import CallTable, Flags, Integers, instance_keys
from provstore.model.dump import COLLECTIVE

DETAILS = ("op", "dtype", "size")

_LARGE = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Instances:
    """All instances, ordered by group, then number."""

    rows: Integers
    """Rows of the collectives, instance after instance, by rank inside one."""
    start: Integers
    """Where each instance begins in ``rows``; one more than there are instances."""
    key: Integers
    group: Integers
    number: Integers
    of_row: Integers
    """Instance of each row of the table; -1 for a send or receive."""
    disagreement: Integers
    """Index into ``DETAILS`` of the first thing that the members disagree on, or -1."""

    def __len__(self) -> int:
        return len(self.key)

    def calls(self, at: int) -> Integers:
        """Return the rows of one instance."""
        return self.rows[self.start[at] : self.start[at + 1]]


def find_instances(table: CallTable, number: Integers, wants: Demands) -> Instances:
    """Return the instances of ``table``, whose comparable numbers are ``number``."""
    collectives = np.flatnonzero(table.channel == COLLECTIVE)
    keys = instance_keys(table.group[collectives], number[collectives])
    order = np.argsort(keys, kind="stable")
    rows, keys = collectives[order], keys[order]
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))) if len(keys) else np.empty(0, np.int64)
    of_row = np.full(len(table), -1, dtype=np.int64)
    of_row[rows] = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(rows))))
    return Instances(
        rows=rows,
        start=np.append(first, len(rows)),
        key=keys[first],
        group=table.group[rows[first]],
        number=number[rows[first]],
        of_row=of_row,
        disagreement=_disagreement(table.signature[rows], first, wants),
    )


def _disagreement(signature: Integers, first: Integers, wants: Demands) -> Integers:
    found = np.full(len(first), -1, dtype=np.int64)
    if not len(first):
        return found
    size = _differs(wants.inputs[signature], first) | _differs(wants.outputs[signature], first)
    found[size] = 2
    found[_differs(wants.dtype[signature], first)] = 1
    found[_differs(wants.op[signature], first)] = 0
    return found


def _differs(values: Integers, first: Integers) -> Flags:
    """Return for each instance whether two compared values in it differ."""
    highest = np.maximum.reduceat(values, first)
    lowest = np.minimum.reduceat(np.where(values == NOT_COMPARED, _LARGE, values), first)
    return np.asarray((highest != NOT_COMPARED) & (lowest != highest))
