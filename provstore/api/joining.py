"""Joining agents' runs with the training runs that they launched: what belongs together, how surely, who says so."""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from provstore import config
from provstore.analysis.join.joining import join
from provstore.analysis.join.trace_ids import WEAK
from provstore.api.control import require_allowed
from provstore.api.opening import Opened, existing, open_both
from provstore.api.verifying_agents import known_keys
from provstore.errors import EXIT_OK, EXIT_STORE, EXIT_UNDECIDED
from provstore.evidence.aep import agent_keys, gather, judge
from provstore.evidence.aep.gathering import Gathered
from provstore.evidence.trust.fields import now
from provstore.evidence.trust.keys import Trust
from provstore.ingest import agent_joins
from provstore.ingest.agent_joins import AgentFile
from provstore.ingest.recording import agent_record, stored_bundles
from provstore.ingest.upkeep import show_evidence, show_joins
from provstore.journal import Journal, Origin
from provstore.model.aep import AXES, Axis, Container, RecordVerdict
from provstore.model.block import Block
from provstore.model.joining import JoinReport, Link
from provstore.sources import aep

SCHEMA = "provstore-join/1"
ACCEPTED = "accepted"
_NO_RECORD = Axis(False, None, "no agent record was made of this run: its epochs never ended, or none was recorded")
_WITH_CHAIN = ("chain", "container")
Axes = Mapping[str, Sequence[Mapping[str, object]]]
_Asked = tuple[str | None, Mapping[str, bytes], Trust | None]


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """What belongs together, and what was accepted just now."""

    report: JoinReport
    newly_accepted: int = 0
    problems: tuple[str, ...] = ()
    """Files whose bytes the journal has lost: what they told is not looked at."""

    @property
    def exit_code(self) -> int:
        """0 something is joined and nothing is open, 7 the journal has lost something, else 3."""
        if self.problems:
            return EXIT_STORE
        joined = any(one.strength != WEAK or ACCEPTED in one.notes for one in self.report.links)
        return EXIT_OK if joined and self.report.is_whole else EXIT_UNDECIDED

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values; the keys are documented and stable."""
        more = {"newly_accepted": self.newly_accepted, "problems": list(self.problems), "exit_code": self.exit_code}
        return {"schema": SCHEMA, **self.report.to_dict(), **more}


def joined(
    trace_id: str | None = None,
    *,
    keys: Sequence[str] = (),
    trust_file: str | Path | None = None,
    accept: bool = False,
    store: str | None = None,
    journal: str | Path | None = None,
) -> JoinAnswer:
    """Return which agents' runs and training runs of a store belong together.

    Args:
        trace_id: Only what has to do with this trace, in any spelling.
        keys: ``ID=HEX`` or ``ID=FILE``: the public key that agents' signatures name by that id.
        trust_file: Its keys count too; your own trust file when not given, if there is one.
        accept: Take the weak links that are found for true, for everybody and from now on.
        store: Address of the store.
        journal: Directory of its journal, where the address does not tell it.

    Raises:
        ConfigError: A key is not given as ``ID=HEX`` or ``ID=FILE``.
        SafeModeError: Something is to be accepted in safe mode.
        StoreError: There is no journal, it is damaged, or cannot be written.
        TrustError: The trust file does not hold, or a stored record is malformed.
    """
    known, trust = known_keys(keys, trust_file)
    uri = config.store_uri(store)
    directory = config.journal_directory(uri, journal)
    if not accept:
        with Journal.open(existing(directory, uri), writable=False) as found:
            return _answer(found, trace_id, known, trust)
    require_allowed("join --accept", store, journal)
    with contextlib.ExitStack() as exits:
        opened = open_both(uri, existing(directory, uri), exits, read_only=False, progress=None)
        return _accepting(opened, (trace_id, known, trust))


def joined_in(
    opened: Opened, trace_id: str | None, *, keys: Sequence[str], trust_file: str | Path | None, accept: bool
) -> JoinAnswer:
    """Do what :func:`joined` does, with a store that is open, for writing where something is to be accepted."""
    asked = (trace_id, *known_keys(keys, trust_file))
    return _accepting(opened, asked) if accept else _answer(opened.journal, *asked)


def _accepting(opened: Opened, asked: _Asked) -> JoinAnswer:
    """Return what belongs together once the weak links that are found are taken for true."""
    answer = _answer(opened.journal, *asked)
    count = 0
    for block, origin in _acceptances(answer.report.links):
        if not opened.journal.has_batch(origin.sha256, origin.reader, origin.version, "", 0):
            opened.journal.append(block, origin)
            opened.graph.write(block)
            count += 1
    if count:
        show_joins(opened.graph, opened.journal)
        show_evidence(opened.graph, opened.journal)
        answer = replace(_answer(opened.journal, *asked), newly_accepted=count)
    return answer


def _acceptances(links: Iterable[Link]) -> Iterator[tuple[Block, Origin]]:
    who = f"{_user()}@{socket.gethostname()}"
    at_ns = time.time_ns()
    for link in links:
        if link.strength == WEAK and ACCEPTED not in link.notes:
            yield from (agent_joins.acceptance(ends, who, at_ns) for ends in agent_joins.ends_of(link))


def _answer(journal: Journal, trace_id: str | None, keys: Mapping[str, bytes], trust: Trust | None) -> JoinAnswer:
    problems: list[str] = []
    files = list(agent_joins.agent_files(journal, problems.append))
    gathered = gather(one.container for one in files)
    agents = agent_joins.agent_runs(journal, files, gathered, _agent_axes(files, keys, trust))
    runs = agent_joins.training_runs(journal)
    runs = [replace(one, axes=_training_axes(journal, one.run, keys, trust)) for one in runs]
    report = join(agents, runs, trace_id)
    taken = agent_joins.accepted(journal)
    names = {member.run_id for group in report.groups for member in group.members if member.kind == "agent"}
    said = agent_joins.contradictions(gathered)
    conflicts = [text for run, text in said if trace_id is None or run in names]
    links = [_with_acceptance(one, taken) for one in report.links]
    counts = {**report.counts, **_counts(gathered, names if trace_id is not None else None)}
    report = replace(report, links=tuple(links), conflicts=(*report.conflicts, *conflicts), counts=counts)
    return JoinAnswer(report, problems=tuple(problems))


def _with_acceptance(link: Link, taken: set[agent_joins.Ends]) -> Link:
    is_taken = link.strength == WEAK and any(ends in taken for ends in agent_joins.ends_of(link))
    return replace(link, notes=(*link.notes, ACCEPTED)) if is_taken else link


def _counts(gathered: Gathered, names: set[str] | None) -> dict[str, int]:
    """Return how much the agents' files tell, of some runs or of all."""
    records = [one for one in gathered.records if names is None or one.run_id in names]
    actions = [one for one in gathered.actions if names is None or one.run_id in names]
    return {
        "agent_records": len(records),
        "action_occurrences": sum(one.occurrences for one in actions),
        "agent_actions": len(actions),
        "action_bodies": len({(one.run_id, one.action_id, one.body) for one in actions}),
    }


