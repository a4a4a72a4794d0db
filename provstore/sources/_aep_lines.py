"""Bytes of a file of agent evidence, read line by line, however long a line is."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from provstore.errors import InputError
from provstore.evidence.aep import cutting
from provstore.evidence.aep.text import MAX_BYTES

_CHUNK = 1024 * 1024
_BLANKS = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class Item:
    """One JSON value of a file."""

    offset: int
    data: bytes
    """Its exact bytes, without blanks around it; empty when it is longer than is read."""
    fault: str | None = None
    sha256: str = ""
    """Of its bytes, where ``data`` does not hold them."""


class Readable(Protocol):
    """Bytes that lie elsewhere, read as often as they are asked for and from their beginning on."""

    @property
    def size_bytes(self) -> int:
        """How many there are."""
        ...

    def open(self) -> BinaryIO:
        """Return them as an open file, in which nothing need lead back."""
        ...


class Place:
    """A file, or bytes that stand for one.

    Args:
        source: Either; or bytes that lie elsewhere, which are never held as a whole.
        name: What messages call it.

    Raises:
        InputError: It cannot be read.
    """

    def __init__(self, source: Path | bytes | Readable, name: str) -> None:
        self._source, self.name = source, name
        self.size = self._size()

    def _size(self) -> int:
        if not isinstance(self._source, Path | bytes):
            return self._source.size_bytes
        with self.open() as file:
            return file.seek(0, io.SEEK_END)

    def open(self) -> BinaryIO:
        """Return the bytes as an open file.

        Raises:
            InputError: It cannot be read.
        """
        if isinstance(self._source, bytes):
            return io.BytesIO(self._source)
        if not isinstance(self._source, Path):
            return self._source.open()
        try:
            return self._source.open("rb")
        except OSError as error:
            raise InputError(f"{self.name}: agent evidence: cannot be read: {error.strerror or error}") from error

    def head(self, most: int) -> bytes:
        """Return the first bytes."""
        with self.open() as file:
            return file.read(most)

    def all(self, most: int) -> bytes | None:
        """Return all bytes, ``None`` when they are more than ``most``."""
        if self.size > most:
            return None
        with self.open() as file:
            return file.read()

    def tail(self, most: int) -> tuple[int, bytes]:
        """Return the last bytes and where they begin."""
        with self.open() as file:
            begin = max(0, self.size - most)
            _go_on(file, begin)
            return begin, file.read(most)

    def is_blank_from(self, offset: int) -> bool:
        """Return whether nothing but blanks follows."""
        with self.open() as file:
            _go_on(file, offset)
            while chunk := file.read(_CHUNK):
                if chunk.strip(_BLANKS):
                    return False
        return True


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a file that are not blank, read anew each time they are asked for."""

    place: Place
    end: int | None
    """Where the torn last line begins."""

    def __iter__(self) -> Iterator[Item]:
        with self.place.open() as file:
            offset = number = 0
            while (self.end is None or offset < self.end) and (line := file.readline(MAX_BYTES + 1)):
                number += 1
                if len(line) > MAX_BYTES and not line.endswith(b"\n"):
                    item, length = _oversized(file, line, offset, number)
                    yield item
                    offset += length
                    continue
                data = line.strip(_BLANKS)
                if data:
                    yield Item(offset + line.index(data[:1]), data)
                offset += len(line)


def torn_at(place: Place) -> int | None:
    """Return where the last line begins when it ends in the middle of a value and has no line end."""
    begin, tail = place.tail(MAX_BYTES)
    if tail.endswith(b"\n") or not tail.strip(_BLANKS):
        return None
    start = tail.rfind(b"\n") + 1
    if start == 0 and begin > 0:
        return None
    line = tail[start:].lstrip(_BLANKS)
    is_whole = line[:1] in (b"{", b"[") and cutting.end_of(line, 0) is not None
    return None if is_whole else begin + start


def _go_on(file: BinaryIO, offset: int) -> None:
    """Go on to an offset in a file that is at its beginning, also where all before it has to be read."""
    if file.seekable():
        file.seek(offset)
        return
    while offset > 0 and (passed := len(file.read(min(offset, _CHUNK)))):
        offset -= passed


def _oversized(file: BinaryIO, line: bytes, offset: int, number: int) -> tuple[Item, int]:
    """Return a line that is too long by its digest alone, and its length."""
    digest, length, is_ended = hashlib.sha256(), 0, False
    while line and not is_ended:
        length += len(line)
        is_ended = line.endswith(b"\n")
        digest.update(line.removesuffix(b"\n"))
        line = b"" if is_ended else file.readline(_CHUNK)
    fault = f"line {number}: {length - is_ended} bytes are more than {MAX_BYTES}"
    return Item(offset, b"", fault, digest.hexdigest()), length
