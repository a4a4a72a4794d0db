"""What a distributed job is made of: process groups, and one program (a list of operations) for each rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]

CALLS = frozenset({"collective", "send", "recv", "batch", "coalesced"})
"""Kinds of operation that reach a communication library; the others (cpu, gpu, join, sync, stop) stay on the rank."""


@dataclass(frozen=True, slots=True)
class Group:
    """A process group of the job."""

    key: int
    """Index into ``Job.groups``; creation order in the job."""
    name: str
    desc: str
    ranks: tuple[int, ...]
    backend: str = "nccl"

    def local(self, rank: int) -> int:
        """Return the group-local number of a global rank."""
        return self.ranks.index(rank)


@dataclass(frozen=True, slots=True)
class Op:
    """One step of a rank's program.

    ``collective``, ``send``, ``recv``: a call; ``batch``: sends and receives started together; ``coalesced``:
    collectives started together; ``gpu``: work on the compute stream; ``cpu``: time on the host; ``join``: the compute
    stream waits for a group's stream; ``sync``: the host waits for the device; ``stop``: the host goes no further.
    """

    kind: str
    group: Group | None = None
    op: str = ""
    ins: Shapes = ()
    outs: Shapes = ()
    dtype: str = "BFloat16"
    peer: int = -1
    """Global rank of the other end."""
    root: int = -1
    site: int = 0
    """Line of the training script."""
    blocking: bool = True
    """The compute stream (NCCL) or the host (gloo) waits for the call before the next one."""
    ns: int = 0
    """Duration of the work itself."""
    parts: tuple[Op, ...] = ()
    never: str = ""
    """Fault on the device: ``ends`` or ``starts``."""

    @property
    def is_call(self) -> bool:
        """Whether a communication library sees the operation."""
        return self.kind in CALLS


@dataclass(slots=True)
class Job:
    """A whole job before it runs."""

    layout: str
    world: int
    groups: list[Group] = field(default_factory=list)
    programs: list[list[Op]] = field(default_factory=list)
    steps: list[list[int]] = field(default_factory=list)
    """Per rank, the index in its program at which each step starts."""

    def calls(self, rank: int) -> Iterator[tuple[int, Op]]:
        """Yield the calls of a rank's program with their index."""
        return ((at, op) for at, op in enumerate(self.programs[rank]) if op.is_call)

    @property
    def has_p2p(self) -> bool:
        """Whether any rank sends or receives."""
        return any(op.kind in ("send", "recv", "batch") for program in self.programs for op in program)


def numel(shapes: Shapes) -> int:
    """Return the number of elements of several tensors."""
    total = 0
    for shape in shapes:
        count = 1
        for size in shape:
            count *= size
        total += count
    return total
