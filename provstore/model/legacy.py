"""Actions of a training epoch as a recorder of another project wrote them: claims, not what is recorded here."""

from __future__ import annotations

from dataclasses import dataclass

DIGEST_KIND = "legacy-f32-4k-16hex"
"""Scheme of its digests: the first 4,096 bytes of a float32 copy, without type and shape, cut to 16 hex digits."""


@dataclass(frozen=True, slots=True)
class LegacyAction:
    """One action as the file claims it."""

    action_id: str
    ordinal: int
    """Which of the actions with this id in the file, from 0."""
    rank: int
    seq: int
    """What the format calls ``step``."""
    op: str
    claimed_mode: str
    digest_in: str | None
    digest_out: str | None
    statistics: str | None
    """JSON text of its ``delta_stats``."""
    timestamp_ns: int
    chain: str | None
    parent_action_id: str | None
    digest: str
    """SHA-256 of what is stated, equal for JSON and CBOR."""


@dataclass(frozen=True, slots=True)
class LegacyEpoch:
    """One file."""

    run: str
    epoch: int
    form: str
    """``json`` or ``cbor``."""
    sha256: str
    size_bytes: int
    is_signed: bool
    actions: tuple[LegacyAction, ...]
    warnings: tuple[str, ...] = ()
