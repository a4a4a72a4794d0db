"""Files that appear whole or not at all, with their mode from the start: the one place where they are written."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

_CLOSED = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def write(path: Path, data: bytes, mode: int | None) -> None:
    """Give a file its new content at once: whoever reads, before or after a crash, finds the old or the new.

    Of two threads or processes that write one name at once, the last whole file stays.

    Args:
        path: The file; a link in its place is replaced, not followed.
        data: Its content.
        mode: Its mode; what the user's mask leaves of 0666 when None.

    Raises:
        OSError: It cannot be written; the old content stays, and nothing beside it.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = _new(temporary, mode)
    try:
        _fill(descriptor, data, mode)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    flush_directory(path.parent)


def create(path: Path, data: bytes, mode: int) -> None:
    """Write a file where there is none; what is there is never replaced.

    Raises:
        FileExistsError: Something is there.
        OSError: It cannot be written; nothing of it stays.
        ValueError: Its name holds a NUL.
    """
    descriptor = _new(path, mode)
    try:
        _fill(descriptor, data, mode)
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
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


def _new(path: Path, mode: int | None) -> int:
    # Until its own mode is set, nobody else can open it.
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _CLOSED, 0o666 if mode is None else 0o600)


def _fill(descriptor: int, data: bytes, mode: int | None) -> None:
    with os.fdopen(descriptor, "wb") as file:
        if mode is not None and hasattr(os, "fchmod"):
            os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
