"""Signing a run: what is signed so far, what waits, and the bundle and checkpoint over the next evidence epoch."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import orjson

from provstore.errors import ConfigError, TrustError
from provstore.evidence import checkpoint, dsse, keys, merkle, rank_heads, records, statement
from provstore.evidence.actions import OPENING
from provstore.evidence.recorded_modes import WeakestMode
from provstore.evidence.verify.actions import quick_action_reader
from provstore.evidence.verify.records import quick_reader
from provstore.model.evidence import (
    INGEST,
    POLICY,
    RANK_CERTIFICATE,
    RECOVERY,
    RUN_CLOSE,
    EvidenceLog,
    RankHead,
    RecordAt,
)

_NOTABLE = frozenset((INGEST, POLICY, RUN_CLOSE))
ORG = "provstore"
"""First part of the origin of checkpoints, unless the operator names another."""
NOTHING = "0" * 64
MAX_RANKS_INSIDE = 2_000


@dataclass(frozen=True, slots=True)
class Limits:
    """When an evidence epoch closes at the latest."""

    records: int = 100_000
    size_bytes: int = 64 * 1024 * 1024
    seconds: float = 60.0
    """For which a record may wait, where signing runs in the background."""

    def __post_init__(self) -> None:
        """Refuse limits that would sign nothing, or files that foreign verifiers do not read."""
        if self.records < 1 or not 65_536 <= self.size_bytes <= 120 * 1024 * 1024 or not self.seconds > 0:
            raise ConfigError(
                "seal: limits: at least 1 record, 64 KiB to 120 MiB, and a time above 0 s: "
                f"not {self.records}, {self.size_bytes} bytes, {self.seconds} s"
            )


@dataclass(frozen=True, slots=True)
class Sealed:
    """One signed evidence epoch."""

    epoch: statement.Epoch
    envelope: bytes
    note: bytes
    payload_sha256: str
    after: After
    """Where the ledger stands behind it."""


@dataclass(frozen=True, slots=True)
class After:
    """State behind an evidence epoch."""

    tree: merkle.Frontier
    chains: dict[int, tuple[int, bytes]]
    policy: statement.Policy


@dataclass(frozen=True, slots=True)
class Claims:
    """What the one who signs states beside the records."""

    train_epoch: int | None = None
    world: int | None = None
    anchors: tuple[statement.AnchorClaim, ...] = ()
    """Checkpoints that the writer saw before: a lower bound of the time."""


@dataclass(slots=True)
class Ledger:
    """One run's evidence: how much is signed, and the records that wait.

    The tree, the chains of the ranks and the pending records move only through :meth:`add` and :meth:`accept`.
    """

    run: str
    attempt: int
    store: str
    number: int = 0
    """Of the next epoch."""
    prev: str = NOTHING
    closed: bool = False
    tree: merkle.Frontier = field(default_factory=merkle.Frontier)
    """Over the signed records."""
    counts: dict[int | None, int] = field(default_factory=dict)
    """Records of each rank, pending ones included; ``None`` counts those of no rank."""
    batches: set[int] = field(default_factory=set)
    """Journal batches that have a record."""
    events: set[int] = field(default_factory=set)
    """Journal events that have a record."""
    certified: set[tuple[int, str]] = field(default_factory=set)
    """(rank, key id) of which the run states that the key is the rank's."""
    total: int = 0
    """Records, pending ones included."""
    is_stale: bool = False
    """True when the journal may hold something else: whoever adds reads the run again."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held by who adds records, for as long as journal and ledger must agree on their order; never while signing."""
    signing: threading.RLock = field(default_factory=threading.RLock)
    """Held by who signs, so that no epoch is signed twice."""
    _pending_bytes: int = 0
    _pending: list[bytes] = field(default_factory=list)
    _ranks: list[int | None] = field(default_factory=list)
    _steps: list[int | None] = field(default_factory=list)
    _notable: list[int] = field(default_factory=list)
    """Indexes in the run tree of pending records that say something of their epoch as a whole."""
    _chains: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    _ends: dict[int, tuple[int, int, bytes]] = field(default_factory=dict)
    """Rank → (records of the run looked at, its own among them, head of its chain): where :meth:`chain` goes on."""
    _signed_heads: dict[tuple[int, int], RankHead] = field(default_factory=dict)
    _policy: statement.Policy = statement.NO_POLICY

    @property
    def size(self) -> int:
        """Records that are signed."""
        return self.tree.size

    @property
    def pending(self) -> int:
        """Records that wait for a signature."""
        return len(self._pending)

    @property
    def waiting(self) -> Sequence[bytes]:
        """The records that wait."""
        return self._pending

    @property
    def pending_bytes(self) -> int:
        """Bytes of the records that wait."""
        return self._pending_bytes

    def add(self, lines: Iterable[bytes]) -> None:
        """Take note of records, in their order in the run tree."""
        for line in lines:
            said: dict[str, Any] = orjson.loads(line)
            rank = said.get("rank")
            # These first: whoever signs meanwhile takes only lines of which they are known.
            self._ranks.append(rank)
            self._steps.append(step if type(step := said.get("step")) is int else None)
            if said.get("kind") in _NOTABLE:
                self._notable.append(self.total)
            self._pending.append(line)
            self._pending_bytes += len(line) + 1
            self.counts[rank] = self.counts.get(rank, 0) + 1
            self.total += 1
            if said.get("kind") == INGEST:
                self.batches.add(said["batch"])
            elif said.get("kind") == RECOVERY:
                self.events.update(event_numbers(line))
            elif said.get("kind") == RANK_CERTIFICATE:
                self.certified.add((said["certified"], said["keyid"]))

    def add_plain(self, lines: Sequence[bytes], ranks: Sequence[int | None], steps: Sequence[int | None]) -> None:
        """Take note of observations and digests, which need not be parsed: whose each is, and of which step."""
        self._ranks += ranks
        self._steps += steps
        self._pending += lines
        self._pending_bytes += sum(map(len, lines)) + len(lines)
        for rank, count in Counter(ranks).items():
            self.counts[rank] = self.counts.get(rank, 0) + count
        self.total += len(lines)

    def add_heads(self, heads: Iterable[RankHead]) -> None:
        """Take note of what ranks have signed about their own records."""
        for head in heads:
            if head.sig is not None:
                self._signed_heads[head.rank, head.count] = head

    def next_count(self, rank: int | None) -> int:
        """Return the number of the next record of a rank among its own."""
        return self.counts.get(rank, 0)

    def chain(self, rank: int) -> RankHead:
        """Return where a rank's chain is after all its records, pending ones included."""
        seen, count, head = self._ends.get(rank) or (self.size, *self._chain_of(rank))
        if seen < self.size:
            seen, (count, head) = self.size, self._chain_of(rank)
        at = seen - self.size
        for line, whose in zip(self._pending[at:], self._ranks[at:]):
            if whose == rank:
                count, head = count + 1, rank_heads.extend(head, merkle.leaf_hash(line))
        self._ends[rank] = (self.total, count, head)
        return RankHead(rank, count, head.hex())

    def _chain_of(self, rank: int) -> tuple[int, bytes]:
        return self._chains.get(rank) or (0, rank_heads.start(self.run, rank))

    def seal(
        self,
        signer: keys.Signer,
        *,
        limits: Limits,
        claims: Claims | None = None,
        org: str = ORG,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> Sealed:
        """Return the signed bundle over the next pending records, as many as the limits allow; nothing moves yet.

        Raises:
            TrustError: The signer's signature does not hold for its own public key.
        """
        taken = self._take(limits)
        claims = claims or Claims()
        lines, facts = self._pending[:taken], self._facts(taken)
        after = self._advanced(taken, facts)
        tree, now = after.tree, clock_ns()
        inside, outside = self._heads(after.chains)
        epoch = statement.Epoch(
            run=self.run,
            attempt=self.attempt,
            store=self.store,
            number=self.number,
            first=self.size,
            size=tree.size,
            root=tree.root().hex(),
            prev=self.prev,
            subject_sha256=statement.epoch_digest(lines),
            train_epoch=claims.train_epoch,
            steps=facts.steps,
            world=claims.world,
            ranks=inside,
            ranks_sha256=outside,
            policy=statement.effective(after.policy, facts.modes.weakest()),
            wall=datetime.fromtimestamp(now // 1_000_000_000, UTC).isoformat().replace("+00:00", "Z"),
            mono_ns=time.monotonic_ns(),
            clock_source="time.time_ns",
            anchors=claims.anchors,
            closed=facts.closes,
        )
        payload = epoch.payload()
        envelope = dsse.sign(payload, dsse.INTOTO, signer).encode()
        place = checkpoint.origin(org, self.store, self.run, self.attempt)
        note = checkpoint.make(place, tree.size, tree.root(), signer)
        return Sealed(epoch, envelope, note, hashlib.sha256(payload).hexdigest(), after)

    def accept(self, sealed: Sealed) -> None:
        """Move on: what ``sealed`` covers is signed now, and its bundle is durable."""
        taken = sealed.epoch.size - self.size
        self.tree, self._chains, self._policy = sealed.after.tree, sealed.after.chains, sealed.after.policy
        self._pending_bytes -= sum(map(len, self._pending[:taken])) + taken
        del self._pending[:taken], self._ranks[:taken], self._steps[:taken]
        self._notable = [index for index in self._notable if index >= self.size]
        self.number, self.prev, self.closed = sealed.epoch.number + 1, sealed.payload_sha256, sealed.epoch.closed

    def skip(self, envelope: bytes) -> None:
        """Move on over a bundle that is there already, after checking that it fits the records.

        Raises:
            TrustError: It does not.
        """
        opened = dsse.parse(envelope)
        epoch = statement.parse(opened.payload)
        where = f"{self.run}: attempt {self.attempt}: bundle {epoch.number}"
        if (epoch.run, epoch.attempt, epoch.store) != (self.run, self.attempt, self.store):
            raise TrustError(f"{where}: belongs to another run or store", code="wrong-run")
        if (epoch.number, epoch.prev, epoch.first) != (self.number, self.prev, self.size):
            raise TrustError(f"{where}: does not follow from the bundle before it", code="chain-broken")
        if epoch.size - self.size > self.pending:
            raise TrustError(f"{where}: covers records that are not there", code="rows-missing")
        taken = epoch.size - self.size
        after = self._advanced(taken, self._facts(taken))
        if after.tree.root().hex() != epoch.root:
            raise TrustError(f"{where}: the records are not those that were signed", code="root-mismatch")
        self.accept(Sealed(epoch, envelope, b"", hashlib.sha256(opened.payload).hexdigest(), after))

    def _take(self, limits: Limits) -> int:
        if self._pending_bytes <= limits.size_bytes:
            return min(len(self._pending), limits.records)
        size = taken = 0
        for line in self._pending[: limits.records]:
            size += len(line) + 1
            if size > limits.size_bytes and taken:
                break
            taken += 1
        return taken

    def _advanced(self, taken: int, facts: _Facts) -> After:
        tree, chains = self.tree.copy(), dict(self._chains)
        leaves = merkle.leaf_hashes(self._pending[:taken])
        tree.extend(leaves)
        own: dict[int, list[bytes]] = {}
        for leaf, rank in zip(leaves, self._ranks):
            if rank is not None:
                own.setdefault(rank, []).append(leaf)
        for rank, added in own.items():
            count, head = self._chain_of(rank)
            chains[rank] = (count + len(added), rank_heads.extend_all(head, added))
        return After(tree, chains, facts.policy or self._policy)

    def _facts(self, taken: int) -> _Facts:
        """Return what the next records say together; only those that say something of an epoch are parsed."""
        found = _Facts()
        steps = [step for step in self._steps[:taken] if step is not None]
        found.steps = (min(steps), max(steps)) if steps else None
        for index in self._notable:
            if index < self.size + taken:
                found.read(self._pending[index - self.size])
        for line in self._pending[:taken]:
            if line.startswith(OPENING):
                found.modes.line(line)
        return found

    def _heads(self, chains: dict[int, tuple[int, bytes]]) -> tuple[tuple[RankHead, ...], str | None]:
        heads = tuple(self._head(rank, count, head.hex()) for rank, (count, head) in sorted(chains.items()))
        return (heads, None) if len(heads) <= MAX_RANKS_INSIDE else ((), statement.ranks_digest(heads))

    def _head(self, rank: int, count: int, head: str) -> RankHead:
        """Return where a rank's chain is, with the rank's signature if it signed just that."""
        signed = self._signed_heads.get((rank, count))
        return signed if signed is not None and signed.head == head else RankHead(rank, count, head)


@dataclass(slots=True)
class _Facts:
    """What the records of one epoch say together."""

    steps: tuple[int, int] | None = None
    policy: statement.Policy | None = None
    modes: WeakestMode = field(default_factory=WeakestMode)
    closes: bool = False

    def read(self, line: bytes) -> None:
        """Take note of a record."""
        said: dict[str, Any] = orjson.loads(line)
        if said["kind"] == POLICY:
            self.policy = statement.Policy(hashlib.sha256(line).hexdigest(), said["mode"], said["reason"])
            self.modes.state(said["mode"], said["reason"])
        elif said["kind"] == INGEST:
            self.modes.state(said["policy"]["mode"], said["policy"]["reason"])
        elif said["kind"] == RUN_CLOSE:
            self.closes = True


def load(log: EvidenceLog, heads: Iterable[RankHead] = ()) -> Ledger:
    """Return how far a run is signed; every bundle is compared with the records it covers.

    Raises:
        TrustError: A bundle does not fit its records, or is none: nothing must be signed on top of it.
    """
    ledger = Ledger(log.run, log.attempt, log.store)
    ledger.add_heads(heads)
    found = log.records()
    for bundle in log.bundles():
        size = statement.parse(dsse.parse(bundle.envelope).payload).size
        try:
            ledger.add(record.line for record in islice(found, max(0, size - ledger.total)))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            said = f"{log.run}: attempt {log.attempt}: what {bundle.where} covers is no record"
            raise TrustError(said, code="payload-noncanonical") from error
        ledger.skip(bundle.envelope)
    ledger.add(_waiting(ledger, found))
    return ledger


def _waiting(ledger: Ledger, found: Iterable[RecordAt]) -> Iterator[bytes]:
    """Yield the lines that nobody has signed, each once it is known to be a record of this run.

    One that is missing among them stays missing: a verification names the gap, and what is left gets its signature.
    """
    quick, quick_action = quick_reader(ledger.run, ledger.attempt), quick_action_reader(ledger.run, ledger.attempt)
    for record in found:
        place = f"{ledger.run}: attempt {ledger.attempt}: {record.where}"
        if quick(record.line) is None and quick_action(record.line) is None:
            said = records.parse(record.line)
            if (said["run"], said["attempt"]) != (ledger.run, ledger.attempt):
                raise TrustError(f"{place}: is a record of another run", code="wrong-run")
            if said["kind"] == INGEST and said["batch"] in ledger.batches:
                raise TrustError(f"{place}: batch {said['batch']} has a record already", code="seq-gap-or-dup")
        yield record.line


def event_numbers(line: bytes) -> list[int]:
    """Return the numbers of the journal events that a record of a recovery tells."""
    said: dict[str, Any] = orjson.loads(line)
    return [int(str(row["v"]).removeprefix("i64:")) for row in said.get("details", ()) if row["n"] == "jseq"]
