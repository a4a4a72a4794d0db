"""Faults of the recorder: caught, counted, logged five times, written down, and when they do not end, fewer calls."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from provstore.capture.fail_open import tried

Result = TypeVar("Result")

MOST_IN_A_ROW = 20
_MOST_LOGGED = 5
_MOST_CHARACTERS = 300

_log = logging.getLogger("provstore.capture")


class Guard:
    """Runs what must not reach training.

    Args:
        write: Gets (place, error, how often it was seen) of a fault; may fail itself.
    """

    def __init__(self, write: Callable[[str, str, int], None]) -> None:
        self._write = write
        self._in_a_row: Counter[str] = Counter()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._logged = 0
        self._lock = threading.Lock()
        self.identity_only = False
        """Twenty faults in a row at one place: until the next epoch calls are recorded without their content."""
        self.is_off = False
        """A forked child: it records nothing."""
        self.took: Callable[[int], object] = _forgotten
        """Is told the processor time of what torch calls by itself, in nanoseconds."""

    def run(self, where: str, action: Callable[..., Result], *arguments: Any) -> Result | None:
        """Return what ``action`` gives, or ``None`` when it fails."""
        if self.is_off:
            return None
        try:
            result = action(*arguments)
        except Exception as error:  # noqa: BLE001  training is sacred: whatever is thrown stays here
            self.note(where, f"{type(error).__name__}: {error}")
            return None
        if self._in_a_row:
            self._in_a_row.pop(where, None)
        return result

    def hook(self, action: Callable[..., object], *arguments: Any) -> None:
        """Run an action that is known by its own name; several times at every call, so nothing else is done here."""
        if self.is_off:
            return
        try:
            action(*arguments)
        except Exception as error:  # noqa: BLE001  training is sacred: whatever is thrown stays here
            self.note(_name(action), f"{type(error).__name__}: {error}")
        else:
            if self._in_a_row:
                self._in_a_row.pop(_name(action), None)

    def called(self, action: Callable[..., object], *arguments: Any) -> None:
        """Run what torch calls by itself, and have all that it takes in this thread counted."""
        if self.is_off:
            return
        began = time.thread_time_ns()
        self.hook(action, *arguments)
        self.hook(self.took, time.thread_time_ns() - began)

    def note(self, where: str, fault: str, *, is_own: bool = True) -> None:
        """Count a fault, and say it where that is due; one that is not the recorder's own switches nothing off."""
        error = fault[:_MOST_CHARACTERS]
        with self._lock:
            self._in_a_row[where] += is_own
            if self._in_a_row[where] >= MOST_IN_A_ROW:
                self.identity_only = True
            self._counts[where, error] += 1
            count = self._counts[where, error]
            is_logged = self._logged < _MOST_LOGGED
            self._logged += is_logged
        if is_logged:
            _log.warning("recording: %s: %s", where, error)
        # Each of the first five, then ever fewer: a fault at every call must not fill the file.
        if count <= _MOST_LOGGED or count & (count - 1) == 0:
            tried(self._write, where, error, count)

    def begin_epoch(self) -> None:
        """Try again with everything."""
        with self._lock:
            self.identity_only = False
            self._in_a_row.clear()


def _forgotten(nanoseconds: int) -> None:
    """Count nothing."""


def _name(action: Callable[..., object]) -> str:
    return getattr(action, "__qualname__", "hook")
