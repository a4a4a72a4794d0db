"""Which agent runs and training runs belong together, by which rules, how surely, and what stays open; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from urllib.parse import unquote

from provstore.analysis.join.trace_ids import (
    ORDER,
    OTEL_LOSSY,
    STRENGTH,
    STRONG,
    WEAK,
    aliases,
    is_placeholder,
    meeting,
)
from provstore.analysis.join.trace_index import TraceIndex, best, spellings
from provstore.model.joining import (
    AgentRun,
    Ambiguity,
    End,
    Group,
    JoinReport,
    Link,
    Member,
    Missing,
    TrainedRun,
)

REF, PARENT_ACTION, PARENT_TRACE, DELEGATION, MISMATCH = (
    "ref",
    "parent-action",
    "parent-trace",
    "delegation",
    "trace-mismatch",
)
CONFLICT, PLACEHOLDER = "trace-context-conflict", "trace-id-placeholder"
AGENT, TRAINING = "agent", "training"
_SCHEMES = ("train-run://", "train-run:")
_OUTRIGHT = frozenset((REF, PARENT_ACTION))
_RULES = (REF, PARENT_ACTION, PARENT_TRACE, DELEGATION, *ORDER)
_HEX_DIGITS = 32


def join(
    agents: Sequence[AgentRun],
    runs: Sequence[TrainedRun],
    trace_id: str | None = None,
    conflicts: Iterable[str] = (),
    *,
    undirected: bool = True,
) -> JoinReport:
    """Return what belongs together.

    Args:
        agents: The agents' runs, each run once.
        runs: The training runs, each once.
        trace_id: Only what has to do with this trace; everything when not given.
        conflicts: Contradictions among the agents' records, which are told along.
        undirected: Also that two agents share a trace, which does not tell which of them came first.
    """
    return _Joining(agents, runs).report(trace_id, tuple(conflicts), undirected=undirected)


def referred_run(uri: str) -> str | None:
    """Return the name of the training run that a reference names, percent-decoded; ``None`` for other references."""
    for scheme in _SCHEMES:
        if uri.startswith(scheme):
            name, slash, rest = uri.removeprefix(scheme).partition("/")
            return unquote(name) if name and (not slash or rest.startswith("epoch/") or not rest) else None
    return None


class _Joining:
    def __init__(self, agents: Sequence[AgentRun], runs: Sequence[TrainedRun]) -> None:
        self._agents = {one.run_id: one for one in sorted(agents, key=lambda one: one.run_id)}
        self._runs = {one.run: one for one in sorted(runs, key=lambda one: one.run)}
        self._traces = TraceIndex((one.run_id, one.trace_ids) for one in self._agents.values())
        self._trained = TraceIndex((one.run, _own(one)) for one in self._runs.values())
        self._links: dict[tuple[End, End], dict[str, dict[str, None]]] = {}
        self._named: dict[str, dict[str, tuple[End, End]]] = defaultdict(dict)
        """By the agent's run: the training runs that it is joined with, and the link of each."""
        self._outright: set[str] = set()
        """The training runs that somebody says outright are theirs."""
        self._ambiguous: list[Ambiguity] = []
        self._missing: dict[tuple[str, str], tuple[str, dict[str, None]]] = {}
        """Reference and who says it → the run that speaks of it, and where."""
        self._unresolved: dict[str, None] = {}

    def report(self, asked: str | None, conflicts: tuple[str, ...], *, undirected: bool) -> JoinReport:
        self._references()
        self._parents()
        self._delegations()
        if undirected:
            self._between_agents()
        self._parents_of_agents()
        self._by_trace()
        links = [self._link(*key, found) for key, found in self._links.items()]
        groups = self._groups(links)
        if asked is not None:
            groups = [one for one in groups if any(meeting(asked, raw) for raw in one.raw_ids)]
        names = {(member.kind, member.run_id) for group in groups for member in group.members}
        kept = [one for one in links if (one.source.kind, one.source.run_id) in names]
        spoken = {name for _, name in names}
        ambiguous = tuple(one for one in self._ambiguous if asked is None or one.said_by in spoken)
        missing = tuple(
            Missing(reference, said_by, "; ".join(places))
            for (reference, said_by), (name, places) in self._missing.items()
            if asked is None or name in spoken
        )
        shown = [one for one in self._runs.values() if asked is None or (TRAINING, one.run) in names]
        own = [f"{CONFLICT}: {one.run}: {other}" for one in shown for other in one.conflicts]
        return JoinReport(
            asked,
            tuple(groups),
            tuple(sorted(kept, key=_order)),
            ambiguous,
            missing,
            tuple(sorted(self._unresolved)) if groups else (),
            self._placeholders(),
            (*own, *conflicts),
            {
                "agent_runs": sum(kind == AGENT for kind, _ in names),
                "training_runs": sum(kind == TRAINING for kind, _ in names),
                "groups": len(groups),
                "links": len(kept),
                "ambiguous": len(ambiguous),
                "missing": len(missing),
            },
        )

    # What somebody says outright

    def _references(self) -> None:
        for agent in self._agents.values():
            acting: dict[str | None, set[str]] = defaultdict(set)
            for reference in agent.references:
                if reference.action_id:
                    acting[referred_run(reference.uri)].add(reference.action_id)
            for reference in agent.references:
                name = referred_run(reference.uri)
                if name is None or name == agent.run_id:
                    continue
                start = self._launching(agent, reference.action_id, acting.get(name, ()))
                if name not in self._runs:
                    self._miss(reference.uri, start, reference.where)
                    continue
                self._add(start, self._end(TRAINING, name), REF, reference.where)

    def _launching(self, agent: AgentRun, action_id: str | None, acting: Collection[str]) -> End:
        """Return who refers to a run: the action that does, where a record as a whole repeats what one action says."""
        if action_id is None and len(acting) == 1:
            (action_id,) = acting
        return self._end(AGENT, agent.run_id, action_id)

    def _parents(self) -> None:
        stated = [(one, launch) for one in self._runs.values() for launch in one.launches]
        for run, launch in stated:
            if launch.parent_action is not None:
                name, _, action = launch.parent_action.partition("/")
                agent = self._agents.get(unquote(name))
                if agent is None or (action and unquote(action) not in agent.actions):
                    self._miss(launch.parent_action, self._end(TRAINING, run.run), "parent_action")
                else:
                    start = self._end(AGENT, agent.run_id, unquote(action) or None)
                    self._add(start, self._end(TRAINING, run.run), PARENT_ACTION, "parent_action")
            parent = launch.parent_trace_id
            if parent is not None and not is_placeholder(parent):
                found = self._traces.meeting(spellings((parent,)))
                for name, rule in sorted(found.items()):
                    ends = self._end(AGENT, name), self._end(TRAINING, run.run)
                    self._add(*ends, PARENT_TRACE if STRENGTH[rule] != WEAK else rule, "parent_trace_id")
                if not found and run.run not in self._outright:
                    self._miss(parent, self._end(TRAINING, run.run), "parent_trace_id")

    # What shared traces say

    def _delegations(self) -> None:
        emitting: dict[tuple[str, str], list[str]] = defaultdict(list)
        for agent in self._agents.values():
            for name, key in product(agent.agents, self._traces.keys(agent.run_id)):
                emitting[name, key].append(agent.run_id)
        for agent in self._agents.values():
            for name in agent.delegations:
                # Three of a spelling are two others for sure, and more than one is as good as none.
                several = (emitting.get((name, key), [])[:3] for key in self._traces.keys(agent.run_id))
                emitters = {run for one in several for run in one} - {agent.run_id}
                if len(emitters) == 1:
                    ends = self._end(AGENT, emitters.pop()), self._end(AGENT, agent.run_id)
                    self._add(*ends, DELEGATION, "run_context.delegation_chain")
                elif name not in agent.agents:
                    self._unresolved[name] = None

    def _between_agents(self) -> None:
        delegated = [(source.run_id, target.run_id) for source, target in self._links if target.kind == AGENT]
        for left, right in dict.fromkeys((*self._traces.pairs(), *(tuple(sorted(one)) for one in delegated))):
            ends = self._end(AGENT, left), self._end(AGENT, right)
            rule = best(self._traces.keys(left), self._traces.keys(right))
            if rule is not None:
                # A shared trace has no direction; a delegation has.
                self._add(*(ends[::-1] if ends[::-1] in self._links else ends), rule, "trace_id")

    def _parents_of_agents(self) -> None:
        for child in self._agents.values():
            own = self._traces.keys(child.run_id)
            # Whoever has a spelling that is its own too shares its trace.
            said = {key: rule for key, rule in spellings(child.parent_trace_ids).items() if key not in own}
            for name, rule in self._traces.meeting(said).items():
                if STRENGTH[rule] != WEAK and own.keys().isdisjoint(self._traces.keys(name)):
                    ends = self._end(AGENT, name), self._end(AGENT, child.run_id)
                    self._add(*ends, PARENT_TRACE, "parent_trace_id")

    def _by_trace(self) -> None:
        free = TraceIndex((one.run, _own(one)) for one in self._runs.values() if one.run not in self._outright)
        for agent in self._agents.values():
            keys = self._traces.keys(agent.run_id)
            self._meet(agent, {name: rule for name, rule in free.meeting(keys).items() if STRENGTH[rule] != WEAK})
            if not self._trained.meets_surely(keys):
                for name in self._trained.meeting(keys):
                    self._add(self._end(AGENT, agent.run_id), self._end(TRAINING, name), OTEL_LOSSY, "trace_id")

    def _meet(self, agent: AgentRun, free: Mapping[str, str]) -> None:
        """Join one agent's run with the training runs of its trace; several that nobody refers to are ambiguous."""
        named = dict(self._named.get(agent.run_id, {}))
        loose = sorted(name for name in free if name not in named)
        for name, ends in named.items():
            rule = best(self._traces.keys(agent.run_id), self._trained.keys(name))
            if rule is not None and STRENGTH[rule] != WEAK:
                self._add(*ends, rule, "trace_id")
        if len(loose) == 1:
            self._add(self._end(AGENT, agent.run_id), self._end(TRAINING, loose[0]), free[loose[0]], "trace_id")
        elif loose:
            self._ambiguous.append(Ambiguity(", ".join(agent.trace_ids), agent.run_id, tuple(loose)))

    # The answer

    def _miss(self, reference: str, speaker: End, where: str) -> None:
        """Say that a run is missing, once for each that speaks of it."""
        said_by = speaker.run_id if speaker.action_id is None else f"{speaker.run_id}/{speaker.action_id}"
        self._missing.setdefault((reference, said_by), (speaker.run_id, {}))[1][where] = None

    def _add(self, source: End, target: End, rule: str, where: str) -> None:
        found = self._links.setdefault((source, target), {})
        if not found and target.kind == TRAINING:
            self._named[source.run_id][target.run_id] = source, target
        if target.kind == TRAINING and rule in _OUTRIGHT:
            self._outright.add(target.run_id)
        found.setdefault(rule, {})[where] = None

    def _end(self, kind: str, run_id: str, action_id: str | None = None) -> End:
        axes: Mapping[str, object] = self._agents[run_id].axes if kind == AGENT else self._runs[run_id].axes
        return End(kind, run_id, action_id, axes.get("authenticity"))

    def _link(self, source: End, target: End, found: Mapping[str, Iterable[str]]) -> Link:
        rules = tuple(sorted(found, key=_RULES.index))
        strengths = [STRENGTH.get(rule, STRONG) for rule in rules]
        strength = min(strengths, key=("strong", "medium", "weak").index)
        where = tuple(dict.fromkeys(place for rule in rules for place in found[rule]))
        return Link(source, target, rules, strength, where, self._notes(source, target, rules))

    def _notes(self, source: End, target: End, rules: Sequence[str]) -> tuple[str, ...]:
        if target.kind != TRAINING or source.kind != AGENT or not _OUTRIGHT & set(rules):
            return ()
        left, right = self._agents[source.run_id].trace_ids, _own(self._runs[target.run_id])
        known = [raw for raw in (*left, *right) if not is_placeholder(raw)]
        both = any(raw in known for raw in left) and any(raw in known for raw in right)
        same = best(self._traces.keys(source.run_id), self._trained.keys(target.run_id))
        return (MISMATCH,) if both and same is None else ()

    def _groups(self, links: Sequence[Link]) -> list[Group]:
        """Return the runs that any link but a hint holds together."""
        home: dict[tuple[str, str], tuple[str, str]] = {}

        def root(key: tuple[str, str]) -> tuple[str, str]:
            while home.setdefault(key, key) != key:
                # Whoever comes this way again has half of it to go.
                home[key] = home[home[key]]
                key = home[key]
            return key

        everything = [*((AGENT, name) for name in self._agents), *((TRAINING, name) for name in self._runs)]
        for key in everything:
            root(key)
        for link in links:
            if link.strength != WEAK:
                home[root((link.source.kind, link.source.run_id))] = root((link.target.kind, link.target.run_id))
        for one in self._ambiguous:
            for name in one.candidates:
                home[root((TRAINING, name))] = root((AGENT, one.said_by))
        members: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for key in everything:
            members[root(key)].append(key)
        found = [self._group(sorted(keys)) for keys in members.values()]
        return sorted((one for one in found if one.raw_ids or len(one.members) > 1), key=lambda one: one.raw_ids)

    def _group(self, keys: Sequence[tuple[str, str]]) -> Group:
        members, raw = [], set()
        for kind, name in keys:
            if kind == AGENT:
                agent = self._agents[name]
                ids: tuple[str, ...] = agent.trace_ids
                members.append(Member(kind, name, ids, agent.sources, agent.axes))
            else:
                ids = _own(self._runs[name])
                members.append(Member(kind, name, ids, (), self._runs[name].axes))
            raw |= set(ids)
        return Group(tuple(sorted(raw)), _normalised(sorted(raw)), tuple(members))

    def _placeholders(self) -> tuple[str, ...]:
        said = [(one.run_id, raw) for one in self._agents.values() for raw in one.trace_ids]
        said += [(one.run, raw) for one in self._runs.values() for raw in _own(one)]
        return tuple(f"{name}: {raw!r}" for name, raw in said if is_placeholder(raw))


def _own(run: TrainedRun) -> tuple[str, ...]:
    said = (launch.trace_id for launch in run.launches)
    return tuple(dict.fromkeys(raw for raw in said if raw is not None))


def _normalised(raw: Sequence[str]) -> str:
    """Return the spelling that other tools know: 32 hex digits where an id has them, else the first id."""
    for rule in ORDER[:-1]:
        for one in raw:
            for alias in aliases(one):
                if alias.rule == rule and len(alias.key) == _HEX_DIGITS and not alias.key.strip("0123456789abcdef"):
                    return alias.key
    return raw[0] if raw else ""


def _order(link: Link) -> tuple[str, ...]:
    ends = (link.source, link.target)
    return tuple(part for end in ends for part in (end.kind, end.run_id, end.action_id or ""))
