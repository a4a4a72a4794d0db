"""The answer to a lineage question: what an element came from, or what came from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Protocol

from provstore.errors import ConfigError
from provstore.model.display import table

if TYPE_CHECKING:
    from prov.model import ProvDocument


class TraceWriter(Protocol):
    """Writes a trace with the facts of the store it came from."""

    def text(self, trace: Trace, form: str) -> str:
        """Return the trace in an export format."""
        ...

    def prov(self, trace: Trace) -> ProvDocument:
        """Return the trace as a document of the ``prov`` library."""
        ...


@dataclass(frozen=True, slots=True)
class TraceNode:
    """One element of a trace."""

    iri: str
    kind: str
    """collective, send, recv, input, output, call, gradient, activation, module input, action, checkpoint, rank, group,
    dump, or element."""
    label: str
    """Short, for people: ``output of all_reduce #3 on rank 2``."""
    run: str | None = None
    attempt: int | None = None
    rank: int | None = None
    group: str | None = None
    op: str | None = None
    seq: int | None = None
    hops: int | None = None
    """Hops from the target, aliases not counted; None when the trace was too large to measure."""
    source: str | None = None
    """Line of user code of the call."""
    group_name: str | None = None
    """Description and name of the group, for people; ``group`` is the group as it stands in ids."""
    step: int | None = None
    """Training step of a gradient, activation or module input."""
    name: str | None = None
    """Name of the parameter or module of such a tensor; address of a checkpoint."""


@dataclass(frozen=True, slots=True)
class TraceEdge:
    """One relationship of a trace, effect first."""

    source: str
    relation: str
    target: str


@dataclass(frozen=True, slots=True)
class Trace:
    """What an element came from (``ancestors``), what came from it (``descendants``), or a path between two."""

    target: str
    """Id of the element asked about."""
    direction: str
    """``ancestors``, ``descendants`` or ``path``."""
    nodes: tuple[TraceNode, ...]
    """Nearest first; the target itself is not among them, except on a path."""
    edges: tuple[TraceEdge, ...]
    """Empty when ``edges_omitted`` is set."""
    root: TraceNode
    complete: bool = True
    reason: str | None = None
    """Why the answer was cut: max_nodes, max_depth, timeout; None when it is complete."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """nodes, relationships, hops, frontier_left, omitted_at_least, and one ``kind:NAME`` a kind."""
    edges_omitted: bool = False
    notes: tuple[str, ...] = ()
    writer: TraceWriter | None = field(default=None, repr=False, compare=False)
    """Set by the store that answered, which alone knows the facts behind the nodes."""

    def to_dict(self) -> dict[str, object]:
        """Return the trace as JSON values; the keys are documented and stable."""
        return {
            "target": self.target,
            "direction": self.direction,
            "complete": self.complete,
            "reason": self.reason,
            "counts": dict(self.counts),
            "edges_omitted": self.edges_omitted,
            "notes": list(self.notes),
            "root": asdict(self.root),
            "nodes": [asdict(node) for node in self.nodes],
            "edges": [asdict(edge) for edge in self.edges],
        }

    def to_text(self, form: str) -> str:
        """Return the trace in an export format such as ``dot``, ``mermaid`` or ``prov-n``.

        Raises:
            ConfigError: There is no such format, or the trace did not come from a store.
        """
        return self._written().text(self, form)

    def to_prov(self) -> ProvDocument:
        """Return the trace as a document of the ``prov`` library.

        Raises:
            ConfigError: The trace did not come from a store.
        """
        return self._written().prov(self)

    def _written(self) -> TraceWriter:
        if self.writer is None:
            raise ConfigError("this trace: export: it did not come from a store, which alone can write it")
        return self.writer

    def _repr_html_(self) -> str:
        """Return the nodes as a table, nearest first."""
        state = "" if self.complete else f", cut by {self.reason}"
        title = f"{self.direction} of {self.root.label}: {len(self.nodes):,}{state}"
        rows = [(node.hops, node.label, node.source) for node in self.nodes]
        return table(title, ("hops", "what", "where"), rows, self.notes)
