"""What a caller may set when dumps are read, and what reading gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from provstore.model.dump import Dump, Refusal, TensorRecord

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps on one file; a file above one of them is refused, an entry above one of them is set aside."""

    file_bytes: int = 256 * MIB
    sidecar_bytes: int = 32 * MIB
    entries: int = 1_000_000
    frames: int = 1_000
    """Frames of one entry."""
    shapes: int = 65_536
    """Tensors of one side of one entry."""
    dimensions: int = 64
    string_bytes: int = 65_536
    """Length of a string, in characters."""
    ranks: int = 1 << 20
    """Ranks are below this number, and a group has at most as many members."""
    groups: int = 65_536
    bad_entries: int = 10_000
    """A file with more bad entries than this is refused."""
    memory_bytes: int = 2048 * MIB
    """Address space of a worker, at most."""
    seconds: float = 5.0
    """CPU time of a worker for a small file; it grows with the size of the file."""

    def worker_memory_bytes(self, size_bytes: int) -> int:
        """Return the address space a worker may use for a file of that size."""
        return min(self.memory_bytes, 256 * MIB + 12 * size_bytes)

    def worker_seconds(self, size_bytes: int) -> float:
        """Return the CPU time a worker may use for a file of that size: about ten times what a good file needs."""
        return self.seconds + 0.3 * size_bytes / MIB


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to find the dumps, and how to read them."""

    rank_regex: str | None = None
    """Searched in the file name; its group ``rank`` is the rank, its group ``host``, when there, the host."""
    rank_map: Mapping[str, int] | None = None
    """File name, or path below the folder, → rank; wins over every other rule."""
    recursive: bool = False
    active_only: bool | None = None
    """Whether the dumps hold unfinished calls only; ``None`` infers it."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Everything that was found, the good and the bad, in the order of folders, ranks and names."""

    dumps: list[Dump]
    refusals: list[Refusal]
    """Files that were meant as evidence and could not be used, and, ``skipped``, files that were not read."""
    tensors: list[TensorRecord]
    name: str
    """Base name of the folder."""
    tensor_files: tuple[Path, ...] = ()
    """Where the tensor records were read."""
