"""The spine: read, weave, append to the journal, write to the graph; a run's derived layer comes last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from provstore.graph.derive import derive
from provstore.graph.dump_facts import refusal_block, tensor_block
from provstore.graph.merge import Contradiction, contradict, merge
from provstore.graph.weave import weave
from provstore.journal import Journal, Origin
from provstore.model.block import Block
from provstore.model.dump import Dump, Refusal, Sidecar, TensorRecord
from provstore.model.report import KNOWN, NEW, REFUSED, SKIPPED, FileReport, IngestReport
from provstore.queries.dumps import stored_dumps, stored_headers
from provstore.sources.flight_recorder import READER_VERSION, ReadOptions, read_dumps
from provstore.stores import GraphStore

READER = "flight-recorder"
_SIDECAR_DIGITS = 16
Progress = Callable[[int, int, str], None]
Scope = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Request:
    """What to take in, and under which name."""

    paths: Sequence[Path]
    run: str | None = None
    """Else the sidecar's, else the base name of the folder."""
    attempt: int | None = None
    """Else the sidecar's, else 0."""
    options: ReadOptions = field(default_factory=ReadOptions)
    keep_source: bool = True
    progress: Progress | None = None


@dataclass(slots=True)
class Ingest:
    """One ingest on its way: where facts go and what was reported so far."""

    journal: Journal
    store: GraphStore
    files: list[FileReport] = field(default_factory=list)
    facts: int = 0

    def accept(self, block: Block, origin: Origin | None) -> None:
        """Acknowledge a block in the journal, then show it in the graph."""
        self.journal.append(block, origin)
        self.store.write(block)
        self.facts += len(block)

    def finish(self, derived: Block) -> None:
        """Exchange a run's derived layer; with it the graph is up to date with the journal."""
        self.store.write(derived, (self.journal.journal_id, self.journal.position))
        self.facts += len(derived)


def ingest(request: Request, journal: Journal, store: GraphStore) -> IngestReport:
    """Take in the Flight Recorder dumps below ``request.paths``; what was accepted before an interruption is kept.

    Raises:
        InputError: Nothing to read there.
        StoreError: The journal or the graph cannot be written.
    """
    going = Ingest(journal, store)
    run_from = "--run" if request.run is not None else "sidecar"
    scopes: dict[Scope, _Given] = {}
    for place in _places(request.paths):
        found = read_dumps(place, request.options, _reading(request.progress))
        if request.run is None and any(dump.sidecar is None or dump.sidecar.run is None for dump in found.dumps):
            run_from = "folder"
        _sort(found.dumps, found.refusals, found.tensors, found.name, request, scopes)
        going.files += [
            FileReport(r.file, "nothing", SKIPPED, r.reason) for r in found.refusals if r.skipped
        ]
    interrupted = False
    try:
        for scope, given in scopes.items():
            _take_in(going, scope, given, request)
    except KeyboardInterrupt:
        interrupted = True
    return IngestReport(
        files=tuple(going.files),
        runs=tuple(scopes),
        run_from=run_from,
        facts=going.facts,
        position=journal.position,
        interrupted=interrupted,
    )


@dataclass(slots=True)
class _Given:
    dumps: list[Dump] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    tensors: list[TensorRecord] = field(default_factory=list)


def _places(paths: Sequence[Path]) -> list[list[Path]]:
    """Return the folders one by one, and loose files together by their folder."""
    loose: dict[Path, list[Path]] = {}
    places = []
    for path in paths:
        if path.is_dir():
            places.append([path])
        else:
            loose.setdefault(path.parent, []).append(path)
    return [*places, *loose.values()]


def _reading(progress: Progress | None) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(done, total, "reading")


def _sort(
    dumps: Iterable[Dump],
    refusals: Iterable[Refusal],
    tensors: Iterable[TensorRecord],
    name: str,
    request: Request,
    scopes: dict[Scope, _Given],
) -> None:
    default: Scope = (request.run or name, request.attempt or 0)
    seen = []
    for dump in dumps:
        scope = _scope(dump.sidecar, request, name)
        seen.append(scope)
        scopes.setdefault(scope, _Given()).dumps.append(dump)
    home = seen[0] if len(set(seen)) == 1 else default
    for refusal in refusals:
        if not refusal.skipped:
            scopes.setdefault(home, _Given()).refusals.append(refusal)
    for record in tensors:
        scopes.setdefault(home, _Given()).tensors.append(record)


def _scope(sidecar: Sidecar | None, request: Request, name: str) -> Scope:
    run = request.run or (sidecar.run if sidecar and sidecar.run else name)
    stated = sidecar.attempt if sidecar and sidecar.attempt is not None else 0
    return run, request.attempt if request.attempt is not None else stated


