"""A batch: what one file, or one caller, stated at once, as its frame describes it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provstore.errors import InputError, StoreError
from provstore.journal import blobs, block_lines, block_parquet, frames, segments
from provstore.journal.columns import Group
from provstore.journal.disk import Disk
from provstore.journal.segments import Entry
from provstore.model import canonical
from provstore.model.block import Block
from provstore.model.canonical import Json

SCHEMA_VERSION = 1
_MEDIA = "application/vnd.apache.parquet"


@dataclass(frozen=True, slots=True)
class Origin:
    """The file a block was read from."""

    sha256: str
    """Of its bytes, 64 hex digits."""
    size_bytes: int
    reader: str
    """Name of the source module that read it."""
    version: str
    """Of that reader; the same file read by another version is another batch."""
    path: Path | None = None
    """Where its bytes still are; ``None`` when they cannot be kept."""
    keep_source: bool = True
    rank: int | None = None
    """Whose file it is, when it is one rank's."""
    set_aside: int = 0
    """Entries of it that could not be used."""
    element: str | None = None
    """Id of the element that describes the file in the graph."""

    @property
    def is_kept(self) -> bool:
        """True when the journal holds the file's bytes."""
        return self.keep_source and self.path is not None


@dataclass(frozen=True, slots=True)
class Source:
    """The file a batch was read from, as the journal states it."""

    sha256: str
    size_bytes: int
    reader: str
    version: str
    is_kept: bool
    rank: int | None = None
    set_aside: int = 0
    element: str | None = None

    def stated(self) -> dict[str, Json]:
        """Return what the record of a batch says of its file."""
        return {
            "element": self.element,
            "kept": self.is_kept,
            "reader": self.reader,
            "sha256": self.sha256,
            "size": self.size_bytes,
            "version": self.version,
        }


@dataclass(frozen=True, slots=True)
class Batch:
    """The head of one batch, and its lines when they are in the frame."""

    run: str
    attempt: int
    rows: int
    encoding: str
    """``lines`` or ``parquet``."""
    sha256: str
    """Of the facts blob; ``""`` for lines."""
    size_bytes: int
    source: Source | None
    lines: tuple[bytes, ...] = ()

    def identity(self) -> tuple[object, ...]:
        """Return what tells a repeat: (source digest, reader, its version, run, attempt)."""
        named = (self.source.sha256, self.source.reader, self.source.version) if self.source else ("", "", "")
        return (*named, self.run, self.attempt)

    def facts_sha256(self) -> str:
        """Return what binds the facts: the digest of their blob, or of their lines joined by line ends."""
        if self.encoding == block_parquet.NAME:
            return self.sha256
        return hashlib.sha256(b"\n".join(self.lines)).hexdigest()

    def stated(self) -> dict[str, Any]:
        """Return what the record of the batch says of it, beside its number and the recording policy."""
        return {
            "facts": {"encoding": self.encoding, "rows": self.rows, "sha256": self.facts_sha256()},
            "quarantined": 0 if self.source is None else self.source.set_aside,
            "rank": None if self.source is None else self.source.rank,
            "source": None if self.source is None else self.source.stated(),
        }

    def facts_path(self, directory: Path) -> Path | None:
        """Return where the facts blob lies; ``None`` for lines."""
        return (
            blobs.path_of(directory, self.sha256, blobs.FACTS_SUFFIX) if self.encoding == block_parquet.NAME else None
        )

    def is_present(self, directory: Path) -> bool:
        """Return whether the facts seem to be there; their digest is not looked at."""
        path = self.facts_path(directory)
        return path is None or (path.is_file() and path.stat().st_size == self.size_bytes)

    def fault(self, directory: Path) -> str | None:
        """Return what is wrong with the files of the batch, read now: ``None`` when they are what its frame says."""
        path = self.facts_path(directory)
        if path is not None and (fault := blobs.facts_fault(path, self.sha256)):
            return f"facts {fault}"
        if self.source is not None and self.source.is_kept:
            path = blobs.path_of(directory, self.source.sha256, blobs.SOURCE_SUFFIX)
            if fault := blobs.source_fault(path, self.source.sha256, self.source.size_bytes):
                return f"source bytes {fault}"
        return None

    def block(self, directory: Path) -> Block:
        """Return the facts.

        Raises:
            StoreError: They are missing or altered.
        """
        path = self.facts_path(directory)
        try:
            if path is None:
                return block_lines.decode(self.lines, self.run, self.attempt)
            return block_parquet.decode(blobs.read_facts(path, self.sha256))
        except InputError as error:
            raise StoreError(f"journal: {directory}: payload altered: {error}") from error


