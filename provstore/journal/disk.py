"""Every call that changes files of a journal, in one replaceable place, so that tests can let any of them fail."""

from __future__ import annotations

import errno
import os
from pathlib import Path


class Disk:
    """The real disk."""

    def create(self, path: Path) -> int:
        """Return a descriptor of a new, empty file; an existing one is an error."""
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)

    def open(self, path: Path) -> int:
        """Return a descriptor for writing into an existing file."""
        return os.open(path, os.O_RDWR)

    def write_at(self, descriptor: int, data: bytes | memoryview, offset: int) -> None:
        """Write all of ``data``, or raise ``OSError``; a disk that takes no more bytes counts as full."""
        view = memoryview(data)
        while view:
            written = self.write_once(descriptor, view, offset)
            if written <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            view = view[written:]
            offset += written

    def write_once(self, descriptor: int, data: memoryview, offset: int) -> int:
        """Write at least the head of ``data``; return the number of bytes written."""
        return os.pwrite(descriptor, data, offset)

    def sync(self, descriptor: int) -> None:
        """Return when the file's content and size are durable."""
        sync = getattr(os, "fdatasync", os.fsync)
        sync(descriptor)

    def sync_directory(self, path: Path) -> None:
        """Return when the names in a directory are durable."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        """Cut the file."""
        os.ftruncate(descriptor, size_bytes)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file its new name at once, replacing what has it."""
        old.replace(new)

    def remove(self, path: Path) -> None:
        """Remove a file, if there is one."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """Make a directory and make its name durable, if it is not there yet."""
        try:
            path.mkdir()
        except FileExistsError:
            return
        self.sync_directory(path.parent)
