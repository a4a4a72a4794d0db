"""Recording what is given: dumps after the fact, capture directories of live jobs; epoch by epoch into the journal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from provstore.errors import ConfigError, InputError, NotUnderstoodError
from provstore.evidence import dsse, statement
from provstore.evidence.bundles import Ledger
from provstore.evidence.epoch_bundles import EpochFacts
from provstore.evidence.recording import classes, policy
from provstore.graph.merge import merge
from provstore.ingest import record_signals, sealing
from provstore.ingest.capture_epochs import CapturedEpoch, CaptureRequest
from provstore.ingest.capture_faults import Faults
from provstore.ingest.capture_lineage import RankLineage
from provstore.ingest.closed_runs import ClosedRunError, reading_only
from provstore.ingest.dump_actions import dump_actions, finite_values, world_of
from provstore.ingest.flow import READER, journal_dumps
from provstore.ingest.given import Given, Progress, Request, consistent, gather
from provstore.ingest.record_epochs import EpochWriter, Output
from provstore.ingest.record_history import RunChain, history, run_chain
from provstore.ingest.record_places import Places, places
from provstore.ingest.sealing import SealRequest
from provstore.journal import Journal
from provstore.model import statuses
from provstore.model.action import TraceContext
from provstore.model.evidence import MODES
from provstore.model.recording_report import EpochReport, FaultReport, RecordReport, SignalReport
from provstore.sources.capture_directory import Capture, CapturedRank, read_capture
from provstore.sources.flight_recorder import ReadOptions

Scope = tuple[str, int]
FROM_DUMPS = "recorded-from-dumps"
MAX_EPOCH = 2**53 - 1
_MOST_PENDING_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RecordRequest:
    """What to record, and under which name."""

    paths: Sequence[Path]
    run: str | None = None
    """May be left out where a capture directory names it."""
    epoch: int | None = None
    """Of the calls of dumps, which name none; of lines of a capture directory without one."""
    attempt: int | None = None
    trace_id: str | None = None
    mode_floor: str = MODES[0]
    progress: Progress | None = None
    producer: str = "provstore"
    """Name and version of what records."""
    recursive: bool = False
    """Look into the folders below, too."""

    def __post_init__(self) -> None:
        """Refuse what no record could hold, before anything is written."""
        if self.run is not None and not self.run:
            raise ConfigError("record: --run: is empty")
        if self.epoch is not None and not 0 <= self.epoch <= MAX_EPOCH:
            raise ConfigError(f"record: --epoch: {self.epoch} is no number from 0 to 2**53 - 1")
        if self.attempt is not None and not 0 <= self.attempt < 2**31:
            raise ConfigError(f"record: --attempt: {self.attempt} is no number from 0 to {2**31 - 1}")
        if self.mode_floor not in MODES:
            raise ConfigError(f"record: --mode-floor: {self.mode_floor} is none of {', '.join(MODES)}")
        if self.trace_id is not None and not self.trace_id:
            raise ConfigError("record: --trace-id: is empty")


def record(request: RecordRequest, journal: Journal, seal: SealRequest | None = None) -> RecordReport:
    """Record everything that is given; what was recorded before an interruption is taken up.

    Args:
        request: What, and under which name.
        journal: Open for writing.
        seal: How to sign agent records and everything that waits; nothing is signed without it.

    Raises:
        InputError: Nothing there can be used, or something new is given of a run that is closed.
        NotUnderstoodError: Nothing there can be used, and something is of a version that is not known here.
        ConfigError: A name is missing that the input does not give.
        StoreError: Something could not be made durable.
        TrustError: What is signed already does not hold: nothing is signed on top of it.
    """
    missing = [path for path in request.paths if not path.exists()]
    if missing or not request.paths:
        raise InputError("\n".join(f"{path}: no such file or folder" for path in missing) or "record: nothing is given")
    going = _Going(request, journal, seal, places(request.paths, recursive=request.recursive))
    going.notes += going.places.notes
    for path in going.places.captures:
        try:
            going.capture(read_capture(path))
        except InputError as error:
            if not going.places.are_several:
                raise
            if isinstance(error, ClosedRunError):
                # What is refused as a whole is not told as known in parts.
                going.epochs = [one for one in going.epochs if (one.run, one.attempt) != error.scope]
            going.refused.append(str(error))
            going.is_understood = going.is_understood and not isinstance(error, NotUnderstoodError)
    if going.places.dumps:
        going.dumps(going.places.dumps)
    going.finish()
    if not going.epochs:
        reasons = [*going.refused, *going.problems][:3]
        kind = InputError if going.is_understood else NotUnderstoodError
        raise kind("\n".join(reasons) or "record: nothing there can be used")
    told = (tuple(going.refused), tuple(going.problems), tuple(going.notes))
    return RecordReport(
        tuple(going.epochs),
        *told,
        journal.position,
        tuple(going.signals),
        going.calls,
        tuple(going.faults),
        going.is_understood,
    )


@dataclass(slots=True)
class _Going:
    request: RecordRequest
    journal: Journal
    seal: SealRequest | None
    places: Places
    epochs: list[EpochReport] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    signals: list[SignalReport] = field(default_factory=list)
    calls: int = 0
    """Of which the lineage was put into the journal."""
    faults: list[FaultReport] = field(default_factory=list)
    is_understood: bool = True
    _outputs: dict[Scope, Output] = field(default_factory=dict)
    _chains: dict[str, RunChain] = field(default_factory=dict)
    _ledgers: dict[Scope, Ledger] = field(default_factory=dict)
    _signed: dict[Scope, list[int]] = field(default_factory=dict)
    """Evidence epochs that were signed while an epoch was written."""

    def capture(self, found: Capture) -> None:
        """Record every epoch of a capture directory, and what was seen beside the job."""
        begun: dict[Scope, int] = {}
        for attempt, ranks in sorted(found.attempts.items()):
            first = next(iter(ranks.values())).header
            run = self.request.run or first.get("run")
            if not isinstance(run, str) or not run:
                raise ConfigError(f"{found.directory}: record: the capture names no run", hint="give it with --run")
            others = {str(rank.header.get("run")) for rank in ranks.values()} - {run}
            if others:
                told = self.notes if self.request.run else self.problems
                told.append(f"{found.directory}: recorded as {run}; its files name {', '.join(sorted(others))}")
            for rank in ranks.values():
                before = rank.epochs[0] if rank.epochs else self.request.epoch
                if before is not None and (spans := rank.spans.pop(-1, None)):
                    # What came before the first epoch that is named belongs to it.
                    rank.spans.setdefault(before, [])[:0] = spans
            scope = (run, attempt if self.request.attempt is None else self.request.attempt)
            epochs = sorted({epoch for rank in ranks.values() for epoch in rank.epochs})
            if not epochs:
                self.problems.append(f"{found.directory}: attempt {attempt}: no line names an epoch: give --epoch")
            elif found.directory in self.places.captures:
                begun[scope] = min(begun.get(scope, _begun(ranks)), _begun(ranks))
            journal = reading_only(self.journal, scope) if self._is_closed(scope) else self.journal
            lineage = {rank: RankLineage(journal, *scope, captured) for rank, captured in ranks.items()}
            faults = Faults(*scope)
            for at, epoch in enumerate(epochs):
                writer = EpochWriter(self._output(scope), epoch)
                asked = CaptureRequest(self.request.mode_floor, self.request.epoch, self.request.trace_id)
                reader = CapturedEpoch(found, ranks, epoch, writer, asked, lineage, faults)
                facts = reader.read()
                if (document := reader.policy_document()) is not None:
                    writer.demand(document)
                self._close(writer, facts, reader.ended_ns, reader.open_ranks())
                self._tell(at + 1, len(epochs))
            for one in lineage.values():
                self.calls += one.written
                self.problems += [f"{found.directory}: {text}" for text in one.problems()]
                self.notes += [f"{found.directory}: {text}" for text in one.notes()]
            self.faults += faults.reports()
        # Files of one directory need no folder before their names.
        where = f"{found.directory}: " if self.places.are_several else ""
        taken = record_signals.take_in(found.directory, begun, self._output)
        self.signals += taken.reports
        self.is_understood = self.is_understood and found.problems.is_understood and taken.is_understood
        self.problems += [where + text for text in (*found.problems.listed(), *taken.problems)]
        self.refused += [where + text for text in (*found.problems.refused, *taken.refused)]
        self.notes += [where + text for text in (*found.problems.torn, *taken.notes)]

    def dumps(self, paths: Sequence[Path]) -> None:
        """Record dumps as one epoch of each attempt that they name."""
        request = self.request
        if request.run is None:
            raise ConfigError("record: --run: dumps are recorded under a name that is given")
        if request.epoch is None:
            raise ConfigError("record: --epoch: dumps name no epoch: say which one their calls are of")
        options = ReadOptions(recursive=request.recursive)
        asked = Request(paths, request.run, request.attempt, options, progress=request.progress)
        gathered = gather(asked)
        self.notes += [f"{one.file}: {one.reason}" for one in gathered.strays]
        for scope, given in gathered.scopes.items():
            self._of_dumps(scope, given, request.epoch)
            if self._is_closed(scope) or not (given.is_readable or scope in self.journal.scopes()):
                continue
            # After the actions: their records have the numbers that they would have without.
            taken = journal_dumps(self.journal, scope, given, asked).files
            told = [f"{one.file}: {one.reason}" for one in taken if one.status == statuses.REFUSED]
            self.refused += [text for text in told if text not in self.refused]
            self.calls += sum(one.records for one in taken if one.taken_for == READER and one.status == statuses.NEW)

    def finish(self) -> None:
        """Sign the links too."""
        if self.seal is not None:
            for scope in (one for one in self._outputs if not self._is_closed(one)):
                sealing.seal(self.journal, self._ledger(scope), self.seal)

    def _of_dumps(self, scope: Scope, given: Given, epoch: int) -> None:
        self.refused += [f"{one.file}: {one.reason}" for one in given.refusals]
        self.is_understood = self.is_understood and all(one.is_understood for one in given.refusals)
        fresh, refused = consistent(given.dumps)
        self.refused += [f"{one.file}: {one.reason}" for one, _ in refused]
        dumps = sorted(merge(fresh).dumps, key=lambda dump: (dump.rank, dump.backend))
        if not dumps:
            return
        writer = EpochWriter(self._output(scope), epoch)
        finite, world, floor = finite_values(given.tensors), world_of(dumps), self.request.mode_floor
        for at, dump in enumerate(dumps):
            for action, ordinal in dump_actions(dump, *scope, epoch, mode_floor=floor, finite=finite, world=world):
                writer.take(action, ordinal)
            self._tell(at + 1, len(dumps))
        there = {dump.rank for dump in dumps}
        document = policy.document(mode_floor=self.request.mode_floor)
        facts = EpochFacts(
            epoch=epoch,
            source="dumps",
            is_stated=True,
            # Of dumps without calls nobody knows that the epoch ended.
            close_reason=FROM_DUMPS if writer.tally.count or writer.known else None,
            world_size=world,
            missing_ranks=[rank for rank in range(world or 0) if rank not in there],
            policy_digest=f"sha256:{policy.document_digest(document)}",
            table_digest=f"sha256:{classes.TABLE.digest}",
            mode_floor=self.request.mode_floor,
            trace=TraceContext(self.request.trace_id),
        )
        writer.demand(document)
        self._close(writer, facts, None)

    def _close(
        self, writer: EpochWriter, facts: EpochFacts, ended_ns: int | None, open_ranks: tuple[int, ...] = ()
    ) -> None:
        try:
            self.epochs.append(replace(writer.finish(facts, at_ns=ended_ns), open_ranks=open_ranks))
        except ClosedRunError:
            raise
        except InputError as error:
            self.problems.append(str(error))

    def _output(self, scope: Scope) -> Output:
        if scope not in self._outputs:
            if self._is_closed(scope):
                self._outputs[scope] = self._new_output(reading_only(self.journal, scope), scope)
                return self._outputs[scope]
            if self.seal is not None:
                # What waits is signed first: whoever signs now vouches for what was signed before, or nothing begins.
                sealing.seal(self.journal, self._ledger(scope), self.seal)
            output = self._new_output(self.journal, scope)
            if self.seal is not None:
                output.signer = self.seal.signer
                output.written = lambda lines: self._written(scope, lines)
                output.sealed = lambda: self._sealed(scope)
            self._outputs[scope] = output
        return self._outputs[scope]

    def _is_closed(self, scope: Scope) -> bool:
        return self.journal.evidence_size(*scope).is_closed

    def _new_output(self, journal: Journal, scope: Scope) -> Output:
        if scope[0] not in self._chains:
            self._chains[scope[0]] = run_chain(self.journal, scope[0])
        return Output(journal, history(self.journal, *scope), self._chains[scope[0]], self.request.producer)

    def _ledger(self, scope: Scope) -> Ledger:
        if scope not in self._ledgers:
            self._ledgers[scope] = sealing.load(self.journal, scope)
        return self._ledgers[scope]

    def _written(self, scope: Scope, lines: Sequence[bytes]) -> None:
        """Take note of what is durable, and sign it before it takes too much memory."""
        ledger = self._ledger(scope)
        ledger.add(lines)
        if self.seal is not None and ledger.pending_bytes > _MOST_PENDING_BYTES:
            signed = sealing.sign(self.journal, ledger, self.seal)
            self._signed.setdefault(scope, []).extend(signed.epochs)

    def _sealed(self, scope: Scope) -> list[tuple[int, str]]:
        """Sign what waits; return number and epoch file digest of what was signed now."""
        if self.seal is None:
            return []
        ledger = self._ledger(scope)
        report = sealing.seal(self.journal, ledger, self.seal)
        self._outputs[scope].history.counts = dict(ledger.counts)
        numbers = [*self._signed.pop(scope, ()), *report.epochs]
        return list(_epoch_files(self.journal, scope, numbers))

    def _tell(self, done: int, total: int) -> None:
        if self.request.progress:
            self.request.progress(done, total, "recording")


def _begun(ranks: Mapping[int, CapturedRank]) -> int:
    """Return when an attempt began, as its files say; 0 where none does."""
    stated = [rank.header.get("started_ns") for rank in ranks.values()]
    return min((at for at in stated if type(at) is int), default=0)


def _epoch_files(journal: Journal, scope: Scope, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
    wanted = set(numbers)
    for bundle in journal.evidence(*scope).bundles() if wanted else ():
        said = statement.parse(dsse.parse(bundle.envelope).payload)
        if said.number in wanted:
            yield said.number, said.subject_sha256
