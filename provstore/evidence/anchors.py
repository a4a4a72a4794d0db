"""Anchors: checkpoints that the party who verifies keeps outside the store, and the directory that holds them.

One file an (origin, log key): a line of canonical JSON that says when and where the checkpoint was seen, then the
checkpoint verbatim. Whoever can change these files can undo what they protect, so anything odd in one is an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote

from provstore.errors import InputError, StoreError, TrustError
from provstore.evidence import checkpoint as checkpoints
from provstore.evidence.moments import nanoseconds
from provstore.model import canonical
from provstore.model.canonical import Json

SCHEMA = 1
SUFFIX = ".anchor"
RESETS = "resets.log"
MOST_BYTES = 128 * 1024
"""A checkpoint is at most half of it; a longer file is not read."""
MOST_EARLIER = 64
"""Sizes that a state file remembers besides its newest; a revocation can reach back to them."""
STATE = "state"
"""``Anchor.source`` of what the state directory holds."""

_HEX_DIGEST = re.compile(r"[0-9a-f]{64}")
_LOCK_NAME = ".lock"
_HEADER_MEMBERS = {"earlier", "origin", "place", "schema", "seen"}
_EARLIER_MEMBERS = {"root", "seen", "size"}


@dataclass(frozen=True, slots=True)
class Anchor:
    """A tree of a known size and root, held by the party who verifies."""

    origin: str
    size: int
    root: bytes
    note: bytes
    """The signed checkpoint, verbatim; empty for a size that a state file remembers from before."""
    seen: str | None
    """When the verifier saw it, ISO 8601 in UTC; ``None`` when nobody wrote that down."""
    source: str
    """Path of a file that was given, or ``state``."""
    place: str | None = None
    """Directory or address of the store where it was seen."""
    dated_by: str | None = None
    """What else shows its age, such as the name of a time stamp authority."""
    path: str | None = field(default=None, compare=False)
    """Where it was read from."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What an origin is about."""

    org: str
    store: str
    run: str
    attempt: int


def scope_of(origin: str) -> Scope | None:
    """Return what an origin is about; ``None`` when it is not spelled as ours are."""
    parts = origin.split("/")
    if len(parts) != 4:
        return None
    try:
        org, store, run = ("" if part == "%" else unquote(part, errors="strict") for part in parts[:3])
        attempt = int(parts[3])
        same = checkpoints.origin(org, store, run, attempt) == origin
    except (ValueError, InputError, TrustError):
        return None
    return Scope(org, store, run, attempt) if same and attempt >= 0 else None


def read(path: Path) -> Anchor:
    """Return the anchor in a file: a bare checkpoint, or a file of a state directory.

    Raises:
        InputError: The file is not there or cannot be read.
        TrustError: It holds no checkpoint, or more than one can have.
    """
    return replace(_parsed(_bytes_of(path), str(path), str(path))[0], path=str(path))


def lies_within(anchor: Anchor, directory: Path) -> bool:
    """Return whether an anchor was read from a file inside ``directory``, links followed."""
    if anchor.path is None and anchor.source == STATE:
        return False
    return Path(anchor.path or anchor.source).resolve().is_relative_to(directory.resolve())


