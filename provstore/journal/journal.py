"""The journal: the ledger of every accepted batch, of which any graph is an index."""

from __future__ import annotations

import contextlib
import heapq
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from provstore.errors import InputError, StoreError
from provstore.journal import batches, blobs, columns, control, evidence, frames, recovery, scan, segments, writer
from provstore.journal.batches import Batch, Origin
from provstore.journal.check import check
from provstore.journal.disk import Disk
from provstore.journal.evidence import BundleFrame, JournalEvidence, RecordFrame, Scope, ScopeIndex
from provstore.journal.lock import Lock
from provstore.journal.problems import PAYLOAD_MISSING, PAYLOAD_WRONG, Problem, of_frame, report
from provstore.journal.segments import Entry
from provstore.model import canonical
from provstore.model.block import Block
from provstore.model.evidence import RankHead

LOCK = "lock"


class Journal:
    """An open journal; a context manager. :meth:`open` makes one."""

    def __init__(self, found: scan.Scan, output: writer.Writer | None, lock: Lock | None, disk: Disk) -> None:
        self.directory = found.directory
        self.journal_id = found.journal_id
        self.problems = tuple(found.problems)
        """What the opening found, blobs not looked at; :meth:`check` looks at everything."""
        self._entries = found.facts()
        self._evidence_entries, self._event_entries = found.evidence(), found.events()
        self._index: dict[Scope, ScopeIndex] | None = None
        self._output, self._lock, self._disk = output, lock, disk
        self._mutex = threading.Lock()
        self._known: set[tuple[object, ...]] | None = None

    @staticmethod
    def open(directory: Path, *, writable: bool, disk: Disk | None = None) -> Journal:
        """Return the journal in ``directory``.

        Args:
            directory: Made when ``writable`` and absent.
            writable: Take the lock, put right what a crash left, and allow :meth:`append`. Without it nothing is
                changed, no lock is needed, and what a writer had finished at this moment is seen.
            disk: How files are changed; for tests that let it fail.

        Raises:
            StoreError: Locked by another writer, whose pid is named; unreadable; or no journal.
            NotUnderstoodError: Made by a later version.
        """
        if not writable:
            return Journal(scan.scan(directory), None, None, disk or Disk())
        held = None
        try:
            directory.mkdir(parents=True, exist_ok=True)
            held = Lock(directory / LOCK)
            found, output = recovery.recover(directory, disk or Disk())
        except BaseException as error:
            if held is not None:
                held.release()
            if isinstance(error, OSError):
                raise writer.failure(directory, error) from error
            raise
        journal = Journal(found, output, held, disk or Disk())
        journal._absorb()
        return journal

    @property
    def position(self) -> int:
        """Number of the last batch, record or bundle; 0 when there is none. A graph that has applied it has all."""
        return max((entries[-1].jseq for entries in (self._entries, self._evidence_entries) if entries), default=0)

    @property
    def end(self) -> Entry | None:
        """Where the last of all its frames lies."""
        last = [entries[-1] for entries in (self._entries, self._evidence_entries, self._event_entries) if entries]
        return max(last, key=lambda entry: entry.jseq, default=None)

    def append(self, block: Block, origin: Origin | None = None) -> int:
        """Return the number under which the batch, and the bytes it was read from, are durable.

        Args:
            block: The facts; not a derived block.
            origin: The file they were read from; ``None`` for facts without a file.

        Raises:
            StoreError: Nothing of the batch counts; what was acknowledged before stays.
            InputError: A value cannot be kept, the source file has changed since it was read, or the run is closed.
        """
        with self._mutex:
            output = self._require_writer()
            self._require_open(block.run, block.attempt)
            parts = columns.groups(block)
            try:
                if origin is not None and origin.is_kept and origin.path is not None:
                    blobs.put_source(self.directory, origin.path, origin.sha256, self._disk)
                kind, payload = batches.write(self.directory, block.run, block.attempt, parts, origin, self._disk)
                entry = output.append(kind, payload)
            except OSError as error:
                self._note_full(output, error, (block.run, block.attempt), len(block))
                raise writer.failure(self.directory, error) from error
            except StoreError as error:
                self._note_full(output, error.__cause__, (block.run, block.attempt), len(block))
                raise
            self._entries.append(entry)
            if self._known is not None and origin is not None:
                self._known.add((origin.sha256, origin.reader, origin.version, block.run, block.attempt))
            return entry.jseq

    def has_batch(self, sha256: str, reader: str, version: str, run: str, attempt: int) -> bool:
        """Return whether this file, read by this version of this reader for this attempt, is journalled already.

        A batch whose facts blob is gone does not count, so that reading its source again heals the journal.
        """
        with self._mutex:
            if self._known is None:
                found = batches.read(self.directory, self._entries)
                self._known = {batch.identity() for _, batch in found if batch.is_present(self.directory)}
            return (sha256, reader, version, run, attempt) in self._known

    def blocks(
        self, after: int = 0, on_problem: Callable[[Problem], None] | None = None, *, until: int | None = None
    ) -> Iterator[tuple[int, Block]]:
        """Yield (number, facts) of every batch above ``after``, in order, one in memory at a time.

        Args:
            after: Number of the last batch that is not wanted.
            on_problem: Called for each batch that cannot be read, which is then left out.
            until: Number of the last batch that is wanted; all when not given.

        Raises:
            StoreError: A batch is missing or altered and there is no ``on_problem``.
        """
        for found in self.problems:
            if found.is_loss and found.last_jseq is not None and found.last_jseq > after:
                report(found, self.directory, on_problem)
        wanted = [entry for entry in self._entries if entry.jseq > after and (until is None or entry.jseq <= until)]
        for entry, payload in segments.payloads(self.directory, wanted):
            try:
                block = batches.parse(self.directory, entry, payload).block(self.directory)
            except StoreError as error:
                code = PAYLOAD_MISSING if isinstance(error.__cause__, OSError) else PAYLOAD_WRONG
                report(of_frame(entry, error, code), self.directory, on_problem)
                continue
            yield entry.jseq, block

    def accepted(
        self, after: int = 0, on_problem: Callable[[Problem], None] | None = None
    ) -> Iterator[tuple[int, Block | RecordFrame | BundleFrame]]:
        """Yield (number, content) of every batch, record frame and bundle above ``after``, in order.

        Args:
            after: Number of the last one that is not wanted.
            on_problem: Called for each that cannot be read, which is then left out.

        Raises:
            StoreError: Something is missing or altered and there is no ``on_problem``.
        """
        until = self.settled()
        blocks, frames = self.blocks(after, on_problem, until=until), self.evidence_frames(after, until, on_problem)
        return heapq.merge(blocks, frames, key=lambda numbered: numbered[0])

    def settled(self) -> int:
        """Return a position up to which everything can be read; others may be appending."""
        with self._mutex:
            return self.position

    def evidence_frames(
        self, after: int, until: int, on_problem: Callable[[Problem], None] | None = None
    ) -> Iterator[tuple[int, RecordFrame | BundleFrame]]:
        """Yield (number, content) of the record frames and bundles above ``after`` and up to ``until``, in order."""
        wanted = [entry for entry in self._evidence_entries if after < entry.jseq <= until]
        yield from self._frames_of(wanted, on_problem)

    def batches(self, on_problem: Callable[[Problem], None] | None = None) -> Iterator[tuple[int, Batch]]:
        """Yield (number, what its frame says) of every batch.

        Args:
            on_problem: Called for each frame that is no batch this version knows, which is then left out.

        Raises:
            StoreError: A frame is sound, yet no batch this version knows, and there is no ``on_problem``.
        """
        for entry, payload in segments.payloads(self.directory, self._entries):
            try:
                yield entry.jseq, batches.parse(self.directory, entry, payload)
            except StoreError as error:
                report(of_frame(entry, error), self.directory, on_problem)

    def batch_fault(self, batch: Batch) -> str | None:
        """Return what is wrong with the files of a batch, read now: ``None`` when they are what its frame says."""
        return batch.fault(self.directory)

    def events(self) -> Iterator[tuple[int, dict[str, object]]]:
        """Yield (number, content) of what happened to the journal itself: recoveries, a full disk."""
        for entry, payload in segments.payloads(self.directory, self._event_entries):
            with contextlib.suppress(InputError):
                if isinstance(said := canonical.parse(payload), dict):
                    yield entry.jseq, dict(said)

    def scopes(self) -> list[Scope]:
        """Return every (run, attempt) of which there are batches or evidence, in order of their names.

        A frame that says of no run what it belongs to is left out; :meth:`check` names it.
        """
        known = {(batch.run, batch.attempt) for _, batch in self.batches(lambda _: None)}
        return sorted(known | set(self._known_evidence()))

    def evidence(self, run: str, attempt: int) -> JournalEvidence:
        """Return the records and bundles of one attempt."""
        at = self._known_evidence().get((run, attempt), ScopeIndex())
        return JournalEvidence(self.directory, self.journal_id, (run, attempt), at.entries)

    def evidence_size(self, run: str, attempt: int) -> ScopeIndex:
        """Return how many records and bundles one attempt has, and whether it is closed."""
        return self._known_evidence().get((run, attempt), ScopeIndex())

    def append_records(
        self,
        run: str,
        attempt: int,
        lines: Sequence[bytes],
        heads: Sequence[RankHead] = (),
        *,
        closes: bool = False,
        made_again: bool = False,
    ) -> int:
        """Return the index in the run tree of the first of these records, which are durable now.

        Args:
            run: The run.
            attempt: Its incarnation.
            lines: Canonical records, in order.
            heads: What ranks say, and perhaps sign, about their records up to and with these.
            closes: The last one closes the run: nothing may follow.
            made_again: The next try makes them anew from what is in the journal: a full disk loses none of them.

        Raises:
            StoreError: They could not be made durable; those before them count.
            InputError: The run is closed, or there is nothing to append.
        """
        scope = (run, attempt)
        with self._mutex:
            output, known = self._require_writer(), self._known_evidence()
            self._require_open(run, attempt)
            if not lines:
                raise InputError(f"{run}: records: there are none to append")
            at = known.setdefault(scope, ScopeIndex())
            start = at.records
            parts = list(evidence.pieces(lines))
            for number, part in enumerate(parts):
                is_last = number == len(parts) - 1
                payload = evidence.records_payload(
                    scope, at.records, part, heads if is_last else (), closes=closes and is_last
                )
                lost = 0 if made_again else sum(map(len, parts[number:]))
                self._append_evidence(output, frames.RECORDS, payload, known, (scope, lost))
            return start

    def append_bundle(self, run: str, attempt: int, envelope: bytes, note: bytes) -> int:
        """Return the number under which a signed bundle and its checkpoint are durable.

        Raises:
            StoreError: They could not be made durable.
        """
        with self._mutex:
            output, known = self._require_writer(), self._known_evidence()
            payload = evidence.bundle_payload((run, attempt), envelope, note)
            return self._append_evidence(output, frames.BUNDLE, payload, known, ((run, attempt), 0)).jseq

    def _require_open(self, run: str, attempt: int) -> None:
        if self._known_evidence().get((run, attempt), ScopeIndex()).is_closed:
            said = f"{run}: attempt {attempt}: is closed: its end is signed and nothing may follow"
            raise InputError(said, hint="give it another --attempt")

    def _append_evidence(
        self,
        output: writer.Writer,
        kind: int,
        payload: bytes,
        known: dict[Scope, ScopeIndex],
        refused: tuple[Scope, int],
    ) -> Entry:
        """Append a frame; ``refused`` is what a full disk keeps out: of which run, and how many records."""
        try:
            entry = output.append(kind, payload)
        except StoreError as error:
            self._note_full(output, error.__cause__, *refused)
            raise
        self._evidence_entries.append(entry)
        evidence.add(known, entry, payload)
        return entry

    def _known_evidence(self) -> dict[Scope, ScopeIndex]:
        if self._index is None:
            self._index = evidence.index(self.directory, self._evidence_entries)
        return self._index

    def _frames_of(
        self, entries: Sequence[Entry], on_problem: Callable[[Problem], None] | None
    ) -> Iterator[tuple[int, RecordFrame | BundleFrame]]:
        for entry, payload in segments.payloads(self.directory, entries):
            try:
                yield entry.jseq, evidence.parse(entry, payload)
            except StoreError as error:
                report(of_frame(entry, error), self.directory, on_problem)

    def source(self, sha256: str) -> bytes:
        """Return the bytes of a source file.

        Raises:
            StoreError: They were not kept, or are missing or altered.
        """
        for _, batch in batches.read(self.directory, self._entries):
            if batch.source is not None and batch.source.sha256 == sha256 and batch.source.is_kept:
                path = blobs.path_of(self.directory, sha256, blobs.SOURCE_SUFFIX)
                return blobs.read_source(path, sha256, batch.source.size_bytes)
        raise StoreError(f"journal: {self.directory}: the bytes of {sha256} were not kept")

    def keep(self, data: bytes) -> str:
        """Keep bytes that records name by their SHA-256, which is returned; they are durable now.

        Raises:
            StoreError: They could not be made durable.
        """
        self._require_writer()
        try:
            return blobs.put_bytes(self.directory, data, self._disk)
        except OSError as error:
            raise writer.failure(self.directory, error) from error

    def kept(self, sha256: str, size_bytes: int) -> bytes:
        """Return bytes that :meth:`keep` kept.

        Raises:
            StoreError: They are missing or altered.
        """
        return blobs.read_source(blobs.path_of(self.directory, sha256, blobs.SOURCE_SUFFIX), sha256, size_bytes)

    def check(self) -> list[Problem]:
        """Return everything that is wrong, worst first; every byte is read and nothing is changed."""
        return check(self.directory)

    def close(self) -> None:
        """Give the lock back."""
        if self._output is not None:
            self._output.release()
            self._output = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_writer(self) -> writer.Writer:
        if self._output is None or self._lock is None:
            raise StoreError(f"journal: {self.directory}: is not open for writing")
        if self._lock.pid != os.getpid():
            raise StoreError(f"journal: {self.directory}: was opened by process {self._lock.pid}, before a fork")
        return self._output

    def _absorb(self) -> None:
        """Make events of what operators switched meanwhile; what a full disk refuses now waits for the next holder."""
        waiting = control.absorbable(self.directory)
        if not waiting:
            return
        output, events = self._require_writer(), [said for _, said in self.events()]
        known = {said.get("id") for said in events}
        try:
            for _, change in waiting:
                if change.id not in known:
                    self._event_entries.append(output.append(frames.EVENT, canonical.encode(change.event())))
        except StoreError:
            return
        control.absorbed(self.directory, [path for path, _ in waiting], events)

    def _note_full(self, output: writer.Writer, cause: BaseException | None, scope: Scope, rows: int) -> None:
        """Give the reserve back to a full disk and note there what was refused, as far as it goes."""
        if not isinstance(cause, OSError) or cause.errno not in writer.FULL:
            return
        try:
            self._disk.remove(self.directory / recovery.RESERVE)
            said = writer.event("gap", cause="disk full", run=scope[0], attempt=scope[1], rows=rows)
            self._event_entries.append(output.append(frames.EVENT, said))
        except (OSError, StoreError):
            return
