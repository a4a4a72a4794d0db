"""Signed evidence as files that other people's programs verify, without provstore and without a network.

File names hold numbers of epochs and records only, never anything that a run states: the commands of ``VERIFY.txt`` can
be typed as they stand.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, field

SSH, HEX, NONE = "ssh", "hex", "none"
KEYIDS = (SSH, HEX, NONE)
"""Spellings of the key id, which is not signed: OpenSSH fingerprint, securesystemslib's id in hex digits, empty."""

ALL = "all"
"""A proof for every record."""
MAX_PROOFS = 100_000
MAX_EPOCH_BYTES = 120 * 1024 * 1024
"""Size of an epoch's record lines; cosign and sigstore-go stop at 128 MiB."""

IMPORTED = "imported documents"
"""What the evidence of no run is about."""
INSTRUCTIONS = "VERIFY.txt"
CHECKPOINT = "checkpoint"
ATTESTATIONS = "run.intoto.jsonl"


@dataclass(frozen=True, slots=True)
class EvidenceExportOptions:
    """What can be asked of an export."""

    keyid: str = SSH
    """``ssh``, ``hex`` or ``none``; the stored envelope always has ``ssh``."""
    epoch: int | None = None
    """Only this evidence epoch; its proofs then lead to its own checkpoint."""
    records: Collection[int] | str = ()
    """Indices of the records that get a proof, or ``all``."""
    overwrite: bool = False
    """Replace an older export."""


@dataclass(frozen=True, slots=True)
class EpochRow:
    """One signed bundle, in short."""

    epoch: int
    first: int
    """Index of its first record."""
    size: int
    """Records of the run at its end."""
    keyid: str
    closed: bool
    wall: str
    """Wall clock that it claims."""
    root: str
    payload_sha256: str
    subject_sha256: str
    """SHA-256 of its record lines."""


@dataclass(frozen=True, slots=True)
class ExportedKey:
    """A key that signed what was exported."""

    keyid: str
    file: str | None
    """Its PEM file; ``None`` when the public key is not known here."""


@dataclass(frozen=True, slots=True)
class EvidenceExportReport:
    """What was written."""

    run: str
    attempt: int
    store: str
    directory: str
    keyid: str
    """How the key id is spelled in the envelopes."""
    epochs: tuple[EpochRow, ...]
    keys: tuple[ExportedKey, ...]
    records: int
    """Record lines in the epoch files."""
    proofs: int
    signatures: tuple[str, ...]
    """Forms of signature over all files, which needed a private key."""
    files: int
    size_bytes: int
    unsigned: int
    """Records behind the last bundle, which are not exported."""
    closed: bool
    notes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON values; the keys are documented and stable."""
        return asdict(self)
