"""Content-addressed files: a batch's facts as Parquet, a source file's bytes as zstd. Named by digest, never by data.

A facts blob is named by the SHA-256 of its own bytes; a source blob by that of the bytes before compression, which is
a sequence of zstd frames that any zstd tool unpacks.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from provstore.errors import InputError, StoreError
from provstore.journal import writer
from provstore.journal.disk import Disk
from provstore.journal.recovery import BLOBS

FACTS_SUFFIX, SOURCE_SUFFIX = ".parquet", ".zst"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PIECE_BYTES = 4 * 1024 * 1024
_LEVEL = 1


def require_digest(text: str) -> str:
    """Return ``text`` when it is a SHA-256 in hex, and so may be part of a path.

    Raises:
        ValueError: It is not.
    """
    if not _DIGEST.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not a SHA-256 in hex")
    return text


def path_of(directory: Path, digest: str, suffix: str) -> Path:
    """Return where the blob lies, or would lie."""
    return directory / BLOBS / require_digest(digest)[:2] / f"{digest}{suffix}"


def put_facts(directory: Path, data: memoryview, disk: Disk) -> str:
    """Store a facts blob durably; return its digest."""
    digest = hashlib.sha256(data).hexdigest()
    path = path_of(directory, digest, FACTS_SUFFIX)
    disk.make_directory(path.parent)
    if facts_fault(path, digest) is None:
        disk.sync_directory(path.parent)
    else:
        writer.put(disk, directory, path, data)
    return digest


def put_source(directory: Path, source: Path, digest: str, disk: Disk) -> None:
    """Store the bytes of ``source`` durably, if they are not there yet.

    Raises:
        InputError: The file cannot be read, or is not what ``digest`` says.
        OSError: The journal's disk failed.
    """
    path = path_of(directory, digest, SOURCE_SUFFIX)
    disk.make_directory(path.parent)
    if source_fault(path, digest) is None:
        disk.sync_directory(path.parent)
        return
    temporary = directory / writer.TEMPORARY / path.name
    disk.remove(temporary)
    descriptor = disk.create(temporary)
    try:
        _compress(source, digest, descriptor, disk)
        disk.sync(descriptor)
        writer.reveal(disk, temporary, path)
    except (OSError, InputError):
        disk.remove(temporary)
        raise
    finally:
        os.close(descriptor)


def put_bytes(directory: Path, data: bytes, disk: Disk) -> str:
    """Store bytes durably in the form of a source blob, if they are not there yet; return their digest."""
    import pyarrow as pa

    digest = hashlib.sha256(data).hexdigest()
    path = path_of(directory, digest, SOURCE_SUFFIX)
    disk.make_directory(path.parent)
    if source_fault(path, digest, len(data)) is None:
        disk.sync_directory(path.parent)
    else:
        writer.put(disk, directory, path, pa.Codec("zstd", compression_level=_LEVEL).compress(data, asbytes=True))
    return digest


def read_facts(path: Path, digest: str) -> bytes:
    """Return a facts blob.

    Raises:
        StoreError: It is missing or altered.
    """
    if path.exists() and not path.is_file():
        raise StoreError(f"journal: {path}: payload altered: it is no regular file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"journal: {path}: payload missing: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise StoreError(f"journal: {path}: payload altered: its digest is not its name")
    return data


def read_source(path: Path, digest: str, size_bytes: int) -> bytes:
    """Return the original bytes of a source blob; never unpacks more than ``size_bytes``.

    Raises:
        StoreError: It is missing or altered.
    """
    data = b"".join(unpack(path, size_bytes))
    if hashlib.sha256(data).hexdigest() != digest:
        raise StoreError(f"journal: {path}: payload altered: its digest is not its name")
    return data


def facts_fault(path: Path, digest: str) -> str | None:
    """Return ``"missing"`` or ``"altered"``, or ``None`` for a sound facts blob."""
    if path.exists() and not path.is_file():
        # Reading a device or a pipe might never end.
        return "altered"
    try:
        with path.open("rb") as file:
            return None if hashlib.file_digest(file, "sha256").hexdigest() == digest else "altered"
    except FileNotFoundError:
        return "missing"
    except OSError:
        return "altered"


def source_fault(path: Path, digest: str, size_bytes: int | None = None) -> str | None:
    """Return ``"missing"`` or ``"altered"``, or ``None`` for a sound source blob."""
    if not path.exists():
        return "missing"
    if not path.is_file():
        return "altered"
    found = hashlib.sha256()
    try:
        for piece in unpack(path, size_bytes):
            found.update(piece)
    except StoreError:
        return "altered"
    return None if found.hexdigest() == digest else "altered"


def _compress(source: Path, digest: str, descriptor: int, disk: Disk) -> None:
    import pyarrow as pa

    codec, found, end = pa.Codec("zstd", compression_level=_LEVEL), hashlib.sha256(), 0
    for piece in _pieces(source):
        found.update(piece)
        packed = codec.compress(piece, asbytes=True)
        disk.write_at(descriptor, packed, end)
        end += len(packed)
    if found.hexdigest() != digest:
        raise InputError(f"{source}: content: it changed while it was being read")


def _pieces(source: Path) -> Iterator[bytes]:
    try:
        with source.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece
    except OSError as error:
        raise InputError(f"{source}: content: cannot be read: {error.strerror}") from error


def unpack(path: Path, size_bytes: int | None) -> Iterator[bytes]:
    """Yield the bytes of a source blob in pieces, never more than ``size_bytes`` of them.

    Raises:
        StoreError: It is missing, longer, or cannot be unpacked.
    """
    import pyarrow as pa

    left = size_bytes
    try:
        if path.stat().st_size == 0:
            return
        with pa.OSFile(str(path), "rb") as raw, pa.CompressedInputStream(raw, "zstd") as file:
            while piece := file.read(_PIECE_BYTES):
                left = None if left is None else left - len(piece)
                if left is not None and left < 0:
                    raise StoreError(f"journal: {path}: payload altered: longer than the source file was")
                yield piece
    except FileNotFoundError as error:
        raise StoreError(f"journal: {path}: payload missing: {error.strerror}") from error
    except OSError as error:
        raise StoreError(f"journal: {path}: payload altered: {error}") from error
