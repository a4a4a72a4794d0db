"""Anchors: checkpoints that the party who verifies keeps outside the store, and the directory that holds them.

One file an (origin, log key): a line of canonical JSON that says when and where the checkpoint was seen, then the
checkpoint verbatim. Whoever can change these files can undo what they protect, so anything odd in one is an error.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from provstore.errors import InputError, StoreError, TrustError
from provstore.evidence import checkpoint as checkpoints
from provstore.evidence import kinds, whole_files
from provstore.evidence.anchor_files import Anchor, encode, order, parse, read_bytes
from provstore.evidence.moments import nanoseconds
from provstore.model import canonical

__all__ = ["Anchor", "AnchorState", "Scope", "lies_within", "read", "scope_of"]

SUFFIX = ".anchor"
RESETS = "resets.log"
STATE = "state"
"""``Anchor.source`` of what the state directory holds."""

_LOCK_NAME = ".lock"


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
        InputError: The file is not there, cannot be read, or is of another kind.
        TrustError: It holds no checkpoint, or more than one can have.
    """
    data = read_bytes(path)
    try:
        return parse(data, str(path), str(path))[0]
    except TrustError:
        wrong = kinds.mistaken(data, f"{path}: anchor", kinds.CHECKPOINT)
        if wrong is None:
            raise
    raise wrong


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
        return sorted((one for one in found if one.origin == origin), key=order)

    def at_place(self, place: str) -> list[Anchor]:
        """Return the newest anchors that were seen at a place, of whatever store: a replaced store shows here."""
        wanted = _spelled(place)
        return [one for one in self.all() if one.place == wanted]

    def all(self) -> list[Anchor]:
        """Return the newest anchor of every origin and key, in the order of their origins.

        Raises:
            TrustError: A file is not what :meth:`refresh` writes.
        """
        return sorted((self._held(path)[0] for path in self._paths("*")), key=order)

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
        fresh = Anchor(origin, point.size, point.root, note, now, STATE, None if place is None else _spelled(place))
        with self._locked():
            path = self._directory / f"{_name_of(origin)}-{_key_of(point)}{SUFFIX}"
            held = self._held(path) if path.exists() else []
            if held and fresh.size < held[0].size:
                raise _falls(fresh, held[0])
            if held and fresh.size == held[0].size:
                if fresh.root != held[0].root:
                    raise TrustError(f"anchor: {origin}: another root at size {fresh.size} is held", code="fork")
                return held[0]
            whole_files.write(path, encode(fresh, held), 0o600)
        return fresh

    def reset(self, origin: str, now: str) -> int:
        """Forget what is held for an origin, after writing down what that was; return how many files are gone.

        Raises:
            StoreError: The directory cannot be written; then nothing is forgotten.
        """
        with self._locked():
            paths = list(self._paths(_name_of(origin) + "-*"))
            for path in paths:
                content = read_bytes(path)
                line = {
                    "file": path.name,
                    "origin": origin,
                    "reset": now,
                    "sha256": hashlib.sha256(content).hexdigest(),
                }
                self._log(canonical.encode({**line, "held": canonical.tag_bytes(content)}) + b"\n")
                path.unlink()
            if paths:
                whole_files.flush_directory(self._directory)
        return len(paths)

    def _paths(self, pattern: str) -> Iterator[Path]:
        try:
            names = [path.name for path in self._directory.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            # Anchors that cannot be looked at must not pass for none.
            raise InputError(f"anchors: {self._directory}: {error.strerror}") from error
        for name in sorted(names):
            if fnmatch.fnmatchcase(name, pattern + SUFFIX) and not name.startswith("."):
                yield self._directory / name

    def _held(self, path: Path) -> list[Anchor]:
        """Return the newest anchor of a file, then the earlier ones."""
        held = parse(read_bytes(path), STATE, str(path))
        if held[0].seen is None:
            raise TrustError(f"{path}: anchor: it does not say when it was seen", code="envelope-malformed")
        name = f"{_name_of(held[0].origin)}-{_key_of(checkpoints.parse(held[0].note))}{SUFFIX}"
        if path.name != name:
            raise TrustError(f"{path}: anchor: its name belongs to another origin or key", code="wrong-run")
        return held

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

    def _log(self, line: bytes) -> None:
        flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW
        descriptor = os.open(self._directory / RESETS, flags, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


def _key_of(point: checkpoints.Checkpoint) -> str:
    """Return the key hash of the log's own signature line."""
    for name, key_hash, _ in point.signatures:
        if name == point.origin:
            return key_hash.hex()
    raise TrustError(f"anchor: {point.origin}: no signature line of the log itself", code="bad-signature")


def _falls(fresh: Anchor, held: Anchor) -> TrustError:
    return TrustError(
        f"anchor: {held.origin}: size {fresh.size} is less than {held.size}, which was seen {held.seen}",
        code="rollback",
        hint="find the newer copy of the store; --reset-anchor forgets what was seen, and is written down",
    )


def _spelled(place: str) -> str:
    """Return a place as JSON can hold it: a directory's name need not be text."""
    return place.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _name_of(origin: str) -> str:
    """Return how the files of an origin begin; no text from evidence becomes a file name."""
    return hashlib.sha256(origin.encode()).hexdigest()[:40]
