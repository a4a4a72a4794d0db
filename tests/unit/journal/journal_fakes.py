"""Blocks to journal, a comparison that tells every bit apart, and a disk that fails on demand."""

from __future__ import annotations

import errno
import os
import struct
from array import array
from collections.abc import Callable
from pathlib import Path

from provstore.journal.disk import Disk
from provstore.model.block import Block, Nodes, Relations


def small(at: int, rows: int = 2) -> Block:
    """Return a block of a few facts that nothing else equals."""
    keys = [f"https://w3id.org/provstore/id/run/0/nccl/1@0-1/{at}/{row}/in" for row in range(rows)]
    nodes = Nodes(("Element", "Entity", "Call"), keys, {"seq": array("q", [at] * rows), "name": [f"n{at}"] * rows})
    return Block("run", 0, (nodes,), (Relations("USED", keys[1:], keys[:-1]),))


def large(at: int, rows: int = 600) -> Block:
    """Return a block of more facts than are kept as lines."""
    return small(at, rows)


def number(block: Block) -> int:
    """Return what :func:`small` or :func:`large` was called with."""
    column = block.nodes[0].columns["seq"]
    return int(column[0])  # type: ignore[arg-type]


def exact(value: object) -> object:
    """Return a form of any value that is equal only for equal types and equal bits."""
    if isinstance(value, float):
        return ("float", struct.pack(">d", value))
    if isinstance(value, array):
        return ("array", value.typecode, value.tobytes())
    if isinstance(value, list | tuple):
        return (type(value).__name__, [exact(item) for item in value])
    if isinstance(value, dict):
        return ("dict", sorted((name, exact(item)) for name, item in value.items()))
    if isinstance(value, Nodes):
        return ("Nodes", value.labels, list(value.keys), exact(dict(value.columns)))
    if isinstance(value, Relations):
        ends = (value.type, value.source_label, value.target_label, list(value.sources), list(value.targets))
        return ("Relations", ends, exact(dict(value.columns)))
    if isinstance(value, Block):
        return ("Block", value.run, value.attempt, exact(value.nodes), exact(value.relations))
    return (type(value).__name__, value)


class Crash(BaseException):
    """The power goes: nothing after it happens."""


class FaultyDisk(Disk):
    """A disk that counts its operations, does something else at one of them, and forgets what was not synced.

    Args:
        at: Which write, sync, rename, truncation or directory sync is hit, counted from 0; ``None`` for none.
        fault: ``fail``, ``full``, ``shorten``, ``drop``, ``crash`` or ``tear``.
    """

    def __init__(self, at: int | None = None, fault: str = "fail") -> None:
        self.at, self.fault, self.count, self.is_off = at, fault, 0, False
        self._content: dict[int, list[Callable[[], object]]] = {}
        self._names: list[tuple[Path, Callable[[], object]]] = []
        self._copies: list[int] = []

    def __del__(self) -> None:
        """Let go of the descriptors that undoing needs: a run has thousands of disks."""
        for copy in self._copies:
            os.close(copy)

    def write_once(self, descriptor: int, data: memoryview, offset: int) -> int:
        hit = self._hits()
        if hit == "drop":
            return len(data)
        if hit in {"shorten", "tear", "full"}:
            data = data[: len(data) // 2]
        copy, size = self._copy(descriptor), os.fstat(descriptor).st_size
        old = os.pread(descriptor, len(data), offset)
        undo = self._content.setdefault(os.fstat(descriptor).st_ino, [])
        undo.append(lambda: (os.pwrite(copy, old, offset), os.ftruncate(copy, size)))
        written = super().write_once(descriptor, data, offset) if data else 0
        self._after(hit)
        return written

    def sync(self, descriptor: int) -> None:
        if self._hits() != "drop":
            self._content.pop(os.fstat(descriptor).st_ino, None)

    def sync_directory(self, path: Path) -> None:
        if self._hits() != "drop":
            self._names = [(folder, undo) for folder, undo in self._names if folder != path]

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        if self._hits() == "drop":
            return
        copy, tail = self._copy(descriptor), os.pread(descriptor, 1 << 20, size_bytes)
        undo = self._content.setdefault(os.fstat(descriptor).st_ino, [])
        undo.append(lambda: os.pwrite(copy, tail, size_bytes))
        super().truncate(descriptor, size_bytes)

    def create(self, path: Path) -> int:
        self._require_power()
        self._names.append((path.parent, lambda: path.unlink(missing_ok=True)))
        return super().create(path)

    def rename(self, old: Path, new: Path) -> None:
        if self._hits() == "drop":
            return
        replaced = new.read_bytes() if new.exists() else None

        def undo() -> None:
            if new.exists():
                new.replace(old)
            if replaced is not None:
                new.write_bytes(replaced)

        self._names.append((new.parent, undo))
        super().rename(old, new)

    def lose_power(self, *, keep: bool) -> None:
        """End the disk's life; without ``keep``, everything that was not synced is forgotten."""
        self.is_off = True
        if not keep:
            for _, undo in reversed(self._names):
                undo()
            for undos in self._content.values():
                for undo in reversed(undos):
                    undo()

    def _copy(self, descriptor: int) -> int:
        self._copies.append(os.dup(descriptor))
        return self._copies[-1]

    def _hits(self) -> str:
        self._require_power()
        self.count += 1
        if self.at != self.count - 1:
            return ""
        if self.fault == "crash":
            self.is_off = True
            raise Crash
        if self.fault == "fail":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self.fault

    def _after(self, hit: str) -> None:
        if hit == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if hit == "tear":
            self.is_off = True
            raise Crash

    def _require_power(self) -> None:
        if self.is_off:
            raise Crash