def _take_in(going: Ingest, scope: Scope, given: _Given, request: Request) -> None:
    run, attempt = scope
    before = stored_headers(going.store, run, attempt)
    fresh, refused = _consistent(going, scope, given.dumps, has_stored=bool(before))
    changed = _take_in_dumps(going, scope, fresh, request)
    for refusal, dump in refused:
        going.accept(refusal_block([refusal], run, attempt), _origin(dump, request))
    plain = [refusal for refusal in given.refusals]
    for refusal in plain:
        path = Path(refusal.path) if refusal.path else None
        if refusal.digest and path and not going.journal.has_batch(refusal.digest, READER, READER_VERSION, run, attempt):
            size = refusal.size_bytes or 0
            origin = Origin(refusal.digest, size, READER, READER_VERSION, path, request.keep_source)
            going.accept(refusal_block([refusal], run, attempt), origin)
    if given.tensors:
        going.accept(tensor_block(given.tensors, run, attempt), None)
    going.files += [_refused(r, scope) for r in (*(refusal for refusal, _ in refused), *plain)]
    if changed or refused:
        dumps = list(fresh) if not before else stored_dumps(going.store, run, attempt)
        if request.progress:
            request.progress(0, 1, "matching across ranks")
        going.finish(derive(dumps, merge(dumps).dumps, run, attempt))


def _consistent(
    going: Ingest, scope: Scope, dumps: Sequence[Dump], *, has_stored: bool
) -> tuple[list[Dump], list[tuple[Refusal, Dump]]]:
    """Return the dumps that belong together, and the refused ones with the reason.

    Dumps given together that contradict each other are all refused; one that contradicts the store is.
    """
    found = {id(side): c for c in merge(dumps).contradictions for side in (c.first, c.second)}
    refused = [(_contradicted(dump, found[id(dump)]), dump) for dump in dumps if id(dump) in found]
    fresh = [dump for dump in dumps if id(dump) not in found]
    if has_stored and fresh:
        known: dict[tuple[int, str], list[Dump]] = {}
        for dump in stored_dumps(going.store, *scope):
            known.setdefault((dump.rank, dump.backend), []).append(dump)
        kept = []
        for dump in fresh:
            against = known.get((dump.rank, dump.backend), [])
            contradiction = next((c for old in against if (c := contradict(old, dump))), None)
            if contradiction is None:
                kept.append(dump)
            else:
                refused.append((_contradicted(dump, contradiction), dump))
        fresh = kept
    return fresh, refused


def _contradicted(dump: Dump, found: Contradiction) -> Refusal:
    reason = (
        f"rank {dump.rank}: {found.first.file} and {found.second.file} contradict each other: {found.reason}; "
        "if the process was restarted, give them apart with --attempt; if they are of two runs, with --run"
    )
    return Refusal(dump.file, reason, dump.digest, dump.size_bytes, dump.rank, dump.path)


def _take_in_dumps(going: Ingest, scope: Scope, dumps: Sequence[Dump], request: Request) -> bool:
    run, attempt = scope
    changed = False
    for at, dump in enumerate(dumps):
        origin = _origin(dump, request)
        known = going.journal.has_batch(origin.sha256, origin.reader, origin.version, run, attempt)
        if not known:
            if dump.sidecar and dump.sidecar.path:
                _keep_sidecar(going, scope, dump.sidecar, request)
            going.accept(weave(dump, run, attempt), origin)
            changed = True
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
    return changed


def _keep_sidecar(going: Ingest, scope: Scope, sidecar: Sidecar, request: Request) -> None:
    """Keep the bytes of a sidecar; its facts stand with those of its dump."""
    run, attempt = scope
    if not going.journal.has_batch(sidecar.digest, "sidecar", READER_VERSION, run, attempt):
        path = Path(sidecar.path)
        origin = Origin(sidecar.digest, path.stat().st_size, "sidecar", READER_VERSION, path, request.keep_source)
        going.accept(Block(run, attempt), origin)


def _origin(dump: Dump, request: Request) -> Origin:
    version = READER_VERSION + (f"+{dump.sidecar.digest[:_SIDECAR_DIGITS]}" if dump.sidecar else "")
    return Origin(dump.digest, dump.size_bytes, READER, version, Path(dump.path), request.keep_source)


def _refused(refusal: Refusal, scope: Scope) -> FileReport:
    return FileReport(refusal.file, READER, REFUSED, refusal.reason, *scope, refusal.rank)
