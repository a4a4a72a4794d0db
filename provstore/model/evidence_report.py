"""What a place holds of signed evidence, and one bundle or record of it; showing them verifies nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from provstore.model.display import table


@dataclass(frozen=True, slots=True)
class BundleRow:
    """One signed bundle, as it states itself."""

    epoch: int | None
    """Number of the evidence epoch; ``None`` when the bundle cannot be read, as everything else then."""
    first: int | None
    """Index of its first record in the run tree."""
    size: int | None
    """Records of the run at its end."""
    keyid: str | None
    """Key that it names; a hint."""
    closed: bool | None
    wall: str | None
    """Wall clock that it claims."""
    root: str | None
    payload_sha256: str | None
    where: str
    fault: str | None = None
    """Why it cannot be read."""

    @property
    def records(self) -> int | None:
        """How many records it signs."""
        return None if self.size is None or self.first is None else self.size - self.first


@dataclass(frozen=True, slots=True)
class RecordedEpoch:
    """One training epoch that was recorded, or one part of it, as its bundle states it."""

    epoch: int
    part: int
    actions: int
    recording_mode: str
    """The weakest mode whose content is there."""
    policy_mode: str
    """The strongest mode that was demanded."""
    policy_reason: str
    shortfall: Mapping[str, int]
    """Why less was recorded than demanded → actions."""
    closed: bool
    """The epoch came to its end."""
    missing_ranks: tuple[int, ...]
    escalations: tuple[str, ...]
    digest: str
    """Of the bundle, 64 hex digits."""
    agent_record: str | None
    """SHA-256 of the agent record."""
    index: int
    """Of the bundle's record in the run tree."""


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """The evidence about one attempt of one run."""

    run: str
    attempt: int
    store: str
    """Id of the journal."""
    records: int
    """Records that it holds."""
    signed: int
    """Records up to the end of the last bundle, as that states it."""
    closed: bool
    bundles: tuple[BundleRow, ...]
    recorded: tuple[RecordedEpoch, ...] = ()
    """Training epochs."""

    @property
    def unsigned(self) -> int:
        """Records behind the last bundle."""
        return max(0, self.records - self.signed)


@dataclass(frozen=True, slots=True)
class CarriedFinding:
    """A finding, and one recorded action that it names."""

    run: str
    attempt: int
    code: str
    finding: str
    """Id of the finding."""
    confidence: str | None
    summary: str
    action_id: str | None
    """``None`` for a finding that names no recorded action."""
    rank: int | None = None
    op: str | None = None
    group: str | None = None
    seq: int | None = None
    step: int | None = None
    epoch: int | None = None
    """Training epoch of the action."""
    bundle: str | None = None
    """Digest of the bundle of that epoch."""


@dataclass(frozen=True, slots=True)
class CarriedPage:
    """What carries a finding that was asked for, as far as a page shows it."""

    asked: str
    """Code, or id."""
    rows: tuple[CarriedFinding, ...]
    total: int
    offset: int
    notes: tuple[str, ...] = ()
    """What could not be read, so that more may carry it, or more be told of what does."""

    @property
    def has_more(self) -> bool:
        """Whether more rows follow."""
        return self.offset + len(self.rows) < self.total

    def to_dict(self) -> dict[str, object]:
        """Return the page as JSON values; the keys are documented and stable."""
        return {**asdict(self), "has_more": self.has_more}


@dataclass(frozen=True, slots=True)
class EvidenceList:
    """The evidence that a journal holds, run by run."""

    runs: tuple[RunEvidence, ...]
    carried: CarriedPage | None = None
    """Where a finding was asked for: then only runs and training epochs that carry it are listed."""

    def to_dict(self) -> dict[str, object]:
        """Return the list as JSON values; the keys are documented and stable."""
        return {
            "carried": self.carried.to_dict() if self.carried else None,
            "runs": [
                {
                    **asdict(run),
                    "unsigned": run.unsigned,
                    "bundles": [{**asdict(row), "records": row.records} for row in run.bundles],
                }
                for run in self.runs
            ],
        }

    def _repr_html_(self) -> str:
        """Return the bundles as a table."""
        rows = [
            (run.run, run.attempt, row.epoch, row.records, row.keyid, row.closed, row.wall)
            for run in self.runs
            for row in run.bundles
        ]
        return table("evidence", ("run", "attempt", "epoch", "records", "key", "closed", "wall"), rows)


@dataclass(frozen=True, slots=True)
class EvidenceItem:
    """One bundle or record, exactly as stored."""

    kind: str
    """``bundle``, ``record``, or ``agent-record`` for what an agent recorded."""
    run: str
    attempt: int
    number: int | None
    """Epoch of a bundle, index of a record in the run tree."""
    where: str
    raw: bytes
    """The envelope, or the record line."""
    digests: Mapping[str, str]
    """Name → 64 hex digits: ``payload_sha256``, ``subject_sha256`` of a bundle; ``sha256``, ``leaf`` of a record,
    ``sha256``, ``record_digest`` of an agent's."""
    said: Mapping[str, object] | None
    """The statement or record as JSON values; ``None`` when it cannot be read."""
    keyid: str | None = None
    sig: str | None = None
    checkpoint: str | None = None
    """The signed note of a bundle."""
    fault: str | None = None
    axes: Mapping[str, object] | None = None
    """Of the agent record of an epoch's bundle: what was looked at and what was found, axis by axis."""

    def to_dict(self) -> dict[str, object]:
        """Return the item as JSON values; the keys are documented and stable."""
        facts = {name: getattr(self, name) for name in self.__slots__ if name != "raw"}
        return {**facts, "digests": dict(self.digests), "raw": self.raw.decode("utf-8", "backslashreplace")}
