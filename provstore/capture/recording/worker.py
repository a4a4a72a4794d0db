"""The thread that hashes: what takes time and needs no order among calls is done beside training, not in it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from provstore.capture.recording.guard import Guard

_LOOK_SECONDS = 0.5
_MOST_WAITING = 10_000

Job = Callable[[], None]


class Worker:
    """Does jobs in the order in which they come, one at a time.

    Args:
        guard: Runs each job.
        flush: Called after jobs, and twice a second without any.
    """

    def __init__(self, guard: Guard, flush: Callable[[], None]) -> None:
        self._guard = guard
        self._flush = flush
        self._jobs: queue.Queue[Job | None] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._work, name="provstore-recording", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def do(self, job: Job) -> None:
        """Have a job done.

        Raises:
            queue.Full: Too much is waiting.
        """
        self._jobs.put_nowait(job)

    def close(self, seconds: float) -> None:
        """Do what is waiting, for so long at most, and end."""
        if not self._thread.is_alive() or threading.current_thread() is self._thread:
            return
        self._jobs.put(None, timeout=seconds)
        self._thread.join(seconds)

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                self._guard.hook(self._flush)
                continue
            if job is None:
                return
            self._guard.hook(job)
            if self._jobs.empty():
                self._guard.hook(self._flush)
