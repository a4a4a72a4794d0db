"""What is stored of an epoch, as a restore plan needs it: rows of the bundle's tables, and which blobs are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PRESENT, MISSING, MISMATCH = "present", "missing", "mismatch"

Row = Mapping[str, Any]
Held = Callable[[str, int], str]
"""Gives for SHA-256 and size of a blob whether its bytes are ``present``, ``missing`` or a ``mismatch``."""


@dataclass(frozen=True, slots=True)
class EpochFacts:
    """One epoch of one attempt."""

    run: str
    attempt: int
    epoch: int
    bundles: tuple[str, ...]
    """Digests of the bundle and of its further parts, 64 hex digits."""
    is_closed: bool
    steps: tuple[int, int] | None
    """First and last training step."""
    world_size: int | None
    ranks: tuple[int, ...]
    """Ranks that were recorded."""
    missing_ranks: tuple[int, ...] = ()
    environment: str | None = None
    is_first: bool = False
    """No earlier epoch of the run is stored, and it begins with step 0."""
    headers: Sequence[Row] = ()
    data: Sequence[Row] = ()
    samplers: Sequence[Row] = ()
    rng: Sequence[Row] = ()
    anchors: Sequence[Row] = ()
    checkpoints: Sequence[Row] = ()
    """Of this epoch and of all before it."""
    earlier_rng: Sequence[Row] = field(default=())
    """Of all epochs before it."""
    unread: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Role of a table that cannot be read in whole → ``missing`` or ``mismatch``, and why in words."""
