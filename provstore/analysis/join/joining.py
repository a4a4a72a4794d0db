"""Which agent runs and training runs belong together, by which rules, how surely, and what stays open; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
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
_RULES = (REF, PARENT_ACTION, PARENT_TRACE, DELEGATION, *ORDER)
_HEX_DIGITS = 32


def join(
    agents: Sequence[AgentRun], runs: Sequence[TrainedRun], trace_id: str | None = None, conflicts: Iterable[str] = ()
) -> JoinReport:
    """Return what belongs together.

    Args:
        agents: The agents' runs, each run once.
        runs: The training runs, each once.
        trace_id: Only what has to do with this trace; everything when not given.
        conflicts: Contradictions among the agents' records, which are told along.
    """
    return _Joining(agents, runs).report(trace_id, tuple(conflicts))


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
        self._links: dict[tuple[End, End], dict[str, list[str]]] = {}
        self._ambiguous: list[Ambiguity] = []
        self._missing: list[tuple[str, Missing]] = []
        """Each with the run that speaks of it."""
        self._unresolved: dict[str, None] = {}

    def report(self, asked: str | None, conflicts: tuple[str, ...]) -> JoinReport:
        self._references()
        self._parents()
        self._between_agents()
        self._by_trace()
        links = [self._link(*key, found) for key, found in self._links.items()]
        groups = self._groups(links)
        if asked is not None:
            groups = [one for one in groups if any(meeting(asked, raw) for raw in one.raw_ids)]
        names = {(member.kind, member.run_id) for group in groups for member in group.members}
        kept = [one for one in links if (one.source.kind, one.source.run_id) in names]
        spoken = {name for _, name in names}
        ambiguous = tuple(one for one in self._ambiguous if asked is None or one.said_by in spoken)
        missing = tuple(one for name, one in self._missing if asked is None or name in spoken)
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
            for reference in agent.references:
                name = referred_run(reference.uri)
                if name is None or name == agent.run_id:
                    continue
                start = self._launching(agent, reference.action_id, reference.uri)
                if name not in self._runs:
                    self._miss(reference.uri, start, reference.where)
                    continue
                self._add(start, self._end(TRAINING, name), REF, reference.where)

    def _launching(self, agent: AgentRun, action_id: str | None, uri: str) -> End:
        """Return who refers to a run: the action that does, where a record as a whole repeats what one action says."""
        if action_id is None:
            name = referred_run(uri)
            said = {one.action_id for one in agent.references if one.action_id and referred_run(one.uri) == name}
            action_id = said.pop() if len(said) == 1 else None
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
                found = [one for one in self._agents.values() if _best(one.trace_ids, (parent,))]
                for one in found:
                    rule = _best(one.trace_ids, (parent,)) or OTEL_LOSSY
                    ends = self._end(AGENT, one.run_id), self._end(TRAINING, run.run)
                    self._add(*ends, PARENT_TRACE if STRENGTH[rule] != WEAK else rule, "parent_trace_id")
                if not found and not self._is_joined(run.run):
                    self._miss(parent, self._end(TRAINING, run.run), "parent_trace_id")

    # What shared traces say

    def _between_agents(self) -> None:
        self._delegations()
        for left, right in combinations(self._agents.values(), 2):
            ends = self._end(AGENT, left.run_id), self._end(AGENT, right.run_id)
            rule = _best(left.trace_ids, right.trace_ids)
            if rule is not None:
                # A shared trace has no direction; a delegation has.
                self._add(*(ends[::-1] if ends[::-1] in self._links else ends), rule, "trace_id")
                continue
            for child, parent, found in ((left, right, ends[::-1]), (right, left, ends)):
                met = _best(child.parent_trace_ids, parent.trace_ids)
                if met is not None and STRENGTH[met] != WEAK:
                    self._add(*found, PARENT_TRACE, "parent_trace_id")

    def _delegations(self) -> None:
        for agent in self._agents.values():
            for name in agent.delegations:
                emitters = [
                    one
                    for one in self._agents.values()
                    if one is not agent and name in one.agents and _best(one.trace_ids, agent.trace_ids)
                ]
                if len(emitters) == 1:
                    ends = self._end(AGENT, emitters[0].run_id), self._end(AGENT, agent.run_id)
                    self._add(*ends, DELEGATION, "run_context.delegation_chain")
                elif name not in agent.agents:
                    self._unresolved[name] = None

    def _by_trace(self) -> None:
        for agent in self._agents.values():
            met: dict[str, list[str]] = defaultdict(list)
            for run in self._runs.values():
                rule = _best(agent.trace_ids, _own(run))
                if rule is not None:
                    met[rule].append(run.run)
            solid = [(rule, name) for rule, names in met.items() if STRENGTH[rule] != WEAK for name in names]
            self._meet(agent, solid)
            hints = met.get(OTEL_LOSSY, []) if not solid else []
            for name in hints:
                self._add(self._end(AGENT, agent.run_id), self._end(TRAINING, name), OTEL_LOSSY, "trace_id")

    def _meet(self, agent: AgentRun, solid: Sequence[tuple[str, str]]) -> None:
        """Join one agent's run with the training runs of its trace; several that nobody refers to are ambiguous."""
        named = {
            target.run_id: (source, target)
            for source, target in self._links
            if source.run_id == agent.run_id and target.kind == TRAINING
        }
        loose = [name for _, name in solid if name not in named and not self._is_joined(name)]
        for rule, name in solid:
            if name in named:
                self._add(*named[name], rule, "trace_id")
            elif name in loose and len(loose) == 1:
                self._add(self._end(AGENT, agent.run_id), self._end(TRAINING, name), rule, "trace_id")
        if len(loose) > 1:
            what = ", ".join(agent.trace_ids)
            self._ambiguous.append(Ambiguity(what, agent.run_id, tuple(sorted(loose))))

    def _is_joined(self, run: str) -> bool:
        """Return whether somebody says outright that this run is theirs."""
        outright = {REF, PARENT_ACTION}
        return any(target.kind == TRAINING and target.run_id == run and outright & set(found)
                   for (_, target), found in self._links.items())  # fmt: skip

    # The answer

    def _miss(self, reference: str, speaker: End, where: str) -> None:
        """Say that a run is missing, once for each that speaks of it."""
        said_by = speaker.run_id if speaker.action_id is None else f"{speaker.run_id}/{speaker.action_id}"
        for place, (name, known) in enumerate(self._missing):
            if (known.reference, known.said_by) == (reference, said_by):
                if where not in known.where.split("; "):
                    self._missing[place] = (name, replace(known, where=f"{known.where}; {where}"))
                return
        self._missing.append((speaker.run_id, Missing(reference, said_by, where)))

    def _add(self, source: End, target: End, rule: str, where: str) -> None:
        places = self._links.setdefault((source, target), {}).setdefault(rule, [])
        if where not in places:
            places.append(where)

    def _end(self, kind: str, run_id: str, action_id: str | None = None) -> End:
        axes: Mapping[str, object] = self._agents[run_id].axes if kind == AGENT else self._runs[run_id].axes
        return End(kind, run_id, action_id, axes.get("authenticity"))

    def _link(self, source: End, target: End, found: Mapping[str, Sequence[str]]) -> Link:
        rules = tuple(sorted(found, key=_RULES.index))
        strengths = [STRENGTH.get(rule, STRONG) for rule in rules]
        strength = min(strengths, key=("strong", "medium", "weak").index)
        where = tuple(dict.fromkeys(place for rule in rules for place in found[rule]))
        return Link(source, target, rules, strength, where, self._notes(source, target, rules))

    def _notes(self, source: End, target: End, rules: Sequence[str]) -> tuple[str, ...]:
        if target.kind != TRAINING or source.kind != AGENT or not {REF, PARENT_ACTION} & set(rules):
            return ()
        left, right = self._agents[source.run_id].trace_ids, _own(self._runs[target.run_id])
        known = [raw for raw in (*left, *right) if not is_placeholder(raw)]
        both = any(raw in known for raw in left) and any(raw in known for raw in right)
        return (MISMATCH,) if both and _best(left, right) is None else ()

    def _groups(self, links: Sequence[Link]) -> list[Group]:
        """Return the runs that any link but a hint holds together."""
        home: dict[tuple[str, str], tuple[str, str]] = {}

        def root(key: tuple[str, str]) -> tuple[str, str]:
            while home.setdefault(key, key) != key:
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


def _best(left: Iterable[str], right: Iterable[str]) -> str | None:
    """Return the strongest rule by which any two of the ids mean one trace."""
    others = list(right)
    rules = [rule for one in left for other in others if (rule := meeting(one, other)) is not None]
    return min(rules, key=ORDER.index, default=None)


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
