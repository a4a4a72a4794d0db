"""What a command did: to every file, to every run, and in all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from provstore.model import statuses
from provstore.model.display import table

NEW, KNOWN, REFUSED, SKIPPED = statuses.NEW, statuses.KNOWN, statuses.REFUSED, statuses.SKIPPED


@dataclass(frozen=True, slots=True)
class FileReport:
    """What became of one file."""

    file: str
    taken_for: str
    """``flight-recorder``, ``prov-json``, ``prov-n``, ``tensor-record`` or ``nothing``."""
    status: str
    """``new``, ``known`` (nothing in it was new), ``refused`` or ``skipped`` (never meant as evidence)."""
    reason: str | None = None
    run: str | None = None
    attempt: int | None = None
    rank: int | None = None
    records: int = 0
    """Calls of a dump, records of a document."""
    set_aside: int = 0
    """Entries that were quarantined."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What one ingest did."""

    files: tuple[FileReport, ...] = ()
    runs: tuple[tuple[str, int], ...] = ()
    """(run, attempt) of everything that was given."""
    run_from: str = "--run"
    """What named the run: ``--run``, ``sidecar`` or ``folder``."""
    facts: int = 0
    """Nodes and relationships handed to the store."""
    position: int = 0
    """Last acknowledged position of the journal."""
    interrupted: bool = False
    problems: tuple[str, ...] = ()
    """Damage of the journal that was found when it was opened; what came in now is safe."""

    def count(self, status: str) -> int:
        """Return how many files have a status."""
        return sum(file.status == status for file in self.files)

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON values; the keys are documented and stable."""
        return {
            "files": [asdict(file) for file in self.files],
            "runs": [{"run": run, "attempt": attempt} for run, attempt in self.runs],
            "run_from": self.run_from,
            "counts": {status: self.count(status) for status in (NEW, KNOWN, REFUSED, SKIPPED)},
            "facts": self.facts,
            "position": self.position,
            "interrupted": self.interrupted,
            "problems": list(self.problems),
        }

    def _repr_html_(self) -> str:
        """Return what became of each file as a table."""
        title = ", ".join(f"{run}/{attempt}" for run, attempt in self.runs) or "ingest"
        rows = [(file.file, file.taken_for, file.status, file.records, file.reason) for file in self.files]
        return table(title, ("file", "taken for", "status", "records", "reason"), rows)


@dataclass(frozen=True, slots=True)
class Difference:
    """One line that stands on one side only when a graph is compared with its journal."""

    side: str
    """``graph`` (the journal has no such fact) or ``journal`` (the graph lacks it)."""
    line: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check of a journal, and of the graph against it, found."""

    problems: tuple[str, ...] = ()
    """Faults of the journal itself."""
    differences: tuple[Difference, ...] = ()
    """The first differences between graph and journal."""
    difference_count: int = 0
    position: int = 0
    applied: int = 0
    compared: int = 0
    """Lines compared."""
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def clean(self) -> bool:
        """True when nothing is wrong, and everything was compared."""
        return not self.problems and not self.difference_count and not self.is_unfinished

    @property
    def is_unfinished(self) -> bool:
        """True when the graph lacks what the journal holds already, and was not compared."""
        return not self.compared and self.applied < self.position

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON values; the keys are documented and stable."""
        return {"clean": self.clean, **asdict(self)}


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What a rebuild did."""

    batches: int
    position: int
    counts: Mapping[str, int]
    """Nodes of the new graph by their labels."""
    problems: tuple[str, ...] = ()
    """Batches that the journal has lost, or that were altered: the new graph lacks them."""

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON values; the keys are documented and stable."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SealedRun:
    """What was signed of one attempt of one run."""

    run: str
    attempt: int
    epochs: tuple[int, ...]
    """Numbers of the evidence epochs that were closed now; empty when nothing was unsigned."""
    records: int
    """Records that they sign."""
    size: int
    """Records of the run that are signed in all."""
    root: str
    """Root of the run tree at that size, 64 hex digits."""
    keyid: str
    """The key that signed; that of the last bundle when nothing was unsigned, ``""`` when there is none."""
    closed: bool
    checkpoint: str
    """The signed note to keep elsewhere; ``""`` when there is none."""


@dataclass(frozen=True, slots=True)
class SealReport:
    """What one sealing did."""

    runs: tuple[SealedRun, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """Damage of the journal that was found when it was opened: what is lost is not signed."""

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON values; the keys are documented and stable."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a store is and holds."""

    uri: str
    engine: str
    version: str
    edition: str
    journal: str
    """Directory of the journal."""
    journal_id: str
    position: int
    applied: int
    """Position of the journal up to which the graph holds its facts."""
    runs: tuple[tuple[str, int], ...]
    counts: Mapping[str, int]
    """Nodes by their labels."""

    def to_dict(self) -> dict[str, object]:
        """Return the facts as JSON values; the keys are documented and stable."""
        return {**asdict(self), "runs": [{"run": run, "attempt": attempt} for run, attempt in self.runs]}


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of a query, and whether they are all there are."""

    columns: tuple[str, ...]
    rows: tuple[Mapping[str, object], ...]
    complete: bool = True
    reason: str | None = None
    """Why rows are missing: ``max_rows``, ``timeout``, ``max_bytes`` or ``graph_behind_journal``."""
    notes: tuple[str, ...] = ()
    """What should be known beside the rows, such as what it means that there are none."""

    def to_dict(self) -> dict[str, object]:
        """Return the rows as JSON values; the keys are documented and stable."""
        return {
            "columns": list(self.columns),
            "rows": [dict(row) for row in self.rows],
            "complete": self.complete,
            "reason": self.reason,
            "notes": list(self.notes),
        }

    def _repr_html_(self) -> str:
        """Return the rows as a table."""
        state = "" if self.complete else f", cut by {self.reason}"
        rows = [[row.get(column) for column in self.columns] for row in self.rows]
        return table(f"{len(self.rows):,} rows{state}", self.columns, rows)
