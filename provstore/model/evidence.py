"""Evidence: the records that are signed, and where a verifier finds them and their bundles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from provstore.model import canonical
from provstore.model.canonical import Json

RECORD_SCHEMA = 1
"""Version of the shape of records; stands in each."""

INGEST, OBSERVATION, DIGEST, POLICY = "ingest", "observation", "digest", "policy"
RANK_CERTIFICATE, KEY_ROTATION, RECOVERY, GAP, RUN_CLOSE = (
    "rank-certificate",
    "key-rotation",
    "recovery",
    "gap",
    "run-close",
)
ACTION, EPOCH_BUNDLE, EPOCH_LINK, ESCALATION, CAPTURE_FAULT, CONTROL, EXTERNAL_SIGNAL = (
    "action",
    "epoch-bundle",
    "epoch-link",
    "escalation",
    "capture-fault",
    "control",
    "external-signal",
)
RECORDED_KINDS = (ACTION, EPOCH_BUNDLE, EPOCH_LINK, ESCALATION, CAPTURE_FAULT, CONTROL, EXTERNAL_SIGNAL)
"""Kinds that tell of single actions and their training epochs, and of what was seen beside the job."""
KINDS = (INGEST, OBSERVATION, DIGEST, POLICY, RANK_CERTIFICATE, KEY_ROTATION, RECOVERY, GAP, RUN_CLOSE, *RECORDED_KINDS)

FINISHED, ABORTED, COLLECTOR_LOST = "finished", "aborted", "collector-lost"
CLOSE_REASONS = (FINISHED, ABORTED, COLLECTOR_LOST)

MODES = ("validation", "delta", "full")
"""Recording modes, weakest first."""

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Observation:
    """Something a run states about itself: values under names that its user chose."""

    name: str
    values: Mapping[str, Scalar] = field(default_factory=dict)
    rank: int | None = None
    """``None`` when no single rank states it."""
    step: int | None = None
    at_ns: int | None = None
    """Wall clock in nanoseconds since 1970, as the run claims it."""


@dataclass(frozen=True, slots=True)
class AgreedDigest:
    """The digest of a value that every rank of a group must hold alike, such as parameters after an all-reduce."""

    name: str
    sha256: str
    rank: int
    ranks: Sequence[int]
    """Who must agree, this rank included."""
    step: int | None = None
    at_ns: int | None = None


@dataclass(frozen=True, slots=True)
class RankHead:
    """How far one rank's records go: their number and the head of their hash chain, perhaps signed by that rank."""

    rank: int
    count: int
    head: str
    """64 hex digits."""
    keyid: str | None = None
    sig: str | None = None
    """Base64 of the rank's Ed25519 signature over (run, attempt, rank, count, head)."""


class RecordAt(NamedTuple):
    """One record as a place holds it; a tuple, because millions of them are made."""

    index: int | None  # type: ignore[assignment]  # nobody asks this tuple where in it something stands
    """Its index in the run tree as the place states it; ``None`` when it states none."""
    line: bytes
    """The canonical line, without line end, exactly as stored."""
    where: str
    """Journal segment and number, or the id of a node."""


@dataclass(frozen=True, slots=True)
class BundleAt:
    """One signed bundle as a place holds it."""

    envelope: bytes
    """The DSSE envelope, exactly as stored."""
    checkpoint: bytes | None
    """The signed note over the run tree at the bundle's size; ``None`` when it is missing."""
    where: str


class EvidenceLog(Protocol):
    """The evidence about one attempt of one run in one place: a journal, a graph, or exported files."""

    @property
    def run(self) -> str:
        """The run."""
        ...

    @property
    def attempt(self) -> int:
        """Its incarnation."""
        ...

    @property
    def store(self) -> str:
        """Id of the journal, which is signed; ``""`` where the place does not state it."""
        ...

    def bundles(self) -> Iterator[BundleAt]:
        """Yield the bundles in the order of the place."""
        ...

    def records(self) -> Iterator[RecordAt]:
        """Yield the records in the order of the place, one after the other; never all in memory."""
        ...


def tag(name: str, value: Scalar) -> dict[str, Json]:
    """Return a named value as ``{"n": name, "t": type, "v": value}``, exact to the last bit.

    Types: ``s`` text, ``i`` integer (tagged ``i64:`` text), ``f`` double (tagged ``f64:`` text), ``b`` boolean,
    ``z`` nothing.
    """
    if value is None:
        return {"n": name, "t": "z", "v": None}
    if isinstance(value, bool):
        return {"n": name, "t": "b", "v": value}
    if isinstance(value, int):
        return {"n": name, "t": "i", "v": canonical.tag_integer(value)}
    if isinstance(value, float):
        return {"n": name, "t": "f", "v": canonical.tag_double(value)}
    return {"n": name, "t": "s", "v": value}
