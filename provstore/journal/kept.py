"""Bytes that records name by their SHA-256, looked at in pieces: there, missing, cut off, altered or unreadable."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from provstore.errors import StoreError
from provstore.journal import blobs
from provstore.model.lost import ALTERED, CUT_OFF, MISSING, UNREADABLE

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MOST_LINE = (1 << 20) + 1
"""Bytes of a line that are held; a row of a table is shorter."""


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A blob that was found sound, as a file."""

    path: Path
    size_bytes: int

    def open(self) -> BinaryIO:
        """Return its bytes, unpacked as they are read: nothing leads back in them.

        Reading raises ``StoreError`` where the blob is another one by now.
        """
        return cast("BinaryIO", io.BufferedReader(_Unpacked(blobs.unpack(self.path, self.size_bytes))))


class KeptBytes:
    """What lies below ``blobs`` in a directory; never more than a piece of it is in memory.

    Args:
        directory: Of the journal, or of an export that carries a copy of its blobs.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def fault(self, sha256: str, size_bytes: int) -> tuple[str, str] | None:
        """Return what is wrong with a blob, as one word and in words without their subject; ``None`` if it is sound."""
        path = blobs.path_of(self._directory, sha256, blobs.SOURCE_SUFFIX)
        try:
            if not path.exists():
                return MISSING, "is missing: whether it was removed or lost, nothing here tells"
            if not path.is_file():
                # Reading a device or a pipe might never end.
                return ALTERED, "is altered: in its place is no regular file"
            path.open("rb").close()
        except OSError as error:
            return UNREADABLE, f"cannot be read: {error.strerror}"
        return _fault(path, sha256, size_bytes)

    def file(self, sha256: str, size_bytes: int) -> KeptFile:
        """Return a blob as a file.

        Raises:
            StoreError: It is missing or altered.
        """
        path = blobs.path_of(self._directory, sha256, blobs.SOURCE_SUFFIX)
        if (fault := self.fault(sha256, size_bytes)) is not None:
            raise StoreError(f"journal: {path}: payload {fault[1]}")
        return KeptFile(path, size_bytes)

    def lines(self, sha256: str, size_bytes: int) -> Iterator[bytes]:
        """Yield the lines of a blob without their ends; the beginning of one that is longer than any row.

        Raises:
            StoreError: It is missing or altered.
        """
        rest = b""
        for piece in blobs.unpack(blobs.path_of(self._directory, sha256, blobs.SOURCE_SUFFIX), size_bytes):
            first, *others = piece.split(b"\n")
            # Of a line without an end, no more is held than tells that it is none.
            rest += first[: max(0, _MOST_LINE - len(rest))]
            for line in others:
                yield rest
                rest = line
        if rest:
            yield rest


class _Unpacked(io.RawIOBase):
    """Pieces as a file that is read from its beginning to its end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces, self._rest = pieces, memoryview(b"")

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill the buffer as far as the piece goes that is at hand; return how far."""
        if not self._rest:
            self._rest = memoryview(next(self._pieces, b""))
        room = memoryview(buffer).cast("B")
        taken = self._rest[: len(room)]
        room[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)


def _fault(path: Path, sha256: str, size_bytes: int) -> tuple[str, str] | None:
    found, count = hashlib.sha256(), 0
    try:
        for piece in blobs.unpack(path, size_bytes):
            found.update(piece)
            count += len(piece)
    except StoreError as error:
        if not isinstance(error.__cause__, OSError):
            return ALTERED, "is altered: it is longer"
        if "runcated" in str(error.__cause__):
            return CUT_OFF, f"is cut off: it ends within {size_bytes:,} bytes"
        return ALTERED, f"is altered: it cannot be unpacked behind byte {count:,}"
    if count < size_bytes:
        return CUT_OFF, f"is cut off: {count:,} bytes are here"
    return None if found.hexdigest() == sha256 else (ALTERED, "is altered: its bytes have another SHA-256")
