"""A directory that appears whole or not at all, whatever ends the process that writes it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from provstore.errors import ConfigError, StoreError
from provstore.evidence import whole_files

_PARTIAL, _OLD = ".partial", ".old"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Files:
    """The directory while it is being filled; its names are ours, never those of a run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.names: list[str] = []
        self.size_bytes = 0

    def write(self, name: str, data: bytes) -> None:
        """Write one file; it is on the disk when this returns."""
        with self.open(name) as file:
            file.write(data)

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """Give a file to write into; it is on the disk when the block ends."""
        with (self.directory / name).open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            self.size_bytes += file.tell()
        self.names.append(name)


@contextlib.contextmanager
def whole(target: Path, marker: str, *, overwrite: bool) -> Iterator[Files]:
    """Give a directory to fill beside ``target``, and put it in place when the block ends without an error.

    What a killed process left beside ``target`` is removed first.

    Args:
        target: Absent, an empty directory, or with ``overwrite`` one that holds ``marker``.
        marker: Name of a file that shows that a directory was written by us, so that it may be replaced.
        overwrite: Replace what is there.

    Raises:
        ConfigError: ``target`` holds something that may not be replaced, or lies in no directory.
        StoreError: It cannot be written; nothing of it is left then.
    """
    target = Path(os.path.abspath(target))  # noqa: PTH100 - Path.resolve would follow a link and replace its target
    if not target.parent.is_dir():
        raise ConfigError(f"{target}: export: {target.parent} is no directory")
    _remove_leftovers(target)
    _require_replaceable(target, marker, overwrite=overwrite)
    try:
        with _staging(target) as staging:
            yield Files(staging)
            whole_files.flush_directory(staging)
            _swap(staging, target)
            whole_files.flush_directory(target.parent)
    except OSError as error:
        full = "disk full: " if error.errno in _FULL else ""
        raise StoreError(f"{target}: export: {full}{error.strerror}") from error


@contextlib.contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """Give a locked directory beside ``target``, which is gone afterwards unless it was moved."""
    staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=_PARTIAL, dir=target.parent))
    try:
        with _held(staging):
            staging.chmod(0o755)
            yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _require_replaceable(target: Path, marker: str, *, overwrite: bool) -> None:
    if not os.path.lexists(target):
        return
    if target.is_symlink() or not target.is_dir():
        raise ConfigError(f"{target}: export: there is something that is no directory")
    if not any(target.iterdir()):
        return
    if not (target / marker).is_file():
        raise ConfigError(f"{target}: export: the directory holds other things than an export; name a new one")
    if not overwrite:
        raise ConfigError(f"{target}: export: there is an export already", hint="--overwrite replaces it")


def _swap(staging: Path, target: Path) -> None:
    """Put ``staging`` in place; between two renames the old directory stands under another name, whole."""
    if not target.is_dir() or not any(target.iterdir()):
        staging.rename(target)
        return
    old = staging.with_suffix(_OLD)
    target.rename(old)
    staging.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _remove_leftovers(target: Path) -> None:
    """Remove what exports to ``target`` left that were killed; one that is still running holds a lock."""
    for found in target.parent.glob(f".{_escaped(target.name)}.*"):
        if found.suffix == _OLD and not target.exists() and found.is_dir():
            found.rename(target)  # killed between two renames: the old export comes back
        elif found.suffix in {_PARTIAL, _OLD} and found.is_dir() and not found.is_symlink():
            with contextlib.suppress(OSError), _held(found):
                shutil.rmtree(found, ignore_errors=True)


def _escaped(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


@contextlib.contextmanager
def _held(directory: Path) -> Iterator[None]:
    """Hold a kernel lock on a directory, which ends with the process; OSError when another one holds it."""
    import fcntl

    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
