"""Where a journal ended when a graph had all of it: while nothing follows, the graph is known to be up to date.

Reading the journal tells that, too, but takes longer than most questions to the graph. Nothing here is evidence:
verifying reads every byte, and whoever doubts the file removes it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from provstore.errors import InputError, StoreError
from provstore.journal import frames, notes, places

if TYPE_CHECKING:
    from provstore.journal.journal import Journal

NAME = "end"
_SCHEMA = 1
_MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Ending:
    """How far a journal has got; what :class:`Journal` says of itself under the same names."""

    journal_id: str
    position: int


def keep(journal: Journal) -> None:
    """Note where the journal ends; a failure loses nothing but time.

    Args:
        journal: Open for writing, so that nothing follows meanwhile.
    """
    from provstore.journal import writer
    from provstore.journal.disk import Disk

    path, disk = journal.directory / NAME, Disk()
    try:
        last = journal.end
        place = None if last is None else places.of(journal.directory, last)
        body = orjson.dumps({"place": place, "position": journal.position, "schema": _SCHEMA})
        data = notes.sealed(body)
        if place is not None and len(data) <= _MAX_BYTES and not (path.is_file() and path.read_bytes() == data):
            writer.put(disk, journal.directory, path, data)
    except (OSError, StoreError, TypeError):
        with contextlib.suppress(OSError):
            disk.remove(path)


def known(directory: Path) -> Ending | None:
    """Return how far the journal has got, if it still ends where it was last noted; ``None`` where it has to be read.

    Args:
        directory: Of the journal.
    """
    try:
        body = notes.read(directory / NAME, _MAX_BYTES)
        if body is None:
            return None
        said: Any = orjson.loads(body)
        place, position = said["place"], said["position"]
        is_number = type(position) is int and 0 < position <= place["jseq"]
        if said["schema"] != _SCHEMA or not is_number or _has_more(directory, place):
            return None
        return Ending(place["store"], position)
    except (OSError, StoreError, InputError, ValueError, LookupError, TypeError):
        return None


def has_grown(journal: Journal) -> bool:
    """Return whether the files hold anything that this journal, opened for reading, does not know of."""
    try:
        place = None if journal.end is None else places.of(journal.directory, journal.end)
        return place is None or any(True for _ in places.behind(journal.directory, place))
    except (OSError, StoreError, InputError, LookupError, TypeError):
        return True


def _has_more(directory: Path, place: dict[str, Any]) -> bool:
    """Return whether anything follows that a graph shows; what happened to the journal itself it does not."""
    shown = frames.FACTS | frames.EVIDENCE
    return any(kind in shown for kind, _ in places.behind(directory, place))
