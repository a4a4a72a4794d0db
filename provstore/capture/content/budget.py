"""Budget of one rank: what may still be recorded in this step, and the reason where it may not.

Limits in bytes are never exceeded. Own time is granted by prediction: what a step took too much is taken off the next.
It is time of the processor: what other processes take from this one, and the wait for a disk, is no work of recording.
A rank over its limit doubles the distance between the calls that it selects, and halves it again when idle.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from provstore.capture.content.cost import Cost
from provstore.capture.content.limits import Limits
from provstore.capture.content.own_time import (
    CALL_FLAG,
    CLONE,
    CLONES,
    DEVICE_CLONE,
    DIGEST,
    FLAG,
    FLAGS,
    RING_CLONE,
    SNAPSHOT,
    STATISTICS,
    OwnTime,
)
from provstore.model.recording import BYTE_BUDGET, CLONE_BUDGET, DISK_RESERVE, TIME_BUDGET

__all__ = [
    "CALL_FLAG", "CLONE", "DEVICE_CLONE", "DIGEST", "FLAG", "RING_CLONE", "SNAPSHOT", "STATISTICS", "Budget", "Grant",
]  # fmt: skip

MOST_DOUBLINGS = 32
_SELECTED = FLAGS | {DIGEST, STATISTICS}
"""What a coarser selection leaves more time for."""
_SMALL_BYTES = 1 << 14
"""A flag of so many bytes takes less than what seeing the call does."""
_IDLE_STEPS = 8
"""So many steps in a row, with half of the limits left, make the selection finer."""

DiskUse = Callable[[], tuple[int, int]]
"""Gives (size, free) of the disk, in bytes."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer to one question; work without a reason against it may be done, and is then settled or dropped."""

    work: str
    size_bytes: int
    predicted_ns: int
    reason: str | None = None
    """One of ``model.recording.SHORTFALLS``, or ``None``: it may be done."""


@dataclass(slots=True)
class _Bytes:
    """What was taken, by what it is counted for."""

    digest_step: int = 0
    clones: int = 0
    ring: int = 0
    snapshot_step: int = 0
    snapshot_epoch: int = 0
    snapshot_run: int = 0


