"""Content of one side of an action: copies made in time, and what is then found in them, beside training."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from provstore.capture.content import devices
from provstore.capture.content.devices import Away, Device
from provstore.capture.content.digest import TensorBytes, tensor_bytes
from provstore.capture.content.finite import non_finite
from provstore.capture.content.shortfall import ShortfallError
from provstore.capture.content.statistics import statistics
from provstore.evidence.content import statistics_line
from provstore.evidence.content.tensor_digest import TensorTree, of_side
from provstore.model.recording import CAPTURE_FAULT, DELTA, FULL, VALIDATION

_SHAPES, _DTYPES, _FINITE, _STATISTICS = (
    {name: f"{what}_{name}" for name in ("in", "out")} for what in ("shapes", "dtypes", "finite", "stats")
)
"""Side → the name of a member of its line."""


@dataclass(slots=True)
class Side:
    """What one side of an action holds."""

    shapes: list[list[int]]
    dtypes: list[str]
    bytes_held: int
    is_finite: bool | None = None
    copies: tuple[Any, ...] | None = None
    """Of its tensors, as they were when it was taken; ``None`` where there are none."""
    away: Away | None = None
    """What was made on a device and has not come to the host; until then the two before are not known."""
    is_in_ring: bool = False
    """Whose budget the copies count for."""
    bytes_of: tuple[TensorBytes, ...] = ()
    """The copies as their digest takes them, and below the trees that it was made from."""
    trees: tuple[TensorTree, ...] = ()
    digest: str | None = None
    kind: str | None = None
    statistics: str | None = None
    """The canonical line."""
    snapshot: list[list[Any]] | None = None
    """Of each tensor: the file, and the numbers of the chunks in it."""

    @property
    def is_delta(self) -> bool:
        """Whether digest and statistics are there."""
        return self.digest is not None and self.statistics is not None

    @property
    def has_copies(self) -> bool:
        """Whether there are copies, on the host or on their way to it."""
        return self.copies is not None or (self.away is not None and self.away.clones is not None)

    def let_go(self) -> None:
        """Drop the copies."""
        self.copies, self.away, self.bytes_of, self.trees = None, None, (), ()


def side_of(tensors: Sequence[Any]) -> Side | None:
    """Return a side without content; ``None`` where there is no tensor."""
    if not tensors:
        return None
    if len(tensors) == 1:
        # Most calls move one tensor, of a shape that was seen before.
        return Side(*_described(tensors[0].shape, tensors[0].dtype))
    found = [_described(tensor.shape, tensor.dtype) for tensor in tensors]
    return Side(
        [shape for (shape,), _, _ in found], [dtype for _, (dtype,), _ in found], sum([size for _, _, size in found])
    )


def content_of(inputs: Sequence[Any], outputs: Sequence[Any]) -> Content:
    """Return the content of a call before anything is found in it; one in place is looked at once."""
    given = side_of(inputs)
    if given is not None and outputs is inputs:
        return Content(given, Side(given.shapes, given.dtypes, given.bytes_held))
    return Content(given, side_of(outputs))


def is_finite(torch: Any, tensors: Sequence[Any]) -> bool:
    """Return whether all values of some tensors are finite.

    Raises:
        ShortfallError: One of them cannot be read.
    """
    for tensor in tensors:  # noqa: SIM110  asked twice of every call, and faster than all()
        if non_finite(torch, tensor) != (0, 0):
            return False
    return True


def copied(torch: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Return copies that nobody writes into."""
    with torch.no_grad():
        return tuple(tensor.detach().clone() for tensor in tensors)


def find_flag_on(device: Device, torch: Any, side: Side, tensors: Sequence[Any]) -> None:
    """Have the finite flag of a side found on its device.

    Raises:
        ShortfallError: A tensor cannot be tested there.
    """
    flag = devices.flagged(torch, tensors)
    if flag is None:
        side.is_finite = True
    else:
        side.away = Away(device, flag, marks=[device.mark()])


def copy_on(device: Device, torch: Any, side: Side, tensors: Sequence[Any]) -> None:
    """Have copies of a side made on its device.

    Raises:
        ShortfallError: They cannot be made.
    """
    clones = devices.copied(torch, tensors)
    mark = device.mark()
    side.away = side.away or Away(device)
    side.away.clones = clones
    side.away.marks.append(mark)


