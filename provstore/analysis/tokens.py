"""One integer a call that is equal for calls that mean the same, whatever rank makes them."""

from __future__ import annotations

from functools import cached_property
from zlib import crc32

import numpy as np

from provstore.analysis.case import Case
from provstore.analysis.signatures import SUMS_EQUAL
from provstore.graph.calltable import Integers
from provstore.graph.frames import user_frame
from provstore.model.dump import ABSENT, COLLECTIVE, Signature

_MIX = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5)


class Tokens:
    """Tokens of the calls of a case."""

    def __init__(self, case: Case) -> None:
        self._case = case

    @cached_property
    def has_frames(self) -> bool:
        """Whether every dump with calls holds source lines, so that lines can be compared."""
        table = self._case.table
        return bool(len(table)) and bool((table.stack != ABSENT).all())

    @cached_property
    def call(self) -> Integers:
        """What is asked for and where: operation, sizes, types, source line."""
        return _mixed(self.signature, self.frame)

    @cached_property
    def in_job(self) -> Integers:
        """``call`` together with the kind of group, and for a send or receive the distance to the other end."""
        table = self._case.table
        kinds = np.array([_code(f"{group.desc}/{len(group.ranks)}") for group in table.groups], dtype=np.int64)
        return _mixed(self.call, kinds[table.group] if len(table) else table.group, self._distance)

    @cached_property
    def signature(self) -> Integers:
        """Operation, sizes and types; no sizes where they differ between ranks and steps by nature."""
        table = self._case.table
        codes = np.array([_code(_asked(item)) for item in table.signatures], dtype=np.int64)
        return codes[table.signature] if len(table) else table.signature

    @cached_property
    def frame(self) -> Integers:
        """The source line; 0 when some dump holds none."""
        table = self._case.table
        found = np.zeros(len(table), dtype=np.int64)
        if not self.has_frames:
            return found
        known: dict[tuple[str, str, int], int] = {}
        for at, dump in enumerate(table.dumps):
            span = table.rows_of_dump(at)
            used = np.unique(table.stack[span])
            codes = np.zeros(int(used[-1]) + 1 if len(used) else 0, dtype=np.int64)
            for stack in used.tolist():
                frame = user_frame(dump.stacks[stack])
                if frame is not None:
                    key = (frame.filename, frame.name, frame.line)
                    codes[stack] = known.setdefault(key, _code(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.line}"))
            found[span] = codes[table.stack[span]]
        return found

    @cached_property
    def way(self) -> Integers:
        """For a send or receive: which of the two, and the distance to the other end; 0 for a collective."""
        return np.asarray(self._distance * 4 + self._case.table.channel, dtype=np.int64)

    @cached_property
    def _distance(self) -> Integers:
        table = self._case.table
        found = np.zeros(len(table), dtype=np.int64)
        places: dict[int, dict[int, int]] = {}
        for row in np.flatnonzero((table.channel != COLLECTIVE) & (table.peer != ABSENT)).tolist():
            group = int(table.group[row])
            at = places.setdefault(group, {rank: place for place, rank in enumerate(table.groups[group].ranks)})
            mine, other = at.get(int(table.rank[row]), 0), at.get(int(table.peer[row]), 0)
            found[row] = 1 + (other - mine) % len(at)
        return found


def _asked(signature: Signature) -> str:
    if signature.op in SUMS_EQUAL or "_v" in signature.op:
        return f"{signature.op} {signature.input_dtypes} {signature.output_dtypes}"
    sizes = f"{signature.input_sizes} {signature.output_sizes}"
    return f"{signature.op} {sizes} {signature.input_dtypes} {signature.output_dtypes}"


def _code(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    return crc32(data) | (crc32(data[::-1]) << 31)


def _mixed(*columns: Integers) -> Integers:
    total = np.zeros(len(columns[0]), dtype=np.uint64)
    for factor, column in zip(_MIX, columns):
        total = (total ^ column.astype(np.uint64)) * np.uint64(factor)
        total ^= total >> np.uint64(29)
    return total.view(np.int64)
