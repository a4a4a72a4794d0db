"""Verifying a store or exported files: bytes against signatures, graph against bytes, both against held anchors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from provstore import config
from provstore.analysis.evidence import Covers, attributed, differences, projection_differences
from provstore.analysis.evidence.batches import compare_batches
from provstore.api.signing import fitting
from provstore.errors import ConfigError, InputError
from provstore.evidence import anchors as held
from provstore.evidence import bundles, checkpoint, public_forms, timestamps, trust
from provstore.evidence.files import ExportedEvidence
from provstore.evidence.verify import Checked, verify
from provstore.evidence.verify_file import verify_file
from provstore.ingest.upkeep import replay
from provstore.journal import Journal, JournalEvidence, Problem
from provstore.model.evidence import EvidenceLog
from provstore.model.verification import (
    ALLOWED,
    FAULT,
    NOT_CHECKED,
    OK,
    UNKNOWN,
    UNPROVEN,
    EvidenceFinding,
    Verification,
)
from provstore.queries.evidence import scopes as graph_scopes
from provstore.queries.evidence import stored_evidence
from provstore.queries.info import behind, is_shared, lost
from provstore.stores import GraphStore, open_store
from provstore.stores.dump import apart

SOURCES = ("both", "journal", "graph")
_WORST_FIRST = (FAULT, UNKNOWN, UNPROVEN, OK, NOT_CHECKED)
_PROBLEM_CODES = {"journal-chain-broken": "journal-chain-broken"}
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Belief:
    """What a verification believes before it looks at the evidence."""

    trust: trust.Trust
    anchors: tuple[held.Anchor, ...] = ()
    """Given beside those of the state."""
    state: held.AnchorState | None = None
    """The verifier's own anchors: read before, refreshed after."""
    at: str | None = None
    """Moment at which keys are judged; the present when not given."""
    org: str = bundles.ORG
    allow: tuple[str, ...] = ()
    trust_path: Path | None = None
    """The trust file, which must not lie inside the store that it judges; ``None`` for single keys."""

    def __post_init__(self) -> None:
        """Refuse limits that do not exist."""
        unknown = sorted(set(self.allow) - set(ALLOWED))
        if unknown:
            raise ConfigError(f"{', '.join(unknown)}: --allow: not a limit; known are {', '.join(ALLOWED)}")

    def inputs(self, source: str, anchors: Sequence[held.Anchor]) -> dict[str, object]:
        """Return what an answer depends on, as JSON values."""
        return {
            "source": source,
            "trust": {
                "source": self.trust.source,
                "version": self.trust.version,
                "first_use": self.trust.first_use,
            },
            "anchors": [
                {"origin": one.origin, "size": one.size, "source": one.source, "seen": one.seen} for one in anchors
            ],
            "at": self.at,
            "org": self.org,
        }


@dataclass(frozen=True, slots=True)
class Scope:
    """One attempt of one run of one journal."""

    run: str
    attempt: int
    store: str


def belief(
    *,
    public_keys: Sequence[str | Path],
    trust_file: str | Path | None,
    pin: str | None,
    first_use: bool,
    anchors: Iterable[str | Path],
    state: str | Path | None,
    at: str | None,
    org: str,
    allow: Sequence[str],
    tsa: Sequence[str | Path],
    outside: Iterable[Path],
) -> Belief:
    """Return what a verification believes; ``provstore.belief`` documents it."""
    own = held.AnchorState(config.anchor_directory(state))
    if public_keys:
        keys = [_public_key(Path(path)) for path in public_keys]
        known = trust.Trust.of_keys(keys, ", ".join(map(str, public_keys)))
        return Belief(known, read_anchors(anchors, known, tsa), own, at, org, tuple(allow))
    path = config.trust_file(trust_file)
    if not path.exists():
        raise ConfigError(
            f"{path}: trust: there is none: nothing says whose signatures count",
            hint="provstore keys trust NAME makes one; --public-key FILE names a single key",
        )
    for directory in outside:
        trust.require_outside(path, directory)
    known = trust.load(path, pin=pin, first_use=first_use, at=at)
    return Belief(known, read_anchors(anchors, known, tsa), own, at, org, tuple(allow), path)


