"""What was worked out about one attempt of a run, kept beside the journal so that a question need not read it whole.

Nothing here is evidence, and nothing is needed: a file below ``derived`` counts while no record of its attempt follows
those that it was made from, and whoever doubts one removes it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from provstore.errors import InputError, StoreError
from provstore.journal import frames, notes, places, writer
from provstore.journal.disk import Disk
from provstore.model import canonical

if TYPE_CHECKING:
    from provstore.journal.journal import Journal

Scope = tuple[str, int]
FOLDER = "derived"
_SCHEMA = 1
_MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Derived:
    """What is kept about one attempt, and what the journal has of others."""

    content: Mapping[str, Any]
    scopes: tuple[Scope, ...]
    """Every attempt of which the journal holds something, in order of their names."""
    is_signed: bool
    """Whether anything of this attempt is signed by now."""


@dataclass(slots=True)
class _Newer:
    """Whose frames follow a place in the journal."""

    records: set[Scope] = field(default_factory=set)
    """With records that matter."""
    bundles: set[Scope] = field(default_factory=set)
    others: set[Scope] = field(default_factory=set)


def keep(journal: Journal, scope: Scope, content: Mapping[str, object]) -> bool:
    """Keep what was worked out about an attempt; return whether it is there now: a failure loses nothing.

    Args:
        journal: Open for writing, so that nothing follows meanwhile.
        scope: Run and attempt.
        content: JSON values.
    """
    directory, path, disk = journal.directory, _path(journal.directory, scope), Disk()
    try:
        if journal.end is None or (place := places.of(directory, journal.end)) is None:
            return False
        is_signed = journal.evidence_size(*scope).bundles > 0
        head = {"attempt": scope[1], "place": place, "run": scope[0], "schema": _SCHEMA, "signed": is_signed}
        body = orjson.dumps({**head, "scopes": journal.scopes()}) + b"\n" + orjson.dumps(content)
        data = notes.sealed(body)
        if len(data) > _MAX_BYTES:
            return False
        disk.make_directory(path.parent)
        writer.put(disk, directory, path, data)
    except (OSError, StoreError, TypeError):
        with contextlib.suppress(OSError):
            disk.remove(path)
        return False
    return True


def before(directory: Path, scope: Scope) -> Mapping[str, Any] | None:
    """Return what was kept about an attempt last, though records may have followed since."""
    found = _read(_path(directory, scope))
    return None if found is None else found[1]


def scopes(directory: Path) -> list[Scope] | None:
    """Return every attempt of which the journal holds something; ``None`` where its frames have to be asked."""
    for path in sorted(directory.joinpath(FOLDER).glob("*.json"), key=_age, reverse=True):
        found = _read(path)
        newer = None if found is None else _newer(directory, found[0]["place"])
        if found is not None and newer is not None:
            return _scopes(found[0], newer)
    return None


def current(directory: Path, scope: Scope, marks: Sequence[bytes]) -> Derived | None:
    """Return what is kept about an attempt if all its records were known then, and ``None`` otherwise.

    Args:
        directory: Of the journal.
        scope: Run and attempt.
        marks: What the records hold that matter; others may have followed.
    """
    found = _read(_path(directory, scope))
    if found is None or (found[0]["run"], found[0]["attempt"]) != scope:
        return None
    newer = _newer(directory, found[0]["place"], marks)
    if newer is None or scope in newer.records:
        return None
    is_signed = found[0].get("signed") is True or scope in newer.bundles
    return Derived(found[1], tuple(_scopes(found[0], newer)), is_signed)


def _path(directory: Path, scope: Scope) -> Path:
    name = hashlib.sha256(f"{scope[0]}\0{scope[1]}".encode()).hexdigest()[:32]
    return directory / FOLDER / f"{name}.json"


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _scopes(head: Mapping[str, Any], newer: _Newer) -> list[Scope]:
    known = {(run, attempt) for run, attempt in head["scopes"]}
    return sorted(known | newer.records | newer.bundles | newer.others)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return head and content of a kept file; ``None`` when there is none that is whole and known here."""
    try:
        body = notes.read(path, _MAX_BYTES)
        if body is None:
            return None
        head, content = map(orjson.loads, body.split(b"\n", 1))
        is_known = isinstance(content, dict) and head["schema"] == _SCHEMA
        return (head, content) if is_known and {"run", "attempt", "place", "scopes"} <= head.keys() else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _newer(directory: Path, place: Mapping[str, Any], marks: Sequence[bytes] = ()) -> _Newer | None:
    """Return whose frames follow; ``None`` when the journal is another one, was cut, or is damaged there."""
    try:
        newer = _Newer()
        for kind, payload in places.behind(directory, place):
            if kind in frames.FACTS or kind in frames.EVIDENCE:
                said: Any = canonical.parse(payload.partition(b"\n")[0], max_bytes=frames.MAX_PAYLOAD_BYTES)
                matters = kind == frames.RECORDS and any(mark in payload for mark in marks)
                of_kind = newer.records if matters else newer.bundles if kind == frames.BUNDLE else newer.others
                of_kind.add((said["run"], said["attempt"]))
    except (OSError, StoreError, InputError, LookupError, TypeError):
        return None
    return newer
