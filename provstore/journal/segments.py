"""Segments: the files of a journal, their names, their headers, and what a scan finds in them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from provstore.errors import InputError, NotUnderstoodError, StoreError
from provstore.journal import frames
from provstore.journal.frames import Frame, Gap
from provstore.model import canonical
from provstore.model.ids import ID_SCHEME_VERSION

FORMAT_VERSION = 1
NO_DIGEST = "0" * 64

_FILE_NAME = re.compile(r"seg-([0-9]{8})(?:-([0-9a-f]{16}))?\.pvj")


@dataclass(frozen=True, slots=True)
class Header:
    """First frame of a segment."""

    journal_id: str
    segment: int
    prev: str
    """SHA-256 of the first ``prev_size`` bytes of the segment before, 64 zeros for the first segment."""
    prev_size: int
    created_ms: int
    jseq: int = 0
    format: int = FORMAT_VERSION
    id_scheme: int = ID_SCHEME_VERSION

    def payload(self) -> bytes:
        """Return the header as canonical JSON."""
        return canonical.encode(
            {
                "createdMs": self.created_ms,
                "format": self.format,
                "idScheme": self.id_scheme,
                "prev": self.prev,
                "prevSize": self.prev_size,
                "segment": self.segment,
                "store": self.journal_id,
            }
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """Where one frame lies."""

    jseq: int
    type: int
    segment: int
    offset: int
    size_bytes: int
    """Of the payload."""


@dataclass(frozen=True, slots=True)
class Seal:
    """Last frame of a sealed segment, and what it should say."""

    said: canonical.Json
    size: int
    """Bytes before it."""
    digest: str
    """SHA-256 of them."""


@dataclass(slots=True)
class Segment:
    """What a scan found in one segment file."""

    number: int
    path: Path
    header: Header | None
    file_size: int
    size: int
    """Bytes that belong to the chain: all of them, unless the next header says less."""
    has_magic: bool = True
    entries: list[Entry] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    seal: Seal | None = None
    digest: str = ""
    """SHA-256 of the first ``size`` bytes."""

    @property
    def valid_end(self) -> int:
        """Offset of the byte after the last valid frame; 0 when there is none."""
        last = self.entries[-1] if self.entries else None
        return last.offset + last.size_bytes + frames.OVERHEAD_BYTES if last else 0

    @property
    def is_whole(self) -> bool:
        """True when every byte is part of a valid frame, a torn tail apart."""
        return self.has_magic and self.header is not None and all(gap.is_tail for gap in self.gaps)


def file_name(number: int, digest: str = "") -> str:
    """Return a segment's file name; a closed one carries 16 digits of its digest."""
    return f"seg-{number:08d}{'-' + digest[:16] if digest else ''}.pvj"


def name_digest(path: Path) -> str:
    """Return the digits a closed segment's name carries, or ``""``."""
    found = _FILE_NAME.fullmatch(path.name)
    return (found[2] or "") if found else ""


def listing(directory: Path) -> dict[int, Path]:
    """Return segment number → file, in order; of two files with one number the closed one.

    Raises:
        StoreError: A pipe, a device or a folder has the name of a segment.
    """
    found: dict[int, Path] = {}
    for path in sorted(directory.iterdir()):
        name = _FILE_NAME.fullmatch(path.name)
        if name and path.exists() and not path.is_file():
            # Reading one might never end.
            raise StoreError(f"journal: {path}: is no regular file")
        if name and (int(name[1]) not in found or name[2]):
            found[int(name[1])] = path
    return dict(sorted(found.items()))


def read_header(path: Path, number: int) -> Header | None:
    """Return the header of a segment file, or ``None`` when it is damaged.

    Raises:
        NotUnderstoodError: A later format or id scheme.
    """
    with path.open("rb") as file:
        found = frames.unchecked(file, len(frames.MAGIC))
    if found is None or found.type != frames.HEADER:
        return None
    try:
        said = canonical.parse(found.payload)
    except InputError:
        return None
    if not isinstance(said, dict) or not frames.is_sound(found.raw, frames.seed(str(said.get("store")), number)):
        return None
    return _header(said, found.jseq, path)


