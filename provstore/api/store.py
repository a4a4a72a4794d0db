"""An open store: a journal and the graph made from it, and what can be asked of them."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from provstore import config
from provstore.api import store_doors
from provstore.api.lagging import REASON, hinting, incomplete
from provstore.api.opening import Opened, OpenedGraph, open_both, open_graph, with_journal
from provstore.errors import ConfigError

if TYPE_CHECKING:
    from provstore.api.believing import Belief
    from provstore.api.signing import Signing
    from provstore.evidence.bundles import Limits
    from provstore.evidence.keys import Signer
    from provstore.evidence.statement import AnchorClaim
    from provstore.ingest.given import Progress
    from provstore.ingest.vouching import Vouching
    from provstore.model.evidence import AgreedDigest, Observation
    from provstore.model.finding import Diagnosis
    from provstore.model.report import Answer, IngestReport, SealReport
    from provstore.model.trace import Trace
    from provstore.model.verification import Verification
    from provstore.stores import GraphStore


class Store:
    """A journal and the graph made from it."""

    # Their texts are long, and stand in a file of their own.
    replay, diff, join = store_doors.replay, store_doors.diff, store_doors.join
    list_evidence, show_evidence = store_doors.list_evidence, store_doors.show_evidence
    export_evidence, forget_anchors = store_doors.export_evidence, store_doors.forget_anchors
    info, check, export = store_doors.info, store_doors.check, store_doors.export

    def __init__(
        self,
        uri: str,
        journal: str | Path | None = None,
        *,
        read_only: bool = False,
        progress: Progress | None = None,
        signer: Signer | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.uri = uri
        self._read_only = read_only
        self._exits = contextlib.ExitStack()
        self._signing: Signing | None = None
        self._mutex = threading.Lock()
        try:
            self._journal_directory = self._place(journal)
            asked = (uri, self._journal_directory, self._exits)
            self._opened: Opened | OpenedGraph = (
                open_graph(*asked, progress) if read_only else open_both(*asked, read_only=False, progress=progress)
            )
            if signer is not None:
                self._signs(signer, limits)
        except BaseException:
            self._exits.close()
            raise

    def __enter__(self) -> Self:
        """Return the store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the store."""
        self.close()

    def close(self) -> None:
        """Sign what waits if the store was opened with a signer, save what was written, let go of graph and journal."""
        try:
            if self._signing is not None:
                self._signing.finish()
        finally:
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
            sources: Folders of dumps, dumps, PROV-JSON and PROV-N files, files of agent evidence or ``train-aep``
                files, or ``prov.model.ProvDocument`` objects.
            source: Take every path for this: ``flight-recorder``, ``prov-json``, ``prov-n``, ``aep`` or ``train-aep``;
                ``evidence`` for one of the last two.
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
        from provstore.sources.flight_recorder import ReadOptions

        self.require_writable("nothing can be taken in")
        options = ReadOptions(rank_regex=rank_regex, rank_map=rank_map, recursive=recursive)
        request = Request([], run, attempt, options, keep_source, progress)
        report = take_in(sources, source, request, self.opened.journal, self._graph)
        if self._signing is not None:
            self._signing.note(report.runs)
        return report

    def record(
        self,
        items: Iterable[Observation | AgreedDigest],
        *,
        run: str,
        attempt: int = 0,
        rank_signer: Signer | None = None,
    ) -> int:
        """Keep what a run states about itself as records, acknowledged when this returns.

        They are signed by :meth:`seal`, or in the background when the store was opened with a signer.

        Args:
            items: ``provstore.model.evidence.Observation`` and ``AgreedDigest`` values.
            run: The run.
            attempt: Its incarnation.
            rank_signer: Key of the one rank that states all of it: a false statement is then that key's.

        Returns:
            Index in the run tree of the first record.

        Raises:
            ConfigError: ``run`` is empty or no text, ``items`` is no list, or ``rank_signer`` is no signer.
            InputError: The run is closed, or a value cannot be kept; the message names the item and the value.
            StoreError: The journal cannot be written.
        """
        self.require_writable("records cannot be kept")
        return self._signs().record(items, (run, attempt), rank_signer)

    def seal(
        self,
        *,
        signer: Signer,
        run: str | None = None,
        attempt: int | None = None,
        close: str | None = None,
        world: int | None = None,
        train_epoch: int | None = None,
        anchors: Sequence[AnchorClaim] = (),
        org: str = "provstore",
        limits: Limits | None = None,
        vouch: Vouching | None = None,
        progress: Progress | None = None,
    ) -> SealReport:
        """Sign everything that is not signed yet, of one run or of all; what is signed is durable.

        Args:
            signer: ``public_key`` and ``sign(message)``: a key file, a key management service, a hardware module.
            run: The run; all of them when not given.
            attempt: Its incarnation.
            close: ``finished``, ``aborted`` or ``collector-lost``: sign that nothing follows.
            world: How many ranks the run has.
            train_epoch: The training epoch that the records belong to.
            anchors: Checkpoints seen before: a lower bound of the time of this signature.
            org: First part of the origin of checkpoints.
            limits: When an evidence epoch closes at the latest.
            vouch: On top of whose bundles is signed; of keys in the user's trust file, when not given.
            progress: Called with (done, total, what).

        Raises:
            ConfigError: The signer is none.
            InputError: No such run; or it is closed, and is to be closed again or holds something new.
            StoreError: A batch is missing or altered, or the journal cannot be written.
            TrustError: What is signed does not hold, nobody vouches for it, or a rank has two keys: nothing is signed.
        """
        from provstore.api.signing import scopes_to_seal
        from provstore.evidence.bundles import Claims, Limits
        from provstore.ingest.sealing import SealRequest

        self.require_writable("nothing can be signed")
        claims = Claims(train_epoch, world, tuple(anchors))
        request = SealRequest(signer, close, limits or Limits(), claims, org, vouch)
        scopes = scopes_to_seal(self.opened.journal, self.uri, run, attempt, close)
        return self._signs().seal(scopes, request, progress)

    def verify(
        self,
        run: str | None = None,
        attempt: int | None = None,
        *,
        belief: Belief,
        source: str = "both",
        refresh: bool = True,
        blobs: bool = True,
        progress: Progress | None = None,
    ) -> tuple[Verification, ...]:
        """Verify signatures, records, chain, journal and graph; return one answer an attempt.

        Args:
            run: The run; all that journal, graph or anchors know of when not given.
            attempt: Its incarnation.
            belief: Whose signatures count, and the anchors held before; ``provstore.belief()`` makes one.
            source: ``both``, ``journal`` or ``graph``: whose bytes are judged.
            refresh: Keep the newest checkpoint as the next anchor when nothing is wrong.
            blobs: Look at the bytes that bundles name by their SHA-256, too: statistics, snapshots, random states.
            progress: Called with (done, total, what).

        Raises:
            InputError: Neither store nor anchors know such a run.
            TrustError: The trust file lies inside the store that it would judge.
        """
        from provstore.api.verifying import verify_store

        if self._signing is not None:
            self._signing.show()
        opened = self.opened
        places, asked = (self.uri, self._journal_directory, opened.late), (run, attempt)
        return verify_store(
            opened.journal, opened.graph, places, belief, source, asked, refresh=refresh, progress=progress, blobs=blobs
        )  # fmt: skip

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
            target: ``tensor:R:SEQ:in|out``, ``act:R:OP:SEQ``, ``rR:seqSEQ``, ``p2p:R:OPID``, ``rank:R``, ``sha256:…``,
                or an id.
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
        from provstore.api.tracing import traced
        from provstore.queries.lineage import Limits
        from provstore.queries.targets import Scope

        scope, limits = Scope(run, attempt, group), Limits(depth, max_nodes, timeout_seconds)
        with hinting(self._late):
            found = traced(self._graph, target, to, scope, limits, down=down, data_only=data_only)
        if not self._late:
            return found
        return replace(found, complete=False, reason=REASON, notes=(*found.notes, self._late))

    def diagnose(
        self, *, run: str | None = None, attempt: int | None = None, about: str | None = None, save: bool = False
    ) -> Diagnosis:
        """Diagnose a stored run; equal to the diagnosis of the folder it came from.

        Where its values were recorded live, too, what they show is part of the answer.

        Args:
            run: The run; may be left out when the store holds one.
            attempt: Its incarnation; may be left out when there is one.
            about: ``hang``, ``nan`` or ``slow``; everything when not given.
            save: Store the findings as facts.

        Raises:
            InputError: The store holds no such run, or several that fit.
        """
        from provstore.api.asking import diagnosed

        if save:
            self.require_writable("findings cannot be saved")
        opened = self.opened
        found, block = diagnosed(opened.graph, opened.journal, self.scope_of(run, attempt), about)
        if save and found.findings:
            from provstore.ingest.upkeep import show_evidence

            opened.journal.append(block, None)
            opened.graph.write(block)
            show_evidence(opened.graph, opened.journal)
        return replace(found, notes=(*found.notes, opened.late)) if opened.late else found

    def query(self, name: str, **parameters: object) -> Answer:
        """Return the rows of a shipped query.

        Args:
            name: Such as ``collectives/last_call_per_rank``, or its last part where that is enough;
                ``provstore.shipped_queries()`` lists them.
            parameters: Its parameters; ``run`` and ``attempt`` may be left out when the store holds one attempt.
                ``iri`` and ``call`` take every form of target, narrowed by ``run``, ``attempt`` and ``group``.

        Raises:
            ConfigError: No such query, or a parameter is missing or unknown.
        """
        from provstore.api.answers import asked

        with hinting(self._late):
            return incomplete(asked(self._graph, name, parameters, self.scope_of), self._late)

    def cypher(self, text: str, **parameters: object) -> Answer:
        """Return the rows of a reading query of one's own, within 10 s and 10,000 rows.

        Raises:
            InputError: The text could do more than read; the message names the word.
        """
        from provstore.api.answers import asked_freely

        return incomplete(asked_freely(self._graph, text, parameters), self._late)

    def scope_of(self, run: str | None, attempt: int | None) -> tuple[str, int]:
        """Return run and attempt, where one is left out that of which the store holds one.

        Raises:
            InputError: The store holds no such run, or several that fit.
        """
        from provstore.api.answers import one_attempt

        with hinting(self._late):
            return one_attempt(self._graph, self.uri, run, attempt)

    @property
    def opened(self) -> Opened:
        """The open journal and graph, which belong together; the journal is read when it is first needed."""
        with self._mutex:
            if not isinstance(self._opened, Opened):
                place = (self.uri, self._journal_directory, self._exits)
                self._opened = with_journal(*place, self._opened, None)
            return self._opened

    @property
    def _graph(self) -> GraphStore:
        return self._opened.graph

    @property
    def _late(self) -> str:
        return self._opened.late

    def require_writable(self, what: str) -> None:
        """Refuse what writes into a store that was opened for reading only, or while safe mode is on.

        Raises:
            ConfigError: The store was opened for reading only.
            SafeModeError: Safe mode is on.
        """
        from provstore.api.control import require_off

        if self._read_only:
            raise ConfigError(f"{self.uri}: store: opened for reading only; {what}")
        require_off(what, self._journal_directory)

    def _signs(self, signer: Signer | None = None, limits: Limits | None = None) -> Signing:
        """Return what records and signs, made when it is first needed."""
        opened = self.opened
        with self._mutex:
            if self._signing is None:
                from provstore.api.signing import Signing

                self.require_writable("nothing can be signed")
                self._signing = Signing(opened.journal, opened.graph, signer, limits)
            return self._signing

    def _place(self, journal: str | Path | None) -> Path:
        if self.uri.startswith("memory:") and journal is None:
            return Path(self._exits.enter_context(tempfile.TemporaryDirectory(prefix="provstore-")))
        return config.journal_directory(self.uri, journal)
