"""Anchors of one rank: what a re-run must reach again at each step."""

from __future__ import annotations

import hashlib
import threading


class OrderAnchor:
    """Running SHA-256 over ``op NUL group NUL seq LF`` of every call of an epoch, in program order.

    Numbers count from the group's first collective, or first send or receive, of the epoch: a re-run that begins at a
    later epoch counts from 0 again.
    """

    def __init__(self) -> None:
        self._state = hashlib.sha256()
        self._firsts: dict[tuple[str, bool], int] = {}
        self._lock = threading.Lock()

    def begin_epoch(self) -> None:
        """Begin anew."""
        with self._lock:
            self._state, self._firsts = hashlib.sha256(), {}

    def add(self, op: str, group: str, number: int | None, *, is_point_to_point: bool = False) -> None:
        """Take in one call."""
        with self._lock:
            place = "" if number is None else str(number - self._firsts.setdefault((group, is_point_to_point), number))
            self._state.update(f"{op}\0{group}\0{place}\n".encode())

    def digest(self) -> str:
        """Return the digest of all calls so far."""
        with self._lock:
            return f"sha256:{self._state.hexdigest()}"


class DataCursor:
    """How far this rank came in its data: batches since the epoch began."""

    def __init__(self) -> None:
        self.batches = 0

    def begin_epoch(self) -> None:
        """Count from 0 again."""
        self.batches = 0
