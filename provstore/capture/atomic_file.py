"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or a killed process, never leaves a part of it under its name.

    The bytes go to a temporary name that holds process and thread, reach the disk, and are renamed. Of two threads that
    write one name at once, the last whole file stays.

    Raises:
        OSError: The directory is not writable, or the disk is full; the temporary file is gone then.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _flush_directory(path.parent)


def _flush_directory(directory: Path) -> None:
    """Make the rename last; some file systems cannot, and then the file is there all the same."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
