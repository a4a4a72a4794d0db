"""Chains of memory evidence: each operation on a cell names the content that the one before left there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provstore.model.aep import Axis


@dataclass(slots=True)
class _Cell:
    count: int = 0
    content: object = None
    has_past: bool = False
    """The first operation names a content that no operation here left."""
    absent: int = 0
    broken: tuple[int, int] | None = None


class Cells:
    """What was seen so far of each memory cell, in the order of the file."""

    def __init__(self) -> None:
        self._cells: dict[str, _Cell] = {}

    def add(self, record: int, value: Mapping[str, Any]) -> str | None:
        """Take the next operation and return the name of its cell, ``None`` when it names none."""
        name = value.get("mem_ref")
        if not isinstance(name, str):
            return None
        cell = self._cells.setdefault(name, _Cell())
        place, cell.count, prior = cell.count, cell.count + 1, value.get("prior_digest")
        if place == 0:
            cell.has_past = prior is not None
        elif prior is None:
            cell.absent += 1
        elif prior != cell.content and cell.broken is None:
            cell.broken = (place, record)
        cell.content = value.get("digest")
        return name

    def axes(self) -> dict[str, Axis]:
        """Return the verdict on the chain of each cell."""
        return {name: _axis(cell) for name, cell in self._cells.items()}


def _axis(cell: _Cell) -> Axis:
    details: dict[str, object] = {"chain_scope": "cell", "records": cell.count}
    if cell.broken is not None:
        place, record = cell.broken
        text = f"operation {place} on the cell does not name the content that the one before left"
        return Axis(True, "broken", text, {**details, "index": place, "record": record})
    if cell.has_past:
        return Axis(True, "orphaned", "the first operation names a content from before", details)
    if cell.count == 1:
        return Axis(True, "not-present", None, details)
    if cell.absent:
        return Axis(True, "partial", f"{cell.absent} operations name no content before them", details)
    return Axis(True, "intact", None, details)
