"""Bytes that epoch bundles name by their SHA-256: which are named, and which are missing, cut off or altered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from provstore.errors import InputError
from provstore.evidence.epoch_bundles import RNG, RNG_STATE
from provstore.model import canonical
from provstore.model.evidence import EPOCH_BUNDLE
from provstore.model.lost import ALTERED, CUT_OFF, MISSING, UNREADABLE
from provstore.model.verification import EvidenceFinding

CODE_OF = {
    MISSING: "journal-damaged",
    CUT_OFF: "subject-mismatch",
    ALTERED: "subject-mismatch",
    UNREADABLE: "check-unfinished",
}
"""What is wrong with a blob → code. Bytes that are gone contradict nobody; other bytes than were signed do."""
MOST_NAMED = 1_000_000
"""Blobs of one attempt that are looked at; beyond it the check is not finished."""
MOST_FINDINGS = 1_000
"""Blobs that are told one by one; the rest is counted."""
AGENT_RECORD = "agent record"
_MAX_ROW = 1 << 20

Fault: TypeAlias = "tuple[str, str]"
"""What is wrong, a key of ``CODE_OF``, and the same in a sentence without its subject."""
Progress: TypeAlias = "Callable[[int, int, str], None]"


class Place(Protocol):
    """Where the bytes lie."""

    def fault(self, sha256: str, size_bytes: int) -> Fault | None:
        """Return what is wrong with a blob; its bytes are read in pieces."""
        ...

    def lines(self, sha256: str, size_bytes: int) -> Iterator[bytes]:
        """Yield the lines of a blob that is sound, without their ends."""
        ...


@dataclass(frozen=True, slots=True)
class Blob:
    """One blob, as a record names it."""

    role: str
    sha256: str
    size_bytes: int
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Naming:
    """A record that names blobs: the bundle of a training epoch, or what links its agent record."""

    seq: int
    """Index in the run tree."""
    epoch: int | None
    """Number of the evidence epoch that signs the record; ``None`` where none does yet."""
    where: str
    thing: str
    """What the record is, in words."""
    train_epoch: int | None
    """``None`` for a link, which names its bundle by digest alone."""
    blobs: tuple[Blob, ...]

    def only(self, roles: Collection[str]) -> Naming:
        """Return it with the blobs of these roles alone."""
        return replace(self, blobs=tuple(one for one in self.blobs if one.role in roles))


@dataclass(slots=True)
class Namings:
    """The blobs that the records of one attempt name, taken as the records are read."""

    is_full: bool = False
    """True when more were named than are looked at."""
    _found: list[Naming] = field(default_factory=list)
    _count: int = 0

    def take(self, said: dict[str, Any], seq: int, epoch: int | None, where: str) -> None:
        """Take note of a bundle or link that the strict reader took."""
        if said["kind"] == EPOCH_BUNDLE:
            named = tuple(Blob(one["role"], one["sha256"], one["bytes"], one["rank"]) for one in said["blobs"])
            part = f", part {said['part']}" if said["part"] else ""
            thing, train_epoch = f"the bundle of training epoch {said['epoch']}{part}", said["epoch"]
        else:
            named = () if said["aep"] is None else (Blob(AGENT_RECORD, said["aep"], said["aep_bytes"]),)
            thing, train_epoch = f"the link of bundle {said['bundle'][:12]}…", None
        self._count += len(named)
        if self._count > MOST_NAMED:
            self.is_full = True
        elif named:
            self._found.append(Naming(seq, epoch, where, thing, train_epoch, named))

    def found(self) -> tuple[Naming, ...]:
        """Return the records that name blobs, in their order."""
        return tuple(self._found)


@dataclass(frozen=True, slots=True)
class BlobCheck:
    """What looking at blobs gave."""

    findings: tuple[EvidenceFinding, ...]
    blobs: int
    """Different blobs that were looked at."""
    size_bytes: int
    """Bytes that they should have."""


def check_blobs(
    scope: tuple[str, int], named: Sequence[Naming], place: Place, progress: Progress | None = None
) -> BlobCheck:
    """Return which of the blobs that records name are not there as they were named; each is read once.

    Args:
        scope: Run and attempt.
        named: The records.
        place: Where the bytes lie.
        progress: Called with (done, total, what), in blobs.
    """
    return _Check(scope, place, progress, sum(len(one.blobs) for one in named)).all(named)


class _Check:
    """One pass over blobs."""

    def __init__(self, scope: tuple[str, int], place: Place, progress: Progress | None, total: int) -> None:
        self._scope, self._place, self._progress = scope, place, progress
        self._faults: dict[tuple[bytes, int], Fault | None] = {}
        self._findings: list[EvidenceFinding] = []
        self._done, self._total, self._rest, self._bytes = 0, total, 0, 0

    def all(self, named: Sequence[Naming]) -> BlobCheck:
        """Look at what every record names."""
        for naming in named:
            for blob in naming.blobs:
                fault = self._one(naming, blob)
                if blob.role == RNG and fault is None:
                    self._states(naming, blob)
        if self._rest:
            run, attempt = self._scope
            words = f"{self._rest} more blobs are not what was named, and are not listed"
            self._findings.append(EvidenceFinding(run, attempt, None, None, "subject-mismatch", "the blobs", words))
        return BlobCheck(tuple(self._findings), len(self._faults), self._bytes)

    def _one(self, naming: Naming, blob: Blob) -> Fault | None:
        key = (bytes.fromhex(blob.sha256), blob.size_bytes)
        if key not in self._faults:
            self._faults[key] = self._place.fault(blob.sha256, blob.size_bytes)
            self._bytes += blob.size_bytes
        fault = self._faults[key]
        if fault is not None:
            self._tell(naming, blob, fault)
        self._done += 1
        if self._progress:
            self._progress(self._done, max(self._done, self._total), "checking blobs")
        return fault

    def _states(self, naming: Naming, table: Blob) -> None:
        """Look at the states of random number generators, which the rows of a table name."""
        for line in self._place.lines(table.sha256, table.size_bytes):
            if (state := _state_of(line)) is not None:
                self._total += 1
                self._one(naming, state)

    def _tell(self, naming: Naming, blob: Blob, fault: Fault) -> None:
        if len(self._findings) >= MOST_FINDINGS:
            self._rest += 1
            return
        whose = "" if blob.rank is None else f" of rank {blob.rank}"
        signed = "" if naming.epoch is not None else ", which nobody has signed yet"
        words = (
            f"record {naming.seq}, {naming.thing}{signed}, names blob {blob.sha256}: {blob.role}{whose}, "
            f"{blob.size_bytes:,} bytes: it {fault[1]}"
        )
        code = CODE_OF[fault[0]]
        found = EvidenceFinding(*self._scope, naming.epoch, naming.seq, code, naming.where, words, blob.rank)
        self._findings.append(found)


def _state_of(row: bytes) -> Blob | None:
    """Return the state that a row of a table names; nothing for a row without one, or that is no such row."""
    try:
        said = canonical.parse(row, max_bytes=_MAX_ROW)
    except InputError:
        return None
    if not isinstance(said, dict):
        return None
    sha256, size, rank = said.get("blob"), said.get("bytes"), said.get("rank")
    if not isinstance(sha256, str) or len(sha256) != 64 or type(size) is not int or size < 0:
        return None
    try:
        bytes.fromhex(sha256)
    except ValueError:
        return None
    return Blob(RNG_STATE, sha256, size, rank if type(rank) is int else None)
