"""The trust file of a verifier: read, checked against what was seen before, and changed only as its root keys allow."""

from __future__ import annotations

from pathlib import Path

from provstore.evidence.trust_keys import Revocation, Trust, TrustedKey

__all__ = ["Revocation", "Trust", "TrustedKey", "load", "require_outside"]


def load(path: Path, *, pin: str | None = None, first_use: bool = False, at: str | None = None) -> Trust:
    """Return the trust that a file states."""
    raise NotImplementedError


def require_outside(path: Path, store_directory: Path) -> None:
    """Return if a trust file lies outside the store that it judges."""
    raise NotImplementedError
