"""Agent evidence: what is judged of one AEP record, axis by axis; there is no answer that sums them up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

AXES = ("structural", "semantic", "authenticity", "chain", "container", "capture")
STATUSES: Mapping[str, tuple[str, ...]] = {
    "structural": ("pass", "fail"),
    "semantic": ("pass", "fail"),
    "authenticity": ("unsigned", "valid", "invalid", "unsupported-legacy", "binding-mismatch"),
    "chain": ("intact", "not-present", "partial", "orphaned", "broken"),
    "container": ("pass", "fail"),
    "capture": (),
}


RECORD, ARRAY, JSONL, BUNDLE, LEDGER, COMPACTED = "record", "array", "jsonl", "aep-bundle", "ledger", "compacted-ledger"
"""Kinds of containers."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One record of a container, exactly as it lies there."""

    index: int
    """Place in the container, from 0."""
    offset: int
    """Of its first byte in the container."""
    data: bytes
    """Its exact bytes; empty for one that is larger than is read."""
    kind: str
    """Name of the schema that it is held against, such as ``aep-record``."""
    fault: str | None = None
    """Why it is not read, where that was seen before its bytes were."""
    sha256: str = ""
    """Of its exact bytes where ``data`` does not hold them."""
    wrapper: bytes = b""
    """The ledger record around it, exactly as it lies there."""
    text: object = field(default=None, repr=False, compare=False)
    """Its JSON as ``evidence.aep.text.JsonText``, where it was read already."""


@dataclass(frozen=True, slots=True)
class Container:
    """A file of agent evidence, cut into its records."""

    kind: str
    records: Iterable[RawRecord]
    """May be gone through again and again; a file is read anew each time, one record at a time."""
    source: str
    """What messages call it."""
    problems: tuple[str, ...] = ()
    """In words: a torn last line with its offset."""
    manifest: bytes = b""
    """Of a bundle, exactly as it lies there."""
    gaps: tuple[bytes, ...] = ()
    """What a compacted ledger says of the records that it left out, each exactly as it lies there."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One question about a record: whether it was looked at, and what was found."""

    evaluated: bool
    status: str | None = None
    """One of ``STATUSES``; ``None`` exactly when it was not evaluated."""
    reason: str | None = None
    """Why it was not evaluated, such as ``unknown-key``, or what is wrong."""
    details: Mapping[str, object] = field(default_factory=dict)
    """JSON values: scheme, keyid, canonical_variant, violations, index, legacy, …"""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values; an axis that was not evaluated carries no status."""
        said: dict[str, object] = {"evaluated": self.evaluated}
        if self.evaluated:
            said["status"] = self.status
        if self.reason is not None:
            said["reason"] = self.reason
        if self.details:
            said["details"] = dict(self.details)
        return said


@dataclass(frozen=True, slots=True)
class RecordVerdict:
    """What was found of one record of a container."""

    index: int
    """Place in the container, from 0."""
    sha256: str
    """Of its exact bytes."""
    run_id: str | None
    axes: Mapping[str, Axis]
    """By the names of ``AXES``, all of them."""
    findings: tuple[str, ...] = ()
    """Codes that concern this record: ``history-rewritten``, ``chain-fork``, ``signature-copy-differs``, …"""


@dataclass(frozen=True, slots=True)
class ContainerVerdict:
    """What was found of a container and of each record in it."""

    kind: str
    """``record``, ``array``, ``jsonl``, ``aep-bundle``, ``ledger``, ``compacted-ledger``, or the name of another kind
    of the family, such as ``replay-evidence``."""
    records: tuple[RecordVerdict, ...]
    chain: Axis
    """Of the whole file in file order."""
    chains: Mapping[str, Axis]
    """By run id."""
    container: Axis
    problems: tuple[str, ...] = ()
    """In words: a torn last line with its offset, a line that is no record with its reason."""
