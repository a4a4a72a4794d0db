"""Calls whose future somebody has asked for: who waits for that goes on while others are being told of the call's end.

A future wakes who waits for it before it runs what was hung on it. So outputs that are read there may be overwritten at
that time, and a tensor counts a write only when it is over, or never where it passes through another library's view of
the same memory. Who waits for the call itself goes on later.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

from provstore.capture.fail_open import tried
from provstore.capture.live_calls import LiveCall
from provstore.capture.wrapping import Wrapping


class AskedFutures:
    """Sees who asks calls for their futures, through Python."""

    def __init__(self, torch: Any) -> None:
        self._watched: weakref.WeakKeyDictionary[Any, LiveCall] = weakref.WeakKeyDictionary()
        self.methods = Wrapping(torch.distributed.Work, {"get_future": self._around})

    def future_of(self, work: Any, call: LiveCall) -> Any | None:
        """Return the future of a call, ``None`` where it has none, and see who asks for it from now on."""
        future, _ = tried(work.get_future)
        if future is not None:
            self._watched[work] = call
        return future

    def _around(self, original: Any) -> Any:
        @functools.wraps(original)
        def get_future(work: Any) -> Any:
            call, _ = tried(self._watched.get, work)
            if call is not None:
                call.is_asked_for_future = True
            return original(work)

        return get_future
