"""What a journal holds of a run's recording already: so that nothing is recorded twice and nothing stays half."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from provstore.evidence import actions, epoch_bundles, records
from provstore.journal import Journal
from provstore.journal.evidence import RecordFrame
from provstore.model import canonical
from provstore.model.evidence import CAPTURE_FAULT, EPOCH_BUNDLE, EPOCH_LINK, ESCALATION, POLICY

_NOTES = frozenset((ESCALATION, CAPTURE_FAULT))
_EPOCH = b'"kind":"epoch-'
_TELLING = (EPOCH_BUNDLE, EPOCH_LINK, ESCALATION, CAPTURE_FAULT)


@dataclass(slots=True)
class Held:
    """A bundle that is there already."""

    record: Mapping[str, Any]
    digest: str
    link: Mapping[str, Any] | None = None


@dataclass(slots=True)
class History:
    """The records of one attempt so far.

    An action without a bundle was left by a recording that did not come to its end: the next one takes it up.
    """

    run: str
    attempt: int
    counts: dict[int | None, int] = field(default_factory=dict)
    known: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    """Id of an action that a bundle covers → hash of its content, epoch."""
    loose: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    """The same of actions that no bundle covers yet."""
    bundles: list[Held] = field(default_factory=list)
    notes: set[int] = field(default_factory=set)
    """Hashes of escalations and faults, without their numbers."""
    policy: int | None = None
    """The same of the latest policy record."""

    def next_n(self, rank: int | None) -> int:
        """Return the number of the next record of a rank, and count it."""
        count = self.counts.get(rank, 0)
        self.counts[rank] = count + 1
        return count

    def parts(self, epoch: int) -> list[Held]:
        """Return the bundles of an epoch, in order."""
        return [held for held in self.bundles if held.record["epoch"] == epoch]

    def close_epoch(self, record: Mapping[str, Any], digest: str) -> Held:
        """Take note of a bundle: what was loose in its epoch is covered now."""
        covered = [name for name, (_, epoch) in self.loose.items() if epoch == record["epoch"]]
        for name in covered:
            self.known[name] = self.loose.pop(name)
        held = Held(record, digest)
        self.bundles.append(held)
        return held


@dataclass(slots=True)
class RunChain:
    """What the next epoch of a run is chained to."""

    digests: list[str] = field(default_factory=list)
    """Of its bundles."""
    agent_record: tuple[str, int] | None = None
    """SHA-256 and size of its last agent record."""

    def before(self, digest: str) -> str | None:
        """Return the digest of the bundle before one that is there."""
        at = self.digests.index(digest)
        return self.digests[at - 1] if at else None


def history(journal: Journal, run: str, attempt: int) -> History:
    """Return what the journal holds of one attempt.

    Raises:
        TrustError: A record is malformed where it matters.
        StoreError: The journal is damaged there.
    """
    found = History(run, attempt)
    for frame in journal.evidence(run, attempt).frames():
        for line in frame.lines:
            _take(found, line)
    return found


def run_chain(journal: Journal, run: str) -> RunChain:
    """Return the bundles of all attempts of a run, in the order in which the journal acknowledged them.

    Raises:
        TrustError: A record is malformed where it matters.
        StoreError: The journal is damaged there.
    """
    told: list[tuple[int, dict[str, Any]]] = []
    for scope in journal.scopes():
        if scope[0] == run:
            for frame in journal.evidence(*scope).frames(_EPOCH):
                told += [(frame.jseq, said) for said in _told(frame)]
    chain = RunChain()
    for _, said in sorted(told, key=lambda one: one[0]):
        if said["kind"] == EPOCH_BUNDLE:
            chain.digests.append(epoch_bundles.digest_of(said))
        elif said["aep"] is not None:
            chain.agent_record = (said["aep"], said["aep_bytes"])
    return chain


def content_hash(line: bytes) -> int:
    """Return what tells two records of one action apart, whatever their numbers."""
    return hash(actions.content(line))


def note_hash(line: bytes) -> int:
    """Return what tells an escalation or fault from another, whatever their numbers."""
    said = orjson.loads(line)
    said.pop("n")
    return hash(canonical.encode(said))


def _told(frame: RecordFrame) -> Iterator[dict[str, Any]]:
    for line in frame.lines:
        if _EPOCH in line:
            said = records.parse(line)
            if said["kind"] in {EPOCH_BUNDLE, EPOCH_LINK}:
                yield said


def _take(found: History, line: bytes) -> None:
    said: dict[str, Any] = orjson.loads(line)
    rank, n = said.get("rank"), said.get("n")
    if isinstance(n, int):
        found.counts[rank] = max(found.counts.get(rank, 0), n + 1)
    if line.startswith(actions.OPENING):
        found.loose[said["action_id"]] = (content_hash(line), said["training"].get("epoch"))
        return
    kind = said.get("kind")
    if kind == POLICY:
        found.policy = note_hash(line)
    if kind not in _TELLING:
        return
    said = records.parse(line)
    if kind == EPOCH_BUNDLE:
        found.close_epoch(said, epoch_bundles.digest_of(said))
    elif kind == EPOCH_LINK:
        for held in found.bundles:
            if held.digest == said["bundle"]:
                held.link = said
    elif kind in _NOTES:
        found.notes.add(note_hash(line))