def scan(path: Path, number: int, journal_id: str, size: int | None, last_jseq: int) -> Segment:
    """Return what a segment file holds, by its bytes alone; nothing is changed.

    Args:
        path: The file.
        number: Its number; part of every checksum.
        journal_id: Whose frames count.
        size: Bytes that belong to the chain as the next header states it; ``None`` for all there are now, or as many
            as the digest in the file's name covers.
        last_jseq: Highest number in the segments before.
    """
    digits, ended = name_digest(path) if size is None else "", None
    with path.open("rb") as file:
        file_size = file.seek(0, 2)
        counted = file_size if size is None else min(size, file_size)
        found = Segment(number, path, read_header(path, number), file_size, counted)
        file.seek(0)
        magic = file.read(min(len(frames.MAGIC), found.size))
        found.has_magic = magic == frames.MAGIC
        digest = hashlib.sha256(magic)
        for item in frames.read(file, len(frames.MAGIC), found.size, frames.seed(journal_id, number), last_jseq):
            if digits and digest.hexdigest().startswith(digits):
                ended = item.offset
            if isinstance(item, Gap):
                found.gaps.append(item)
                file.seek(item.offset)
                digest.update(file.read(item.end - item.offset))
                continue
            if item.type == frames.SEAL:
                found.seal = Seal(_said(item), item.offset, digest.hexdigest())
            digest.update(item.raw)
            found.entries.append(Entry(item.jseq, item.type, number, item.offset, len(item.payload)))
        found.digest = digest.hexdigest()
    if ended is not None and not found.digest.startswith(digits):
        # Given up after a failed sync, then a crash before the next header could say how much of it counts.
        return scan(path, number, journal_id, ended, last_jseq)
    return found


def _said(frame: Frame) -> canonical.Json:
    try:
        return canonical.parse(frame.payload)
    except InputError:
        return None


def _payload(file: BinaryIO, entry: Entry) -> bytes:
    """Return the payload that ``entry`` found."""
    file.seek(entry.offset + frames.OVERHEAD_BYTES - 4)
    return file.read(entry.size_bytes)


def payloads(directory: Path, entries: Sequence[Entry]) -> Iterator[tuple[Entry, bytes]]:
    """Yield each entry with its payload; a file renamed meanwhile is found under its new name."""
    number, file = 0, None
    try:
        for entry in entries:
            if file is None or entry.segment != number:
                if file is not None:
                    file.close()
                number, file = entry.segment, _open(directory, entry.segment)
            yield entry, _payload(file, entry)
    finally:
        if file is not None:
            file.close()


def _open(directory: Path, number: int) -> BinaryIO:
    for _ in range(3):
        path = listing(directory).get(number)
        try:
            if path is not None:
                return path.open("rb")
        except FileNotFoundError:
            # Renamed between the listing and the opening.
            continue
    raise StoreError(f"journal: {directory}: segment {number} is gone")


def _header(said: dict[str, canonical.Json], jseq: int, path: Path) -> Header | None:
    version, scheme = said.get("format"), said.get("idScheme")
    if version != FORMAT_VERSION or scheme != ID_SCHEME_VERSION:
        raise NotUnderstoodError(
            f"{path}: header: format {version} with id scheme {scheme} is not known here "
            f"(known: {FORMAT_VERSION} with {ID_SCHEME_VERSION})"
        )
    segment, prev, prev_size, created = (said.get(name) for name in ("segment", "prev", "prevSize", "createdMs"))
    store = said.get("store")
    # A journal without a name would take the bundles of any other.
    if not (isinstance(segment, int) and isinstance(prev, str) and isinstance(store, str) and store):
        return None
    if not (isinstance(prev_size, int) and isinstance(created, int)):
        return None
    return Header(store, segment, prev, prev_size, created, jseq)
