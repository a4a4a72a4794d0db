"""Process groups and calls of this rank, as its own process sees them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from provstore.capture.torch_library import last_collective
from provstore.model import ids

SEND, RECV = "SEND", "RECV"
POINT_TO_POINT = frozenset({SEND, RECV})
_RAISES = {"ALLGATHER": 1, "ALLGATHER_BASE": 1, "ALLREDUCE_COALESCED": 1, "ALLTOALL": 1, "GATHER": 1}
"""By how much torch itself raises the version of an output; a release that does it more often costs digests."""


@dataclass(slots=True, eq=False)
class LiveGroup:
    """Where one process group of this process stands."""

    name: str
    """As in the dumps."""
    backend: str
    """That of its calls."""
    ranks: tuple[int, ...]
    """Global ranks, in the group's own order."""
    description: str
    reference: weakref.ref[Any]
    sends_and_receives: int = 0
    latest: int = 0
    """What the backend had counted after the latest call that was seen."""
    is_confirmed: bool = True
    """Whether the numbers of its calls are known to be those of the dumps."""
    under_way: dict[int, LiveCall] = field(default_factory=dict)
    """By the hook's number of a call."""
    device: Any = None
    """Of a group with several backends, the kind of device whose calls are seen."""
    world: int = 0
    """How often the process left all its groups before this one was made: torch gives names and numbers anew then."""
    _key: str | None = None
    _position: int = -1

    @property
    def unique_name(self) -> str:
        """Its name; where an earlier world of groups may have had the same, with a number behind it, from ``.2`` on."""
        return f"{self.name}.{self.world + 1}" if self.world else self.name

    @property
    def key(self) -> str:
        """The group as it stands in ids."""
        if self._key is None:
            self._key = ids.group_key(self.unique_name, self.ranks)
        return self._key

    def counter(self) -> int:
        """Return what the backend counted: gloo counts sends and receives too."""
        return last_collective(self.reference(), self.device)

    def is_elsewhere(self, call: LiveCall) -> bool:
        """Return whether a call goes through another of several backends of the group."""
        kind = None if self.device is None else self.device.type
        return kind is not None and any(tensor.device.type != kind for tensor in (*call.inputs, *call.outputs))

    def own_position(self) -> int:
        """Return this rank's number in the group, −1 when the group is gone before anybody asked."""
        if self._position < 0:
            group = self.reference()
            self._position = -1 if group is None else int(group.rank())
        return self._position

    def global_rank(self, position: int) -> int | None:
        """Return the global rank of a member; ``None`` for no member."""
        return self.ranks[position] if 0 <= position < len(self.ranks) else None


@dataclass(slots=True, eq=False)
class LiveCall:
    """One call of this rank, from just before it is issued."""

    group: LiveGroup
    name: str
    """torch's name of the operation in its hooks, such as ``ALLREDUCE``."""
    inputs: Sequence[Any]
    """What this rank puts in: a buffer that only waits for data is no input."""
    outputs: Sequence[Any]
    """What will hold what this rank gets."""
    overwrites_inputs: bool
    position: int
    """The root, or the other end, in the group's own numbers; −1 for none."""
    is_async: bool
    at_ns: int
    counted_before: int
    is_root: bool
    seq: int | None = None
    """``collective_seq_id``; of the first part where the backend makes several calls of one."""
    op_id: int | None = None
    parts: int = 1
    is_kept: bool = False
    """The listener says: what it gave stays as it is until the backward pass ends."""
    is_from_python: bool = False
    """The listener says: a method of ``ProcessGroup`` in Python makes it."""
    is_asked_for_future: bool = False
    """Somebody else has its future, and may go on before its outputs were read."""
    is_in_backward: bool = False
    """It was issued by a thread of autograd, within a backward pass."""
    memo: Any = None
    """The listener's own."""
    versions: tuple[int, ...] | None = None
    """Of its outputs before it was issued; ``None`` where nobody counts, as in inference mode."""

    def is_overwritten(self) -> bool:
        """Return whether somebody else may have written to its outputs before now."""
        if not self.is_async:
            return False
        if self.is_asked_for_future:
            return True
        now, most = versions(self.outputs), _RAISES.get(self.name, 0)
        return (
            now is None or self.versions is None or any(a - b > most for a, b in zip(now, self.versions, strict=True))
        )

    @property
    def may_be_of_reducer(self) -> bool:
        """Whether the reducer of DDP may have issued it, who waits for it at the end of the backward pass."""
        return self.name == "ALLREDUCE" and self.is_async and not self.is_from_python

    @property
    def is_point_to_point(self) -> bool:
        """Whether it is a send or receive."""
        return self.name in POINT_TO_POINT


def versions(tensors: Sequence[Any]) -> tuple[int, ...] | None:
    """Return how often each of some tensors was written to; ``None`` where nobody counts."""
    if any(tensor.is_inference() for tensor in tensors):
        return None
    return tuple(int(tensor._version) for tensor in tensors)  # noqa: SLF001  the name by which torch documents it