class Budget:
    """Answers what may be recorded; safe in several threads.

    Args:
        limits: What may be spent.
        directory: Where files go.
        snapshot_bytes: What earlier processes of the run have stored there.
        clock_ns: Gives a time that only grows, for the length of steps.
        work_ns: Gives what the calling thread has had of the processor.
        disk: Gives size and free bytes of the disk; default asks for that of the directory.
    """

    def __init__(
        self,
        limits: Limits,
        directory: str | os.PathLike[str],
        *,
        snapshot_bytes: int = 0,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
        work_ns: Callable[[], int] = time.thread_time_ns,
        disk: DiskUse | None = None,
    ) -> None:
        self._limits = limits
        self._clock_ns = clock_ns
        self._work_ns = work_ns
        self._disk = disk or (lambda: _disk_of(Path(directory)))
        self._lock = threading.Lock()
        self._here = threading.local()
        self._time = OwnTime()
        self._bytes = _Bytes(snapshot_run=snapshot_bytes)
        self._doublings = {False: 0, True: 0}
        self._refused: str | None = None
        self._coarser_for: str | None = None
        self._idle_steps = 0
        self._is_escalated = False
        self._step_began_ns: int | None = None
        self.cost = Cost()
        """What recording took in all, whatever it was allowed."""

    @property
    def k(self) -> int:
        """How many times the selection is halved: one call in 2^k is selected."""
        return self._doublings[self._is_escalated]

    @property
    def reason_unselected(self) -> str | None:
        """The limit for which the selection was made coarser; ``None`` while everything is selected."""
        return self._coarser_for if self.k else None

    def ask(self, work: str, size_bytes: int) -> Grant:
        """Return whether a piece of work on so many bytes may be done now; what it takes is reserved if it may.

        Args:
            work: ``CALL_FLAG``, ``FLAG``, ``DIGEST``, ``STATISTICS``, ``CLONE``, ``DEVICE_CLONE``, ``RING_CLONE`` or
                ``SNAPSHOT``; bytes of a ``RING_CLONE`` are counted by :meth:`take_ring`.
            size_bytes: Bytes that are read or copied; of a snapshot those that are stored, of one tensor; of a flag
                that a device finds, none.
        """
        with self._lock:
            predicted_ns = self._time.predicted_ns(work, size_bytes)
            reason = self._reason(work, size_bytes, predicted_ns)
            if reason is None:
                self._time.promised_ns += predicted_ns
                self._count(work, size_bytes)
            elif work in _SELECTED and reason in {BYTE_BUDGET, TIME_BUDGET}:
                self._refused = reason
            return Grant(work, size_bytes, predicted_ns, reason)

    def takes_at_once(self, size_bytes: int) -> bool:
        """Return whether a flag of a tensor of the host is so small that it is found without being asked for.

        Asking for it and measuring it would take longer than finding it; what it takes counts as time of the hook.
        """
        return size_bytes <= _SMALL_BYTES and self._share > 0

    def is_out_of_time(self) -> bool:
        """Return whether nothing more that is chosen can be done in this step, whatever it is.

        A coarser selection leaves more time only where something that was selected has taken of it.
        """
        if not self._time.is_used_up(self._share):
            return False
        if self._time.chosen_ns:
            self._refused = TIME_BUDGET
        return True

    def can_hold(self, size_bytes: int) -> bool:
        """Return whether the ring may take a copy of so many bytes now."""
        return self._time.can_hold(size_bytes, self._share)

    def never(self, pieces: Sequence[tuple[str, int]]) -> str | None:
        """Return why work of one call, (kind, bytes) each, fits into no step at all; ``None``: it may fit into one.

        A coarser selection would leave out other calls for it, and it would not fit all the same.
        """
        with self._lock:
            if sum(size for work, size in pieces if work == DIGEST) > self._limits.digest_bytes_step:
                return BYTE_BUDGET
            needed_ns = sum(self._time.predicted_ns(work, size) for work, size in pieces)
            return None if self._time.can_fit(needed_ns, self._share) else TIME_BUDGET

    def working(self, grant: Grant) -> _Working:
        """Measure granted work of this thread and settle it, whatever becomes of it: a context manager."""
        return _Working(self, grant)

    def begin(self) -> int:
        """Return when work of this thread begins, for :meth:`end`."""
        return self._work_ns()

    def end(self, grant: Grant, began_ns: int) -> None:
        """Settle granted work of this thread that began then."""
        took_ns = self._work_ns() - began_ns
        self._here.settled_ns = getattr(self._here, "settled_ns", 0) + took_ns
        self.settle(grant, took_ns)

    def settled_here(self) -> int:
        """Return how long granted work took in this thread since this was last asked."""
        took_ns, self._here.settled_ns = getattr(self._here, "settled_ns", 0), 0
        return took_ns

    def settle(self, grant: Grant, took_ns: int) -> None:
        """Take in how long granted work took."""
        with self._lock:
            self._time.promised_ns -= grant.predicted_ns
            self._time.took(grant.work, grant.size_bytes, took_ns)

    def drop(self, grant: Grant) -> None:
        """Give back what was granted for work that is not done, or whose bytes were not stored."""
        if grant.reason is None:
            with self._lock:
                self._time.promised_ns -= grant.predicted_ns
                self._count(grant.work, -grant.size_bytes)

    def release_clone(self, size_bytes: int) -> None:
        """Take in that copies of so many bytes are gone."""
        with self._lock:
            self._bytes.clones -= size_bytes

    def own_time(self, took_ns: int, *, is_chosen: bool = False) -> None:
        """Take in time that recording spent on nothing that is asked for, such as the hooks themselves.

        Args:
            took_ns: That time.
            is_chosen: It comes with granted work, and is less where less is granted.
        """
        with self._lock:
            (self._time.followed if is_chosen else self._time.hooks_took)(took_ns)

    def took_here(self, took_ns: int, is_chosen: bool = False) -> None:
        """Take in what a hook took in this thread, less the granted work that was settled in it."""
        beside_ns = took_ns - self.settled_here()
        if beside_ns > 0:
            self.own_time(beside_ns, is_chosen=is_chosen)

    def take_ring(self, size_bytes: int) -> str | None:
        """Return why the ring of recent steps may not hold so many bytes more, or ``None``: they are counted."""
        with self._lock:
            if self._bytes.ring + size_bytes > self._limits.ring_bytes:
                return BYTE_BUDGET
            self._bytes.ring += size_bytes
            return None

    def release_ring(self, size_bytes: int) -> None:
        """Take in that the ring holds so many bytes less."""
        with self._lock:
            self._bytes.ring -= size_bytes

    @property
    def can_be_late(self) -> bool:
        """Whether what the ring holds may be written at all: neither digests nor escalated recording are off."""
        return self._limits.digest_bytes_step > 0 and self._limits.escalated_share > 0

    def snapshot_room(self) -> tuple[int, str]:
        """Return how many bytes of one tensor may be stored now, and the reason where they are too few."""
        with self._lock:
            return self._snapshot_room()

    def snapshot_rest(self) -> int:
        """Return how many bytes of all tensors of a call may be stored now."""
        with self._lock:
            return max(0, min(self._snapshot_rest(), self.disk_room()))

    def disk_room(self) -> int:
        """Return how many bytes may be written before the reserve of the disk is touched; 0 where nobody can tell."""
        try:
            size, free = self._disk()
        except OSError:
            return 0
        return max(0, free - self._limits.reserve(size))

    def escalate(self, is_escalated: bool) -> None:
        """Take in whether a scope of this rank is escalated, from now on."""
        with self._lock:
            self._is_escalated = is_escalated

    def begin_epoch(self) -> None:
        """Fill what is counted for an epoch."""
        with self._lock:
            self._bytes.snapshot_epoch = 0

    def step(self) -> None:
        """End a step: judge it, make the selection coarser or finer, and fill what is counted for a step."""
        with self._lock:
            self._judge()
            now_ns = self._clock_ns()
            length_ns = None if self._step_began_ns is None else now_ns - self._step_began_ns
            self._step_began_ns = now_ns
            self.cost.end_step(self._time.spent_ns, is_counted=not self._is_escalated)
            self._time.end_step(length_ns, self._share)
            self._bytes.digest_step = self._bytes.snapshot_step = 0
            self._refused = None

    @property
    def _share(self) -> float:
        return self._limits.escalated_share if self._is_escalated else self._limits.steady_share

    def _judge(self) -> None:
        over = TIME_BUDGET if self._time.is_over(self._share) else self._refused
        if over is not None:
            self._idle_steps, self._coarser_for = 0, over
            self._doublings[self._is_escalated] = min(MOST_DOUBLINGS, self.k + 1)
            return
        has_bytes = self._bytes.digest_step * 2 <= self._limits.digest_bytes_step
        self._idle_steps = self._idle_steps + 1 if has_bytes and self._time.is_idle(self._share) else 0
        if self._idle_steps >= _IDLE_STEPS and self.k:
            self._idle_steps = 0
            self._doublings[self._is_escalated] -= 1

    def _reason(self, work: str, size_bytes: int, predicted_ns: int) -> str | None:
        if work in CLONES and self._bytes.clones + size_bytes > self._limits.clone_bytes:
            return CLONE_BUDGET
        if work == DIGEST and self._bytes.digest_step + size_bytes > self._limits.digest_bytes_step:
            return BYTE_BUDGET
        if work == SNAPSHOT:
            room, reason = self._snapshot_room()
            if size_bytes > room:
                return reason
        return None if self._time.fits(work, predicted_ns, self._share) else TIME_BUDGET

    def _snapshot_room(self) -> tuple[int, str]:
        by_bytes, by_disk = min(self._limits.snapshot_bytes_tensor, self._snapshot_rest()), self.disk_room()
        return (by_disk, DISK_RESERVE) if by_disk < by_bytes else (max(0, by_bytes), BYTE_BUDGET)

    def _snapshot_rest(self) -> int:
        limits, taken = self._limits, self._bytes
        return min(
            limits.snapshot_bytes_step - taken.snapshot_step,
            limits.snapshot_bytes_epoch - taken.snapshot_epoch,
            limits.snapshot_bytes_run - taken.snapshot_run,
        )

    def _count(self, work: str, size_bytes: int) -> None:
        if work == DIGEST:
            self._bytes.digest_step = max(0, self._bytes.digest_step + size_bytes)
        elif work in CLONES:
            self._bytes.clones += size_bytes
        elif work == SNAPSHOT:
            self._bytes.snapshot_step = max(0, self._bytes.snapshot_step + size_bytes)
            self._bytes.snapshot_epoch = max(0, self._bytes.snapshot_epoch + size_bytes)
            self._bytes.snapshot_run += size_bytes


class _Working:
    """Granted work that is under way; made several times at every call, so no generator."""

    __slots__ = ("_began_ns", "_budget", "_grant")

    def __init__(self, budget: Budget, grant: Grant) -> None:
        self._budget, self._grant, self._began_ns = budget, grant, 0

    def __enter__(self) -> None:
        self._began_ns = self._budget.begin()

    def __exit__(self, *_: object) -> None:
        self._budget.end(self._grant, self._began_ns)


def _disk_of(directory: Path) -> tuple[int, int]:
    found = shutil.disk_usage(directory)
    return found.total, found.free
