"""Looking at every byte of a journal: segments, chain, seals, blobs. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from provstore.errors import InputError, StoreError
from provstore.journal import batches, blobs, evidence, segments
from provstore.journal.batches import Batch
from provstore.journal.evidence import BundleFrame, RecordFrame
from provstore.journal.problems import PAYLOAD_MISSING, PAYLOAD_WRONG, STRAY_FILE, Problem, of_frame
from provstore.journal.recovery import BLOBS
from provstore.journal.scan import Scan, scan
from provstore.journal.segments import Entry
from provstore.model import canonical
from provstore.model.evidence import EPOCH_BUNDLE, EPOCH_LINK


def check(directory: Path, *, kept: bool = True) -> list[Problem]:
    """Return everything that is wrong with the journal in ``directory``, worst first.

    Args:
        directory: Of the journal.
        kept: Look at the bytes that records name by their SHA-256, too.

    Raises:
        StoreError: There is no journal, or nothing tells its id.
        NotUnderstoodError: A later format.
    """
    found = scan(directory)
    named: dict[Path, str | None] = {}
    all_found = [*found.problems, *_payloads(found, named, kept=kept)]
    if kept and any(problem.is_loss for problem in all_found):
        # Elsewhere such a file is only what a batch that was never acknowledged left behind.
        all_found += _unnamed(directory, named)
    return sorted(all_found, key=lambda problem: not problem.is_loss)


def _payloads(found: Scan, named: dict[Path, str | None], *, kept: bool) -> Iterator[Problem]:
    """Yield missing and altered payloads; every blob that a frame names is noted in ``named``."""
    for entry in found.facts():
        try:
            ((_, batch),) = batches.read(found.directory, [entry])
            if batch.lines:
                batch.block(found.directory)
        except StoreError as error:
            yield of_frame(entry, error)
            continue
        for path, what, fault in _blob_faults(found.directory, batch, named):
            yield _fault(found.directory, path, what, fault, entry)
    for entry, payload in segments.payloads(found.directory, found.evidence()):
        try:
            frame = evidence.parse(entry, payload)
        except StoreError as error:
            yield of_frame(entry, error)
            continue
        for path, what, fault in _kept_faults(found.directory, frame, named) if kept else ():
            code = PAYLOAD_MISSING if fault == "missing" else PAYLOAD_WRONG
            text = f"{what} that frame {entry.jseq} names: {fault}"
            yield Problem(code, str(path.relative_to(found.directory)), text, True, None, entry.jseq, entry.jseq)


def _kept_faults(
    directory: Path, frame: RecordFrame | BundleFrame, named: dict[Path, str | None]
) -> Iterator[tuple[Path, str, str]]:
    """Yield (path, what it holds, fault) of bad bytes that records name by their digest."""
    lines = frame.lines if isinstance(frame, RecordFrame) else ()
    for line in lines:
        if b'"kind":"epoch-' not in line:
            continue
        for sha256, size, what in _named_by(line):
            path = blobs.path_of(directory, sha256, blobs.SOURCE_SUFFIX)
            if path not in named:
                named[path] = blobs.source_fault(path, sha256, size)
            if fault := named[path]:
                yield path, what, fault


def _named_by(line: bytes) -> Iterator[tuple[str, int, str]]:
    """Yield digest, size and meaning of the bytes that a record names; one that is malformed names none."""
    try:
        said: Any = canonical.parse(line)
        if said["kind"] == EPOCH_BUNDLE:
            yield from ((blobs.require_digest(one["sha256"]), one["bytes"], one["role"]) for one in said["blobs"])
        elif said["kind"] == EPOCH_LINK and said["aep"] is not None:
            yield blobs.require_digest(said["aep"]), said["aep_bytes"], "agent record"
    except (InputError, KeyError, TypeError, ValueError):
        return


def _unnamed(directory: Path, named: dict[Path, str | None]) -> Iterator[Problem]:
    """Yield the blobs that no frame names."""
    for path in sorted((directory / BLOBS).glob("*/*")):
        if path not in named:
            text = "no frame names it: it may belong to a batch whose frame is lost"
            yield Problem(STRAY_FILE, str(path.relative_to(directory)), text, is_loss=False)


def _blob_faults(directory: Path, batch: Batch, named: dict[Path, str | None]) -> Iterator[tuple[Path, str, str]]:
    """Yield (path, what it holds, fault) of a batch's bad blobs; each blob is read once and noted in ``named``."""
    path = batch.facts_path(directory)
    if path is not None:
        if path not in named:
            named[path] = blobs.facts_fault(path, batch.sha256)
        if fault := named[path]:
            yield path, "facts", fault
    if batch.source is not None and batch.source.is_kept:
        path = blobs.path_of(directory, batch.source.sha256, blobs.SOURCE_SUFFIX)
        if path not in named:
            named[path] = blobs.source_fault(path, batch.source.sha256, batch.source.size_bytes)
        if fault := named[path]:
            yield path, "source bytes", fault


def _fault(directory: Path, path: Path, what: str, fault: str, entry: Entry) -> Problem:
    code = PAYLOAD_MISSING if fault == "missing" else PAYLOAD_WRONG
    place = str(path.relative_to(directory))
    return Problem(code, place, f"{what} of batch {entry.jseq}: {fault}", True, None, entry.jseq, entry.jseq)
