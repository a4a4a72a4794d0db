"""Reading the operands of parts of outputs, and what is said of each output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from provstore.analysis.reexecution.instance import Instance, Range, StoredTensor
from provstore.analysis.reexecution.layout import Part
from provstore.analysis.reexecution.verdict import Difference


@dataclass(frozen=True, slots=True)
class Judged:
    """What is said of what one rank got, or of a part of it."""

    rank: int
    name: str
    order: str | None
    differences: tuple[Difference, ...] = ()
    compared: Mapping[int, tuple[Range, ...]] = field(default_factory=dict)
    """By output: elements that were compared."""
    silent: Mapping[str, int] = field(default_factory=dict)
    whole: bool = False
    """Compared by digest, which covers everything."""


class Reading:
    """Operands and recorded elements of one collective."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._known: dict[tuple[int, tuple[int, ...]], tuple[Range, ...]] = {}

    def output(self, part: Part) -> StoredTensor:
        """Return the output that a part belongs to."""
        return self._instance.outputs[part.rank].tensors[part.tensor]

    def length(self, part: Part) -> int:
        """Return the number of elements of a part's vector."""
        given = self._instance.inputs[part.vector.ranks[0]].tensors
        return sum(given[at].count for at in part.vector.tensors)

    def known(self, part: Part) -> tuple[Range, ...]:
        """Return the elements of a part's vector that every rank's input has, within the part."""
        found: tuple[Range, ...] = ((part.at, part.at + part.count),)
        for rank in part.vector.ranks:
            found = _common(found, self._ranges(rank, part.vector.tensors))
        return found

    def common(self, part: Part) -> tuple[Range, ...]:
        """Return of :meth:`known` what the output was kept of as well."""
        shift = part.at - part.first
        kept = tuple((first + shift, end + shift) for first, end in self.output(part).ranges())
        return _common(self.known(part), kept)

    def is_whole(self, part: Part) -> bool:
        """Return whether every element that a part needs is there."""
        return not part.count or self.known(part) == ((part.at, part.at + part.count),)

    def operands(self, part: Part, first: int, end: int) -> list[bytes]:
        """Return the bytes of some elements of the vector, of each rank."""
        return [self._operand(rank, part.vector.tensors, first, end) for rank in part.vector.ranks]

    def recorded(self, part: Part, first: int, end: int) -> bytes:
        """Return the bytes of the output where some elements of the vector ended."""
        shift = part.at - part.first
        return self.output(part).read(first - shift, end - shift)

    def _operand(self, rank: int, tensors: tuple[int, ...], first: int, end: int) -> bytes:
        parts, start = [], 0
        for at in tensors:
            tensor = self._instance.inputs[rank].tensors[at]
            low, high = max(first - start, 0), min(end - start, tensor.count)
            if low < high:
                parts.append(tensor.read(low, high))
            start += tensor.count
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _ranges(self, rank: int, tensors: tuple[int, ...]) -> tuple[Range, ...]:
        key = (rank, tensors)
        if key not in self._known:
            found: list[Range] = []
            start = 0
            for at in tensors:
                tensor = self._instance.inputs[rank].tensors[at]
                for first, end in tensor.ranges():
                    if found and found[-1][1] == first + start:
                        found[-1] = (found[-1][0], end + start)
                    else:
                        found.append((first + start, end + start))
                start += tensor.count
            self._known[key] = tuple(found)
        return self._known[key]


def _common(left: tuple[Range, ...], right: tuple[Range, ...]) -> tuple[Range, ...]:
    return tuple(_overlaps(left, right))


def _overlaps(left: tuple[Range, ...], right: tuple[Range, ...]) -> Iterator[Range]:
    at = 0
    for first, end in left:
        while at < len(right) and right[at][1] <= first:
            at += 1
        here = at
        while here < len(right) and right[here][0] < end:
            yield max(first, right[here][0]), min(end, right[here][1])
            here += 1
