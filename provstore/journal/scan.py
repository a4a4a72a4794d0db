"""Reading a whole journal: every frame checked, the chain of segments followed, every problem named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from provstore.errors import InputError, StoreError
from provstore.journal import frames, problems, segments
from provstore.journal.problems import Problem
from provstore.journal.segments import FORMAT_VERSION, NO_DIGEST, Entry, Header, Seal, Segment
from provstore.model import canonical
from provstore.model.ids import ID_SCHEME_VERSION

MARKER = "journal.json"
_ATTEMPTS = 5


@dataclass(slots=True)
class Scan:
    """What the files of a journal say."""

    directory: Path
    journal_id: str
    segments: list[Segment] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    last_jseq: int = 0
    marker_id: str | None = None
    noted: list[Entry] = field(default_factory=list)
    """Events that were appended after the scan, when the journal was put right."""

    def facts(self) -> list[Entry]:
        """Return the frames that carry or name a batch of facts, in order."""
        return self._of(frames.FACTS)

    def evidence(self) -> list[Entry]:
        """Return the frames that carry records or signed bundles, in order."""
        return self._of(frames.EVIDENCE)

    def events(self) -> list[Entry]:
        """Return the frames that tell what happened to the journal itself, in order."""
        return [*self._of(frozenset((frames.EVENT,))), *self.noted]

    def _of(self, types: frozenset[int]) -> list[Entry]:
        return [entry for found in self.segments for entry in found.entries if entry.type in types]


def scan(directory: Path) -> Scan:
    """Return what the journal in ``directory`` holds. A writer may be at work: what it has finished is seen.

    Raises:
        StoreError: There is no journal, or nothing tells its id.
        NotUnderstoodError: A later format.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return _scan(directory)
        except FileNotFoundError as error:
            # A writer renamed a segment between the listing and the opening.
            if not directory.is_dir() or attempt == _ATTEMPTS - 1:
                raise _unreadable(directory, error) from error
        except OSError as error:
            raise _unreadable(directory, error) from error
    raise AssertionError("unreachable")


def _unreadable(directory: Path, error: OSError) -> StoreError:
    return StoreError(f"journal: {directory}: cannot be read: {error.strerror}")


def marker_id(directory: Path) -> str | None:
    """Return the journal's id as its marker file states it; ``None`` without one that is exactly as it should be."""
    try:
        data = (directory / MARKER).read_bytes()
        said = canonical.parse(data.removesuffix(b"\n"))
    except (OSError, InputError):
        return None
    name = said.get("store") if isinstance(said, dict) else None
    return name if isinstance(name, str) and name and data == marker_content(name) else None


def marker_content(journal_id: str) -> bytes:
    """Return the content of the marker file, which tells the id even when the first segment's header is damaged."""
    return canonical.encode({"format": FORMAT_VERSION, "idScheme": ID_SCHEME_VERSION, "store": journal_id}) + b"\n"


def _scan(directory: Path) -> Scan:
    files = segments.listing(directory)
    headers = {number: segments.read_header(path, number) for number, path in files.items()}
    marker = marker_id(directory)
    known = [header.journal_id for header in headers.values() if header is not None]
    if not (known or marker):
        is_there = files or (directory / MARKER).exists()
        reason = "neither its marker nor the head of a segment can be read" if is_there else "there is none yet"
        raise StoreError(f"journal: {directory}: {reason}")
    found = Scan(directory, known[0] if known else str(marker), marker_id=marker)
    if marker != found.journal_id:
        text = "does not state the journal's id as the segments do"
        found.problems.append(Problem(problems.MARKER_WRONG, MARKER, text, is_loss=False))
    before: Segment | None = None
    for number, path in files.items():
        following = headers.get(number + 1)
        size = following.prev_size if following else None
        current = segments.scan(path, number, found.journal_id, size, found.last_jseq)
        found.problems += _chain(before, current)
        found.problems += _frames(found, current, is_last=number == max(files))
        found.segments.append(current)
        before = current
    return found


