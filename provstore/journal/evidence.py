"""Evidence in a journal: records that are, or will be, signed, and the signed bundles with their checkpoints.

A frame of records is a head line ``{"attempt","closes","first","heads","kind":"records","rows","run","schema"}`` and
the records, a frame with a bundle is a head line ``{"attempt","kind":"bundle","run","schema"}``, the envelope and the
signed note, each on a line of its own up to the note. The heads are not signed: they say where something was put.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from provstore.errors import InputError, StoreError
from provstore.journal import frames, segments
from provstore.journal.segments import Entry
from provstore.model import canonical
from provstore.model.canonical import Json
from provstore.model.evidence import BundleAt, RankHead, RecordAt
from provstore.model.lost import Lost

SCHEMA_VERSION = 1
Scope = tuple[str, int]
MAX_LINES_BYTES = frames.MAX_PAYLOAD_BYTES - 512 * 1024
"""Of the records in one frame; the rest is room for its head."""


@dataclass(frozen=True, slots=True)
class RecordFrame:
    """Records of one run that were acknowledged together."""

    run: str
    attempt: int
    first: int
    """Index of the first record in its run tree."""
    lines: tuple[bytes, ...]
    heads: tuple[RankHead, ...]
    closes: bool
    """True when a record among them closes the run."""
    jseq: int
    where: str


@dataclass(frozen=True, slots=True)
class BundleFrame:
    """A signed bundle and its checkpoint, put into one run."""

    run: str
    attempt: int
    envelope: bytes
    checkpoint: bytes
    jseq: int
    where: str


@dataclass(slots=True)
class ScopeIndex:
    """Where the evidence about one attempt lies."""

    entries: list[Entry] = field(default_factory=list)
    records: int = 0
    bundles: int = 0
    is_closed: bool = False


def records_payload(
    scope: Scope, first: int, lines: Sequence[bytes], heads: Sequence[RankHead], *, closes: bool
) -> bytes:
    """Return the payload of a frame of records."""
    head: dict[str, Json] = {
        "attempt": scope[1],
        "closes": closes,
        "first": first,
        "heads": [asdict(head) for head in heads],
        "kind": "records",
        "rows": len(lines),
        "run": scope[0],
        "schema": SCHEMA_VERSION,
    }
    return b"\n".join((canonical.encode(head), *lines))


def bundle_payload(scope: Scope, envelope: bytes, note: bytes) -> bytes:
    """Return the payload of a frame with a bundle.

    Raises:
        InputError: The envelope is more than one line.
    """
    if b"\n" in envelope:
        raise InputError("bundle: envelope: is more than one line")
    head: dict[str, Json] = {"attempt": scope[1], "kind": "bundle", "run": scope[0], "schema": SCHEMA_VERSION}
    return b"\n".join((canonical.encode(head), envelope, note))


def pieces(lines: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield runs of records that fit into one frame each."""
    start = size = 0
    for at, line in enumerate(lines):
        if size + len(line) + 1 > MAX_LINES_BYTES and at > start:
            yield lines[start:at]
            start, size = at, 0
        size += len(line) + 1
    if start < len(lines):
        yield lines[start:]


def parse(entry: Entry, payload: bytes) -> RecordFrame | BundleFrame:
    """Return what a frame of evidence carries; the records and the envelope are not looked into.

    Raises:
        StoreError: The frame is sound, yet not of a shape that is known here.
    """
    where = f"{segments.file_name(entry.segment)} frame {entry.jseq}"
    try:
        if entry.type == frames.RECORDS:
            return _records(payload, entry, where)
        return _bundle(payload, entry, where)
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"journal: {where}: evidence is not understood: {error}") from error


def index(directory: Path, entries: Sequence[Entry]) -> dict[Scope, ScopeIndex]:
    """Return where the evidence about each attempt lies; frames that are not understood are left out."""
    found: dict[Scope, ScopeIndex] = {}
    for entry, payload in segments.payloads(directory, entries):
        with contextlib.suppress(InputError, KeyError, TypeError, ValueError):
            add(found, entry, payload)
    return found


def add(known: dict[Scope, ScopeIndex], entry: Entry, payload: bytes) -> None:
    """Note one more frame, of which only the head is looked into.

    Raises:
        InputError, KeyError, TypeError, ValueError: It is not of a shape that is known here.
    """
    if entry.type == frames.RECORDS:
        head, _ = _records_head(payload)
        at = known.setdefault((head["run"], head["attempt"]), ScopeIndex())
        at.records = max(at.records, head["first"] + head["rows"])
        at.is_closed = at.is_closed or head["closes"] is True
    else:
        frame = _bundle(payload, entry, "")
        at = known.setdefault((frame.run, frame.attempt), ScopeIndex())
        at.bundles += 1
    at.entries.append(entry)


