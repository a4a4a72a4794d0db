"""Agent runs and training runs side by side: what each states of its trace, and what joins them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from provstore.model.action import TraceContext


@dataclass(frozen=True, slots=True)
class Reference:
    """What an agent's record or action refers to."""

    uri: str
    where: str
    """``evidence_refs``, ``input_refs`` or ``output_refs``, with the record's digest."""
    action_id: str | None = None
    """``None`` when the record as a whole refers to it."""


@dataclass(frozen=True, slots=True)
class AgentRun:
    """All that is stored of one run of an agent, whatever number of chains tell of it."""

    run_id: str
    trace_ids: tuple[str, ...] = ()
    """As received, each once."""
    parent_trace_ids: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    """``agent_id`` of its emitters."""
    delegations: tuple[str, ...] = ()
    """Names in its delegation chains."""
    references: tuple[Reference, ...] = ()
    actions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    axes: Mapping[str, object] = field(default_factory=dict)
    """What was found of its records, by axis."""


@dataclass(frozen=True, slots=True)
class TrainedRun:
    """What a training run states about its launch."""

    run: str
    attempts: tuple[int, ...] = (0,)
    trace_id: str | None = None
    parent_trace_id: str | None = None
    parent_action: str | None = None
    """``<run_id>/<action_id>``."""
    conflicts: tuple[str, ...] = ()
    """Other trace ids that other sources gave."""
    axes: Mapping[str, object] = field(default_factory=dict)
    """What was found of the agent records of its epochs, by axis."""
    later: tuple[TraceContext, ...] = ()
    """What its other attempts state, where they state something else."""

    @property
    def launches(self) -> tuple[TraceContext, ...]:
        """What all its attempts state of their launch."""
        return TraceContext(self.trace_id, self.parent_trace_id, self.parent_action, self.conflicts), *self.later


@dataclass(frozen=True, slots=True)
class Member:
    """One run of a group."""

    kind: str
    """``agent`` or ``training``."""
    run_id: str
    trace_ids: tuple[str, ...]
    sources: tuple[str, ...]
    axes: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that share a trace."""

    raw_ids: tuple[str, ...]
    normalised: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class End:
    """One end of a link."""

    kind: str
    run_id: str
    action_id: str | None = None
    authenticity: object = field(default=None, compare=False)
    """What is known of the signature of who says so."""


@dataclass(frozen=True, slots=True)
class Link:
    """Two runs that belong together, and why."""

    source: End
    target: End
    rules: tuple[str, ...]
    """``ref``, ``parent-action``, ``parent-trace``, ``delegation``, or a rule of trace ids; strongest first."""
    strength: str
    """``strong``, ``medium`` or ``weak``: a weak one is a hint and becomes no edge by itself."""
    where: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """``trace-mismatch``: the trace ids say something else."""


@dataclass(frozen=True, slots=True)
class Ambiguity:
    """Something that fits more than one run: no link is made of it."""

    what: str
    said_by: str
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """A run that is spoken of and is not stored."""

    reference: str
    said_by: str
    where: str


@dataclass(frozen=True, slots=True)
class JoinReport:
    """Which agent chains and training runs belong together."""

    asked: str | None
    groups: tuple[Group, ...] = ()
    links: tuple[Link, ...] = ()
    ambiguous: tuple[Ambiguity, ...] = ()
    missing: tuple[Missing, ...] = ()
    unresolved_names: tuple[str, ...] = ()
    placeholders: tuple[str, ...] = ()
    """Trace ids that stand for none (``trace-id-placeholder``), with the run that gives them."""
    conflicts: tuple[str, ...] = ()
    """Contradictions: ``trace-context-conflict``, ``action-conflict``."""
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether there is an answer and nothing in it is open."""
        return bool(self.groups) and not self.ambiguous and not self.missing

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values; the keys are documented and stable."""
        said = asdict(self)
        for link in said["links"]:
            link["from"], link["to"] = link.pop("source"), link.pop("target")
        return said
