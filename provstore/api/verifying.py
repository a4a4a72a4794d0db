"""Verifying a store: bytes against signatures, graph against bytes, both against held anchors."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from provstore import config
from provstore.analysis.evidence import Covers, attributed, differences, projection_differences
from provstore.analysis.evidence.batches import Batches, compare_batches
from provstore.analysis.evidence.elsewhere import stated_elsewhere
from provstore.api import overview
from provstore.api.anchoring import AnchorChoice, remarks
from provstore.api.believing import Belief
from provstore.api.losses import ACKED_LOST, Loss, Losses, finding_of, loss_of, told_by_check
from provstore.api.merging import merged, state
from provstore.api.signing import fitting
from provstore.errors import ConfigError, StoreError, TrustError
from provstore.evidence import anchors as held
from provstore.evidence import checkpoint
from provstore.evidence.trust import file as trust_file
from provstore.evidence.verify.blobs import BlobCheck, check_blobs
from provstore.evidence.verify.org import require_org
from provstore.evidence.verify.walk import Checked, verify
from provstore.ingest.upkeep import replay
from provstore.journal import Journal, JournalEvidence
from provstore.journal.check import check as check_journal
from provstore.journal.kept import KeptBytes
from provstore.model.evidence import EvidenceLog
from provstore.model.lost import Lost
from provstore.model.verification import (
    BLOBS_LEFT_OUT,
    FACTS_NOT_COMPARED,
    FAULT,
    NOT_CHECKED,
    OK,
    SHARED_GRAPH,
    UNKNOWN,
    UNPROVEN,
    EvidenceFinding,
    Verification,
)
from provstore.queries.evidence import GraphEvidence, stored_evidence
from provstore.queries.evidence import scopes as graph_scopes
from provstore.queries.info import behind, is_shared, lost, other_positions
from provstore.stores import GraphStore, open_store
from provstore.stores.dump import apart

SOURCES = ("both", "journal", "graph")
_NOTHING_LOST = Lost()
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Scope:
    """One attempt of one run of one journal."""

    run: str
    attempt: int
    store: str


class StoreVerifier:
    """Verifies runs of an open store.

    Args:
        journal: Its journal.
        graph: Its graph.
        place: Directory or address of the store, as anchors remember it.
        directory: Where the store's files are: an anchor in there holds nothing in place.
        belief: Trust and anchors.
        source: ``both``, ``journal`` or ``graph``: whose bytes are judged.
        may_share: The graph is on a server, which other journals may fill as well.
        late: Why the graph lacks something of the journal, in words.
        blobs: Look at the bytes that bundles name by their SHA-256.
        progress: Called with (done, total, what) while these are read.
    """

    def __init__(
        self,
        journal: Journal,
        graph: GraphStore,
        place: str,
        directory: Path,
        belief: Belief,
        source: str,
        *,
        may_share: bool,
        late: str = "",
        blobs: bool = True,
        progress: Progress | None = None,
    ) -> None:
        if source not in SOURCES:
            raise ConfigError(f"{source}: --source: not known; known are {', '.join(SOURCES)}")
        self._journal, self._graph, self._place = journal, graph, place
        self._belief, self._source, self._directory = belief, source, directory
        self.anchors = AnchorChoice(belief, directory)
        self._problems: list[EvidenceFinding] | None = None
        self._losses: list[Loss] = []
        self._differences: list[EvidenceFinding] | None = None
        self._elsewhere: dict[tuple[str, int], list[int]] | None = None
        self._signed_batches: dict[tuple[str, int], frozenset[int]] = {}
        self._may_share, self._late = may_share, late
        self._looks_at_blobs, self._progress = blobs, progress

    @functools.cached_property
    def _recorded(self) -> frozenset[tuple[str, int]]:
        """Every attempt that journal or graph know of."""
        return frozenset([*self._journal.scopes(), *graph_scopes(self._graph)])

    def scopes(self, run: str | None, attempt: int | None) -> list[Scope]:
        """Return what is to be verified: everything that journal, graph or anchors know of and that fits."""
        store = self._journal.journal_id
        known = {Scope(*pair, store) for pair in self._recorded}
        state = self._belief.state
        seen = [*(state.all() if state else ()), *self.anchors.given()]
        for anchor in seen:
            about = held.scope_of(anchor.origin)
            if about is not None and (about.store == store or anchor.place == self._place):
                known.add(Scope(about.run, about.attempt, about.store))
        fits = [one for one in known if run in (None, one.run) and attempt in (None, one.attempt)]
        return sorted(fits, key=lambda one: (one.run, one.attempt, one.store != store, one.store))

    def verify(self, scope: Scope, *, refresh: bool) -> Verification:
        """Return what can be said of one attempt; a clean answer becomes the verifier's next anchor."""
        answer, note = self._judged(scope)
        if refresh and note is not None and answer.verdict in ("pass", "limited"):
            remark = self.anchors.keep(note, self._place, _now())
            answer = answer if remark is None else replace(answer, limits=(*answer.limits, remark))
        return answer

    def _judged(self, scope: Scope) -> tuple[Verification, bytes | None]:
        pair = (scope.run, scope.attempt)
        origin = checkpoint.origin(self._belief.org, scope.store, *pair)
        anchors, unused = self.anchors.of(origin, scope.run), self.anchors.findings(origin, pair)
        checked: list[Checked] = []
        findings: list[EvidenceFinding] = []
        axes = {"graph": NOT_CHECKED, "journal": NOT_CHECKED}
        counts: dict[str, int] = {}
        is_here = scope.store == self._journal.journal_id
        log = self._journal.evidence(scope.run, scope.attempt) if is_here else self._nothing(scope)
        if self._source != "graph":
            checked.append(self._checked(log, anchors, "journal", self._lost(log)))
            compared, kept = self._compared(log), self._blobs(pair, checked[0])
            problems = (replace(one, run=scope.run, attempt=scope.attempt) for one in self._of_journal())
            findings += [*compared.findings, *problems, *(kept.findings if kept else ())]
            counts |= {"batches": compared.covered + compared.unsigned, "batches_unsigned": compared.unsigned}
            counts |= {"blobs": kept.blobs if kept else 0}
            axes["journal"] = state(findings)
            if kept is None and axes["journal"] == OK:
                axes["journal"] = NOT_CHECKED
            if any(one.code == "after-close" for one in findings):
                axes["closing"] = FAULT
        elif not is_here:
            checked.append(self._checked(log, anchors, "graph"))
        if self._source != "journal" and is_here:
            late = behind(self._graph, self._journal)
            if late:
                findings.append(_unfinished(scope, self._late or f"the graph is {late} batches behind its journal"))
                axes["graph"] = UNKNOWN
            if not late or self._source == "graph":
                checked.append(self._checked(self._stored(scope), anchors, "graph"))
                differing = [*self._of_graph(scope), *self._of_kept(pair)]
                findings += differing
                axes["graph"] = state(differing) if differing or not late else UNKNOWN
        if unused:
            findings, axes["anchor"] = [*findings, *unused], UNPROVEN
        answer = merged(pair, checked, findings, axes, counts)
        inputs = self._belief.inputs(self._source, anchors)
        limits = (*self._limits(checked), *answer.limits)
        return replace(answer, inputs=inputs, limits=limits, allowed=self._belief.allow), checked[0].head_note

    def _stored(self, scope: Scope) -> GraphEvidence:
        return stored_evidence(self._graph, scope.run, scope.attempt, self._journal.journal_id)

    def _compared(self, log: JournalEvidence) -> Batches:
        journal, is_partial = self._journal, self._lost(log).has_records
        batches, cause_of = journal.batches(told_by_check), Losses(self._losses, {}).cause_of_batch
        return compare_batches(
            log.run, log.attempt, batches, log.records(), journal.batch_fault, cause_of, is_partial=is_partial
        )  # fmt: skip

    def _blobs(self, pair: tuple[str, int], checked: Checked) -> BlobCheck | None:
        """Return what looking at blobs gave; ``None`` where there are some and they are left out."""
        if checked.named and not self._looks_at_blobs:
            return None
        return check_blobs(pair, checked.named, KeptBytes(self._journal.directory), self._progress)

    def _limits(self, checked: Sequence[Checked]) -> list[str]:
        """Return in the fixed words what the asked source, or a shared graph, cannot show."""
        if self._source == "graph":
            return [FACTS_NOT_COMPARED]
        count = 0 if self._looks_at_blobs else sum(len(one.blobs) for one in checked[0].named)
        left_out = [BLOBS_LEFT_OUT.format(blobs=count)] if count else []
        is_told = self._source == "both" and self._may_share and is_shared(self._graph)
        return [*left_out, SHARED_GRAPH] if is_told else left_out

    def _checked(
        self, log: EvidenceLog, anchors: Sequence[held.Anchor], source: str, lost: Lost = _NOTHING_LOST
    ) -> Checked:
        belief, within = self._belief, self._directory
        return verify(
            log, belief.trust, anchors, at=belief.at, org=belief.org, source=source, within=within, lost=lost
        )  # fmt: skip

    def _lost(self, log: JournalEvidence) -> Lost:
        """Return what damage has taken from an attempt; a broken chain excuses nothing."""
        self._of_journal()
        return log.lost(Losses(self._losses, {}).numbers())

    def _nothing(self, scope: Scope) -> JournalEvidence:
        return JournalEvidence(self._journal.directory, scope.store, (scope.run, scope.attempt), ())

    def _of_journal(self) -> list[EvidenceFinding]:
        """Return the faults of the journal's files, which concern every run."""
        if self._problems is None:
            # Bytes that records name are looked at with the records, by run: see _blobs.
            losing = [found for found in check_journal(self._journal.directory, kept=False) if found.is_loss]
            self._problems = [finding_of(found) for found in losing]
            self._losses = [loss_of(found) for found in losing]
            if (gone := lost(self._graph, self._journal)) is not None:
                self._problems.append(EvidenceFinding("", 0, None, None, ACKED_LOST, "the journal", gone))
                self._losses.append(Loss(ACKED_LOST, None, None))
        return self._problems

    def _of_graph(self, scope: Scope) -> list[EvidenceFinding]:
        if self._source == "graph":
            return self._of_stored(scope)
        if self._differences is None:
            self._differences = list(self._graph_differences())
        pair = (scope.run, scope.attempt)
        # What names an attempt that nothing else knows would be told by no answer.
        others = self._recorded - {pair}
        own = [one for one in self._differences if (one.run, one.attempt) not in others]
        if self._lost(self._journal.evidence(*pair)):
            # What the journal lost is compared with nothing: at least its nodes must say what they were made from.
            own += self._of_stored(scope)
        return [*own, *self._of_others(pair)]

    def _of_kept(self, pair: tuple[str, int]) -> list[EvidenceFinding]:
        """Return what is kept for questions and is not what the records give; statistics are read for it."""
        if self._source != "both" or not self._looks_at_blobs:
            return []
        code, where = "kept-mismatch", "derived"
        try:
            told = [f"What is kept for questions {text}." for text in overview.untrue(self._journal, pair)]
        except (StoreError, TrustError) as error:
            code, told = "check-unfinished", [f"What is kept for questions was not compared: {error}."]
        return [EvidenceFinding(*pair, None, None, code, where, text) for text in told]

    def _of_stored(self, scope: Scope) -> list[EvidenceFinding]:
        stored = self._stored(scope)
        covers = Covers()
        covers.add(stored)
        return attributed(projection_differences(stored, stored), (), covers)

    def _graph_differences(self) -> Iterator[EvidenceFinding]:
        covers = Covers()
        for scope in self._journal.scopes():
            log = self._journal.evidence(*scope)
            covers.add(log, self._lost(log))
        with contextlib.closing(open_store("memory:", writable=True)) as empty:
            replay(empty, self._journal, on_problem=lambda _: None)
            both = apart(empty, self._graph)
            found = list(differences(both.left, both.right))
        if self._may_share and is_shared(self._graph):
            # What other journals have put into the same server is theirs to judge.
            found = [one for one in found if not one.is_extra or covers.knows(one.fact)]
        blocks = self._journal.blocks(on_problem=lambda _: None)
        self._of_journal()
        scopes = {number: (cover.run, cover.attempt) for number, cover in covers.batches.items()}
        yield from attributed(found, blocks, covers, Losses(self._losses, scopes).cause_of)
        for other in () if self._may_share else other_positions(self._graph, self._journal):
            text = f"the graph of this journal also states a position of {other[:80]}, which nothing recorded"
            yield EvidenceFinding("", 0, None, None, "graph-mismatch", "the graph", text)

    def _of_others(self, pair: tuple[str, int]) -> Iterator[EvidenceFinding]:
        """Yield that batches of other attempts, which nobody has signed, say something of this one's elements."""
        if self._elsewhere is None:
            several = len({(batch.run, batch.attempt) for _, batch in self._journal.batches(told_by_check)}) > 1
            blocks = self._journal.blocks(on_problem=lambda _: None) if several else ()
            self._elsewhere = stated_elsewhere(blocks)
        numbers = self._elsewhere.get(pair, [])
        whose = (
            {number: (batch.run, batch.attempt) for number, batch in self._journal.batches(told_by_check)}
            if numbers
            else {}
        )
        for number in numbers:
            if number not in self._signed(whose[number]):
                text = "run {}, attempt {}".format(*whose[number]) if whose[number][0] else "imported documents"
                words = f"batch {number} of the journal, of {text}, says something of this run: nobody has signed it"
                yield EvidenceFinding(*pair, None, None, "unsigned-tail", "the journal", words)

    def _signed(self, pair: tuple[str, int]) -> frozenset[int]:
        """Return the batches of an attempt that a bundle covers; none where anything about it is at fault."""
        if pair not in self._signed_batches:
            log = self._journal.evidence(*pair)
            checked, compared = self._checked(log, (), "journal"), self._compared(log)
            is_bad = state([*checked.findings, *compared.findings]) in (FAULT, UNKNOWN)
            signed = () if is_bad else (n for n, index in compared.records.items() if index < checked.signed)
            self._signed_batches[pair] = frozenset(signed)
        return self._signed_batches[pair]