class JournalEvidence:
    """The evidence about one attempt, read from the journal's files; an ``EvidenceLog``."""

    def __init__(self, directory: Path, store: str, scope: Scope, entries: Sequence[Entry]) -> None:
        self.run, self.attempt = scope
        self.store = store
        self._directory, self._entries = directory, tuple(entries)

    def bundles(self) -> Iterator[BundleAt]:
        """Yield the bundles in the order in which they were acknowledged."""
        for frame in self._frames(frames.BUNDLE):
            if isinstance(frame, BundleFrame):
                yield BundleAt(frame.envelope, frame.checkpoint or None, frame.where)

    def last_bundle(self) -> BundleAt | None:
        """Return the bundle that was acknowledged last, without reading those before it."""
        entry = next((one for one in reversed(self._entries) if one.type == frames.BUNDLE), None)
        if entry is None:
            return None
        return next(JournalEvidence(self._directory, self.store, (self.run, self.attempt), (entry,)).bundles(), None)

    def records(self) -> Iterator[RecordAt]:
        """Yield the records in the order in which they were acknowledged."""
        for frame in self._frames(frames.RECORDS):
            if isinstance(frame, RecordFrame):
                for at, line in enumerate(frame.lines):
                    yield RecordAt(frame.first + at, line, f"{frame.where} line {at + 2}")

    def frames(self, *marks: bytes) -> Iterator[RecordFrame]:
        """Yield the frames of records in the order in which they were acknowledged.

        Args:
            marks: Only frames that hold one of these bytes somewhere: most need not be taken apart.
        """
        for frame in self._frames(frames.RECORDS, marks):
            if isinstance(frame, RecordFrame):
                yield frame

    def lines(self, *marks: bytes) -> Iterator[bytes]:
        """Yield the text of the records in their order; with marks only of those that hold one of these bytes."""
        for frame in self.frames(*marks):
            for line in frame.lines:
                if not marks or any(mark in line for mark in marks):
                    yield line

    def heads(self) -> Iterator[RankHead]:
        """Yield the rank heads that came with the records, in their order."""
        for frame in self._frames(frames.RECORDS):
            if isinstance(frame, RecordFrame):
                yield from frame.heads

    def lost(self, numbers: Sequence[tuple[int, int]]) -> Lost:
        """Return what the loss of these numbers of the journal, first and last of each, can have taken from here."""
        if not numbers:
            return Lost()
        records: list[tuple[int, int]] = []
        bundles: list[int] = []
        behind = {frames.RECORDS: 0, frames.BUNDLE: 0}
        expected, gone = 0, set()
        for entry, payload in segments.payloads(self._directory, self._entries):
            frame = parse(entry, payload)
            is_behind_loss = any(first < entry.jseq and behind[entry.type] < last for first, last in numbers)
            behind[entry.type] = entry.jseq
            if isinstance(frame, BundleFrame):
                gone |= {len(bundles)} if is_behind_loss else set()
                bundles.append(entry.jseq)
                continue
            if is_behind_loss and frame.first > expected:
                records.append((expected, frame.first))
            expected = frame.first + len(frame.lines)
        at_end = [first for first, last in numbers if last > behind[frames.RECORDS]]
        gone |= {len(bundles)} if any(last > behind[frames.BUNDLE] for _, last in numbers) else set()
        tail = (expected, sum(number < min(at_end) for number in bundles)) if at_end else None
        return Lost(tuple(records), tail, frozenset(gone))

    def _frames(self, kind: int, marks: Sequence[bytes] = ()) -> Iterator[RecordFrame | BundleFrame]:
        wanted = [entry for entry in self._entries if entry.type == kind]
        for entry, payload in segments.payloads(self._directory, wanted):
            if not marks or any(mark in payload for mark in marks):
                yield parse(entry, payload)


def _records(payload: bytes, entry: Entry, where: str) -> RecordFrame:
    head, heads = _records_head(payload)
    lines = tuple(payload.split(b"\n")[1:])
    return RecordFrame(
        head["run"], head["attempt"], head["first"], lines, heads, head["closes"] is True, entry.jseq, where
    )


def _records_head(payload: bytes) -> tuple[dict[str, Any], tuple[RankHead, ...]]:
    """Return what the head of a frame of records says, held against the number of its lines."""
    head = _head(payload.partition(b"\n")[0], "records", max_bytes=frames.MAX_PAYLOAD_BYTES)
    heads, rows = tuple(map(_rank_head, head["heads"])), payload.count(b"\n")
    if head["rows"] != rows or not isinstance(head["first"], int) or head["first"] < 0:
        raise InputError(f"{rows} records, its head says {head['rows']} from {head['first']}")
    return head, heads


def _rank_head(said: Any) -> RankHead:
    found = RankHead(**said)
    numbers, texts = (found.rank, found.count), (found.keyid, found.sig)
    if not all(type(number) is int and number >= 0 for number in numbers) or type(found.head) is not str:
        raise InputError("a rank's head: a member has another type")
    if not (texts == (None, None) or all(type(text) is str for text in texts)):
        raise InputError("a rank's head: a signature without a key, or a key without a signature")
    return found


def _bundle(payload: bytes, entry: Entry, where: str) -> BundleFrame:
    first, envelope, note = payload.split(b"\n", 2)
    head = _head(first, "bundle")
    return BundleFrame(head["run"], head["attempt"], envelope, note, entry.jseq, where)


def _head(line: bytes, kind: str, max_bytes: int = canonical.MAX_RECORD_BYTES) -> dict[str, Any]:
    said: Any = canonical.parse(line, max_bytes=max_bytes)
    if said["kind"] != kind or said["schema"] != SCHEMA_VERSION:
        raise InputError(f"kind {said['kind']!r}, schema {said['schema']!r}")
    run, attempt = said["run"], said["attempt"]
    if not isinstance(run, str) or isinstance(attempt, bool) or not isinstance(attempt, int):
        raise InputError("run or attempt: not a name and a number")
    return dict(said)
