"""Which agent's run launched which training run, read from the journal, and as derived relationships of the graph."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from provstore.analysis.join.joining import DELEGATION, PARENT_ACTION, PARENT_TRACE, REF, join, referred_run
from provstore.analysis.join.trace_ids import WEAK
from provstore.errors import InputError, StoreError
from provstore.evidence.aep import gather
from provstore.evidence.aep.gathering import Gathered
from provstore.evidence.aep.schema import RECORD
from provstore.evidence.aep.text import JsonText
from provstore.graph import agent_facts
from provstore.graph.recorded_ids import training_run_iri
from provstore.ingest.own_records import OwnRecords
from provstore.ingest.recording import stored_bundles
from provstore.journal import BundleFrame, Journal, Origin, RecordFrame
from provstore.journal.kept import KeptBytes
from provstore.model import canonical, ids
from provstore.model.action import TraceContext
from provstore.model.aep import Container
from provstore.model.block import Block, Column, Nodes, Relations
from provstore.model.joining import AgentRun, Link, Reference, TrainedRun
from provstore.sources import aep

READER, VERSION = "aep", "1"
ACCEPTANCE, _ACCEPTANCE_VERSION = "join-acceptance", "1"
OWN_AGENT = "provstore-recorder"
SCOPE = "join"
"""Of the derived relationships: no run and attempt have this spelling."""
ACCEPTANCE_LABELS = ("Element", "Entity", "JoinAcceptance")
_EPOCH_BUNDLE = b'"kind":"epoch-bundle"'
_STARTING = (REF, PARENT_ACTION)
_AGENT, _TRAINING = "agent", "training"
_SHOWN_DIGITS = 12

Ends = tuple[str, str, str]
"""Agent's run, training run, rule."""


@dataclass(frozen=True, slots=True)
class AgentFile:
    """A file of agent evidence whose bytes the journal holds."""

    sha256: str
    container: Container

    @property
    def source(self) -> str:
        """What answers call it: names of files are not kept, their digests are."""
        return f"sha256:{self.sha256}"


def is_own(value: Mapping[str, Any]) -> bool:
    """Return whether a record says that provstore made it; anybody can say so."""
    context = value.get("run_context")
    return isinstance(context, dict) and context.get("agent_id") == OWN_AGENT


def concerns(content: Block | RecordFrame | BundleFrame) -> bool:
    """Return whether something that the journal holds may change what is joined."""
    if isinstance(content, Block):
        kinds = {agent_facts.FILE_LABELS, ACCEPTANCE_LABELS}
        return not content.run and any(nodes.labels in kinds for nodes in content.nodes)
    return isinstance(content, RecordFrame) and any(_EPOCH_BUNDLE in line for line in content.lines)


def agent_files(journal: Journal, on_problem: Callable[[str], object] = lambda _: None) -> Iterator[AgentFile]:
    """Yield every file of agent evidence, in the order of their digests.

    Args:
        journal: Where their bytes are.
        on_problem: Called for each whose bytes are missing or altered, which is then left out.
    """
    sizes = {
        batch.source.sha256: batch.source.size_bytes
        for _, batch in journal.batches(lambda _: None)
        if batch.source is not None and batch.source.reader == READER
    }
    kept = KeptBytes(journal.directory)
    for sha256, size in sorted(sizes.items()):
        try:
            found = AgentFile(sha256, aep.read(kept.file(sha256, size), name=f"sha256:{sha256}"))
        except (StoreError, InputError) as error:
            on_problem(str(error))
            continue
        yield found


def agent_runs(
    journal: Journal,
    files: Sequence[AgentFile],
    gathered: Gathered,
    axes: Mapping[str, Mapping[str, object]] | None = None,
) -> list[AgentRun]:
    """Return the agents' runs that some files tell of; records that say what the journal holds are none.

    Args:
        journal: Tells our own records from those that only say that they are.
        files: The files.
        gathered: Their records as one.
        axes: What was found of the records, by run.

    Raises:
        StoreError: The journal is damaged where it would hold a record.
    """
    found: dict[str, _Told] = {}
    held = OwnRecords(journal)
    for one in gathered.records:
        if one.run_id is not None and not (is_own(one.value) and held.holds(one.value)):
            told = found.setdefault(one.run_id, _Told())
            told.add(one.value, one.digest, {where.source for where in one.occurrences})
    for file in files:
        for raw in file.container.records:
            if raw.kind != RECORD and raw.fault is None:
                text = raw.text if isinstance(raw.text, JsonText) else JsonText(raw.data)
                value = text.value if isinstance(text.value, dict) else {}
                if isinstance(value.get("run_id"), str):
                    found.setdefault(value["run_id"], _Told()).add(value, "", {file.source})
    return [told.run(name, (axes or {}).get(name, {})) for name, told in sorted(found.items())]


