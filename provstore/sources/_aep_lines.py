"""Bytes of a file of agent evidence, read line by line, however long a line is."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

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


class Place:
    """A file, or bytes that stand for one.

    Args:
        source: Either.
        name: What messages call it.

    Raises:
        InputError: It cannot be read.
    """

    def __init__(self, source: Path | bytes, name: str) -> None:
        self._source, self.name = source, name
        with self.open() as file:
            self.size = file.seek(0, io.SEEK_END)

    def open(self) -> BinaryIO:
        """Return the bytes as an open file.

        Raises:
            InputError: It cannot be read.
        """
        if isinstance(self._source, bytes):
            return io.BytesIO(self._source)
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
            begin = file.seek(max(0, self.size - most))
            return begin, file.read()

    def is_blank_from(self, offset: int) -> bool:
        """Return whether nothing but blanks follows."""
        with self.open() as file:
            file.seek(offset)
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
            offset = 0
            while (self.end is None or offset < self.end) and (line := file.readline(MAX_BYTES + 1)):
                if len(line) > MAX_BYTES and not line.endswith(b"\n"):
                    item, length = _oversized(file, line, offset)
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


def _oversized(file: BinaryIO, line: bytes, offset: int) -> tuple[Item, int]:
    """Return a line that is too long by its digest alone, and its length."""
    digest, length = hashlib.sha256(), 0
    while line:
        length += len(line)
        digest.update(line.removesuffix(b"\n"))
        if line.endswith(b"\n"):
            break
        line = file.readline(_CHUNK)
    fault = f"a line of {length} bytes is longer than {MAX_BYTES}"
    return Item(offset, b"", fault, digest.hexdigest()), length
