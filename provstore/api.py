"""The Python API: what notebooks, the command line and the browser call."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from provstore import config, cypher
from provstore.errors import ConfigError, InputError, StoreError
from provstore.model.dump import DumpSet
from provstore.model.finding import Diagnosis
from provstore.model.report import Answer, CheckReport, IngestReport, RebuildReport, StoreInfo
from provstore.model.trace import Trace
from provstore.sources.flight_recorder import ReadOptions
from provstore.stores import GraphStore, open_store

if TYPE_CHECKING:
    from provstore.exports import ExportOptions, ExportReport
    from provstore.ingest.given import Progress
    from provstore.journal import Journal

_READ = "read/"


def open(  # noqa: A001 - the public name is ``provstore.open``
    uri: str | None = None,
    *,
    journal: str | Path | None = None,
    read_only: bool = False,
    progress: Progress | None = None,
) -> Store:
    """Open a store with its journal; a graph that is behind its journal catches up first.

    Args:
        uri: ``embedded:DIRECTORY``, ``memory:``, or a Neo4j address; else ``PROVSTORE_STORE``, else ``embedded:.provstore``.
        journal: Directory of the journal; else ``PROVSTORE_JOURNAL``, else beside the embedded store.
        read_only: Take no lock and change nothing, except to catch up when nobody else writes.
        progress: Called with (done, total, what) during long work.

    Raises:
        ConfigError: The address is not one of a store.
        StoreError: The store or its journal is missing, damaged, locked by another process, or does not answer.
    """
    return Store(config.store_uri(uri), journal, read_only=read_only, progress=progress)


def diagnose(
    *paths: str | Path,
    about: str | None = None,
    rank_regex: str | None = None,
    rank_map: Mapping[str, int] | None = None,
    recursive: bool = False,
    progress: Progress | None = None,
) -> Diagnosis:
    """Say which rank and which call a hang, a mismatch, a slow step or a NaN starts from; no store is needed.

    Args:
        paths: Folders of dumps, or dumps, of one attempt of one run.
        about: ``hang``, ``nan`` or ``slow``; everything when not given.
        rank_regex: How a file name tells the rank: an expression with a group named ``rank``.
        rank_map: File name → rank, for names that tell nothing.
        recursive: Look into subfolders too.
        progress: Called with (done, total, what) while reading.

    Raises:
        InputError: There is nothing to read, or the files are of several runs or attempts.
    """
    from provstore import analysis
    from provstore.ingest.given import Request, consistent, gather
    from provstore.graph.merge import merge

    started = time.perf_counter()
    options = ReadOptions(rank_regex=rank_regex, rank_map=rank_map, recursive=recursive)
    gathered = gather(Request([Path(path) for path in paths], options=options, progress=progress))
    if len(gathered.scopes) != 1:
        found = ", ".join(f"{run} attempt {attempt}" for run, attempt in gathered.scopes) or "none"
        raise InputError(
            f"{', '.join(map(str, paths))}: runs: {found}; a diagnosis is about one attempt of one run",
            hint="give the files of one attempt, or ingest them and diagnose run:ID --attempt N",
        )
    ((run, attempt), given) = next(iter(gathered.scopes.items()))
    dumps, refused = consistent(given.dumps)
    refusals = [*given.refusals, *(refusal for refusal, _ in refused), *gathered.strays]
    read = time.perf_counter()
    evidence = DumpSet(run, attempt, merge(dumps).dumps, refusals, given.tensors)
    answer = analysis.diagnose(evidence, analysis.Options(about=about))
    return replace(answer, timing=_timing(started, read))


def rebuild(uri: str | None = None, *, journal: str | Path | None = None, progress: Progress | None = None) -> RebuildReport:
    """Recreate a graph from its journal; a damaged graph file need not open.

    An embedded graph is written beside the old one and swapped in; a server is written over with everything the journal
    holds, which brings back what is missing and what was changed.

    Raises:
        StoreError: There is no journal, it is locked, or the graph cannot be written.
    """
    from provstore.ingest.upkeep import replay
    from provstore.journal import Journal
    from provstore.queries.info import node_counts

    address = config.store_uri(uri)
    with Journal.open(_existing(config.journal_directory(address, journal)), writable=True) as held:
        directory = config.embedded_directory(address)
        with contextlib.ExitStack() as stack:
            beside = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=directory, prefix="rebuild-"))) if directory else None
            store = open_store(f"embedded:{beside}" if beside else address, writable=True)
            with contextlib.closing(store):
                batches = replay(store, held, 0, progress)
                counts = node_counts(store)
            if beside is not None and directory is not None:
                (beside / "graph.kgl").replace(directory / "graph.kgl")
        return RebuildReport(batches, held.position, counts)


def shipped_queries() -> Answer:
    """Return the shipped queries with what they answer, take and give."""
    rows = []
    for name in cypher.names("read"):
        query = cypher.query(name)
        rows.append(
            {
                "name": name.removeprefix(_READ),
                "answers": query.summary,
                "parameters": ", ".join(query.params),
                "returns": ", ".join(query.returns),
            }
        )
    return Answer(("name", "answers", "parameters", "returns"), tuple(rows))


class Store:
    """A journal and the graph made from it."""

    def __init__(
        self, uri: str, journal: str | Path | None = None, *, read_only: bool = False, progress: Progress | None = None
    ) -> None:
        self.uri = uri
        self._read_only = read_only
        self._exits = contextlib.ExitStack()
        try:
            self._journal_directory = self._place(journal)
            self._behind = 0
            self._open(progress)
        except BaseException:
            self._exits.close()
            raise

    def __enter__(self) -> Store:
        """Return the store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the store."""
        self.close()

    def close(self) -> None:
        """Save what was written and let go of graph and journal."""
        self._exits.close()

    def ingest(
        self,
        *sources: object,
        source: str | None = None,
        run: str | None = None,
        attempt: int | None = None,
        rank_regex: str | None = None,
        rank_map: Mapping[str, int] | None = None,
        recursive: bool = False,
        keep_source: bool = True,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Take in evidence: journal first, graph after; the same evidence twice changes nothing.

        Args:
            sources: Folders of dumps, dumps, PROV-JSON and PROV-N files, or ``prov.model.ProvDocument`` objects.
            source: Take every path for this: ``flight-recorder``, ``prov-json`` or ``prov-n``.
            run: Name of the run; else the sidecar's, else the base name of the folder.
            attempt: Incarnation of the run; else the sidecar's, else 0.
            rank_regex: How a file name tells the rank: an expression with a group named ``rank``.
            rank_map: File name → rank, for names that tell nothing.
            recursive: Look into subfolders too.
            keep_source: Keep the bytes of the files in the journal.
            progress: Called with (done, total, what).

        Raises:
            InputError: There is nothing to read.
            StoreError: The journal or the graph cannot be written; what was acknowledged before is kept.
        """
        from provstore.ingest.evidence import take_in
        from provstore.ingest.given import Request

        if self._read_only:
            raise ConfigError(f"{self.uri}: store: opened for reading only")
        options = ReadOptions(rank_regex=rank_regex, rank_map=rank_map, recursive=recursive)
        request = Request([], run, attempt, options, keep_source, progress)
        return take_in(sources, source, request, self._journal, self._graph)

    def trace(
        self,
        target: str,
        *,
        down: bool = False,
        depth: int | None = None,
        to: str | None = None,
        run: str | None = None,
        attempt: int | None = None,
        group: str | None = None,
        data_only: bool = False,
        max_nodes: int | None = None,
        timeout_seconds: float | None = None,
    ) -> Trace:
        """Return everything an element may have come from, or with ``down`` everything it may have influenced.

        Args:
            target: ``tensor:R:SEQ:in|out``, ``act:R:OP:SEQ``, ``rR:seqSEQ``, ``p2p:R:OPID``, ``rank:R``, ``sha256:…`` or an id.
            down: Follow effects instead of causes.
            depth: Hops at most.
            to: Return one shortest path to this target instead.
            run: Narrows the target; so do ``attempt`` and ``group`` (name or description).
            attempt: See ``run``.
            group: See ``run``.
            data_only: Leave out program order.
            max_nodes: Stop after so many elements.
            timeout_seconds: Stop after so long.

        Raises:
            InputError: The target names nothing, or several elements (all are listed).
        """
        from provstore.queries import lineage
        from provstore.queries.targets import Scope, resolve

        scope = Scope(run, attempt, group)
        iri = resolve(self._graph, target, scope)
        if to is not None:
            other = resolve(self._graph, to, scope)
            found = lineage.path(self._graph, *((other, iri) if down else (iri, other)))
        else:
            limits = lineage.Limits(depth, max_nodes, timeout_seconds)
            found = lineage.trace(self._graph, iri, down=down, data_only=data_only, limits=limits)
        if self._behind:
            found = replace(found, complete=False, reason="graph_behind_journal", notes=(*found.notes, self._behind_note()))
        return replace(found, writer=self._write_trace)

    def diagnose(
        self, *, run: str | None = None, attempt: int | None = None, about: str | None = None, save: bool = False
    ) -> Diagnosis:
        """Diagnose a stored run; equal to the diagnosis of the folder it came from.

        Args:
            run: The run; may be left out when the store holds one.
            attempt: Its incarnation; may be left out when there is one.
            about: ``hang``, ``nan`` or ``slow``; everything when not given.
            save: Store the findings as facts.

        Raises:
            InputError: The store holds no such run, or several that fit.
        """
        from provstore import analysis
        from provstore.graph.finding_facts import finding_block
        from provstore.graph.merge import merge
        from provstore.queries.dumps import stored_dumps, stored_refusals, stored_tensors

        started = time.perf_counter()
        scope = self._scope(run, attempt)
        dumps = stored_dumps(self._graph, *scope)
        evidence = DumpSet(
            *scope, merge(dumps).dumps, stored_refusals(self._graph, *scope), stored_tensors(self._graph, *scope)
        )
        read = time.perf_counter()
        answer = analysis.diagnose(evidence, analysis.Options(about=about))
        if save and answer.findings:
            if self._read_only:
                raise ConfigError(f"{self.uri}: store: opened for reading only; findings cannot be saved")
            block = finding_block(answer, dumps)
            position = self._journal.append(block, None)
            self._graph.write(block, (self._journal.journal_id, position))
        if self._behind:
            answer = replace(answer, notes=(*answer.notes, self._behind_note()))
        return replace(answer, timing=_timing(started, read))

    def query(self, name: str, **parameters: object) -> Answer:
        """Return the rows of a shipped query.

        Args:
            name: Such as ``collectives/last_call_per_rank``; ``provstore.shipped_queries()`` lists them.
            parameters: Its parameters; ``run`` and ``attempt`` may be left out when the store holds one attempt.

        Raises:
            ConfigError: No such query, or a parameter is missing or unknown.
        """
        found = cypher.query(name if name.startswith(_READ) else _READ + name)
        unknown = sorted(set(parameters) - set(found.params))
        if unknown:
            raise ConfigError(f"{name}: parameters: {', '.join(unknown)} not known; it takes {', '.join(found.params) or 'none'}")
        given = dict(parameters)
        if {"run", "attempt"} & set(found.params):
            run, attempt = self._scope(_text(given.get("run")), _number(name, given.get("attempt")))
            given |= {key: value for key, value in (("run", run), ("attempt", attempt)) if key in found.params}
        missing = sorted(set(found.params) - set(given))
        if missing:
            raise ConfigError(f"{name}: parameters: {', '.join(missing)} missing")
        return _answer(self._graph, found, given)

    def cypher(self, text: str, **parameters: object) -> Answer:
        """Return the rows of a reading query of one's own, within 10 s and 10,000 rows.

        Raises:
            InputError: The text could do more than read; the message names the word.
        """
        return _answer(self._graph, cypher.adhoc(text), parameters)

    def export(
        self,
        form: str,
        *,
        run: str | None = None,
        attempt: int | None = None,
        to: str | Path | TextIO | None = None,
        options: ExportOptions | None = None,
    ) -> ExportReport:
        """Write a run in an exchange or picture format; PROV documents are read back and compared first.

        Args:
            form: ``prov-json``, ``prov-n``, ``dot``, ``mermaid``, ``json``.
            run: The run, or the key of an imported document; may be left out when the store holds one run.
            attempt: Its incarnation.
            to: A file, written whole or not at all, or an open text stream; standard output when not given.
            options: What the writers offer.

        Raises:
            ConfigError: No such format.
            InputError: The store holds no such run.
        """
        from provstore.exports import ExportInput
        from provstore.queries import statements

        scope = self._scope(run, attempt)
        title = f"{scope[0]}, attempt {scope[1]}"
        document = ExportInput(lambda: statements.of_attempt(self._graph, *scope), title)
        return _export(form, document, to, options)

    def info(self) -> StoreInfo:
        """Return what the store is and holds."""
        from provstore.ingest.upkeep import applied
        from provstore.queries.info import node_counts
        from provstore.queries.targets import runs

        return StoreInfo(
            uri=self.uri,
            **self._graph.about,
            journal=str(self._journal_directory),
            journal_id=self._journal.journal_id,
            position=self._journal.position,
            applied=applied(self._graph, self._journal),
            runs=tuple(runs(self._graph)),
            counts=node_counts(self._graph),
        )

    def check(self) -> CheckReport:
        """Check the journal, and compare the graph with what the journal says it should hold."""
        from provstore.ingest.upkeep import check

        with contextlib.closing(open_store("memory:", writable=True)) as empty:
            return check(self._graph, self._journal, empty)

    def _place(self, journal: str | Path | None) -> Path:
        if self.uri.startswith("memory:") and journal is None:
            return Path(self._exits.enter_context(tempfile.TemporaryDirectory(prefix="provstore-")))
        return config.journal_directory(self.uri, journal)

    def _open(self, progress: Progress | None) -> None:
        from provstore.ingest.upkeep import behind
        from provstore.journal import Journal

        if not self._read_only:
            self._open_for_writing(progress)
            return
        self._journal: Journal = self._exits.enter_context(
            Journal.open(_existing(self._journal_directory), writable=False)
        )
        try:
            self._graph: GraphStore = self._exits.enter_context(contextlib.closing(open_store(self.uri, writable=False)))
            self._behind = behind(self._graph, self._journal)
        except StoreError:
            # No graph file yet, although there is a journal: it can be made from it.
            directory = config.embedded_directory(self.uri)
            if directory is None or (directory / "graph.kgl").exists() or not self._journal.position:
                raise
            self._behind = self._journal.position
        if self._behind:
            self._catch_up_and_reopen(progress)

    def _open_for_writing(self, progress: Progress | None) -> None:
        from provstore.ingest.upkeep import catch_up
        from provstore.journal import Journal

        self._journal = self._exits.enter_context(Journal.open(self._journal_directory, writable=True))
        self._graph = self._exits.enter_context(contextlib.closing(open_store(self.uri, writable=True)))
        catch_up(self._graph, self._journal, progress)

    def _catch_up_and_reopen(self, progress: Progress | None) -> None:
        """Catch up when nobody else writes; otherwise read what is there and say that it is behind."""
        try:
            with Store(self.uri, self._journal_directory, progress=progress):
                pass
        except StoreError as error:
            print(f"provstore: {self.uri}: the graph is behind its journal: {error}", file=sys.stderr)
            return
        self._exits.close()
        self._behind = 0
        self._open(progress)

    def _behind_note(self) -> str:
        return f"the graph is {self._behind} batches behind its journal, which another process is writing"

    def _scope(self, run: str | None, attempt: int | None) -> tuple[str, int]:
        from provstore.queries.targets import runs

        fits = [
            pair for pair in runs(self._graph) if run in (None, pair[0]) and attempt in (None, pair[1])
        ]
        if len(fits) == 1:
            return fits[0]
        asked = " ".join(f"{name} {value}" for name, value in (("run", run), ("attempt", attempt)) if value is not None)
        if not fits:
            raise InputError(f"{self.uri}: {asked or 'runs'}: the store holds none")
        listed = ", ".join(f"{name} attempt {number}" for name, number in fits)
        raise InputError(f"{self.uri}: {asked or 'runs'}: {len(fits)} fit: {listed}", hint="choose with --run and --attempt")

    def _write_trace(self, trace: Trace, form: str) -> str:
        from provstore.exports import ExportInput
        from provstore.queries import statements

        iris = [trace.target, *(node.iri for node in trace.nodes)]
        title = f"{trace.direction} of {trace.root.label}"
        stream = io.StringIO()
        _export(form, ExportInput(lambda: statements.of_elements(self._graph, iris), title), stream, None)
        return stream.getvalue()


