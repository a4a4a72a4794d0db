"""What operators switch for every process and host on a journal; switching needs no hold of the journal.

A change is a file of its own in ``control/spool``, there whole or not at all, and counts from then on. The next holder
of the journal makes it an event of the journal and takes the file away. ``control/state.json`` only spares readers the
journal: without it the events are read.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from provstore.errors import InputError, NotUnderstoodError, StoreError
from provstore.model import canonical, versions
from provstore.model.canonical import Json

EVENT = "control"
SAFE_MODE = "safe-mode"
ON, OFF = "on", "off"
_FOLDER, _SPOOL, _STATE = "control", "spool", "state.json"
_TEXTS = ("what", "state", "reason", "who", "host", "id")
_MAX_TEXT = 2_000
_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that an operator switched."""

    what: str
    """``safe-mode``, or what else is switched for all."""
    state: str
    reason: str
    who: str
    host: str
    at_ns: int
    id: str = ""
    """Makes a change that is journalled twice count once."""

    def order(self) -> tuple[int, bool, str]:
        """Return what tells which of two changes counts: the later one, the safer one of two at one time."""
        return self.at_ns, self.state == ON, self.id

    def event(self) -> dict[str, Json]:
        """Return the change as the content of an event of the journal."""
        said: dict[str, Json] = {name: getattr(self, name) for name in _TEXTS}
        return {**said, "at": canonical.tag_integer(self.at_ns), "event": EVENT}


def announce(journal: Path, change: Change) -> Change:
    """Make a change count for every process that looks at this journal; return it as it was kept.

    Raises:
        InputError: One of its texts is too long.
        NotUnderstoodError: What was switched before is kept in a version that is not known here.
        StoreError: It could not be made durable; nothing has changed.
    """
    for name in _TEXTS:
        if len(getattr(change, name)) > _MAX_TEXT:
            raise InputError(f"{change.what}: {name}: more than {_MAX_TEXT} characters")
    before = current(journal).get(change.what)
    # A clock that lags must not make the newest change an old one.
    at_ns = change.at_ns if before is None else max(change.at_ns, before.at_ns + 1)
    kept = replace(change, at_ns=at_ns, id=uuid.uuid4().hex)
    try:
        _put(
            journal / _FOLDER / _SPOOL / f"{kept.at_ns:020}-{kept.id}.json",
            canonical.encode({**kept.event(), "schema": _SCHEMA}),
        )
    except OSError as error:
        raise StoreError(f"{journal / _FOLDER}: control: {error.strerror}: nothing was changed") from error
    with contextlib.suppress(OSError):
        _remember(journal, current(journal))
    return kept


def current(journal: Path, events: Iterable[Mapping[str, object]] = ()) -> dict[str, Change]:
    """Return the change that counts for each thing that is switched.

    Args:
        journal: Directory of the journal; it need not exist.
        events: Contents of the journal's events, where the caller has them or :func:`is_remembered` says no.

    Raises:
        NotUnderstoodError: Something is kept in a version that is not known here: what holds cannot be told.
    """
    found = [change for said in events if (change := _change(said)) is not None]
    remembered = _read(journal / _FOLDER / _STATE)
    changes = remembered.get("changes") if remembered else None
    if isinstance(changes, list):
        found += [change for said in changes if isinstance(said, dict) and (change := _change(said)) is not None]
    found += [change for _, change in waiting(journal)]
    newest: dict[str, Change] = {}
    for change in sorted(found, key=Change.order):
        newest[change.what] = change
    return newest


def is_remembered(journal: Path) -> bool:
    """Return whether the state is at hand without reading the journal's events.

    Raises:
        NotUnderstoodError: It is kept in a version that is not known here.
    """
    said = _read(journal / _FOLDER / _STATE)
    return said is not None and isinstance(said.get("changes"), list)


def waiting(journal: Path) -> Iterator[tuple[Path, Change]]:
    """Yield the changes that are no events of the journal yet, with their files, oldest first.

    Raises:
        NotUnderstoodError: One is of a version that is not known here.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(journal / _FOLDER / _SPOOL))
    except OSError:
        return
    for name in names:
        path = journal / _FOLDER / _SPOOL / name
        said = _read(path) if name.endswith(".json") else None
        change = _change(said) if said is not None else None
        if change is not None:
            yield path, change


def absorbable(journal: Path) -> list[tuple[Path, Change]]:
    """Return what is waiting; nothing beside what a later version kept: that waits for a holder that knows it."""
    try:
        found = list(waiting(journal))
        return found if found and current(journal) else []
    except NotUnderstoodError:
        return []


def absorbed(journal: Path, paths: Iterable[Path], events: Iterable[Mapping[str, object]]) -> None:
    """Take away the files of changes that are events now; what cannot be done is done by the next holder."""
    with contextlib.suppress(OSError):
        _remember(journal, current(journal, events))
        for path in paths:
            path.unlink(missing_ok=True)


def _remember(journal: Path, changes: Mapping[str, Change]) -> None:
    said: dict[str, Json] = {"changes": [changes[what].event() for what in sorted(changes)], "schema": _SCHEMA}
    _put(journal / _FOLDER / _STATE, canonical.encode(said))


def _put(path: Path, data: bytes) -> None:
    """Write a durable file that appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path) -> dict[str, Json] | None:
    try:
        said = canonical.parse(path.read_bytes(), thing="control file")
    except (OSError, InputError):
        return None
    # A change of the first version need not say so.
    is_known = isinstance(said, dict) and versions.is_known(said.get("schema", _SCHEMA), _SCHEMA, f"{path}: control")
    return said if isinstance(said, dict) and is_known else None


def _change(said: Mapping[str, object]) -> Change | None:
    """Return what an event says was switched, or ``None`` where it says no such thing."""
    texts = {name: text for name in _TEXTS if isinstance(text := said.get(name), str)}
    at = said.get("at")
    if said.get("event") != EVENT or len(texts) != len(_TEXTS) or not isinstance(at, str):
        return None
    try:
        return Change(at_ns=canonical.tagged_integer(at), **texts)
    except InputError:
        return None
