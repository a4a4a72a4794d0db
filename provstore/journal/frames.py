"""Frames: the checksummed units of a segment file, and how the next valid one is found behind damage.

Layout, little-endian: ``u32 length | u8 type | u64 jseq | payload | u32 crc``. ``length`` counts the payload. The
CRC-32 covers everything before it and starts from a seed made of the journal's id and the segment's number, so that no
frame of another place is taken for one of this. Payloads hold no NUL byte and every frame head holds some: no frame
hides inside a payload.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

HEADER, LINES, BLOB, BUNDLE, EVENT, RECORDS, SEAL = 1, 2, 3, 4, 7, 8, 15
KNOWN_TYPES = frozenset((HEADER, LINES, BLOB, BUNDLE, EVENT, RECORDS, SEAL))
FACTS = frozenset((LINES, BLOB))
"""Frame types that carry, or name, a batch of facts."""
EVIDENCE = frozenset((RECORDS, BUNDLE))
"""Frame types that carry records to be signed, or a signed bundle with its checkpoint."""

MAGIC = b"PVJRNL1\n"
MAX_PAYLOAD_BYTES = 4 * 1024 * 1024

_HEAD = struct.Struct("<IBQ")
_CRC = struct.Struct("<I")
OVERHEAD_BYTES = _HEAD.size + _CRC.size
_ZEROS = re.compile(rb"\x00{4,}")


@dataclass(frozen=True, slots=True)
class Frame:
    """One valid frame at its place."""

    offset: int
    type: int
    jseq: int
    raw: bytes
    """The whole frame, checksum included."""

    @property
    def payload(self) -> bytes:
        """What it carries."""
        return self.raw[_HEAD.size : -_CRC.size]

    @property
    def end(self) -> int:
        """Offset of the byte after it."""
        return self.offset + len(self.raw)


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that are no valid frame."""

    offset: int
    end: int
    is_tail: bool
    """True when no valid frame follows."""


def seed(journal_id: str, segment: int) -> int:
    """Return the start value of the CRCs of one segment."""
    return zlib.crc32(f"{journal_id}/{segment}".encode())


def encode(kind: int, jseq: int, payload: bytes, start: int) -> bytes:
    """Return the bytes of one frame; ``start`` comes from :func:`seed`.

    Raises:
        ValueError: The payload is too long or holds a NUL byte.
    """
    if len(payload) > MAX_PAYLOAD_BYTES or b"\0" in payload:
        raise ValueError(f"payload of {len(payload)} bytes is too long or holds NUL")
    body = _HEAD.pack(len(payload), kind, jseq) + payload
    return body + _CRC.pack(zlib.crc32(body, start))


def unchecked(file: BinaryIO, offset: int) -> Frame | None:
    """Return the frame that seems to lie at ``offset``, its checksum not looked at, or ``None``."""
    file.seek(offset)
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    length, kind, jseq = _HEAD.unpack(head)
    if length > MAX_PAYLOAD_BYTES:
        return None
    file.seek(offset)
    raw = file.read(length + OVERHEAD_BYTES)
    return Frame(offset, kind, jseq, raw) if len(raw) == length + OVERHEAD_BYTES else None


def is_sound(raw: bytes, start: int) -> bool:
    """Return whether the last four bytes are the CRC of those before."""
    return raw[-_CRC.size :] == _CRC.pack(zlib.crc32(memoryview(raw)[: -_CRC.size], start))


def read(file: BinaryIO, offset: int, end: int, start: int, last_jseq: int) -> Iterator[Frame | Gap]:
    """Yield what lies between two offsets, in order: frames as they are, and each run of bytes that is none.

    Args:
        file: Opened for reading.
        offset: Where the first frame should begin.
        end: Bytes at and beyond are not looked at.
        start: Start value of the CRC.
        last_jseq: Highest number before ``offset``; a frame behind damage must have a higher one.
    """
    while offset < end:
        found = _frame_at(file, offset, end, start)
        if found is None:
            after = _next_valid(file, offset + 1, end, start, last_jseq)
            yield Gap(offset, end if after is None else after, after is None)
            offset = end if after is None else after
            continue
        yield found
        offset, last_jseq = found.end, max(last_jseq, found.jseq)


def _frame_at(file: BinaryIO, offset: int, end: int, start: int) -> Frame | None:
    found = unchecked(file, offset)
    return found if found is not None and found.end <= end and is_sound(found.raw, start) else None


def _next_valid(file: BinaryIO, offset: int, end: int, start: int, last_jseq: int) -> int | None:
    """Return the offset of the first valid frame at or after ``offset``.

    The upper half of a ``jseq`` is zero and its lower half is not, so a run of at least four NULs begins six to nine
    bytes behind the start of every frame. Only those places are tried, and bytes made to look like heads over and over
    end the search early, so that it stays linear.
    """
    file.seek(offset)
    rest = file.read(end - offset)
    budget = 4 * len(rest) + MAX_PAYLOAD_BYTES
    for run in _ZEROS.finditer(rest):
        for at in range(max(0, run.start() - 9), run.start() - 5):
            if at + OVERHEAD_BYTES > len(rest):
                break
            length, _kind, jseq = _HEAD.unpack_from(rest, at)
            whole = at + length + OVERHEAD_BYTES
            is_possible = (
                last_jseq < jseq <= last_jseq + len(rest) and length <= MAX_PAYLOAD_BYTES and whole <= len(rest)
            )
            if not is_possible:
                continue
            if is_sound(rest[at:whole], start):
                return offset + at
            budget -= whole - at
            if budget < 0:
                return None
    return None
