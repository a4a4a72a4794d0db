"""The first pass: every bundle in the order of the place, its signature, its words, and whether it follows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from provstore.errors import InputError, ProvstoreError, TrustError
from provstore.evidence import checkpoint as checkpoints
from provstore.evidence import statement
from provstore.evidence.moments import nanoseconds
from provstore.evidence.trust.keys import TrustedKey
from provstore.evidence.verify.clock import WallClock
from provstore.evidence.verify.findings import CHAIN, CLOCK, CLOSING, ENVELOPE, KEY, SIGNATURE, Notes
from provstore.evidence.verify.signatures import Opener
from provstore.model.evidence import BundleAt, EvidenceLog
from provstore.model.lost import DAMAGED

NOTHING = "0" * 64
"""``prev`` of the first bundle."""


@dataclass(frozen=True, slots=True)
class Signed:
    """What one bundle with a good signature says, without what is large."""

    position: int
    where: str
    payload_sha256: str
    number: int
    first: int
    size: int
    root: bytes
    subject: str
    policy: statement.Policy
    closed: bool
    is_foreign: bool
    """Signed for another run, attempt or store."""
    key: TrustedKey
    quoted_ns: int | None
    """Latest time of an anchor that it quotes: the signature is younger, says the one who signed."""
    heads: bytes
    """Digest of rank, count and head of every rank; see :func:`heads_digest`."""
    heads_inside: int
    heads_sha256: str | None
    """Digest of the list, where it is too long for the bundle."""
    has_rank_signatures: bool


@dataclass(slots=True)
class Chain:
    """The bundles of one attempt, and where their chain stands."""

    held: int = 0
    """Bundles in the place, whatever they are."""
    number: int = 0
    """Of the epoch that should come next."""
    size: int | None = 0
    """Records signed so far; ``None`` behind a bundle of a schema that is not known here."""
    prev: str = NOTHING
    closed: bool = False
    signed_size: int = 0
    unread: int = 0
    """Bundles that did not open since the last one that did."""
    cause: str | None = None
    """Why the last bundle did not open."""
    is_behind_loss: bool = False
    """Since the last bundle that opened, damage may have taken others away."""
    is_whole: bool = True
    """False when reading stopped before the end."""
    newest: tuple[int, bytes, bytes] | None = None
    """Size, root and text of the last checkpoint that holds."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the bundles of one attempt must be about."""

    run: str
    attempt: int
    store: str
    org: str

    def is_foreign(self, epoch: statement.Epoch) -> bool:
        """Return whether a bundle is about something else; a place that states no store id takes any."""
        other_store = bool(self.store) and epoch.store != self.store
        return (epoch.run, epoch.attempt) != (self.run, self.attempt) or other_store

    def origin(self, store: str) -> str:
        """Return the origin of the checkpoints."""
        return checkpoints.origin(self.org, store, self.run, self.attempt)


