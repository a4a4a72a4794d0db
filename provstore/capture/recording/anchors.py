"""Anchors of one rank: what a re-run must reach again at each step."""

from __future__ import annotations

import hashlib
import threading

_MOST_WAITING = 4096


class OrderAnchor:
    """Running SHA-256 over ``op NUL group NUL seq LF`` of every call of an epoch, in program order.

    Numbers count from the group's first collective, or first send or receive, of the epoch: a re-run that begins at a
    later epoch counts from 0 again. The broadcasts in which DDP tells its buckets are left out: every process makes
    them once, in its second step, whatever epoch that is in.
    """

    def __init__(self) -> None:
        self._state = hashlib.sha256()
        self._firsts: dict[tuple[str, bool], int] = {}
        self._left_out: dict[tuple[str, bool], int] = {}
        self._waiting: list[str] = []
        """Lines that are not hashed yet: once a step costs less than once a call."""
        self._lock = threading.Lock()

    def begin_epoch(self) -> None:
        """Begin anew."""
        with self._lock:
            self._state, self._firsts, self._left_out, self._waiting = hashlib.sha256(), {}, {}, []

    def add(self, op: str, group: str, number: int | None, *, is_point_to_point: bool = False) -> None:
        """Take in one call."""
        with self._lock:
            place = ""
            if number is not None:
                key = (group, is_point_to_point)
                place = str(number - self._firsts.setdefault(key, number) - self._left_out.get(key, 0))
            self._waiting.append(f"{op}\0{group}\0{place}\n")
            if len(self._waiting) >= _MOST_WAITING:
                self._hash()

    def leave_out(self, group: str, number: int | None) -> None:
        """Number the collectives that come after this one as if it were not there."""
        if number is not None:
            with self._lock:
                key = (group, False)
                self._firsts.setdefault(key, number)
                self._left_out[key] = self._left_out.get(key, 0) + 1

    def digest(self) -> str:
        """Return the digest of all calls so far."""
        with self._lock:
            self._hash()
            return f"sha256:{self._state.hexdigest()}"

    def _hash(self) -> None:
        self._state.update("".join(self._waiting).encode())
        self._waiting.clear()


class DataCursor:
    """How far this rank came in its data: batches since the epoch began."""

    def __init__(self) -> None:
        self.batches = 0

    def begin_epoch(self) -> None:
        """Count from 0 again."""
        self.batches = 0
