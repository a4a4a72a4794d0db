"""A disk with a memory of what is durable: when the power goes, what was not synced is there in part, in any order.

The files lie in a real folder, which shows what a process would see. Beside it the disk keeps what each file held at
its last sync, what was written since, and which names were made durable. At a power cut each unsynced write is kept,
lost or torn by sectors, independently of the others, and each folder keeps some first part of its unsynced names.
"""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from provstore.journal.disk import Disk

SECTOR_BYTES = 512


class PowerCutError(BaseException):
    """Nothing happens after it."""


@dataclass(slots=True)
class _File:
    """One file: what is durable of it, and what was done since."""

    descriptor: int
    durable: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """(offset, written bytes), or (size, ``None``) for a cut."""


@dataclass(frozen=True, slots=True)
class _Name:
    """A change of a folder: a file appears under a name, and perhaps leaves another."""

    path: Path
    file: int | None
    """``None`` when the name goes."""
    old: Path | None = None


class SimulatedDisk(Disk):
    """One life of the disk under ``root``, from one power cut to the next.

    Args:
        root: Folder whose files are there, durably, at the start.
        chance: Decides what survives.
        ends_after: The power goes before the operation of this number, counted from 0.
        fails_at: Operations that fail, with the error's number.
    """

    def __init__(
        self,
        root: Path,
        chance: random.Random,
        ends_after: int | None = None,
        fails_at: dict[int, int] | None = None,
    ) -> None:
        self.root, self.count = root, 0
        self._chance, self._ends_after, self._fails_at = chance, ends_after, fails_at or {}
        self._files: dict[int, _File] = {}
        self._names: dict[Path, int] = {}
        self._changes: list[_Name] = []
        for path in sorted(root.rglob("*")):
            if path.is_file():
                self._names[path] = self._know(path, path.read_bytes())

    def create(self, path: Path) -> int:
        self._step()
        descriptor = super().create(path)
        self._changes.append(_Name(path, self._keep(descriptor, b"")))
        return descriptor

    def write_once(self, descriptor: int, data: memoryview, offset: int) -> int:
        file = self._files[os.fstat(descriptor).st_ino]
        try:
            self._step()
        except OSError:
            # A failed write may have written some.
            part = bytes(data[: self._chance.randrange(len(data) + 1)])
            file.pending.append((offset, part))
            super().write_once(descriptor, memoryview(part), offset)
            raise
        except PowerCutError:
            file.pending.append((offset, bytes(data)))
            raise
        if len(data) > 1 and self._chance.random() < 0.1:
            data = data[: self._chance.randrange(1, len(data))]
        file.pending.append((offset, bytes(data)))
        return super().write_once(descriptor, data, offset)

    def sync(self, descriptor: int) -> None:
        self._step()
        file = self._files[os.fstat(descriptor).st_ino]
        for change in file.pending:
            file.durable = _changed(file.durable, change)
        file.pending.clear()

    def sync_directory(self, path: Path) -> None:
        self._step()
        now = [change for change in self._changes if change.path.parent == path]
        later = [change for change in self._changes if change.path.parent != path]
        for change in now:
            self._apply(change)
            later = [one for one in later if (one.path, one.file) != (change.old, change.file)]
        self._changes = later

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        self._step()
        self._files[os.fstat(descriptor).st_ino].pending.append((size_bytes, None))
        super().truncate(descriptor, size_bytes)

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        self._changes.append(_Name(new, old.stat().st_ino, old))
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        if path.exists():
            self._step()
            self._changes.append(_Name(path, None))
        super().remove(path)

    def cut_power(self) -> None:
        """Leave in the folder what is there when the machine comes back."""
        mode = self._chance.choice(("nothing", "anything", "anything", "everything"))
        left = Counter(change.path.parent for change in self._changes)
        left = {folder: self._some(mode, count) for folder, count in sorted(left.items())}
        for change in self._changes:
            if left[change.path.parent] > 0:
                self._apply(change)
            left[change.path.parent] -= 1
        contents = {path: self._survivor(self._files[file], mode) for path, file in self._names.items()}
        for path in list(self.root.rglob("*")):
            if path.is_file():
                path.unlink()
        for path, content in contents.items():
            path.write_bytes(content)
        self.end()

    def end(self) -> None:
        """Let go of all files, as the end of a process does."""
        for file in self._files.values():
            os.close(file.descriptor)
        self._files.clear()

    def _some(self, mode: str, count: int) -> int:
        return {"nothing": 0, "everything": count}.get(mode, self._chance.randrange(count + 1))

    def _survivor(self, file: _File, mode: str) -> bytes:
        content = file.durable
        if mode == "nothing":
            return content
        for at, data in file.pending:
            fate = "kept" if mode == "everything" else self._chance.choice(("kept", "lost", "torn"))
            if fate == "lost":
                continue
            if fate == "kept" or data is None:
                content = _changed(content, (at, data))
                continue
            for start in range(0, len(data), SECTOR_BYTES):
                if self._chance.random() < 0.5:
                    content = _changed(content, (at + start, data[start : start + SECTOR_BYTES]))
        return content

    def _apply(self, change: _Name) -> None:
        if change.old is not None:
            self._names.pop(change.old, None)
        if change.file is None:
            self._names.pop(change.path, None)
        else:
            self._names[change.path] = change.file

    def _know(self, path: Path, content: bytes) -> int:
        return self._keep(os.open(path, os.O_RDONLY), content, is_own=True)

    def _keep(self, descriptor: int, content: bytes, *, is_own: bool = False) -> int:
        # While a descriptor is open its file's number is given to no other.
        number = os.fstat(descriptor).st_ino
        self._files[number] = _File(descriptor if is_own else os.dup(descriptor), content)
        return number

    def _step(self) -> None:
        at, self.count = self.count, self.count + 1
        if self._ends_after is not None and at >= self._ends_after:
            raise PowerCutError
        if at in self._fails_at:
            number = self._fails_at[at]
            raise OSError(number, os.strerror(number))


FAILURES = (errno.EIO, errno.ENOSPC)


def _changed(content: bytes, change: tuple[int, bytes | None]) -> bytes:
    at, data = change
    if data is None:
        return content[:at].ljust(at, b"\0")
    return content[:at].ljust(at, b"\0") + data + content[at + len(data) :]
