"""One rank's file of a capture directory: whole JSON lines, appended; a restart continues in the next file."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

import orjson

SCHEMA = "provstore-capture/1"
_MOST_FILES = 10_000


class CaptureFile:
    """The file that a process writes. A line is in it whole or not at all, unless the process is killed in the middle.

    Raises:
        OSError: The directory cannot be made or written.
    """

    def __init__(self, directory: Path, rank: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.number = 0
        """Restarts before this one that left a file."""
        self.path = directory / f"capture-rank{rank}.jsonl"
        self._descriptor: int | None = self._open(directory, rank)
        self._size = 0
        self._lock = threading.Lock()
        self.lost = 0
        """Lines that did not fit on the disk."""

    def write(self, lines: Iterable[bytes]) -> None:
        """Append lines; where the disk is full they are counted, and later ones are tried again.

        Raises:
            OSError: They were not written.
        """
        taken = [*lines]
        data = b"".join(line + b"\n" for line in taken)
        if not data:
            return
        with self._lock:
            if self._descriptor is None:
                return
            try:
                written = os.write(self._descriptor, data)
                if written != len(data):
                    os.ftruncate(self._descriptor, self._size)
                    raise OSError("the disk is full")
            except OSError:
                self.lost += len(taken)
                raise
            self._size += written

    def close(self) -> None:
        """End writing; a second call does nothing."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def before(self) -> Path | None:
        """Return the file that the process before this one left."""
        if self.number == 0:
            return None
        stem = self.path.name.split(".")[0]
        earlier = f".{self.number - 1}" if self.number > 1 else ""
        return self.path.with_name(f"{stem}{earlier}.jsonl")

    def _open(self, directory: Path, rank: int) -> int:
        while True:
            try:
                return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
            except FileExistsError:
                self.number += 1
                if self.number >= _MOST_FILES:
                    raise
                self.path = directory / f"capture-rank{rank}.{self.number}.jsonl"


def line_of(kind: str, **members: object) -> bytes:
    """Return a line; members that are ``None`` are left out."""
    said = {"t": kind, **{name: value for name, value in members.items() if value is not None}}
    return orjson.dumps(said)
