"""What the holder of the lock puts right when it opens a journal; nothing that was acknowledged is ever cut.

An unfinished frame at the end of the last segment is copied to ``quarantine/`` and cut off. A segment with damage
before its end stays as it is, byte for byte, and writing goes on in a new one. Both leave an event in the journal.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import uuid
from pathlib import Path

from provstore.journal import frames, segments, writer
from provstore.journal.disk import Disk
from provstore.journal.scan import MARKER, Scan, marker_content, marker_id, scan
from provstore.journal.segments import Segment
from provstore.journal.writer import TEMPORARY, Writer, event

QUARANTINE = "quarantine"
BLOBS = "blobs"
RESERVE = "reserve"
RESERVE_BYTES = 1024 * 1024
_FOLDERS = (BLOBS, QUARANTINE, TEMPORARY)


def recover(directory: Path, disk: Disk) -> tuple[Scan, Writer]:
    """Return what the journal holds after it was put right, and its writing end. The caller holds the lock.

    Raises:
        StoreError: It cannot be read or written.
    """
    for name in _FOLDERS:
        disk.make_directory(directory / name)
    if not segments.listing(directory) and not (directory / MARKER).exists():
        _write_marker(directory, uuid.uuid4().hex, disk)
    _adopt(directory, disk)
    found = scan(directory)
    if found.marker_id != found.journal_id:
        _write_marker(directory, found.journal_id, disk)
    output = _continue(found, disk)
    _tidy(directory, disk)
    keep_reserve(directory, disk)
    return found, output


def _adopt(directory: Path, disk: Disk) -> None:
    """Name the next segment if only its naming was lost: its header is whole and fits behind the last one."""
    files = segments.listing(directory)
    number = max(files, default=0) + 1
    path = directory / TEMPORARY / segments.file_name(number)
    header = segments.read_header(path, number) if path.exists() else None
    if header is not None and header.journal_id == marker_id(directory):
        writer.reveal(disk, path, directory / path.name)


def keep_reserve(directory: Path, disk: Disk) -> None:
    """Hold back 1 MiB, so that a full disk still takes the note that it was full; a lack of room is no error."""
    path = directory / RESERVE
    if path.exists():
        return
    try:
        writer.put(disk, directory, path, bytes(RESERVE_BYTES))
    except OSError:
        return


def _continue(found: Scan, disk: Disk) -> Writer:
    """Return the writer that goes on behind the last segment, with the events that tell what was done."""
    directory, journal_id = found.directory, found.journal_id
    for closed, following in itertools.pairwise(found.segments):
        if following.header is not None and following.header.prev == closed.digest:
            _close_name(closed, disk)
    last = found.segments[-1] if found.segments else None
    if last is None:
        return Writer(directory, journal_id, disk)
    if last.seal is not None:
        if isinstance(last.seal.said, dict) and last.seal.said.get("sha256") == last.seal.digest:
            _close_name(last, disk)
        return Writer(directory, journal_id, disk, found.last_jseq, last, is_closed=True)
    if _is_given_up(last):
        output = Writer(directory, journal_id, disk, found.last_jseq, last, is_closed=True)
        said = event("recovery", cause="unacknowledged tail", segment=last.number, bytes=last.size)
        output.append(frames.EVENT, said)
        return output
    if not last.is_whole or not last.entries:
        output = Writer(directory, journal_id, disk, found.last_jseq, last, is_closed=True)
        said = event("recovery", cause="damage", segment=last.number, bytes=last.size)
        found.noted.append(output.append(frames.EVENT, said))
        _close_name(last, disk)
        return output
    kept = _cut(directory, last, disk) if last.valid_end < last.size else None
    output = Writer(directory, journal_id, disk, found.last_jseq, last)
    if kept is not None:
        size = last.size - last.valid_end
        said = event(
            "recovery", cause="unfinished frame", segment=last.number, offset=last.valid_end, bytes=size, kept=kept
        )
        found.noted.append(output.append(frames.EVENT, said))
    return output


def _is_given_up(last: Segment) -> bool:
    """Return whether a segment got its final name without a seal: its sync failed, and nothing may be added to it."""
    digits = segments.name_digest(last.path)
    return bool(digits) and last.seal is None and last.digest.startswith(digits)


def _close_name(closed: Segment, disk: Disk) -> None:
    """Finish the renaming that a crash kept from a segment; a name that carries a digest already stays."""
    if not segments.name_digest(closed.path):
        closed.path = writer.close_name(closed.path, closed.number, closed.digest, disk)


def _cut(directory: Path, last: Segment, disk: Disk) -> str:
    """Copy the torn tail of a segment to quarantine, then cut it off; return the copy's name."""
    with last.path.open("rb") as file:
        file.seek(last.valid_end)
        tail = file.read()
    name = f"seg-{last.number:08d}-{last.valid_end}-{hashlib.sha256(tail).hexdigest()[:16]}.tail"
    writer.put(disk, directory, directory / QUARANTINE / name, tail)
    descriptor = disk.open(last.path)
    try:
        disk.truncate(descriptor, last.valid_end)
        disk.sync(descriptor)
    finally:
        os.close(descriptor)
    return name


def _tidy(directory: Path, disk: Disk) -> None:
    """Remove what an interrupted write left in the folder for unfinished files."""
    for path in (directory / TEMPORARY).iterdir():
        disk.remove(path)


def _write_marker(directory: Path, journal_id: str, disk: Disk) -> None:
    writer.put(disk, directory, directory / MARKER, marker_content(journal_id))