class BundleWalk:
    """Reads the bundles of a place once.

    Args:
        log: The place.
        expected: What they must be about.
        opener: Knows whom to trust.
        notes: Where findings go.
        clock: Judges the times that bundles claim.
        lost: Positions before which damage may have taken bundles away.
    """

    def __init__(
        self,
        log: EvidenceLog,
        expected: Expected,
        opener: Opener,
        notes: Notes,
        clock: WallClock,
        lost: frozenset[int] = frozenset(),
    ) -> None:
        self._lost = lost
        self.chain = Chain()
        self.store = expected.store
        self._log, self._expected, self._opener, self._notes, self._clock = log, expected, opener, notes, clock

    def signed(self) -> Iterator[Signed]:
        """Yield what every bundle with a good signature says."""
        try:
            for bundle in self._log.bundles():
                said = self._read(bundle, self.chain.held)
                self.chain.held += 1
                if said is not None:
                    yield said
        except (ProvstoreError, OSError) as error:
            self.chain.is_whole = False
            self._notes.add("check-unfinished", f"reading its bundles stopped: {error}", axis=ENVELOPE)

    def _read(self, bundle: BundleAt, position: int) -> Signed | None:
        self._notes.checked(ENVELOPE, SIGNATURE, KEY)
        self.chain.is_behind_loss = self.chain.is_behind_loss or position in self._lost
        opened = self._opener.open(bundle, self.chain.number + self.chain.unread)
        if isinstance(opened, str):
            self._unread(opened)
            return None
        digest = hashlib.sha256(opened.payload).hexdigest()
        try:
            epoch = statement.parse(opened.payload)
        except TrustError as error:
            self._unparsed(error, bundle.where, digest, opened.key.keyid)
            return None
        self._notes.checked(CHAIN, CLOSING, CLOCK)
        is_foreign = self._is_foreign(epoch, bundle.where, opened.key.keyid)
        self._follow(epoch, bundle.where, opened.key.keyid)
        if not is_foreign:
            self._checkpoint(bundle, epoch, opened.key)
            self._clock.bundle(epoch.number, epoch.wall, bundle.where)
            self._move(epoch, digest)
        return _signed(position, bundle.where, digest, epoch, opened.key, is_foreign=is_foreign)

    def _unread(self, code: str) -> None:
        self.chain.unread += 1
        self.chain.cause = code

    def _unparsed(self, error: TrustError, where: str, digest: str, keyid: str) -> None:
        expected = self.chain.number + self.chain.unread
        self._notes.add(error.code, f"{error}.", epoch=expected, where=where, keyid=keyid)
        if error.code != "unknown-schema":
            self._unread(error.code)
            return
        # A trusted key signed it, so it has its place in the chain, although nobody here can say what it covers.
        self.chain.number, self.chain.unread, self.chain.cause = expected + 1, 0, error.code
        self.chain.prev, self.chain.size = digest, None

    def _is_foreign(self, epoch: statement.Epoch, where: str, keyid: str) -> bool:
        if self._expected.is_foreign(epoch):
            self._notes.add(
                "wrong-run",
                f"its bundle was signed for run {epoch.run}, attempt {epoch.attempt}, store {epoch.store}.",
                epoch=epoch.number,
                where=where,
                keyid=keyid,
            )
            return True
        if not self.store:
            # A place that states no id, such as exported files: all its bundles must still be of one store.
            self.store = epoch.store
            self._expected = Expected(epoch.run, epoch.attempt, epoch.store, self._expected.org)
        return False

    def _follow(self, epoch: statement.Epoch, where: str, keyid: str) -> None:
        chain = self.chain
        faults = []
        if epoch.prev != chain.prev:
            faults.append(
                ("chain-broken", "its bundle does not follow from the bundle before it: another one was signed there.")
            )
        if epoch.number != chain.number:
            faults.append(("epoch-order", f"it stands where epoch {chain.number} should."))
        if chain.size is not None and epoch.first != chain.size:
            faults.append(
                ("range-gap", f"its bundle begins at record {epoch.first}, and the one before ended at {chain.size}.")
            )
        # Whatever was lost, the numbers move on: a bundle that stands in an earlier place was put there.
        is_loss = chain.is_behind_loss and epoch.number > chain.number and epoch.first >= (chain.size or 0)
        cause = chain.cause or (DAMAGED if is_loss else None)
        for code, text in faults:
            self._notes.add(code, text, epoch=epoch.number, seq=epoch.first, where=where, keyid=keyid, cause=cause)
        if chain.closed:
            self._notes.add(
                "after-close", "a bundle follows the one that closed the run.",
                epoch=epoch.number, seq=epoch.first, where=where, keyid=keyid,
            )  # fmt: skip

    def _move(self, epoch: statement.Epoch, digest: str) -> None:
        chain = self.chain
        chain.number, chain.size, chain.prev = epoch.number + 1, epoch.size, digest
        chain.signed_size = epoch.size
        chain.closed = chain.closed or epoch.closed
        chain.unread, chain.cause, chain.is_behind_loss = 0, None, False

    def _checkpoint(self, bundle: BundleAt, epoch: statement.Epoch, key: TrustedKey) -> None:
        where = f"{bundle.where} checkpoint"
        self.chain.newest = None
        if bundle.checkpoint is None:
            self._notes.add(
                "anchor-partial", "its bundle has no checkpoint, so nobody can hold it as an anchor.",
                epoch=epoch.number, where=where,
            )  # fmt: skip
            return
        try:
            point = checkpoints.parse(bundle.checkpoint)
        except TrustError as error:
            self._notes.add(error.code, f"{error}.", epoch=epoch.number, where=where)
            return
        fault = self._checkpoint_fault(point, epoch, key)
        if fault is None:
            self.chain.newest = (point.size, point.root, bundle.checkpoint)
        else:
            self._notes.add(fault[0], fault[1], epoch=epoch.number, where=where, keyid=key.keyid)

    def _checkpoint_fault(
        self, point: checkpoints.Checkpoint, epoch: statement.Epoch, key: TrustedKey
    ) -> tuple[str, str] | None:
        if not self._opener.is_signed(point, key):
            return "bad-signature", "the signature of its checkpoint is not that of a trusted key."
        if point.origin != (expected := self._expected.origin(epoch.store)):
            return "wrong-run", f"its checkpoint is about {point.origin}, expected {expected}."
        if (point.size, point.root.hex()) != (epoch.size, epoch.root):
            return "root-mismatch", f"its checkpoint states another tree, of {point.size} records, than its bundle."
        return None


def heads_digest(heads: Iterable[tuple[int, int, str]]) -> bytes:
    """Return a digest of rank, count and head of every rank, whoever signed them."""
    return hashlib.sha256("".join(f"{rank} {count} {head}\n" for rank, count, head in heads).encode()).digest()


def _signed(
    position: int, where: str, digest: str, epoch: statement.Epoch, key: TrustedKey, *, is_foreign: bool
) -> Signed:
    return Signed(
        position=position,
        where=where,
        payload_sha256=digest,
        number=epoch.number,
        first=epoch.first,
        size=epoch.size,
        root=bytes.fromhex(epoch.root),
        subject=epoch.subject_sha256,
        policy=epoch.policy,
        closed=epoch.closed,
        is_foreign=is_foreign,
        key=key,
        quoted_ns=max((_seen_ns(one.seen) for one in epoch.anchors), default=None),
        heads=heads_digest((one.rank, one.count, one.head) for one in epoch.ranks),
        heads_inside=len(epoch.ranks),
        heads_sha256=epoch.ranks_sha256,
        has_rank_signatures=any(one.sig is not None for one in epoch.ranks),
    )


def _seen_ns(text: str | None) -> int:
    try:
        return nanoseconds(text or "")
    except InputError:
        return 0
