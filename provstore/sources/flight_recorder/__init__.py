"""PyTorch Flight Recorder dumps (pickle or JSON, every version), their sidecars and tensor records."""

from __future__ import annotations

from provstore.sources.flight_recorder.discovery import recognises
from provstore.sources.flight_recorder.options import Limits, ReadOptions, ReadResult
from provstore.sources.flight_recorder.reader import read_dumps

READER_VERSION = "1"
"""Changes when the same bytes give other facts."""

__all__ = ["READER_VERSION", "Limits", "ReadOptions", "ReadResult", "read_dumps", "recognises"]
