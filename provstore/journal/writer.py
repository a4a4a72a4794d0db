"""The writing end: frames go into the active segment, durable before they count, and segments roll."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from provstore.errors import StoreError
from provstore.journal import frames, segments
from provstore.journal.disk import Disk
from provstore.journal.scan import seal_content
from provstore.journal.segments import NO_DIGEST, Entry, Header, Segment
from provstore.model import canonical

ROLL_BYTES = 64 * 1024 * 1024
ROLL_MS = 3_600_000
FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
TEMPORARY = "tmp"


def failure(directory: Path, error: OSError) -> StoreError:
    """Return the error that tells the operator why nothing was written."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in FULL:
        hint = "free some space, then repeat the command; everything acknowledged before is kept"
        return StoreError(f"journal: {directory}: disk full ({reason})", hint=hint)
    return StoreError(f"journal: {directory}: cannot be written: {reason}")


@dataclass(slots=True)
class Active:
    """The segment that grows, and what its seal will say."""

    number: int
    path: Path
    descriptor: int
    end: int
    count: int
    first_jseq: int
    created_ms: int
    digest: hashlib._Hash


class Writer:
    """Appends frames to a journal whose lock the caller holds.

    Args:
        directory: The journal.
        journal_id: Its id.
        disk: How files are changed.
        last_jseq: Highest number in use.
        last: The segment to go on with, or to follow; ``None`` in a new journal.
        is_closed: True when ``last`` must not be written to any more.
        clock_ms: Wall clock in milliseconds.
    """

    def __init__(
        self,
        directory: Path,
        journal_id: str,
        disk: Disk,
        last_jseq: int = 0,
        last: Segment | None = None,
        *,
        is_closed: bool = False,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.directory, self.journal_id, self.last_jseq = directory, journal_id, last_jseq
        self._disk, self._clock_ms = disk, clock_ms
        self._active: Active | None = None
        self._suspect: str | None = None
        self._is_usable = True
        self._number = last.number if last else 0
        self._prev, self._prev_size = (last.digest, last.size) if last else (NO_DIGEST, 0)
        if last is not None and last.header is not None and not is_closed:
            self._active = self._resume(last, last.header)

    def append(self, kind: int, payload: bytes) -> Entry:
        """Return the place of a frame that is durable now.

        Raises:
            StoreError: It could not be made durable; it does not count, and everything before it does.
        """
        if not self._is_usable:
            raise StoreError(f"journal: {self.directory}: a write was interrupted; open the journal again")
        self._is_usable, active = False, self._active
        try:
            if active is not None and (self._suspect or self._is_due(active, len(payload))):
                self._close(active)
                active = None
            if active is None:
                active = self._begin()
            entry = self._put(active, kind, payload)
        except OSError as error:
            self._is_usable = True
            raise failure(self.directory, error) from error
        self._is_usable = True
        return entry

    def release(self) -> None:
        """Close the file; nothing is written."""
        if self._active is not None:
            os.close(self._active.descriptor)
            self._active = None

    def _put(self, active: Active, kind: int, payload: bytes) -> Entry:
        raw = frames.encode(kind, self.last_jseq + 1, payload, frames.seed(self.journal_id, active.number))
        try:
            self._disk.write_at(active.descriptor, raw, active.end)
            self._sync(active)
        except OSError:
            self._retract(active)
            raise
        entry = Entry(self.last_jseq + 1, kind, active.number, active.end, len(payload))
        active.end += len(raw)
        active.count += 1
        active.digest.update(raw)
        self.last_jseq += 1
        return entry

    def _sync(self, active: Active) -> None:
        try:
            self._disk.sync(active.descriptor)
        except OSError as error:
            # The kernel may have dropped the pages and forgotten the fault: this file is never synced again.
            self._suspect = f"sync failed: {error.strerror or error}"
            raise

    def _retract(self, active: Active) -> None:
        try:
            self._disk.truncate(active.descriptor, active.end)
        except OSError as error:
            self._suspect = self._suspect or f"cut failed: {error.strerror or error}"

    def _is_due(self, active: Active, size_bytes: int) -> bool:
        is_large = active.end + size_bytes + frames.OVERHEAD_BYTES > ROLL_BYTES
        return is_large or self._clock_ms() - active.created_ms >= ROLL_MS

    def _close(self, active: Active) -> None:
        """Seal the active segment, or leave a suspect one as it is, and give it its final name."""
        if self._suspect is None:
            last = self.last_jseq
            said = seal_content(active.count, active.first_jseq, last, active.digest.hexdigest())
            self._put(active, frames.SEAL, canonical.encode(said))
        self._prev, self._prev_size = active.digest.hexdigest(), active.end
        self.release()
        close_name(active.path, active.number, self._prev, self._disk)

    def _begin(self) -> Active:
        """Start the next segment: it appears under its name only when its header is durable."""
        number, now = self._number + 1, self._clock_ms()
        header = Header(self.journal_id, number, self._prev, self._prev_size, now)
        start = frames.seed(self.journal_id, number)
        raw = frames.MAGIC + frames.encode(frames.HEADER, self.last_jseq + 1, header.payload(), start)
        path = self.directory / segments.file_name(number)
        descriptor = place(self._disk, self.directory, path, raw)
        self._number = number
        self.last_jseq += 1
        active = Active(number, path, descriptor, len(raw), 1, self.last_jseq, now, hashlib.sha256(raw))
        self._active = active
        if self._suspect is not None:
            cause, self._suspect = self._suspect, None
            self._put(active, frames.EVENT, event("recovery", cause=cause, segment=number - 1, bytes=self._prev_size))
        return active

    def _resume(self, last: Segment, header: Header) -> Active:
        with last.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        descriptor = self._disk.open(last.path)
        first = last.entries[0].jseq
        count, created = len(last.entries), header.created_ms
        return Active(last.number, last.path, descriptor, last.valid_end, count, first, created, digest)


def event(name: str, **content: int | str | None) -> bytes:
    """Return the payload of an event frame."""
    return canonical.encode({"event": name, **content})


def close_name(path: Path, number: int, digest: str, disk: Disk) -> Path:
    """Give a segment that is written no more the name that carries its digest; return it."""
    closed = path.parent / segments.file_name(number, digest)
    disk.rename(path, closed)
    disk.sync_directory(path.parent)
    return closed


def put(disk: Disk, directory: Path, path: Path, data: bytes | memoryview) -> None:
    """Make a durable file that appears whole or not at all. Raises ``OSError`` as :func:`place` does."""
    os.close(place(disk, directory, path, data))


def place(disk: Disk, directory: Path, path: Path, data: bytes | memoryview) -> int:
    """Make a durable file that appears whole or not at all; return a descriptor for more.

    Raises:
        OSError: Nothing appeared, or what appeared was taken away again.
    """
    temporary = directory / TEMPORARY / path.name
    disk.remove(temporary)
    descriptor = disk.create(temporary)
    try:
        disk.write_at(descriptor, data, 0)
        disk.sync(descriptor)
        reveal(disk, temporary, path)
    except OSError:
        os.close(descriptor)
        disk.remove(temporary)
        raise
    return descriptor


def reveal(disk: Disk, temporary: Path, path: Path) -> None:
    """Give a durable file its final name, durably.

    Raises:
        OSError: The name is not there, or was taken away again.
    """
    disk.rename(temporary, path)
    try:
        disk.sync_directory(path.parent)
    except OSError:
        # Not known to be durable: the file must be made anew, since a second sync would not tell.
        disk.remove(path)
        raise