def find_digest(torch: Any, side: Side) -> None:
    """Find the digest of a side in its copies.

    Raises:
        ShortfallError: A tensor cannot be read.
    """
    if side.copies is None:
        return
    side.bytes_of = tuple(tensor_bytes(torch, copy) for copy in side.copies)
    side.trees = tuple(one.tree() for one in side.bytes_of)
    found = of_side([tree.digest for tree in side.trees])
    side.digest, side.kind = found if found is not None else (None, None)


def find_statistics(torch: Any, side: Side, before: Side | None = None) -> None:
    """Find the statistics of a side in its copies; ``before`` is the input of an output, for the difference.

    Raises:
        ShortfallError: A tensor cannot be read.
    """
    if side.copies is None:
        return
    known = before.copies if before is not None and before.shapes == side.shapes else None
    side.statistics = statistics_line.line(statistics(torch, side.copies, known)).decode()


def warm_up(torch: Any) -> None:
    """Do each piece of work once: what the first one takes would be taken for what all take."""
    side = side_of([torch.zeros(2)])
    if side is not None:
        side.copies = copied(torch, [torch.zeros(2)])
        is_finite(torch, side.copies)
        find_digest(torch, side)
        find_statistics(torch, side, side)


@functools.lru_cache(4096)
def _described(shape: Any, dtype: Any) -> tuple[list[list[int]], list[str], int]:
    """Return shape, name of the type and bytes of one tensor, as a side has them; nobody changes them."""
    lengths = [*map(int, shape)]
    return [lengths], [str(dtype).removeprefix("torch.")], math.prod(lengths) * int(dtype.itemsize)


@dataclass(slots=True)
class Content:
    """What was kept of one action, and why it is less than was demanded."""

    inputs: Side | None = None
    outputs: Side | None = None
    shortfall: set[str] = field(default_factory=set)

    @property
    def is_finite(self) -> bool | None:
        """Whether all that was tested is finite; ``None`` where nothing was."""
        flags = [side.is_finite for side in self.sides() if side.is_finite is not None]
        return all(flags) if flags else None

    @property
    def is_away(self) -> bool:
        """Whether something of it has not come from its device yet."""
        return any(side.away is not None for side in self.sides())

    @property
    def is_held(self) -> bool:
        """Whether copies of it are held, here or on a device, or it is on its way from there."""
        for side in (self.inputs, self.outputs):
            if side is not None and (side.copies is not None or side.away is not None):
                return True
        return False

    def sides(self) -> list[Side]:
        """Return the sides that have tensors."""
        given, made = self.inputs, self.outputs
        if given is None:
            return [] if made is None else [made]
        return [given] if made is None else [given, made]

    def named_sides(self) -> dict[str, Side]:
        """Return the sides that have tensors, by ``in`` and ``out``."""
        given, made = self.inputs, self.outputs
        if given is None:
            return {} if made is None else {"out": made}
        return {"in": given} if made is None else {"in": given, "out": made}

    def fail(self, error: BaseException) -> None:
        """Take note of why a piece is missing."""
        self.shortfall.add(error.reason if isinstance(error, ShortfallError) else CAPTURE_FAULT)

    def mode(self, demanded: str) -> str:
        """Return the mode whose content is there: never more than was demanded."""
        if demanded == VALIDATION:
            return demanded
        sides = self.sides()
        if not sides:
            return demanded
        for side in sides:
            if not side.is_delta:
                return VALIDATION
        has_bytes = all(side.snapshot is not None or not side.bytes_held for side in sides)
        return FULL if demanded == FULL and has_bytes else DELTA

    def members(self) -> dict[str, Any]:
        """Return what a line says of it; absent values are left out."""
        said: dict[str, Any] = {}
        snaps = {}
        for name, side in self.named_sides().items():
            said[_SHAPES[name]], said[_DTYPES[name]] = side.shapes, side.dtypes
            if side.is_finite is not None:
                said[_FINITE[name]] = side.is_finite
            if side.digest is not None:
                said[name] = side.digest
            if side.statistics is not None:
                said[_STATISTICS[name]] = side.statistics
            if side.kind is not None:
                said["kind"] = side.kind
            if side.snapshot is not None:
                snaps[name] = side.snapshot
        if snaps:
            said["snap"] = snaps
        return said