def verify_store(
    journal: Journal,
    graph: GraphStore,
    places: tuple[str, Path, str],
    belief: Belief,
    source: str,
    asked: tuple[str | None, int | None],
    *,
    refresh: bool,
    progress: Progress | None,
    blobs: bool = True,
) -> tuple[Verification, ...]:
    """Return what can be said of the attempts of an open store.

    ``places`` are its address, its journal, and why the graph lacks something of it; ``blobs``: look at the bytes that
    bundles name by their SHA-256.
    """
    uri, directory, late = places
    own = config.embedded_directory(uri) or directory
    if belief.trust_path is not None:
        trust_file.require_outside(belief.trust_path, own)
        trust_file.require_outside(belief.trust_path, directory)
    may_share = config.embedded_directory(uri) is None and not uri.startswith("memory:")
    place = str(directory.resolve())
    verifier = StoreVerifier(
        journal, graph, place, own, belief, source, may_share=may_share, late=late, blobs=blobs, progress=progress
    )  # fmt: skip
    scopes = verifier.scopes(*asked)
    if not scopes:
        fitting((), uri, *asked)
    require_org((journal.evidence(one.run, one.attempt) for one in scopes), belief.trust, belief.org)
    answers = []
    for at, scope in enumerate(scopes):
        answers.append(verifier.verify(scope, refresh=refresh))
        if progress:
            progress(at + 1, len(scopes), "verifying")
    return with_remarks(answers, belief, verifier.anchors.used)


