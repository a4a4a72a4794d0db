"""Files that appear whole or not at all, with their mode from the start."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path


def write(path: Path, data: bytes, mode: int) -> None:
    """Give a file its new content at once: whoever reads, before or after a crash, finds the old or the new.

    Raises:
        OSError: It cannot be written; the old content stays, and nothing beside it.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    flush_directory(path.parent)


def flush_directory(directory: Path) -> None:
    """Make renames last; some file systems cannot, and then they are there all the same."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
