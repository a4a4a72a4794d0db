"""What recomputing a collective says of its recorded outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

EXACT, EXPLAINED, WITHIN_BOUND, MISMATCH, NOT_RECOMPUTABLE = (
    "exact",
    "explained",
    "within-bound",
    "mismatch",
    "not-recomputable",
)
SEVERITY = (EXACT, EXPLAINED, WITHIN_BOUND, NOT_RECOMPUTABLE, MISMATCH)
"""Mildest first: what is certain to be wrong outweighs what could not be looked at."""

NOT_COMPARABLE, ZERO_SIGN, NAN_BITS = "not-comparable", "zero-sign", "nan-bits"
"""Elements that say nothing: NaN under MIN and MAX, zeros of both signs there, bits of a NaN."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Something of one rank without which nothing can be recomputed."""

    rank: int | None
    """``None`` where it is missing of the whole call."""
    what: str
    """``input``, ``output``, ``call``, ``root``, ``reduce-op``, …"""
    reason: str

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {"rank": self.rank, "what": self.what, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Difference:
    """How recorded and recomputed elements of one output differ."""

    rank: int
    tensor: int
    """Which of the outputs of the call, from 0."""
    first_index: int | None
    """First element that differs; ``None`` where only digests could be compared."""
    count: int
    largest_error: float | None
    """Largest absolute difference from the sum in higher precision; ``None`` where it is no number."""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        error = self.largest_error
        return {
            "rank": self.rank,
            "tensor": self.tensor,
            "first_index": self.first_index,
            "count": self.count,
            "largest_error": error if error is None or math.isfinite(error) else str(error),
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """What recomputing says of one collective."""

    name: str
    """``exact``, ``explained``, ``within-bound``, ``mismatch`` or ``not-recomputable``."""
    order: str | None = None
    """``gloo-ring``, ``rank-order``, ``tree``, ``order-free`` or ``copy``; of ``explained`` how it came about."""
    compared_chunks: int = 0
    chunks: int = 0
    """Of 1 MiB, over the outputs of all ranks."""
    differences: tuple[Difference, ...] = ()
    """One an output that differs from the order that comes nearest."""
    minority: tuple[int, ...] = ()
    """Ranks whose output differs from that of the majority, where all should be equal and there is a majority."""
    missing: tuple[Missing, ...] = ()
    silent: Mapping[str, int] = field(default_factory=dict)
    """How many elements say nothing, by reason."""

    @property
    def is_whole(self) -> bool:
        """Whether every chunk of every output was compared."""
        return self.compared_chunks == self.chunks

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "verdict": self.name,
            "order": self.order,
            "compared_chunks": self.compared_chunks,
            "chunks": self.chunks,
            "differences": [one.to_dict() for one in self.differences],
            "minority": list(self.minority),
            "missing": [one.to_dict() for one in self.missing],
            "silent": dict(self.silent),
        }