def _frames(found: Scan, current: Segment, *, is_last: bool) -> Iterator[Problem]:
    """Yield the faults inside one segment and move ``found.last_jseq`` on."""
    name = current.path.name
    places: list[Entry | frames.Gap] = [*current.entries, *current.gaps]
    damage = None if current.has_magic else frames.Gap(0, len(frames.MAGIC), is_tail=False)
    for item in sorted(places, key=lambda place: place.offset):
        if isinstance(item, frames.Gap):
            damage = damage or item
            continue
        if damage or item.jseq > found.last_jseq + 1:
            yield _missing(name, damage, item, found.last_jseq)
        elif item.jseq <= found.last_jseq:
            text = f"frame at byte {item.offset} repeats number {item.jseq}"
            yield Problem(problems.CHAIN_BROKEN, name, text, True, item.offset, item.jseq, item.jseq)
        if item.type not in frames.KNOWN_TYPES:
            text = f"frame {item.jseq} has the unknown type {item.type}; it is kept"
            yield Problem(problems.UNKNOWN_FRAME, name, text, False, item.offset, item.jseq, item.jseq)
        damage, found.last_jseq = None, max(found.last_jseq, item.jseq)
    if damage:
        yield _tail(name, damage, is_torn=is_last and current.is_whole and current.seal is None)


def _missing(name: str, damage: frames.Gap | None, after: Entry, last_jseq: int) -> Problem:
    first, last = last_jseq + 1, after.jseq - 1
    lost = f"numbers {first} to {last} are missing" if last >= first else "no number is missing"
    if damage is None:
        return Problem(
            problems.CHAIN_BROKEN, name, f"{lost} before byte {after.offset}", True, after.offset, first, last
        )
    text = f"bytes {damage.offset} to {damage.end} are damaged; {lost}"
    if last < first:
        return Problem(problems.DAMAGED, name, text, True, damage.offset)
    return Problem(problems.DAMAGED, name, text, True, damage.offset, first, last)


def _tail(name: str, damage: frames.Gap, *, is_torn: bool) -> Problem:
    size = damage.end - damage.offset
    if is_torn:
        text = f"the last {size} bytes, from byte {damage.offset}, are an unfinished frame"
        return Problem(problems.TORN_TAIL, name, text, False, damage.offset)
    text = f"bytes {damage.offset} to {damage.end} are damaged; what they held, the next segment may tell"
    return Problem(problems.DAMAGED, name, text, True, damage.offset)


def _chain(before: Segment | None, current: Segment) -> Iterator[Problem]:
    """Yield where a segment does not follow from the one before, or from its own seal and name."""
    name = current.path.name

    def broken(text: str) -> Problem:
        return Problem(problems.CHAIN_BROKEN, name, text, is_loss=True)

    expected = before.number + 1 if before else 1
    if current.number != expected:
        yield broken(f"segment {current.number} follows, segment {expected} is missing")
    elif current.header is not None:
        yield from map(broken, _header_faults(before, current.header, current))
    if current.seal is not None:
        yield from map(broken, _seal_faults(current.seal, current))
    digits = segments.name_digest(current.path)
    if digits and not current.digest.startswith(digits):
        yield broken(f"its bytes have the digest {current.digest[:16]}, its name says {digits}")
    if current.file_size > current.size:
        text = f"{current.file_size - current.size} bytes at its end were never acknowledged"
        yield Problem(problems.UNACKNOWLEDGED, name, text, False, current.size)


def _header_faults(before: Segment | None, header: Header, current: Segment) -> Iterator[str]:
    prev, size = (before.digest, before.size) if before else (NO_DIGEST, 0)
    if header.prev_size != size:
        yield f"its header says that {header.prev_size} bytes precede it, there are {size}"
    elif header.prev != prev:
        yield f"its header names a predecessor with digest {header.prev[:16]}, there is {prev[:16]}"
    if header.segment != current.number:
        yield f"its header says that it is segment {header.segment}"


def _seal_faults(seal: Seal, current: Segment) -> Iterator[str]:
    whole = [entry for entry in current.entries if entry.offset < seal.size]
    if current.entries[-1].offset > seal.size:
        yield "frames follow its seal"
    if not whole or seal.said != seal_content(len(whole), whole[0].jseq, whole[-1].jseq, seal.digest):
        yield "its seal does not describe its content"


def seal_content(count: int, first: int, last: int, digest: str) -> dict[str, canonical.Json]:
    """Return what a seal states about the frames before it."""
    return {"firstJseq": first, "frames": count, "lastJseq": last, "sha256": digest}
