"""Whether a journal goes on behind a frame, told from sizes and one checksum instead of by reading all before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from provstore.errors import InputError
from provstore.journal import frames, segments
from provstore.journal.scan import marker_id
from provstore.journal.segments import Entry
from provstore.model.canonical import Json


def of(directory: Path, last: Entry) -> dict[str, Json] | None:
    """Return what tells that a journal goes on behind a frame: the sizes before it, where it ends, its checksum.

    Raises:
        OSError: The files cannot be read.
    """
    files = segments.listing(directory)
    if last.segment not in files:
        return None
    sizes: dict[str, Json] = {str(n): path.stat().st_size for n, path in files.items() if n < last.segment}
    end = last.offset + last.size_bytes + frames.OVERHEAD_BYTES
    check = _check(files[last.segment], end)
    store = marker_id(directory)
    if check is None or store is None:
        return None
    return {"before": sizes, "check": check, "end": end, "jseq": last.jseq, "segment": last.segment, "store": store}


def behind(directory: Path, place: Mapping[str, Any]) -> Iterator[tuple[int, bytes]]:
    """Yield type and payload of the frames behind a place.

    Raises:
        InputError: The journal is another one, was cut, or bytes there are no frames; those of one that is being
            written, at the very end, are passed over.
        OSError: The files cannot be read.
        LookupError, TypeError: This is no place.
    """
    files = segments.listing(directory)
    first, end, store, known = place["segment"], place["end"], place["store"], place["jseq"]
    sizes = {str(n): path.stat().st_size for n, path in files.items() if n < first}
    if marker_id(directory) != store or sizes != place["before"] or first not in files:
        raise InputError(f"{directory}: the journal does not go on from there")
    if _check(files[first], end) != place["check"]:
        raise InputError(f"{files[first]}: offset {end}: no such frame ends there")
    for number in (one for one in files if one >= first):
        offset = end if number == first else len(frames.MAGIC)
        with files[number].open("rb") as file:
            size = file.seek(0, 2)
            for item in frames.read(file, offset, size, frames.seed(store, number), known):
                if isinstance(item, frames.Frame):
                    known = max(known, item.jseq)
                    yield item.type, item.payload
                elif number < max(files) or not item.is_tail:
                    raise InputError(f"{files[number]}: bytes {item.offset} to {item.end} are no frame")


def _check(path: Path, end: int) -> str | None:
    with path.open("rb") as file:
        file.seek(end - 4)
        found = file.read(4)
    return found.hex() if len(found) == 4 else None
