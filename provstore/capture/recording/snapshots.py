"""Snapshots of actions: which chunks of their tensors are kept, and the lines that say where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provstore.capture.content.budget import SNAPSHOT, Budget, Grant
from provstore.capture.content.shortfall import ShortfallError
from provstore.capture.content.snapshot import SnapshotFile
from provstore.capture.recording.contents import Content, Side
from provstore.capture.recording.outbox import Outbox
from provstore.evidence.content import selection
from provstore.evidence.content.tensor_digest import CHUNK_BYTES, size_bytes


@dataclass(frozen=True, slots=True)
class Place:
    """Where an action stands among the calls of all ranks."""

    group: str
    number: int
    op: str
    ordinal: int
    epoch: int | None
    ranks: int = 1
    position: int = 0
    """Of this rank in the group."""
    is_root: bool | None = None


@dataclass(slots=True)
class _Piece:
    """What is kept of one tensor."""

    side: str
    arg: int
    """Number of the tensor in its side."""
    chunks: list[int]
    grant: Grant | None = None


class Snapshots:
    """Keeps bytes of one rank within the budgets."""

    def __init__(self, file: SnapshotFile, run: str, budget: Budget, outbox: Outbox) -> None:
        self._file = file
        self._run = run
        self._budget = budget
        self._outbox = outbox

    def keep(self, torch: Any, content: Content, place: Place) -> None:  # noqa: ARG002  the copies are on this host
        """Keep chunks of what an action was given and gave; each side counts only when every tensor of it has one.

        Raises:
            ShortfallError: They do not fit, or cannot be written.
        """
        sides = {name: side for name, side in content.named_sides().items() if side.trees}
        room, reason = self._budget.snapshot_room()
        plan = self._plan(sides, place, room, self._budget.snapshot_rest())
        pieces: list[_Piece] = []
        for name, side in sides.items():
            by_tensor = _by_tensor(plan.get(name, ()), _sizes(side))
            if any(size and not by_tensor.get(at) for at, size in enumerate(_sizes(side))):
                raise ShortfallError(f"snapshot: {name}: not a chunk of each tensor fits {room} bytes", reason=reason)
            pieces += [_Piece(name, at, by_tensor.get(at, [])) for at in range(len(side.trees))]
        self._ask(sides, pieces)
        try:
            for name, side in sides.items():
                side.snapshot = [self._write(side, one, place) for one in pieces if one.side == name]
        finally:
            self._drop(pieces)

    def close(self) -> None:
        """Make what was kept durable.

        Raises:
            OSError: It could not be made durable.
        """
        self._file.close()

    def _ask(self, sides: dict[str, Side], pieces: Sequence[_Piece]) -> None:
        """Ask for all pieces before the first is written: one side without the other can show nothing."""
        for one in pieces:
            if not one.chunks:
                continue
            whole = len(sides[one.side].bytes_of[one.arg].data)
            nbytes = sum(min(CHUNK_BYTES, whole - chunk * CHUNK_BYTES) for chunk in one.chunks)
            grant = self._budget.ask(SNAPSHOT, nbytes)
            if grant.reason is not None:
                self._drop(pieces)
                raise ShortfallError(f"snapshot: {one.side}: {nbytes} bytes do not fit", reason=grant.reason)
            one.grant = grant

    def _drop(self, pieces: Sequence[_Piece]) -> None:
        for one in pieces:
            grant, one.grant = one.grant, None
            if grant is not None:
                self._budget.drop(grant)

    def _plan(self, sides: dict[str, Side], place: Place, room: int, rest: int) -> dict[str, Sequence[int]]:
        """Return the chunks of each side, numbered through all its tensors."""
        outputs = _sizes(sides["out"]) if "out" in sides else []
        inputs = _sizes(sides["in"]) if "in" in sides else []
        if not sum(outputs):
            return {"in": self._kept(place, inputs, room)}

        def needed(kept: Sequence[int]) -> Sequence[int]:
            if not inputs:
                return ()
            ranges = selection.input_ranges(
                place.op,
                selection.chunk_ranges(kept, outputs),
                ranks=place.ranks,
                place=place.position,
                sizes=inputs,
                is_root=place.is_root,
            )
            count = selection.chunks_of(inputs)
            found = range(count) if ranges is None else selection.covering_chunks(ranges, inputs)
            # A side that gives nothing to what is kept is shown by its first chunk.
            return found or range(min(1, count))

        made, given = selection.plan_chunks(
            lambda budget: selection.kept_chunks(
                self._run, place.group, place.number, selection.chunks_of(outputs), budget
            ),
            needed,
            (outputs, inputs),
            room,
            rest,
        )
        return {"out": made, "in": given}

    def _kept(self, place: Place, sizes: Sequence[int], room: int) -> Sequence[int]:
        count = selection.chunks_of(sizes)
        fitting = count if sum(sizes) <= room else room // CHUNK_BYTES
        return selection.kept_chunks(self._run, place.group, place.number, count, fitting)

    def _write(self, side: Side, one: _Piece, place: Place) -> list[Any]:
        grant, one.grant = one.grant, None
        if grant is None:
            return []
        with self._budget.working(grant):
            entries = self._file.write(side.bytes_of[one.arg], side.trees[one.arg], one.chunks)
        for entry in entries:
            members = {"ordinal": place.ordinal, "epoch": place.epoch, "side": one.side, "arg": one.arg}
            self._outbox.put({"t": "snap", **members, **entry.to_dict()})
        return [entries[0].file, *(entry.chunk for entry in entries)]


def stored_bytes(directory: Path, rank: int) -> int:
    """Return how many bytes of snapshots earlier processes of a rank left."""
    return sum(path.stat().st_size for path in directory.glob(f"snap-rank{rank}-*.bin"))


def _sizes(side: Side) -> list[int]:
    return [size_bytes(tree.dtype, tree.shape) for tree in side.trees]


def _by_tensor(chunks: Sequence[int], sizes: Sequence[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for chunk in chunks:
        tensor, inner = selection.place_of_chunk(chunk, sizes)
        found.setdefault(tensor, []).append(inner)
    return found
