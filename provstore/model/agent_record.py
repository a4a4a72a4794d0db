"""What one file of agent evidence states, as the graph takes it: records and actions, named by their content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StatedAction:
    """One action, at the first record of its chain in this file that tells of it."""

    action_id: str
    body: str
    """SHA-256 of its canonical form."""
    value: Mapping[str, Any]
    alternates: tuple[str, ...] = ()
    """Digests of records of other chains in this file that tell the same action of the same run."""


@dataclass(frozen=True, slots=True)
class StatedRecord:
    """One record of a file."""

    digest: str
    """SHA-256 of its canonical form without signatures: its identity, wherever it is read."""
    kind: str
    """Name of its schema, such as ``aep-record``."""
    value: Mapping[str, Any]
    chain: str | None = None
    """Digest of the first record of its chain; ``None`` where the file does not hold that."""
    before: str | None = None
    """Digest of the record before it."""
    keyids: tuple[str, ...] = ()
    """Keys that its signatures name."""
    actions: tuple[StatedAction, ...] = ()
    """Those that it is the first to tell."""


@dataclass(frozen=True, slots=True)
class StatedFile:
    """A file of agent evidence."""

    sha256: str
    size_bytes: int
    container: str
    """Kind of container, such as ``jsonl``."""
    records: tuple[StatedRecord, ...]