def write(
    directory: Path, run: str, attempt: int, parts: Sequence[Group], origin: Origin | None, disk: Disk
) -> tuple[int, bytes]:
    """Return type and payload of the frame for a batch; a facts blob it names is durable by then.

    Raises:
        InputError: A value cannot be kept.
        OSError: The disk failed.
    """
    rows = sum(map(len, parts))
    head: dict[str, Json] = {"attempt": attempt, "kind": "batch", "rows": rows, "run": run, "schema": SCHEMA_VERSION}
    head["source"] = _source(origin)
    lines = block_lines.encode(parts) if rows < block_lines.MAX_FACTS else None
    if lines is not None:
        payload = b"\n".join((_head(head | {"encoding": block_lines.NAME}), *lines))
        if len(payload) <= frames.MAX_PAYLOAD_BYTES:
            return frames.LINES, payload
    data = block_parquet.encode(run, attempt, parts)
    digest = blobs.put_facts(directory, data, disk)
    head |= {"encoding": block_parquet.NAME, "media": _MEDIA, "sha256": digest, "size": len(data)}
    return frames.BLOB, _head(head)


def read(directory: Path, entries: Sequence[Entry]) -> Iterator[tuple[Entry, Batch]]:
    """Yield each frame that carries or names facts, with its batch.

    Raises:
        StoreError: A frame is sound, yet no batch this version knows.
    """
    for entry, payload in segments.payloads(directory, entries):
        yield entry, parse(directory, entry, payload)


def parse(directory: Path, entry: Entry, payload: bytes) -> Batch:
    """Return the batch that a frame's payload describes.

    Raises:
        StoreError: The frame is sound, yet no batch this version knows.
    """
    try:
        return _batch(payload)
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"journal: {directory}: batch {entry.jseq} is not understood: {error}") from error


def _source(origin: Origin | None) -> Json:
    if origin is None:
        return None
    said: dict[str, Json] = {
        "kept": origin.is_kept,
        "reader": origin.reader,
        "sha256": blobs.require_digest(origin.sha256),
        "size": origin.size_bytes,
        "version": origin.version,
    }
    more: dict[str, Json] = {"rank": origin.rank, "setAside": origin.set_aside or None, "element": origin.element}
    return said | {name: value for name, value in more.items() if value is not None}


def _head(head: dict[str, Json]) -> bytes:
    line = canonical.encode(head)
    if len(line) > canonical.MAX_RECORD_BYTES:
        raise InputError("property run: value: too long")
    return line


def _batch(payload: bytes) -> Batch:
    first, *lines = payload.split(b"\n")
    said: Any = canonical.parse(first)
    if said["kind"] != "batch" or said["schema"] != SCHEMA_VERSION:
        raise InputError(f"kind {said['kind']!r}, schema {said['schema']!r}")
    run, encoding = said["run"], said["encoding"]
    attempt, rows = _count(said["attempt"], "attempt"), _count(said["rows"], "rows")
    if not isinstance(run, str):
        raise InputError("run: is no name")
    source = None if said["source"] is None else _source_of(said["source"])
    if encoding == block_lines.NAME:
        # Nothing but the lines says what they are: a digest beside them could be that of others.
        return Batch(run, attempt, rows, encoding, "", 0, source, tuple(lines))
    if encoding != block_parquet.NAME or lines:
        raise InputError(f"encoding {str(encoding)[:40]!r} with {len(lines)} lines")
    digest, size = blobs.require_digest(said["sha256"]), _count(said["size"], "size")
    return Batch(run, attempt, rows, encoding, digest, size, source)


def _source_of(said: Any) -> Source:
    texts = [said["reader"], said["version"], said.get("element") or ""]
    if not all(isinstance(text, str) for text in texts) or not isinstance(said["kept"], bool):
        raise InputError("source: a member has another type")
    return Source(
        blobs.require_digest(said["sha256"]),
        _count(said["size"], "source: size"),
        said["reader"],
        said["version"],
        said["kept"],
        None if said.get("rank") is None else _count(said["rank"], "source: rank"),
        _count(said.get("setAside", 0), "source: setAside"),
        said.get("element"),
    )


def _count(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"{name}: is no number from 0")
    return value
