"""What one training epoch is replayed from, held against its records: the blobs that they name, and the graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from provstore import config
from provstore.analysis.evidence import Covers, Difference, attributed, projection_differences
from provstore.api.merging import state
from provstore.api.opening import GRAPH_FILE, open_graph
from provstore.cypher import query
from provstore.errors import StoreError
from provstore.evidence.epoch_bundles import CHECKPOINTS, RNG
from provstore.evidence.verify.blobs import CODE_OF, Naming, check_blobs
from provstore.evidence.verify.walk import Checked
from provstore.ingest.recording import StoredBundle
from provstore.journal import Journal, JournalEvidence
from provstore.journal.kept import KeptBytes
from provstore.model.evidence import BundleAt, RecordAt
from provstore.model.lost import MISSING
from provstore.model.verification import NOT_CHECKED, EvidenceFinding
from provstore.queries.evidence import GraphEvidence, stored_evidence
from provstore.queries.info import behind, lost
from provstore.queries.rows import Row
from provstore.stores import GraphStore

GRAPH, JOURNAL = "graph", "journal"
Opens: TypeAlias = "Callable[[], contextlib.AbstractContextManager[tuple[GraphStore | None, str]]]"
_OF_EARLIER = frozenset((CHECKPOINTS, RNG))
"""Roles of blobs of earlier epochs that a restore plan reads."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was found beside the signed bytes."""

    findings: tuple[EvidenceFinding, ...]
    axes: Mapping[str, str]
    remarks: tuple[str, ...]
    """What is missing, or was not compared: it contradicts nothing that is signed."""


@dataclass(frozen=True, slots=True)
class EpochLook:
    """Looks at one training epoch of one attempt.

    Args:
        journal: Its journal.
        bundles: The bundles of the attempt.
        epoch: Number of the epoch.
        opens: Opens the graph; gives ``None`` where it is not looked at, and why in words.
    """

    journal: Journal
    bundles: Sequence[StoredBundle]
    epoch: int
    opens: Opens

    def beside(self, checked: Checked) -> Look:
        """Return how blobs and graph differ from the records, which were checked."""
        bundle = self.bundles[0]
        scope = (bundle.run, bundle.attempt)
        kept = check_blobs(scope, tuple(self._named(checked)), KeptBytes(self.journal.directory)).findings
        gone = [one for one in kept if one.code == CODE_OF[MISSING]]
        found = [one for one in kept if one.code != CODE_OF[MISSING]]
        remarks = [f"{one.code}: {one.text}" for one in gone]
        axes = {JOURNAL: state(kept), GRAPH: NOT_CHECKED}
        with self.opens() as (graph, why_not):
            if graph is None:
                remarks.append(f"the graph was not compared: {why_not}")
            else:
                differing = self._of_graph(graph, scope)
                found, axes[GRAPH] = [*found, *differing], state(differing)
        return Look(tuple(found), axes, tuple(remarks))

    def _named(self, checked: Checked) -> Iterator[Naming]:
        """Yield what the epoch's own bundles name, and of earlier ones what a plan reads."""
        for one in checked.named:
            if one.train_epoch == self.epoch:
                yield one
            elif one.train_epoch is not None and one.train_epoch < self.epoch:
                yield one.only(_OF_EARLIER)

    def _of_graph(self, graph: GraphStore, scope: tuple[str, int]) -> list[EvidenceFinding]:
        """Return how the nodes of the epoch differ from its records; nothing is compared with a graph of elsewhere."""
        if (gap := _gap(graph, self.journal)) is not None:
            return [EvidenceFinding(*scope, None, None, *gap)]
        log, found = self.journal.evidence(*scope), list[Difference]()
        stored = stored_evidence(graph, *scope, self.journal.journal_id)
        for first, end in self._ranges():
            found += projection_differences(_Part(log, first, end), _Nodes(stored, first, end))
        if not found:
            return []
        covers = Covers()
        covers.add(log)
        return attributed(found, (), covers)

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Yield from which record on, and up to which, each part of the epoch stands: its bundle and link end it."""
        before = 0
        for one in sorted(self.bundles, key=lambda one: one.index):
            if one.epoch == self.epoch:
                yield before, one.index + 2
            before = one.index + 1


class _Part:
    """Some records of an attempt, without its bundles; an ``EvidenceLog``."""

    def __init__(self, log: JournalEvidence, first: int, end: int) -> None:
        self.run, self.attempt, self.store = log.run, log.attempt, log.store
        self._log, self._first, self._end = log, first, end

    def bundles(self) -> Iterator[BundleAt]:
        """Yield nothing: a bundle may cover more than the part."""
        yield from ()

    def records(self) -> Iterator[RecordAt]:
        """Yield the records of the part."""
        for frame in self._log.frames():
            if frame.first < self._end and frame.first + len(frame.lines) > self._first:
                for at, line in enumerate(frame.lines, frame.first):
                    if self._first <= at < self._end:
                        yield RecordAt(at, line, frame.where)


class _Nodes:
    """The nodes of evidence of one attempt, listed only where they say that they come from some records."""

    def __init__(self, stored: GraphEvidence, first: int, end: int) -> None:
        self._stored, self._first, self._end = stored, first, end

    def listing(self) -> Iterator[str]:
        """Yield the ids of these nodes."""
        stored = self._stored
        parameters = {"run": stored.run, "attempt": stored.attempt, "first": self._first, "end": self._end}
        for row in stored.graph.run(query("read/evidence_bytes/listing_between"), parameters):
            yield str(row["iri"])

    def nodes(self, iris: Sequence[str]) -> Iterator[Row]:
        """Yield iri, labels and properties of the nodes with these ids."""
        return self._stored.nodes(iris)

    def edges(self, iris: Sequence[str]) -> Iterator[Row]:
        """Yield the relationships at these nodes."""
        return self._stored.edges(iris)


def _gap(graph: GraphStore, journal: Journal) -> tuple[str, str, str] | None:
    """Return code, place and words for what the graph lacks or has beyond the journal; then nothing is compared."""
    if (gone := lost(graph, journal)) is not None:
        return "acked-lost", "the journal", gone
    if late := behind(graph, journal):
        batches = "1 batch" if late == 1 else f"{late} batches"
        return "check-unfinished", "the graph", f"The graph is {batches} behind its journal: it was not compared."
    return None


@contextlib.contextmanager
def graph_of(uri: str, journal: Path) -> Iterator[tuple[GraphStore | None, str]]:
    """Open the graph of a store for reading, caught up with its journal; without one, give ``None`` and why."""
    place = config.embedded_directory(uri)
    why_not = ""
    if place is not None and not (place / GRAPH_FILE).exists():
        why_not = f"{place / GRAPH_FILE} is not there"
    elif uri.startswith("memory:"):
        why_not = "a store in memory has none that lasts"
    with contextlib.ExitStack() as exits:
        graph = None
        if not why_not:
            try:
                graph = open_graph(uri, journal, exits, None).graph
            except StoreError as error:
                why_not = str(error)
        yield graph, why_not