class AnchorState:
    """The anchors that a verifier keeps for itself.

    Args:
        directory: Where they lie; made on the first write, readable by its owner only.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def directory(self) -> Path:
        """Where the anchors lie."""
        return self._directory

    def for_origin(self, origin: str) -> list[Anchor]:
        """Return all that is held for an origin, whatever key signed it, smallest first.

        Raises:
            TrustError: A file is not what :meth:`refresh` writes.
        """
        found = [one for path in self._paths(_name_of(origin) + "-*") for one in self._held(path)]
        return sorted((one for one in found if one.origin == origin), key=_order)

    def at_place(self, place: str) -> list[Anchor]:
        """Return the newest anchors that were seen at a place, of whatever store: a replaced store shows here."""
        return [one for one in self.all() if one.place == place]

    def all(self) -> list[Anchor]:
        """Return the newest anchor of every origin and key, in the order of their origins.

        Raises:
            TrustError: A file is not what :meth:`refresh` writes.
        """
        return sorted((self._held(path)[0] for path in self._paths("*")), key=_order)

    def refresh(self, note: bytes, origin: str, place: str | None, now: str) -> Anchor:
        """Keep a newer checkpoint; only what a full successful verification gave belongs here.

        Args:
            note: The signed checkpoint, verbatim.
            origin: What it must be about.
            place: Directory or address of the store where it was seen.
            now: ISO 8601 in UTC.

        Returns:
            What is held now: the older one, seen earlier, where both say the same.

        Raises:
            TrustError: Smaller than what is held (``rollback``), another root at the same size (``fork``), another
                origin (``wrong-run``).
            StoreError: The directory cannot be written.
        """
        point = checkpoints.parse(note)
        if point.origin != origin:
            raise TrustError(f"anchor: {point.origin}: it is not about {origin}", code="wrong-run")
        nanoseconds(now)
        fresh = Anchor(origin, point.size, point.root, note, now, STATE, place)
        with self._locked():
            path = self._directory / f"{_name_of(origin)}-{_key_of(point)}{SUFFIX}"
            held = self._held(path) if path.exists() else []
            if held and fresh.size < held[0].size:
                raise _falls(fresh, held[0])
            if held and fresh.size == held[0].size:
                if fresh.root != held[0].root:
                    raise TrustError(f"anchor: {origin}: another root at size {fresh.size} is held", code="fork")
                return held[0]
            self._write(path, _encoded(fresh, held))
        return fresh

    def reset(self, origin: str, now: str) -> int:
        """Forget what is held for an origin, after writing down what that was; return how many files are gone.

        Raises:
            StoreError: The directory cannot be written; then nothing is forgotten.
        """
        with self._locked():
            paths = list(self._paths(_name_of(origin) + "-*"))
            for path in paths:
                content = _bytes_of(path)
                line = {
                    "file": path.name,
                    "origin": origin,
                    "reset": now,
                    "sha256": hashlib.sha256(content).hexdigest(),
                }
                self._log(canonical.encode({**line, "held": canonical.tag_bytes(content)}) + b"\n")
                path.unlink()
            if paths:
                _sync_directory(self._directory)
        return len(paths)

    def _paths(self, pattern: str) -> Iterator[Path]:
        yield from sorted(path for path in self._directory.glob(pattern + SUFFIX) if not path.name.startswith("."))

    def _held(self, path: Path) -> list[Anchor]:
        """Return the newest anchor of a file, then the earlier ones."""
        held = _parsed(_bytes_of(path), STATE, str(path))
        if held[0].seen is None:
            raise TrustError(f"{path}: anchor: it does not say when it was seen", code="envelope-malformed")
        name = f"{_name_of(held[0].origin)}-{_key_of(checkpoints.parse(held[0].note))}{SUFFIX}"
        if path.name != name:
            raise TrustError(f"{path}: anchor: its name belongs to another origin or key", code="wrong-run")
        return [replace(one, path=str(path)) for one in held]

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        import fcntl

        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._directory / _LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StoreError(f"anchors: {self._directory}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        except OSError as error:
            raise StoreError(f"anchors: {self._directory}: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def _write(self, path: Path, data: bytes) -> None:
        temporary = self._directory / f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp"
        temporary.unlink(missing_ok=True)
        try:
            _write_new(temporary, data)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _sync_directory(self._directory)

    def _log(self, line: bytes) -> None:
        flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW
        descriptor = os.open(self._directory / RESETS, flags, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


def _falls(fresh: Anchor, held: Anchor) -> TrustError:
    return TrustError(
        f"anchor: {held.origin}: size {fresh.size} is less than {held.size}, which was seen {held.seen}",
        code="rollback",
        hint="find the newer copy of the store; --reset-anchor forgets what was seen, and is written down",
    )


def _order(anchor: Anchor) -> tuple[str, int, bytes, str]:
    return anchor.origin, anchor.size, anchor.root, anchor.seen or ""


def _name_of(origin: str) -> str:
    """Return how the files of an origin begin; no text from evidence becomes a file name."""
    return hashlib.sha256(origin.encode()).hexdigest()[:40]


def _key_of(point: checkpoints.Checkpoint) -> str:
    """Return the key hash of the log's own signature line."""
    for name, key_hash, _ in point.signatures:
        if name == point.origin:
            return key_hash.hex()
    raise TrustError(f"anchor: {point.origin}: no signature line of the log itself", code="bad-signature")


