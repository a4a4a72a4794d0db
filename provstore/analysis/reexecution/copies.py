"""Operations that copy: every byte of an output is a byte of some rank's input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from provstore.analysis.reexecution.judged import Judged, Reading
from provstore.analysis.reexecution.layout import Part
from provstore.analysis.reexecution.orders import COPY
from provstore.analysis.reexecution.verdict import EXACT, MISMATCH, Difference


def judge(parts: Sequence[Part], reading: Reading) -> list[Judged]:
    """Return what is said of each part whose bytes are there."""
    return [_judged(part, reading) for part in parts]


def whole(parts: Sequence[Part], reading: Reading) -> Iterator[tuple[str, dict[int, bytes]]]:
    """Yield the outputs of one rank, by their place, under the only order there is."""
    found: dict[int, dict[int, bytes]] = {}
    for part in parts:
        data = reading.operands(part, part.at, part.at + part.count)[0]
        found.setdefault(part.tensor, {})[part.first] = data
    yield COPY, {tensor: b"".join(pieces[first] for first in sorted(pieces)) for tensor, pieces in found.items()}


def _judged(part: Part, reading: Reading) -> Judged:
    shift, size = part.at - part.first, reading.output(part).item_bytes
    compared, first_index, count = [], None, 0
    for first, end in reading.common(part):
        expected, recorded = reading.operands(part, first, end)[0], reading.recorded(part, first, end)
        compared.append((first - shift, end - shift))
        if expected != recorded:
            differs = np.frombuffer(expected, np.uint8) != np.frombuffer(recorded, np.uint8)
            elements = np.flatnonzero(differs.reshape(-1, size).any(axis=1))
            first_index = int(elements[0]) + first - shift if first_index is None else first_index
            count += len(elements)
    found = (Difference(part.rank, part.tensor, first_index, count, None),) if count else ()
    return Judged(part.rank, MISMATCH if count else EXACT, COPY, found, {part.tensor: tuple(compared)})