def training_runs(journal: Journal, axes: Mapping[str, Mapping[str, object]] | None = None) -> list[TrainedRun]:
    """Return every training run of the journal with what it states of its launch; attempts are one run.

    Raises:
        TrustError: A record is malformed.
        StoreError: The journal is damaged there.
    """
    runs = []
    attempts: dict[str, list[int]] = {}
    for run, attempt in journal.scopes():
        if run:
            attempts.setdefault(run, []).append(attempt)
    for run, several in sorted(attempts.items()):
        launches: dict[TraceContext, None] = {}
        for attempt in several:
            if journal.evidence_size(run, attempt).records:
                for bundle in stored_bundles(journal, run, attempt):
                    launches[_launch(bundle.record.get("trace"))] = None
        stated = [one for one in launches if one != TraceContext()]
        first = stated[0] if stated else TraceContext()
        conflicts = tuple(dict.fromkeys(other for one in stated for other in one.conflicts))
        known = TrainedRun(run, tuple(several), first.trace_id, first.parent_trace_id, first.parent_action, conflicts)
        runs.append(replace(known, later=tuple(stated[1:]), axes=(axes or {}).get(run, {})))
    return runs


def recorded_attempts(journal: Journal, run: str) -> list[int]:
    """Return the attempts of a run of which epochs were recorded: these stand in the graph as training runs."""
    return sorted({bundle.attempt for bundle in stored_bundles(journal, run)})


def join_block(journal: Journal) -> Block | None:
    """Return the derived relationships between agents' and training runs; ``None`` where no agent is known.

    Nothing that is ambiguous or only a hint is among them; a hint is when somebody accepted it. A file whose bytes are
    lost joins nothing; a check of the journal names it.

    Raises:
        StoreError: The journal is damaged there.
    """
    files = list(agent_files(journal))
    if not files:
        return Block("", 0, replaces=SCOPE) if _is_told(journal) else None
    gathered = gather(file.container for file in files)
    report = join(agent_runs(journal, files, gathered), training_runs(journal), undirected=False)
    taken = accepted(journal)
    links = [one for one in report.links if one.strength != WEAK or any(end in taken for end in ends_of(one))]
    return _block(links, gathered, journal)


def _is_told(journal: Journal) -> bool:
    """Return whether agents' files were taken in, their bytes lost or not."""
    return any(
        batch.source is not None and batch.source.reader == READER for _, batch in journal.batches(lambda _: None)
    )


def ends_of(link: Link) -> Iterator[Ends]:
    """Yield what an acceptance of a link names, rule by rule."""
    for rule in link.rules:
        yield link.source.run_id, link.target.run_id, rule


def accepted(journal: Journal) -> set[Ends]:
    """Return the hints that somebody accepted."""
    found: set[Ends] = set()
    for _, batch in journal.batches(lambda _: None):
        if batch.source is not None and batch.source.reader == ACCEPTANCE:
            for nodes in batch.block(journal.directory).nodes:
                if nodes.labels == ACCEPTANCE_LABELS:
                    columns = (nodes.columns[name] for name in ("agent_run", "training_run", "basis"))
                    found |= {(str(agent), str(run), str(rule)) for agent, run, rule in zip(*columns)}
    return found


def acceptance(ends: Ends, who: str, at_ns: int) -> tuple[Block, Origin]:
    """Return the fact that somebody accepted a hint, and what makes it count once."""
    agent, run, rule = ends
    said = canonical.encode({"agent_run": agent, "basis": rule, "training_run": run})
    digest = hashlib.sha256(said).hexdigest()
    columns: dict[str, Column] = {"agent_run": [agent], "training_run": [run], "basis": [rule]}
    columns |= {"accepted_by": [who], "at_ns": [at_ns]}
    nodes = Nodes(ACCEPTANCE_LABELS, [f"{ids.BASE}agent/acceptance/{digest}"], columns)
    origin = Origin(digest, len(said), ACCEPTANCE, _ACCEPTANCE_VERSION, None, keep_source=False)
    return Block("", 0, (nodes,)), origin


def contradictions(gathered: Gathered) -> list[tuple[str, str]]:
    """Return what records say against each other, in words, each with the run concerned."""
    said = []
    for one in gathered.contradictions:
        place = f"{one.run_id}/{one.action_id}" if one.action_id is not None else str(one.run_id)
        said.append((one.run_id or "", f"{one.code}: {place}: {one.text}"))
    return said


