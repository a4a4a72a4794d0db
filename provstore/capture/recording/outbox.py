"""Lines on their way to the file: in the order of what they tell of, each with its training step once that is known.

Content comes from another thread and the number of a step from its end, so a line waits for both; but not for ever:
what waits long, as in a hang, is written with what is known.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import orjson

from provstore.capture.recording.capture_file import CaptureFile

STEP_WAIT_SECONDS = 2.0
"""A finished line waits so long for the end of its step; the step's own line names the ordinals that belong to it."""
CONTENT_WAIT_SECONDS = 30.0
"""A line waits so long for its content: longer, and the call it tells of may hang."""


FLUSH_SECONDS = 0.05
"""Ends of steps write so often at most: in a loop of short steps, writing would cost more than what is written."""


class Entry:
    """One line that is not complete."""

    __slots__ = ("_unfinished", "begun", "line", "needs_step", "ordinal", "step")

    def __init__(
        self,
        line: dict[str, Any] | None,
        *,
        needs_step: bool = False,
        ordinal: int | None = None,
        unfinished: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        self.line: dict[str, Any] | bytes | None = line
        """``None`` until its content is known; as it is written, but for its step, where :meth:`finish` gave it."""
        self.needs_step = needs_step
        self.step: int | None = None
        self.ordinal = ordinal
        self.begun = time.monotonic()
        self._unfinished = unfinished

    def finish(self, line: dict[str, Any]) -> None:
        """Take the line of a call, and let go of all that it was made from.

        What a line waits with would be looked through by Python's collector of cycles many times before it is written,
        which would take longer than all else that is done for a call.
        """
        self.line = orjson.dumps(line) if line.get("epoch") is not None else line
        self._unfinished = None

    def members(self) -> dict[str, Any] | None:
        """Return what the line says, as far as it is known."""
        return orjson.loads(self.line) if isinstance(self.line, bytes) else self.line

    def take(self, now: float, epoch: int | None, *, is_last: bool) -> bytes | None:
        """Return the line if it is to be written now; ``epoch`` is the one that lines without one belong to."""
        waited = now - self.begun
        if self.line is None:
            if self._unfinished is None or not (is_last or waited > CONTENT_WAIT_SECONDS):
                return None
            self.line, self._unfinished = self._unfinished(), None
        if self.needs_step and self.step is None and not is_last and waited < STEP_WAIT_SECONDS:
            return None
        if isinstance(self.line, bytes):
            return self.line if self.step is None else b'%b,"step":%d}' % (self.line[:-1], self.step)
        if self.line.get("epoch", 0) is None:
            if epoch is None and not is_last and waited < CONTENT_WAIT_SECONDS:
                return None
            self.line["epoch"] = epoch or 0
        if self.step is not None:
            self.line["step"] = self.step
        return orjson.dumps(self.line)


class Outbox:
    """What is to be written, first in, first out."""

    def __init__(self, file: CaptureFile) -> None:
        self._file = file
        # Calls come hundreds of times a step: what one operation of a deque adds or takes needs no lock.
        self._entries: deque[Entry] = deque()
        self._without_step: deque[Entry] = deque()
        self._next_ordinal = 0
        self._step_began_at = 0
        self._flushed_at = 0.0
        self._lock = threading.Lock()
        self.epoch: int | None = None
        """Training epoch of the lines that were added before it was known."""

    def put(self, line: dict[str, Any], *, needs_step: bool = False) -> None:
        """Add a finished line."""
        self.add(Entry(line, needs_step=needs_step))

    def add(self, entry: Entry) -> None:
        """Add a line that may not be finished."""
        if entry.needs_step:
            self._without_step.append(entry)
        self._entries.append(entry)

    def put_like(self, entry: Entry, line: dict[str, Any]) -> None:
        """Add a finished line that belongs to the same step as another, whether that is written already or not."""
        with self._lock:
            if entry.step is not None:
                line["step"] = entry.step
            self.add(Entry(line, needs_step=entry.needs_step and entry.step is None))

    def put_first(self, line: dict[str, Any]) -> None:
        """Add a finished line before those that wait."""
        with self._lock:
            self._entries.appendleft(Entry(line))

    def ordinal(self) -> int:
        """Return the number of the next action of this rank."""
        with self._lock:
            self._next_ordinal += 1
            return self._next_ordinal - 1

    def end_step(self, step: int) -> list[int]:
        """Give the lines since the last step their step; return the first and last ordinal, nothing without actions."""
        with self._lock:
            while self._without_step:
                self._without_step.popleft().step = step
            first, self._step_began_at = self._step_began_at, self._next_ordinal
            return [first, self._step_began_at - 1] if self._step_began_at > first else []

    def end_epoch(self) -> None:
        """Leave the lines since the last step without one: no step of the next epoch is theirs."""
        with self._lock:
            while self._without_step:
                self._without_step.popleft().needs_step = False
            self._step_began_at = self._next_ordinal

    def flush_at_times(self) -> None:
        """Write what is ready, if nothing was for a while.

        Raises:
            OSError: The disk is full; the lines are lost.
        """
        if time.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()

    def flush(self, *, is_last: bool = False) -> None:
        """Write what is ready.

        Raises:
            OSError: The disk is full; the lines are lost.
        """
        now = self._flushed_at = time.monotonic()
        with self._lock:
            ready = []
            while self._entries:
                line = self._entries[0].take(now, self.epoch, is_last=is_last)
                if line is None:
                    break
                self._entries.popleft()
                ready.append(line)
            self._file.write(ready)
