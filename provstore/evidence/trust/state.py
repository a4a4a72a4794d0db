"""What a verifier remembers of trust files: the highest version of each ever seen; and how it is written."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from provstore.errors import InputError, StoreError, TrustError
from provstore.evidence import whole_files
from provstore.evidence.trust import fields
from provstore.evidence.trust.document import SCHEMA
from provstore.model import canonical, versions
from provstore.model.canonical import Json

_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest version of one trust file that was ever accepted here."""

    version: int
    sha256: str
    """Of its payload."""


def read_seen(state: Path, lineage: str) -> Seen | None:
    """Return the newest version of a trust file that was accepted before.

    Raises:
        TrustError: What was remembered cannot be used, or others may write to it.
    """
    path = _seen_path(state, lineage)
    fault = fields.Fault(str(path), "state")
    value = read_own(path, fault)
    if value is None:
        return None
    members = fault.members(value, {"schema", "sha256", "version"})
    version = fault.integer(members["version"], "version", 1, canonical.MAX_INTEGER)
    return Seen(version, fault.text(members["sha256"], "sha256", 64))


def write_seen(state: Path, lineage: str, seen: Seen) -> None:
    """Remember the newest version of a trust file."""
    document: dict[str, Json] = {"schema": SCHEMA, "sha256": seen.sha256, "version": seen.version}
    write_atomically(_seen_path(state, lineage), canonical.encode(document) + b"\n", 0o600)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for, then hold, the right to change ``path``; where the system has no such locks, nothing is held."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows
        yield
        return
    make_directory(path.parent)
    lock = path.with_name(path.name + ".lock")
    try:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unwritable(lock, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_atomically(path: Path, data: bytes, mode: int) -> None:
    """Give ``path`` its new content at once: whoever reads, before or after a crash, finds the old or the new.

    Raises:
        StoreError: It cannot be written.
    """
    make_directory(path.parent)
    try:
        whole_files.write(path, data, mode)
    except OSError as error:
        raise _unwritable(path, error) from error


def read_file(path: Path, max_bytes: int) -> tuple[bytes, int]:
    """Return the content and the mode of a regular file; of a larger one, ``max_bytes`` + 1 bytes.

    Raises:
        InputError: A folder, a pipe or a device.
        OSError: It cannot be read.
    """
    # Opening a pipe would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise InputError(f"{path}: trust: not a regular file")
        return file.read(max_bytes + 1), mode


def read_own(path: Path, fault: fields.Fault) -> Json:
    """Return the JSON of a small file that only this user writes; None where there is none.

    Raises:
        StoreError: It cannot be read.
        NotUnderstoodError: Its schema is not known here.
        TrustError: It is malformed, or others may write to it.
    """
    try:
        data, mode = read_file(path, _MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path}: {fault.place}: {error.strerror}") from error
    if os.name == "posix" and mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise TrustError(
            f"{path}: {fault.place}: mode {stat.S_IMODE(mode):04o} lets others write to it",
            code="untrusted-key",
            hint=f"chmod 600 {path}",
        )
    try:
        value = canonical.parse(data.removesuffix(b"\n"), max_bytes=_MAX_BYTES)
    except InputError as error:
        raise fault(str(error)) from error
    if isinstance(value, dict) and not fields.is_schema(value, SCHEMA):
        raise versions.unknown(value.get("schema"), SCHEMA, f"{path}: {fault.place}")
    if value is None:
        raise fault("an object is expected")
    return value


def make_directory(path: Path) -> None:
    """Make a directory that only its owner sees, if it is not there.

    Raises:
        StoreError: It cannot be made.
    """
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for one in reversed(missing):
        try:
            one.mkdir(0o700, exist_ok=True)
        except OSError as error:
            raise _unwritable(one, error) from error


def _seen_path(state: Path, lineage: str) -> Path:
    return state / "trust" / f"{lineage}.json"


def _unwritable(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path}: trust: it cannot be written: {error.strerror}")
