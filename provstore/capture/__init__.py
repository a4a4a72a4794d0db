"""Live PyTorch → files: what a training job calls to leave its Flight Recorder dumps, and a record of what it did.

The only room that imports torch, and only when one of its functions is called. Nothing here raises into training:
what fails becomes a line in the sidecar and in the log of ``provstore.capture``. The one exception is a missing torch,
which is the caller's mistake and a ``ConfigError``.
"""

from __future__ import annotations

from provstore.capture.recorder import Recorder, evidence
from provstore.capture.snapshot import DumpReport, dump
from provstore.capture.watcher import Watcher, watch

__all__ = ["DumpReport", "Recorder", "Watcher", "dump", "evidence", "watch"]
