"""What is stored of one collective: per rank the tensors that went in and came out, whole or in pieces."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

Range = tuple[int, int]
"""First element, and one past the last."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a tensor from some offset on."""

    offset_bytes: int
    data: bytes


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor of a call: row-major little-endian bytes, as far as they were kept."""

    dtype: str
    """Name without ``torch.``."""
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...] = ()
    """In order of their offsets, without overlap."""
    size_bytes: int = 0
    """Of the whole tensor."""

    @classmethod
    def whole(cls, dtype: str, shape: tuple[int, ...], data: bytes) -> StoredTensor:
        """Return a tensor of which every byte was kept."""
        return cls(dtype, shape, (Piece(0, data),), len(data))

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def item_bytes(self) -> int:
        """Bytes of one element; 1 where there is none."""
        return self.size_bytes // self.count if self.count else 1

    @property
    def is_whole(self) -> bool:
        """Whether every byte was kept."""
        return sum(len(piece.data) for piece in self.pieces) == self.size_bytes

    def ranges(self) -> tuple[Range, ...]:
        """Return the elements that were kept in full, neighbours joined."""
        size, found = self.item_bytes, list[Range]()
        for piece in self.pieces:
            first, end = -(-piece.offset_bytes // size), (piece.offset_bytes + len(piece.data)) // size
            if found and found[-1][1] == first:
                found[-1] = (found[-1][0], end)
            elif first < end:
                found.append((first, end))
        return tuple(found)

    def read(self, first: int, end: int) -> bytes:
        """Return the bytes of some elements, all of which were kept."""
        low, high = first * self.item_bytes, end * self.item_bytes
        parts = []
        for piece in self.pieces:
            start, stop = max(low, piece.offset_bytes), min(high, piece.offset_bytes + len(piece.data))
            if start < stop:
                parts.append(piece.data[start - piece.offset_bytes : stop - piece.offset_bytes])
        return parts[0] if len(parts) == 1 else b"".join(parts)


@dataclass(frozen=True, slots=True)
class Side:
    """What one rank put into a collective, or got from it."""

    tensors: tuple[StoredTensor, ...] = ()
    digest: str | None = None
    """As recorded; over all tensors of the side."""
    reason: str | None = None
    """Why bytes are missing, such as ``byte-budget``; ``None`` where nothing is known of it."""
    lost: str | None = None
    """Why bytes that were kept are not there to read."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One collective on all of its ranks."""

    op: str
    """Without library: ``all_reduce``, ``reduce_scatter_tensor``, …"""
    members: tuple[int, ...]
    """Global ranks in the order of the group."""
    inputs: Mapping[int, Side] = field(default_factory=dict)
    outputs: Mapping[int, Side] = field(default_factory=dict)
    reduce_op: str | None = None
    root: int | None = None
    """Global rank."""
    backend: str | None = None
