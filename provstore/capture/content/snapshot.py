"""Snapshots: raw bytes of tensors in files of at most 64 MiB, and for each chunk an entry that says where it lies.

Nothing is pickled. An entry names the leaf hash of its chunk and, where not all chunks of the tensor are kept, the path
that proves the chunk against the tensor's digest.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from provstore.capture.content.digest import TensorBytes
from provstore.capture.content.shortfall import ShortfallError
from provstore.evidence.content.tensor_digest import CHUNK_BYTES, TensorTree
from provstore.model.recording import CAPTURE_FAULT, DISK_RESERVE

FILE_BYTES = 64 << 20
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class SnapshotError(ShortfallError):
    """A snapshot could not be written; nothing of it is left."""


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """Where one chunk of a tensor lies."""

    file: str
    offset: int
    bytes: int
    chunk: int
    """Its number in the tensor."""
    chunks: int
    """Of the tensor."""
    tensor: str
    """Digest."""
    hash: str
    path: tuple[str, ...] | None
    """From the chunk's sibling upward; ``None`` where all chunks of the tensor are kept."""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        said: dict[str, object] = {
            "file": self.file,
            "offset": self.offset,
            "bytes": self.bytes,
            "chunk": self.chunk,
            "chunks": self.chunks,
            "tensor": self.tensor,
            "hash": self.hash,
        }
        return said if self.path is None else said | {"path": list(self.path)}


class SnapshotFile:
    """The snapshot files of one rank, ``snap-rank<r>-<k>.bin``; those of an earlier process stay as they are.

    Args:
        directory: Where they go; it exists.
        rank: The rank that writes them.
        file_bytes: Most bytes of one file, at least those of a chunk.
    """

    def __init__(self, directory: str | os.PathLike[str], rank: int, *, file_bytes: int = FILE_BYTES) -> None:
        self._directory = Path(directory)
        self._rank = rank
        self._file_bytes = file_bytes
        self._number = -1
        self._file: int | None = None
        self._end = 0

    def write(self, content: TensorBytes, tree: TensorTree, chunks: Sequence[int]) -> list[SnapshotEntry]:
        """Write some chunks of a tensor and return their entries.

        Args:
            content: The tensor's bytes, the same that its tree was made from.
            tree: Its digest and leaves.
            chunks: Which chunks, ascending.

        Raises:
            SnapshotError: The disk is full (``disk-reserve``) or writing failed (``capture-fault``); nothing is left of
                what was written.
        """
        touched: dict[Path, int] = {}
        try:
            return [self._write_chunk(content.data, tree, chunk, len(chunks), touched) for chunk in chunks]
        except OSError as error:
            self._take_back(touched)
            reason = DISK_RESERVE if error.errno in _DISK_FULL else CAPTURE_FAULT
            raise SnapshotError(f"snapshot: rank {self._rank}: {error}", reason=reason) from error

    def close(self) -> None:
        """Make the bytes durable and end the file; writing again begins another."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                os.fsync(file)
            finally:
                os.close(file)

    def _write_chunk(
        self, data: memoryview, tree: TensorTree, chunk: int, kept: int, touched: dict[Path, int]
    ) -> SnapshotEntry:
        piece = data[chunk * CHUNK_BYTES : (chunk + 1) * CHUNK_BYTES]
        if self._file is not None and self._end + len(piece) > self._file_bytes:
            self.close()
        file = self._file if self._file is not None else self._open()
        touched.setdefault(self._path(), self._end)
        offset, done = self._end, 0
        while done < len(piece):
            done += os.write(file, piece[done:])
        self._end += len(piece)
        chunks = len(tree.leaves)
        path = None if kept == chunks else tuple(one.hex() for one in tree.path(chunk))
        return SnapshotEntry(
            self._path().name, offset, len(piece), chunk, chunks, tree.digest, tree.leaves[chunk].hex(), path
        )

    def _open(self) -> int:
        """Open the next file whose name is free."""
        while True:
            self._number += 1
            try:
                self._file = os.open(self._path(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                continue
            self._end = 0
            return self._file

    def _path(self) -> Path:
        return self._directory / f"snap-rank{self._rank}-{self._number}.bin"

    def _take_back(self, touched: dict[Path, int]) -> None:
        """Make the files as long as they were; the next write begins another file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        for path, length in touched.items():
            try:
                if length:
                    os.truncate(path, length)
                else:
                    path.unlink()
            except OSError:
                # What cannot be taken back is named by no entry.
                continue
