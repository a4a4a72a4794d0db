"""Writers of what the graph holds: what they are given, what can be asked of them, what they report.

Every module of ``exports.graphs`` offers ``export(document, stream, options)``; its name is the name of the format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Protocol, TextIO

from provstore.model.block import Statement


@dataclass(frozen=True, slots=True)
class ExportInput:
    """A part of the graph, as rows."""

    statements: Callable[[], Iterable[Statement]]
    """Gives the facts; called several times, and equal each time. A relation may come before its nodes.

    Of a captured run: its ``:Element`` nodes, the ``:Signature`` and ``:Stack`` nodes they name, and its relations,
    derived ones included (they are left out as records where PROV must not state them). Of an imported document: its
    ``:Bundle``, ``:AttributeKey``, ``:Description`` and ``:Statement`` nodes and the relations whose ``bundleKey`` is
    one of its bundles; its ``:Element`` nodes do no harm. The order of the labels and of the rows does not matter to
    PROV documents; a picture shows the first nodes when there are too many, so give the nearest first.
    """
    title: str = ""
    """For people, such as ``ancestors of tensor:2:3:out``."""
    operations: Mapping[str, str] = field(default_factory=dict)
    """Key of a node → operation of its call, for pictures: where the rows lack the call, as on a path."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """Key of a node → what people call its group, for pictures: where the rows lack the group."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What can be asked of a writer; each takes what concerns it."""

    verify: bool = True
    """Read a PROV document back and compare it strictly before any of it reaches the stream."""
    document: str | None = None
    """Key of the imported document to write; needed only when the input holds several."""
    highlight: Collection[str] = ()
    """Keys of the nodes that a picture brings out, such as a culprit's calls."""
    max_nodes: int = 1000
    """Visible nodes of a picture, the legend not counted."""
    max_edges: int = 500
    """Edges of a Mermaid picture; common renderers stop there."""
    library_limit: int = 100_000
    """Records up to which PROV documents are written through the ``prov`` library; above it, by streaming writers."""


DEFAULTS = ExportOptions()


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written."""

    format: str
    records: int
    """PROV records, or visible nodes of a picture."""
    characters: int
    verified: bool | None
    """``True``: read back and found strictly equal; ``False``: not asked for; ``None``: a picture, which is no copy."""
    level: str | None = None
    """What the comparison established: ``exact`` or ``multiset``."""
    writer: str = "stream"
    """``prov`` (the library) or ``stream`` (ours)."""
    hidden: int = 0
    """Nodes and edges a picture leaves out; it says so itself too."""
    notes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON values."""
        return asdict(self)


class Exporter(Protocol):
    """What a module of ``exports.graphs`` is."""

    def export(self, document: ExportInput, stream: TextIO, options: ExportOptions = ...) -> ExportReport:
        """Write ``document`` to ``stream``."""