def _answer(store: GraphStore, query: cypher.Query, parameters: Mapping[str, object]) -> Answer:
    rows = store.run(query, parameters)
    found = tuple(rows)
    columns = query.returns or tuple(found[0] if found else ())
    return Answer(columns, found, rows.complete, rows.reason)


def _export(form: str, document: object, to: str | Path | TextIO | None, options: ExportOptions | None) -> ExportReport:
    from provstore import rooms
    from provstore.exports import ExportOptions as Options

    module = rooms.load("exports.graphs", form)
    with _stream(to) as stream:
        report: ExportReport = module.export(document, stream, options or Options())
    return report


@contextlib.contextmanager
def _stream(to: str | Path | TextIO | None) -> Iterator[TextIO]:
    """Give a text stream; a file appears whole or not at all."""
    if not isinstance(to, str | Path):
        yield to or sys.stdout
        return
    path = Path(to)
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            beside = Path(file.name)
            try:
                yield file
                file.flush()
            except BaseException:
                beside.unlink(missing_ok=True)
                raise
        beside.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def _existing(directory: Path) -> Path:
    if not directory.is_dir():
        raise StoreError(f"{directory}: journal: there is none here", hint="provstore ingest PATH creates one")
    return directory


def _timing(started: float, read: float) -> dict[str, float]:
    now = time.perf_counter()
    return {"reading_seconds": round(read - started, 6), "diagnosis_seconds": round(now - read, 6)}


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _number(name: str, value: object) -> int | None:
    if value is None:
        return None
    try:
        return int(str(value))
    except ValueError as error:
        raise ConfigError(f"{name}: attempt: {value!r} is not a number") from error