def _agent_axes(files: Sequence[AgentFile], keys: Mapping[str, bytes], trust: Trust | None) -> dict[str, Axes]:
    found: dict[str, _Axes] = {}
    for file in files:
        verdict = agent_keys.with_trust(judge(file.container, keys), trust, now())
        for one in verdict.records:
            if one.run_id is not None:
                found.setdefault(one.run_id, _Axes()).add(one, file.sha256)
    return {run: axes.listed() for run, axes in found.items()}


def _training_axes(journal: Journal, run: str, keys: Mapping[str, bytes], trust: Trust | None) -> Axes:
    """Return what is found of the agent records that were made of a run's epochs."""
    raw = [data for one in stored_bundles(journal, run) if (data := agent_record(journal, one)) is not None]
    axes = _Axes()
    if raw:
        container: Container = aep.read(b"\n".join(raw) + b"\n", name=run)
        for one in agent_keys.with_trust(judge(container, keys), trust, now()).records:
            axes.add(one, run)
    return axes.listed()


@dataclass(slots=True)
class _Axes:
    """What was found of several records, axis by axis; equal findings are counted, never summed up."""

    _seen: dict[tuple[str, ...], None] = field(default_factory=dict)
    _found: dict[str, dict[str, dict[str, object]]] = field(default_factory=dict)

    def add(self, verdict: RecordVerdict, source: str) -> None:
        """Count a record; equal bytes count once on the axes that concern them alone."""
        for name, axis in verdict.axes.items():
            place = (name, verdict.sha256, source if name in _WITH_CHAIN else "")
            if place not in self._seen:
                self._seen[place] = None
                said = _said(axis)
                held = self._found.setdefault(name, {}).setdefault(repr(said), {**said, "records": 0})
                held["records"] = int(str(held["records"])) + 1

    def listed(self) -> Axes:
        """Return every axis, those that nothing was found of too."""
        nothing = [{**_said(_NO_RECORD), "records": 0}]
        return {name: list(self._found[name].values()) if name in self._found else nothing for name in AXES}


def _said(axis: Axis) -> dict[str, object]:
    said: dict[str, object] = {"evaluated": axis.evaluated}
    if axis.evaluated:
        said["status"] = axis.status
    elif axis.reason is not None:
        said["reason"] = axis.reason
    return said | {name: axis.details[name] for name in ("keyid", "scheme") if name in axis.details}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
