"""The spine: read, weave, append to the journal, write to the graph; a run's derived layer comes last."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from provstore.graph.derive import derive
from provstore.graph.dump_facts import dump_key, refusal_block, refusal_key, tensor_block
from provstore.graph.merge import contradict, merge
from provstore.graph.weave import weave
from provstore.ingest.given import Given, Request, Scope, consistent, contradicted, gather
from provstore.ingest.journalled_dumps import contradicting
from provstore.ingest.upkeep import show_evidence
from provstore.journal import Journal, Origin
from provstore.model.block import Block
from provstore.model.dump import Dump, Refusal, Sidecar
from provstore.model.report import KNOWN, NEW, REFUSED, SKIPPED, FileReport, IngestReport
from provstore.queries.captured import recorded_messages
from provstore.queries.dumps import stored_dumps, stored_headers
from provstore.sources.flight_recorder import READER_VERSION
from provstore.sources.flight_recorder.names import tensors_rank
from provstore.stores import GraphStore

READER = "flight-recorder"
TENSOR_READER = "tensor-record"
_SIDECAR = "sidecar"
_SIDECAR_DIGITS = 16

Against = Callable[[Sequence[Dump]], list[tuple[Refusal, Dump]]]
"""Gives those of some dumps that contradict what was taken in before, each with its refusal."""


@dataclass(slots=True)
class Ingest:
    """One ingest on its way: where facts go and what was reported so far."""

    journal: Journal
    store: GraphStore | None
    """``None``: nothing is shown now; whoever opens the graph next brings it up to date."""
    files: list[FileReport] = field(default_factory=list)
    facts: int = 0

    def is_known(self, scope: Scope, origin: Origin) -> bool:
        """Return whether the journal already holds what this reader makes of these bytes for this attempt."""
        return self.journal.has_batch(origin.sha256, origin.reader, origin.version, *scope)

    def accept(self, block: Block, origin: Origin | None) -> None:
        """Acknowledge a block in the journal, then show it in the graph."""
        self.journal.append(block, origin)
        if self.store is not None:
            self.store.write(block)
        self.facts += len(block)

    def finish(self, derived: Block) -> None:
        """Exchange a run's derived layer; with it the graph is up to date with the journal."""
        if self.store is not None:
            self.store.write(derived)
            show_evidence(self.store, self.journal)
        self.facts += len(derived)


def ingest(request: Request, journal: Journal, store: GraphStore) -> IngestReport:
    """Take in the Flight Recorder dumps below ``request.paths``; what was accepted before an interruption is kept.

    Raises:
        InputError: Nothing to read there.
        StoreError: The journal or the graph cannot be written.
    """
    gathered = gather(request)
    going = Ingest(journal, store)
    going.files += [FileReport(stray.file, "nothing", SKIPPED, stray.reason) for stray in gathered.strays]
    interrupted, known = False, set(journal.scopes())
    runs = [scope for scope, given in gathered.scopes.items() if scope in known or given.is_of_a_run]
    try:
        for scope, given in gathered.scopes.items():
            if scope in runs:
                _take_in(going, store, scope, given, request)
            else:
                where = f"{scope[0]}/" if len(gathered.scopes) > 1 else ""
                going.files += [
                    FileReport(f"{where}{one.file}", READER, REFUSED, one.reason, rank=one.rank)
                    for one in given.refusals
                ]
    except KeyboardInterrupt:
        # The graph stays unmarked: the next open replays what the journal acknowledged, and derives it.
        interrupted = True
    return IngestReport(
        files=tuple(going.files),
        runs=tuple(runs),
        run_from=gathered.run_from,
        facts=going.facts,
        position=journal.position,
        interrupted=interrupted,
        problems=tuple(str(problem) for problem in journal.problems if problem.is_loss),
    )


def journal_dumps(journal: Journal, scope: Scope, given: Given, request: Request) -> IngestReport:
    """Acknowledge what :func:`ingest` makes of the dumps of one attempt; the graph follows when it is opened next.

    Raises:
        StoreError: The journal cannot be written.
        InputError: The run is closed.
    """
    going = Ingest(journal, None)
    _acknowledge(going, scope, given, request, lambda unknown: contradicting(journal, scope, unknown, READER))
    return IngestReport(tuple(going.files), (scope,), "--run", going.facts, journal.position)


def _take_in(going: Ingest, store: GraphStore, scope: Scope, given: Given, request: Request) -> None:
    if going.journal.evidence_size(*scope).is_closed:
        _refuse_closed(going, scope, given)
        return
    had_dumps = bool(stored_headers(store, *scope))
    before = going.facts
    fresh = _acknowledge(
        going, scope, given, request, lambda unknown: _against_store(store, scope, unknown) if had_dumps else []
    )
    if going.facts > before:
        dumps = stored_dumps(store, *scope) if had_dumps else fresh
        going.finish(derive(dumps, merge(dumps).dumps, *scope, recorded_messages(store, *scope)))


def _acknowledge(going: Ingest, scope: Scope, given: Given, request: Request, against: Against) -> list[Dump]:
    """Accept what fits together and is new, and refuse the rest; return the dumps that fit together."""
    fresh, refused = consistent(given.dumps)
    unknown = [dump for dump in fresh if not going.is_known(scope, _origin(scope, dump, request))]
    if unknown:
        late = against(unknown)
        strangers = {id(dump) for _, dump in late}
        fresh = [dump for dump in fresh if id(dump) not in strangers]
        refused += late
    for refusal, dump in refused:
        _refuse(going, scope, refusal, _origin(scope, dump, request))
    for refusal in given.refusals:
        _refuse(going, scope, refusal, _refusal_origin(scope, refusal, request))
    _take_in_tensors(going, scope, given, request)
    _take_in_dumps(going, scope, fresh, request)
    return fresh