def _public_key(path: Path) -> bytes:
    return public_forms.read_public(_bytes_of(path, "public key"), str(path))


def _bytes_of(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {what}: cannot be read: {error.strerror}") from error


class StoreVerifier:
    """Verifies runs of an open store.

    Args:
        journal: Its journal.
        graph: Its graph.
        place: Directory or address of the store, as anchors remember it.
        directory: Where the store's files are: an anchor in there holds nothing in place.
        belief: Trust and anchors.
        source: ``both``, ``journal`` or ``graph``: whose bytes are judged.
    """

    def __init__(
        self, journal: Journal, graph: GraphStore, place: str, directory: Path, belief: Belief, source: str
    ) -> None:
        if source not in SOURCES:
            raise ConfigError(f"{source}: --source: not known; known are {', '.join(SOURCES)}")
        self._journal, self._graph, self._place = journal, graph, place
        self._belief, self._source, self._directory = belief, source, directory
        self._problems: list[EvidenceFinding] | None = None
        self._differences: list[EvidenceFinding] | None = None

    def scopes(self, run: str | None, attempt: int | None) -> list[Scope]:
        """Return what is to be verified: everything that journal, graph or anchors know of and that fits."""
        store = self._journal.journal_id
        known = {Scope(*pair, store) for pair in [*self._journal.scopes(), *graph_scopes(self._graph)]}
        state = self._belief.state
        seen = [*(state.all() if state else ()), *self._belief.anchors]
        for anchor in seen:
            about = held.scope_of(anchor.origin)
            if about is not None and (about.store == store or anchor.place == self._place):
                known.add(Scope(about.run, about.attempt, about.store))
        fits = [one for one in known if run in (None, one.run) and attempt in (None, one.attempt)]
        return sorted(fits, key=lambda one: (one.run, one.attempt, one.store != store, one.store))

    def verify(self, scope: Scope, *, refresh: bool) -> Verification:
        """Return what can be said of one attempt; a clean answer becomes the verifier's next anchor."""
        anchors = self._anchors(scope)
        answer, note = self._judged(scope, anchors)
        state = self._belief.state
        if refresh and state is not None and note is not None and answer.verdict in ("pass", "limited"):
            origin = checkpoint.parse(note).origin
            state.refresh(note, origin, self._place, _now())
        return answer

    def _anchors(self, scope: Scope) -> list[held.Anchor]:
        origin = checkpoint.origin(self._belief.org, scope.store, scope.run, scope.attempt)
        state = self._belief.state
        own = state.for_origin(origin) if state is not None else []
        return [*own, *(anchor for anchor in self._belief.anchors if anchor.origin == origin)]

    def _judged(self, scope: Scope, anchors: Sequence[held.Anchor]) -> tuple[Verification, bytes | None]:
        checked: list[Checked] = []
        findings: list[EvidenceFinding] = []
        axes = {"graph": NOT_CHECKED, "journal": NOT_CHECKED}
        counts: dict[str, int] = {}
        is_here = scope.store == self._journal.journal_id
        if self._source != "graph":
            log = self._journal.evidence(scope.run, scope.attempt) if is_here else self._nothing(scope)
            checked.append(self._checked(log, anchors, "journal"))
            compared = compare_batches(
                scope.run, scope.attempt, self._journal.batches(), log.records(), self._journal.batch_fault
            )
            findings += [
                *compared.findings,
                *(replace(one, run=scope.run, attempt=scope.attempt) for one in self._of_journal()),
            ]
            counts |= {"batches": compared.covered + compared.unsigned, "batches_unsigned": compared.unsigned}
            axes["journal"] = FAULT if self._of_journal() else OK
        if self._source != "journal" and is_here:
            late = behind(self._graph, self._journal)
            if late:
                findings.append(_unfinished(scope, late))
                axes["graph"] = UNKNOWN
            if not late or self._source == "graph":
                stored = stored_evidence(self._graph, scope.run, scope.attempt)
                checked.append(self._checked(stored, anchors, "graph"))
                differing = self._of_graph(scope)
                findings += differing
                axes["graph"] = FAULT if differing else axes["graph"] if late else OK
        merged = _merged(scope, checked, findings, axes, counts)
        inputs = self._belief.inputs(self._source, anchors)
        note = checked[0].head_note if checked else None
        return replace(merged, inputs=inputs, allowed=self._belief.allow), note

    def _checked(self, log: EvidenceLog, anchors: Sequence[held.Anchor], source: str) -> Checked:
        belief = self._belief
        return verify(log, belief.trust, anchors, at=belief.at, org=belief.org, source=source, within=self._directory)

    def _nothing(self, scope: Scope) -> JournalEvidence:
        return JournalEvidence(self._journal.directory, scope.store, (scope.run, scope.attempt), ())

    def _of_journal(self) -> list[EvidenceFinding]:
        """Return the faults of the journal's files, which concern every run."""
        if self._problems is None:
            self._problems = [_of_problem(found) for found in self._journal.check() if found.is_loss]
            if (gone := lost(self._graph, self._journal)) is not None:
                self._problems.append(EvidenceFinding("", 0, None, None, "acked-lost", "the journal", gone))
        return self._problems

    def _of_graph(self, scope: Scope) -> list[EvidenceFinding]:
        if self._source == "graph":
            stored = stored_evidence(self._graph, scope.run, scope.attempt)
            covers = Covers()
            covers.add(stored)
            return attributed(projection_differences(stored, stored), (), covers)
        if self._differences is None:
            self._differences = list(self._graph_differences())
        pair = (scope.run, scope.attempt)
        return [one for one in self._differences if (one.run, one.attempt) == pair or not one.run]

    def _graph_differences(self) -> Iterator[EvidenceFinding]:
        covers = Covers()
        for scope in self._journal.scopes():
            covers.add(self._journal.evidence(*scope))
        with contextlib.closing(open_store("memory:", writable=True)) as empty:
            replay(empty, self._journal, on_problem=lambda _: None)
            both = apart(empty, self._graph)
            found = list(differences(both.left, both.right))
        if is_shared(self._graph):
            # What other journals have put into the same server is theirs to judge.
            found = [one for one in found if not one.is_extra or covers.knows(one.fact)]
        blocks = self._journal.blocks(on_problem=lambda _: None)
        yield from attributed(found, blocks, covers)


def verify_store(
    journal: Journal,
    graph: GraphStore,
    places: tuple[str, Path],
    belief: Belief,
    source: str,
    asked: tuple[str | None, int | None],
    *,
    refresh: bool,
    progress: Progress | None,
) -> tuple[Verification, ...]:
    """Return what can be said of the attempts of an open store; ``places`` are its address and its journal."""
    uri, directory = places
    own = config.embedded_directory(uri) or directory
    if belief.trust_path is not None:
        trust.require_outside(belief.trust_path, own)
        trust.require_outside(belief.trust_path, directory)
    verifier = StoreVerifier(journal, graph, str(directory.resolve()), own, belief, source)
    scopes = verifier.scopes(*asked)
    if not scopes:
        fitting((), uri, *asked)
    answers = []
    for at, scope in enumerate(scopes):
        answers.append(verifier.verify(scope, refresh=refresh))
        if progress:
            progress(at + 1, len(scopes), "verifying")
    return tuple(answers)


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


def verify_files(paths: Iterable[Path], belief: Belief) -> tuple[Verification, ...]:
    """Return what can be said of exported evidence, one answer a directory or file.

    Raises:
        InputError: A directory holds no exported evidence.
    """
    answers = []
    for path in paths:
        if path.is_file():
            alone = verify_file(path, belief.trust)
            answers.append(
                replace(alone, inputs={**belief.inputs("file", ()), "path": str(path)}, allowed=belief.allow)
            )
            continue
        log = ExportedEvidence(path)
        origin = checkpoint.origin(belief.org, log.store, log.run, log.attempt)
        own = belief.state.for_origin(origin) if belief.state is not None else []
        anchors = [*own, *(anchor for anchor in belief.anchors if anchor.origin == origin)]
        checked = verify(log, belief.trust, anchors, at=belief.at, org=belief.org, source="files", within=path)
        scope = Scope(log.run, log.attempt, log.store)
        merged = _merged(scope, [checked], [], {"graph": NOT_CHECKED, "journal": NOT_CHECKED}, {})
        inputs = {**belief.inputs("files", anchors), "path": str(path)}
        answers.append(replace(merged, inputs=inputs, allowed=belief.allow))
    return tuple(answers)


def read_anchors(
    paths: Iterable[str | Path], known: trust.Trust, tsa: Sequence[str | Path] = ()
) -> tuple[held.Anchor, ...]:
    """Return the anchors in files and directories; one with a time stamp beside it (``<file>.tsr``) is dated by that.

    Args:
        paths: Checkpoints, or directories of anchors.
        known: Whose signature under a checkpoint a time stamp may date.
        tsa: Certificates of time-stamping authorities that are trusted; without any, time stamps are not looked at.

    Raises:
        InputError: A file cannot be read.
        TrustError: A file holds no checkpoint, or a time stamp does not hold for it.
    """
    found: list[held.Anchor] = []
    roots = [_bytes_of(Path(path), "certificate") for path in tsa]
    for path in map(Path, paths):
        if path.is_dir():
            found += held.AnchorState(path).all()
            continue
        anchor, token = held.read(path), path.with_name(f"{path.name}.tsr")
        if roots and token.exists():
            publics = [key.public for key in known.keys]
            anchor = timestamps.dated(anchor, _bytes_of(token, "time stamp"), roots, publics)
        found.append(anchor)
    return tuple(found)


def _merged(
    scope: Scope,
    checked: Sequence[Checked],
    findings: Iterable[EvidenceFinding],
    axes: dict[str, str],
    counts: dict[str, int],
) -> Verification:
    """Return one answer from what was judged of each place; what two places say alike is said once."""
    known: dict[tuple[object, ...], EvidenceFinding] = {}
    for one in [*(found for part in checked for found in part.findings), *findings]:
        known.setdefault((one.code, one.epoch, one.seq, one.rank, one.keyid, one.text), one)
    for part in checked:
        for axis, state in part.axes.items():
            axes[axis] = min(axes.get(axis, NOT_CHECKED), state, key=_WORST_FIRST.index)
    first = checked[0]
    return Verification(
        run=scope.run,
        attempt=scope.attempt,
        axes=axes,
        counts={**first.counts, **counts},
        anchor=first.reach,
        findings=tuple(sorted(known.values(), key=EvidenceFinding.order)),
        limits=tuple(dict.fromkeys(text for part in checked for text in part.limits)),
    )


def _unfinished(scope: Scope, late: int) -> EvidenceFinding:
    """Return that a graph could not be compared, because another process is writing what it lacks."""
    text = f"The graph is {late} batches behind its journal, which another process is writing: it was not compared."
    return EvidenceFinding(scope.run, scope.attempt, None, None, "check-unfinished", "the graph", text)


def _of_problem(found: Problem) -> EvidenceFinding:
    code = _PROBLEM_CODES.get(found.code, "journal-damaged")
    return EvidenceFinding("", 0, None, None, code, found.place, found.text)