class _Told:
    """What is collected of one agent's run."""

    def __init__(self) -> None:
        self._sets: dict[str, dict[Any, None]] = {}

    def add(self, value: Mapping[str, Any], digest: str, sources: Iterable[str]) -> None:
        context = value.get("run_context")
        context = context if isinstance(context, dict) else {}
        self._put("trace", value.get("trace_id"))
        self._put("parent", value.get("parent_trace_id"))
        self._put("agent", context.get("agent_id"))
        for name in _listed(context.get("delegation_chain")):
            self._put("delegation", name)
        record = f"record {digest[:_SHOWN_DIGITS]}"
        for action in _listed(value.get("actions")):
            name = action.get("action_id") if isinstance(action, dict) else None
            if isinstance(name, str):
                self._put("action", name)
                for uri in _listed(action.get("evidence_refs")):
                    self._refer(uri, f"evidence_refs of {record}", name)
        for member in ("input_refs", "output_refs"):
            for said in _listed(value.get(member)):
                self._refer(said.get("uri") if isinstance(said, dict) else None, f"{member} of {record}", None)
        for source in sorted(sources):
            self._put("source", source)

    def run(self, name: str, axes: Mapping[str, object]) -> AgentRun:
        """Return the run; an action's reference is told at the first record that has it."""
        first: dict[tuple[str, str | None], Reference] = {}
        for one in self._sets.get("reference", ()):
            first.setdefault((one.uri, one.action_id), one)
        return AgentRun(
            name,
            self._texts("trace"),
            self._texts("parent"),
            self._texts("agent"),
            self._texts("delegation"),
            tuple(first.values()),
            self._texts("action"),
            self._texts("source"),
            axes,
        )

    def _put(self, kind: str, value: object) -> None:
        if isinstance(value, str | Reference):
            self._sets.setdefault(kind, {})[value] = None

    def _refer(self, uri: object, where: str, action: str | None) -> None:
        if isinstance(uri, str) and referred_run(uri) is not None:
            self._put("reference", Reference(uri, where, action))

    def _texts(self, kind: str) -> tuple[str, ...]:
        return tuple(sorted(self._sets.get(kind, ())))


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _launch(trace: object) -> TraceContext:
    said = trace if isinstance(trace, dict) else {}
    conflicts = tuple(one for one in _listed(said.get("conflicts")) if isinstance(one, str))
    return TraceContext(said.get("trace_id"), said.get("parent_trace_id"), said.get("parent_action"), conflicts)


def _block(links: Sequence[Link], gathered: Gathered, journal: Journal) -> Block:
    """Return links as relationships between what stands in the graph."""
    rows: dict[str, dict[tuple[str, str], str]] = {"DERIVED_STARTED_BY": {}, "DERIVED_INFLUENCED_BY": {}}
    attempts: dict[str, list[int]] = {}
    acting = _Acting(gathered)
    for link in links:
        if link.source.kind != _AGENT:
            continue
        causes = [agent_facts.run_iri(link.source.run_id)]
        if link.target.kind == _TRAINING:
            run = link.target.run_id
            attempts.setdefault(run, recorded_attempts(journal, run))
            effects = [training_run_iri(run, attempt) for attempt in attempts[run]]
        else:
            effects = [agent_facts.run_iri(link.target.run_id)]
        for rule in link.rules:
            if rule in _STARTING:
                found = acting.of(link, rule) or causes
                _put(rows["DERIVED_STARTED_BY"], effects, found, rule)
            elif link.target.kind == _TRAINING or rule in {DELEGATION, PARENT_TRACE}:
                # A trace that two agents share has no direction.
                _put(rows["DERIVED_INFLUENCED_BY"], effects, causes, rule)
    relations = tuple(_relations(kind, found) for kind, found in rows.items() if found)
    return Block("", 0, relations=relations, replaces=SCOPE)


class _Acting:
    """The actions that links begin at, looked up by their run and name."""

    def __init__(self, gathered: Gathered) -> None:
        self._named: dict[tuple[str, str], list[str]] = {}
        self._saying: dict[tuple[str, str, str], list[str]] = {}
        """By the training run that they name, too."""
        for one in gathered.actions:
            if one.run_id is None:
                continue
            iri, key = agent_facts.action_iri(one.record, one.action_id, one.body), (one.run_id, one.action_id)
            self._named.setdefault(key, []).append(iri)
            said = _listed(one.value.get("evidence_refs"))
            for run in {referred_run(uri) for uri in said if isinstance(uri, str)} - {None}:
                self._saying.setdefault((*key, str(run)), []).append(iri)

    def of(self, link: Link, rule: str) -> list[str]:
        """Return the actions of the name that a link begins at: those that name the run themselves, else all."""
        if link.source.action_id is None:
            return []
        key = link.source.run_id, link.source.action_id
        saying = self._saying.get((*key, link.target.run_id)) if rule == REF else None
        return saying or self._named.get(key, [])


def _put(rows: dict[tuple[str, str], str], effects: Iterable[str], causes: Sequence[str], rule: str) -> None:
    for effect in effects:
        for cause in causes:
            rows.setdefault((effect, cause), rule)


def _relations(kind: str, found: Mapping[tuple[str, str], str]) -> Relations:
    columns: dict[str, Column] = {"scope": [SCOPE] * len(found), "basis": list(found.values())}
    return Relations(kind, [effect for effect, _ in found], [cause for _, cause in found], columns=columns)