def _refuse_closed(going: Ingest, scope: Scope, given: Given) -> None:
    """Refuse what is new for a run that is closed; what it holds already is known, as ever."""
    run, attempt = scope
    held = {
        batch.source.sha256
        for _, batch in going.journal.batches()
        if batch.source is not None and (batch.run, batch.attempt) == scope
    }
    for dump in given.dumps:
        known = dump.digest in held
        reason = (
            None if known else f"run {run}, attempt {attempt}, is closed: its end is signed; give another --attempt"
        )
        status = KNOWN if known else REFUSED
        going.files.append(FileReport(dump.file, READER, status, reason, run, attempt, dump.rank, len(dump.calls)))
    for refusal in given.refusals:
        going.files.append(FileReport(refusal.file, READER, REFUSED, refusal.reason, run, attempt, refusal.rank))


def _against_store(store: GraphStore, scope: Scope, dumps: Sequence[Dump]) -> list[tuple[Refusal, Dump]]:
    """Return the dumps that contradict what is stored, with the reason: the newcomer is refused."""
    known: dict[tuple[int, str], list[Dump]] = {}
    for dump in stored_dumps(store, *scope):
        known.setdefault((dump.rank, dump.backend), []).append(dump)
    refused = []
    for dump in dumps:
        stored = known.get((dump.rank, dump.backend), [])
        found = next((c for old in stored if (c := contradict(old, dump)) is not None), None)
        if found is not None:
            refused.append((contradicted(dump, found), dump))
    return refused


def _take_in_dumps(going: Ingest, scope: Scope, dumps: Sequence[Dump], request: Request) -> None:
    run, attempt = scope
    for at, dump in enumerate(dumps):
        origin = _origin(scope, dump, request)
        known = going.is_known(scope, origin)
        if not known:
            _keep_sidecar(going, scope, dump.sidecar, request)
            going.accept(weave(dump, run, attempt), origin)
        going.files.append(
            FileReport(
                file=dump.file,
                taken_for=READER,
                status=KNOWN if known else NEW,
                run=run,
                attempt=attempt,
                rank=dump.rank,
                records=len(dump.calls),
                set_aside=len(dump.quarantined),
                warnings=tuple(dump.warnings),
            )
        )
        if request.progress:
            request.progress(at + 1, len(dumps), "writing")


def _take_in_tensors(going: Ingest, scope: Scope, given: Given, request: Request) -> None:
    """Take in which values were finite; each file's bytes are kept, and its records are facts once."""
    for path in given.tensor_files:
        with path.open("rb") as file:
            digest, size = hashlib.file_digest(file, "sha256").hexdigest(), file.tell()
        rank = tensors_rank(path.name)
        origin = Origin(digest, size, TENSOR_READER, READER_VERSION, path, request.keep_source, rank=rank)
        records = [record for record in given.tensors if rank == record.rank]
        known = going.is_known(scope, origin)
        if not known:
            going.accept(tensor_block(records, *scope), origin)
        status = KNOWN if known else NEW
        going.files.append(FileReport(path.name, TENSOR_READER, status, None, *scope, records=len(records)))


def _keep_sidecar(going: Ingest, scope: Scope, sidecar: Sidecar | None, request: Request) -> None:
    """Keep the bytes of a sidecar; its facts stand with those of its dump."""
    if sidecar is None or not sidecar.path:
        return
    path = Path(sidecar.path)
    origin = Origin(sidecar.digest, path.stat().st_size, _SIDECAR, READER_VERSION, path, request.keep_source)
    if not going.is_known(scope, origin):
        going.accept(Block(*scope), origin)


def _refuse(going: Ingest, scope: Scope, refusal: Refusal, origin: Origin) -> None:
    run, attempt = scope
    if not going.is_known(scope, origin):
        going.accept(refusal_block([refusal], run, attempt), origin)
    going.files.append(FileReport(refusal.file, READER, REFUSED, refusal.reason, run, attempt, refusal.rank))


def _origin(scope: Scope, dump: Dump, request: Request) -> Origin:
    # Two ranks may leave equal bytes, and a sidecar changes what the same bytes state.
    beside = f"+{dump.sidecar.digest[:_SIDECAR_DIGITS]}" if dump.sidecar else ""
    version = f"{READER_VERSION}@{dump.rank}{beside}"
    return Origin(
        dump.digest,
        dump.size_bytes,
        READER,
        version,
        Path(dump.path),
        request.keep_source,
        rank=dump.rank,
        set_aside=len(dump.quarantined),
        element=dump_key(dump, *scope),
    )


def _refusal_origin(scope: Scope, refusal: Refusal, request: Request) -> Origin:
    """Return what identifies a refusal: the file's bytes, or, where nobody could read them, what is said of it."""
    version = f"{READER_VERSION}@{refusal.rank if refusal.rank is not None else refusal.file}"
    size, element = refusal.size_bytes or 0, refusal_key(refusal, *scope)
    if refusal.digest is None or not refusal.path:
        said = hashlib.sha256(f"{refusal.file}\0{size}\0{refusal.reason}".encode(errors="surrogateescape")).hexdigest()
        return Origin(said, size, READER, version, None, keep_source=False, rank=refusal.rank, element=element)
    path = Path(refusal.path)
    return Origin(refusal.digest, size, READER, version, path, request.keep_source, rank=refusal.rank, element=element)