def _encoded(fresh: Anchor, held: list[Anchor]) -> bytes:
    # What was held stays known, so that a later revocation finds an anchor from before it.
    earlier = list(held)
    if len(earlier) > MOST_EARLIER:
        # Every second of the older half goes: recent sizes stay close together, old ones far apart.
        newest_first = sorted(earlier, key=_order, reverse=True)
        half = MOST_EARLIER // 2
        earlier = newest_first[:half] + newest_first[half::2]
    rows: list[Json] = [
        {"root": one.root.hex(), "seen": one.seen, "size": one.size} for one in sorted(earlier, key=_order)
    ]
    header: Json = {
        "earlier": rows, "origin": fresh.origin, "place": fresh.place, "schema": SCHEMA, "seen": fresh.seen,
    }  # fmt: skip
    return canonical.encode(header) + b"\n" + fresh.note


def _parsed(data: bytes, source: str, path: str) -> list[Anchor]:
    """Return the anchor in a file, then those that it remembers from before."""
    if not data.startswith(b"{"):
        point = _checkpoint(data, path)
        return [Anchor(point.origin, point.size, point.root, data, None, source)]
    header, _, note = data.partition(b"\n")
    point = _checkpoint(note, path)
    try:
        seen, place, earlier = _header(canonical.parse(header, max_bytes=MOST_BYTES), point)
        newest = Anchor(point.origin, point.size, point.root, note, seen, source, place)
        return [newest, *(_earlier(row, newest) for row in earlier)]
    except InputError as error:
        raise TrustError(f"{path}: anchor: {error}", code="envelope-malformed") from error


def _header(value: Json, point: checkpoints.Checkpoint) -> tuple[str, str | None, list[Json]]:
    if not isinstance(value, dict) or set(value) != _HEADER_MEMBERS:
        raise InputError("header: not exactly the known members")
    if value["schema"] != SCHEMA or isinstance(value["schema"], bool):
        raise TrustError(f"anchor: schema: {str(value['schema'])[:20]} is not known here", code="unknown-schema")
    if value["origin"] != point.origin:
        raise InputError("header: it is about another origin than the checkpoint")
    place, seen, earlier = value["place"], value["seen"], value["earlier"]
    if not (place is None or isinstance(place, str)) or not isinstance(seen, str) or not isinstance(earlier, list):
        raise InputError("header: a member has another type")
    nanoseconds(seen)
    if len(earlier) > MOST_EARLIER + 1:
        raise InputError("header: more earlier sizes than are kept")
    return seen, place, earlier


def _earlier(row: Json, newest: Anchor) -> Anchor:
    if not isinstance(row, dict) or set(row) != _EARLIER_MEMBERS:
        raise InputError("earlier: not exactly the known members")
    root, seen, size = row["root"], row["seen"], row["size"]
    if not isinstance(root, str) or not _HEX_DIGEST.fullmatch(root) or not isinstance(seen, str):
        raise InputError("earlier: a member has another type")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < newest.size:
        raise InputError("earlier: a size is not below the newest")
    nanoseconds(seen)
    return Anchor(newest.origin, size, bytes.fromhex(root), b"", seen, newest.source, newest.place)


def _checkpoint(note: bytes, path: str) -> checkpoints.Checkpoint:
    try:
        return checkpoints.parse(note)
    except TrustError as error:
        raise TrustError(f"{path}: anchor: {error}", code=error.code) from error


def _bytes_of(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: anchor: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise TrustError(f"{path}: anchor: more than {MOST_BYTES} bytes", code="cap-exceeded")
    return data


def _write_new(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(directory: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
