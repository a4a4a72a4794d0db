"""What was recorded of a run, as its journal holds it: epoch bundles, actions, tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from provstore.errors import InputError, StoreError
from provstore.evidence import actions as action_records
from provstore.evidence import epoch_bundles, records
from provstore.journal import Journal
from provstore.model import canonical
from provstore.model.action import Action
from provstore.model.evidence import EPOCH_BUNDLE, EPOCH_LINK, ESCALATION

_EPOCH = b'"kind":"epoch-'
"""Stands in epoch bundles and in epoch links."""
_ESCALATION = b'"kind":"escalation"'
MARKS = (action_records.OPENING, _EPOCH, _ESCALATION)
"""What every record holds that tells of a recorded epoch."""
_MAX_TABLE_LINE = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredBundle:
    """One epoch's bundle record, or one part of it, and where it stands."""

    record: Mapping[str, Any]
    """All members, as in ``docs/reference/protocol.md``."""
    index: int
    """In the run tree."""
    where: str
    """Journal segment, frame and line."""
    digest: str
    """Equal wherever the same epoch is recorded, 64 hex digits."""
    link: Mapping[str, Any] | None = None
    """The epoch-link record; ``None`` where recording was interrupted before it."""
    jseq: int = 0
    """Number of the journal's frame that holds the record."""

    @property
    def run(self) -> str:
        """The run."""
        return str(self.record["run"])

    @property
    def attempt(self) -> int:
        """Its incarnation."""
        return int(self.record["attempt"])

    @property
    def epoch(self) -> int:
        """Training epoch."""
        return int(self.record["epoch"])

    @property
    def part(self) -> int:
        """0, or more where ranks were recorded later."""
        return int(self.record["part"])

    @property
    def missing_ranks(self) -> list[int]:
        """Ranks of the world of which nothing was recorded."""
        return epoch_bundles.spread(self.record["missing_ranks"])

    def blobs(self, role: str) -> list[Mapping[str, Any]]:
        """Return the blobs of a role: ``bytes``, ``lines``, ``rank``, ``role``, ``sha256``."""
        return [blob for blob in self.record["blobs"] if blob["role"] == role]


def stored_bundles(journal: Journal, run: str, attempt: int | None = None) -> list[StoredBundle]:
    """Return the epoch bundles of a run, in order of attempt, epoch and part.

    Raises:
        TrustError: A record of this kind is malformed.
        StoreError: The journal is damaged there.
    """
    found: list[StoredBundle] = []
    for scope in journal.scopes():
        if scope[0] == run and attempt in {None, scope[1]}:
            found += _bundles(journal, *scope)
    return sorted(found, key=lambda one: (one.attempt, one.epoch, one.part, one.index))


def actions(journal: Journal, run: str, attempt: int, epoch: int | None = None) -> Iterator[Action]:
    """Yield the recorded actions of an attempt in their stored order, those of one training epoch if it is given.

    Raises:
        TrustError: A record of this kind is malformed.
        StoreError: The journal is damaged there.
    """
    # Records are canonical: one of this epoch holds its number in these very bytes.
    marks = () if epoch is None else (f'"epoch":{epoch}'.encode(),)
    for line in journal.evidence(run, attempt).lines(*marks):
        if line.startswith(action_records.OPENING):
            action = read_quickly(line)
            if epoch is None or action.epoch == epoch:
                yield action


def escalations(journal: Journal, run: str, attempt: int) -> Iterator[dict[str, Any]]:
    """Yield the escalation records of an attempt as they stand in the journal."""
    for line in journal.evidence(run, attempt).lines(_ESCALATION):
        said = records.parse(line)
        if said["kind"] == ESCALATION:
            yield said


def table(journal: Journal, bundle: StoredBundle, role: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a bundle's table, rank by rank; floats are ``f64:`` texts.

    Raises:
        StoreError: A blob is missing or altered, or holds something that is no table.
    """
    for blob in bundle.blobs(role):
        try:
            yield from rows_of(journal.kept(blob["sha256"], blob["bytes"]).splitlines())
        except InputError as error:
            raise StoreError(f"journal: blob {blob['sha256']}: {error}") from error


def rows_of(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table's lines; floats are ``f64:`` texts.

    Raises:
        InputError: A line is none of a table.
    """
    for number, line in enumerate(lines, 1):
        try:
            row = canonical.parse(line, max_bytes=_MAX_TABLE_LINE)
        except InputError as error:
            raise InputError(f"line {number}: {error}") from error
        if isinstance(row, dict):
            yield row


def blob(journal: Journal, bundle: StoredBundle, sha256: str) -> bytes:
    """Return a blob that a bundle names: a snapshot, a state of a random number generator.

    Raises:
        InputError: The bundle names no such blob.
        StoreError: It is missing or altered.
    """
    states = (row for row in table(journal, bundle, epoch_bundles.RNG) if row.get("blob") == sha256)
    for said in (*bundle.record["blobs"], *states):
        if said.get("sha256", said.get("blob")) == sha256:
            return journal.kept(sha256, said["bytes"])
    raise InputError(f"{bundle.run}: epoch {bundle.epoch}: blob {sha256[:80]!a}: the bundle names none like it")


def agent_record(journal: Journal, bundle: StoredBundle) -> bytes | None:
    """Return the agent record of an epoch, byte for byte as it was made.

    Raises:
        StoreError: It is missing or altered.
    """
    if bundle.link is None or bundle.link["aep"] is None:
        return None
    return journal.kept(bundle.link["aep"], bundle.link["aep_bytes"])


def read_quickly(line: bytes) -> Action:
    """Return the action of a line; only one that is odd is read strictly.

    Raises:
        TrustError: The line is no record of an action.
    """
    try:
        return action_records.of_record(orjson.loads(line))
    except (ValueError, KeyError, TypeError, AttributeError, InputError):
        return action_records.read(line)


def _bundles(journal: Journal, run: str, attempt: int) -> list[StoredBundle]:
    found: list[StoredBundle] = []
    links: dict[str, dict[str, Any]] = {}
    for frame in journal.evidence(run, attempt).frames(_EPOCH):
        for at, line in enumerate(frame.lines):
            # Nearly all lines are actions, which are passed over at once.
            if line.startswith(action_records.OPENING) or _EPOCH not in line:
                continue
            said = records.parse(line)
            if said["kind"] == EPOCH_BUNDLE:
                digest, where = epoch_bundles.digest_of(said), f"{frame.where} line {at + 2}"
                found.append(StoredBundle(said, frame.first + at, where, digest, jseq=frame.jseq))
            elif said["kind"] == EPOCH_LINK:
                links[said["bundle"]] = said
    return [replace(one, link=links.get(one.digest)) for one in found]