def forget(journal: Journal, belief: Belief, run: str | None, attempt: int | None) -> int:
    """Forget the verifier's own anchors of some runs of a journal, or seen at its place; return how many."""
    if belief.state is None:
        return 0
    place, forgotten = str(journal.directory.resolve()), 0
    for anchor in belief.state.all():
        about = held.scope_of(anchor.origin)
        if about is None or not (about.store == journal.journal_id or anchor.place == place):
            continue
        if run in (None, about.run) and attempt in (None, about.attempt):
            forgotten += belief.state.reset(anchor.origin, _now())
    return forgotten


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def with_remarks(
    answers: Sequence[Verification], belief: Belief, used: Collection[held.Anchor]
) -> tuple[Verification, ...]:
    """Return the answers; the last one says which of the given anchors none of them used."""
    told = remarks(belief, used, [(one.run, one.attempt) for one in answers])
    if not told or not answers:
        return tuple(answers)
    return (*answers[:-1], replace(answers[-1], limits=(*answers[-1].limits, *told)))


def _unfinished(scope: Scope, late: str) -> EvidenceFinding:
    """Return that a graph could not be compared, because of what it lacks."""
    text = f"{late[:1].upper()}{late[1:]}: it was not compared."
    return EvidenceFinding(scope.run, scope.attempt, None, None, "check-unfinished", "the graph", text)
