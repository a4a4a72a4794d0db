"""One writer a directory: a kernel lock that ends with its process."""

from __future__ import annotations

import os
from pathlib import Path

from provstore.errors import StoreError


class Lock:
    """The right to write into one directory, held until :meth:`release` or the end of the process.

    Args:
        path: Lock file; made if absent, never removed, since removing it would let two holders in.

    Raises:
        StoreError: Another process, or another journal object of this one, holds it; the message names the pid.
    """

    def __init__(self, path: Path) -> None:
        import fcntl

        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._descriptor, 20).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            reason = (
                f"is being written by process {holder}" if holder.isdigit() else "is being written by another process"
            )
            raise StoreError(
                f"journal: {path.parent}: {reason}", hint="wait until it has ended, then try again"
            ) from error
        self.pid = os.getpid()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{self.pid}\n".encode(), 0)

    def release(self) -> None:
        """Give the right back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
