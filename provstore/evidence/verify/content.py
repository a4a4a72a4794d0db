"""What records mean for a verification: numbers, rank chains, policy, keys, shared digests, the end of the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from provstore.errors import TrustError
from provstore.evidence import keys, rank_heads, records
from provstore.evidence.actions import OPENING
from provstore.evidence.recorded_modes import WeakestMode
from provstore.evidence.statement import NO_POLICY, Policy
from provstore.evidence.verify.actions import Modes, quick_action_reader
from provstore.evidence.verify.blobs import Namings
from provstore.evidence.verify.clock import WallClock
from provstore.evidence.verify.digests import Digests
from provstore.evidence.verify.findings import KEY, TREE, Notes
from provstore.evidence.verify.records import Fields, fields, guess, quick_digest_reader, quick_reader
from provstore.model.evidence import (
    ACTION,
    DIGEST,
    EPOCH_BUNDLE,
    EPOCH_LINK,
    INGEST,
    KEY_ROTATION,
    POLICY,
    RANK_CERTIFICATE,
    RUN_CLOSE,
    RecordAt,
)

MOST_CERTIFICATES = 64
"""Keys of one rank that are looked at."""


@dataclass(slots=True)
class RankChain:
    """One rank's records so far; the collector's have no head."""

    head: bytes
    count: int = 0
    next_n: int = 0
    at_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Certificate:
    """A rank's key, as a record names it."""

    rank: int
    keyid: str
    public: bytes
    seq: int


@dataclass(slots=True)
class Content:
    """Takes every record of a run in its order.

    Args:
        notes: Where findings go.
        clock: Judges the times that records claim.
        epoch_of: Number of the epoch that signs a record, if one does.
    """

    notes: Notes
    clock: WallClock
    epoch_of: Callable[[int], int | None]
    ranks: dict[int | None, RankChain] = field(default_factory=dict)
    certificates: dict[int, list[Certificate]] = field(default_factory=dict)
    rotations: list[tuple[int, str, str]] = field(default_factory=list)
    """Index, old key and where, of every announced rotation."""
    digests: Digests = field(default_factory=Digests)
    namings: Namings = field(default_factory=Namings)
    """The blobs that records name."""
    policy: Policy = NO_POLICY
    """Of the latest policy record."""
    modes: dict[tuple[int, int], WeakestMode] = field(default_factory=dict)
    """Epoch whose records are being read → the weakest mode of them so far."""
    closed_at: int | None = None
    """Index of the first record that closes the run."""
    last_closes: bool = False
    """The newest record closes the run."""
    _quick: Callable[[bytes], Fields | None] = field(init=False)
    _quick_digest: Callable[[bytes], dict[str, Any] | None] = field(init=False)
    _quick_action: Callable[[bytes], tuple[Fields, Modes] | None] = field(init=False)
    _expected: int = 0
    _follows_close: int = 0
    _has_skipped: bool = False
    _resumed: set[int | None] = field(default_factory=set)
    """Ranks that were seen since records were skipped."""

    def __post_init__(self) -> None:
        """Prepare the reader of plain records."""
        self._quick = quick_reader(self.notes.run, self.notes.attempt)
        self._quick_digest = quick_digest_reader(self.notes.run, self.notes.attempt)
        self._quick_action = quick_action_reader(self.notes.run, self.notes.attempt)

    def take(self, chunk: Sequence[RecordAt], leaves: Sequence[bytes], first: int) -> None:
        """Take records and their leaf hashes; ``first`` is the index of the first in the order of the place."""
        quick, ranks, expected = self._quick, self.ranks, self._expected
        for seq, (record, leaf) in enumerate(zip(chunk, leaves), first):
            if record.index != expected and record.index is not None:
                self._misnumbered(record, expected, seq)
                expected = record.index
            expected += 1
            rank, n, at_ns = quick(record.line) or self._slow(record, seq)
            if n is None:
                continue
            chain = ranks.get(rank)
            if chain is None:
                head = b"" if rank is None else rank_heads.start(self.notes.run, rank)
                chain = ranks[rank] = RankChain(head)
            if n != chain.next_n:
                self._miscounted(rank, n, chain.next_n, record, seq)
            chain.next_n = n + 1
            chain.count += 1
            if rank is not None:
                # As rank_heads.extend: a call a record would cost a tenth of all.
                chain.head = sha256(chain.head + leaf).digest()
            if at_ns is not None:
                before = chain.at_ns
                # Only an odd step is worth a call; the clock decides.
                if before is not None and not 0 <= at_ns - before < 1_000_000_000_000_000:
                    self.clock.record(rank, before, at_ns, seq, self.epoch_of(seq), record.where)
                chain.at_ns = at_ns
        self._expected = expected
        self._end(chunk, first)

    def skip(self, count: int) -> None:
        """Go on behind records that are lost: how many of them each rank had, nobody can say."""
        self._expected += count
        self._has_skipped = True
        self._resumed.clear()

    def heads(self) -> list[tuple[int, int, str]]:
        """Return rank, count and head of every rank, in the order of ranks."""
        known = ((rank, chain) for rank, chain in self.ranks.items() if rank is not None)
        return sorted((rank, chain.count, chain.head.hex()) for rank, chain in known)

    def finish(self) -> None:
        """Note what only the last record shows."""
        if self._follows_close and self.closed_at is not None:
            self.notes.add(
                "after-close",
                f"records follow the one that closed the run, {self._follows_close} in number.",
                epoch=self.epoch_of(self.closed_at + 1),
                seq=self.closed_at + 1,
            )
        if self.digests.is_full:
            self.notes.add(
                "cap-exceeded", "more shared digests wait for a rank than are compared at once.", axis="chain"
            )  # fmt: skip
        if self.namings.is_full:
            self.notes.add("cap-exceeded", "more blobs are named than are looked at.", axis="journal")

    def _end(self, chunk: Sequence[RecordAt], first: int) -> None:
        if self.closed_at is not None and chunk:
            last = first + len(chunk) - 1
            self.last_closes = self.closed_at == last
            self._follows_close = last - self.closed_at

    def _slow(self, record: RecordAt, seq: int) -> Fields:
        if record.line.startswith(OPENING):
            action = self._quick_action(record.line)
            if action is not None:
                for epoch in self.modes.values():
                    epoch.action(*action[1])
                return action[0]
        elif (digest := self._quick_digest(record.line)) is not None:
            self.digests.take(digest, seq)
            return fields(digest)
        try:
            said = records.parse(record.line)
        except TrustError as error:
            self.notes.add(
                error.code, f"{error}.", epoch=self.epoch_of(seq), seq=seq, where=record.where, axis=TREE
            )  # fmt: skip
            return guess(record.line)
        if (said["run"], said["attempt"]) != (self.notes.run, self.notes.attempt):
            self.notes.add(
                "wrong-run",
                f"the record is about run {said['run']}, attempt {said['attempt']}.",
                epoch=self.epoch_of(seq),
                seq=seq,
                where=record.where,
            )
        self._special(said, record, seq)
        return fields(said)

    def _special(self, said: dict[str, Any], record: RecordAt, seq: int) -> None:
        kind = said["kind"]
        if kind == INGEST:
            self._state_mode(said["policy"]["mode"], said["policy"]["reason"])
        elif kind == POLICY:
            self.policy = Policy(sha256(record.line).hexdigest(), said["mode"], said["reason"])
            self._state_mode(said["mode"], said["reason"])
        elif kind == ACTION:
            training = said["training"]
            for epoch in self.modes.values():
                epoch.action(said["recording_mode"], training["policy_mode"], training["policy_reason"])
        elif kind == DIGEST:
            self.digests.take(said, seq)
        elif kind in {EPOCH_BUNDLE, EPOCH_LINK}:
            self.namings.take(said, seq, self.epoch_of(seq), record.where)
        elif kind == RANK_CERTIFICATE:
            self._certificate(said, record, seq)
        elif kind == KEY_ROTATION:
            self._rotation(said, record, seq)
        elif kind == RUN_CLOSE:
            self._close(said, record, seq)

    def _misnumbered(self, record: RecordAt, expected: int, seq: int) -> None:
        text = f"the place numbers it {record.index}, and {expected} should come here: a gap, a repetition or a move."
        self.notes.add("seq-gap-or-dup", text, epoch=self.epoch_of(seq), seq=seq, where=record.where)

    def _miscounted(self, rank: int | None, n: int, expected: int, record: RecordAt, seq: int) -> None:
        if self._has_skipped and rank not in self._resumed and n > expected:
            self._resumed.add(rank)
            return
        whose = "the collector" if rank is None else f"rank {rank}"
        text = f"it is number {n} of {whose}, and {expected} should come here: a gap, a repetition or a move."
        self.notes.add("seq-gap-or-dup", text, epoch=self.epoch_of(seq), seq=seq, where=record.where, rank=rank)

    def _state_mode(self, mode: str, reason: str) -> None:
        for epoch in self.modes.values():
            epoch.state(mode, reason)

    def _certificate(self, said: dict[str, Any], record: RecordAt, seq: int) -> None:
        public, rank = bytes.fromhex(said["public"]), said["certified"]
        if not self._names_its_key(public, said["keyid"], record, seq, rank):
            return
        held = self.certificates.setdefault(rank, [])
        if len(held) < MOST_CERTIFICATES:
            held.append(Certificate(rank, said["keyid"], public, seq))
        else:
            text = f"rank {rank} has more than {MOST_CERTIFICATES} keys."
            self.notes.add("cap-exceeded", text, epoch=self.epoch_of(seq), seq=seq, rank=rank, axis=KEY)

    def _rotation(self, said: dict[str, Any], record: RecordAt, seq: int) -> None:
        if self._names_its_key(bytes.fromhex(said["public"]), said["new"], record, seq, None):
            self.rotations.append((seq, said["old"], record.where))

    def _names_its_key(self, public: bytes, keyid: str, record: RecordAt, seq: int, rank: int | None) -> bool:
        try:
            keys.require_public(public, record.where or "record")
            code, text = "keyid-mismatch", f"the record names key {keyid}, and its key is {keys.fingerprint(public)}."
        except TrustError as error:
            code, text = error.code, f"{error}."
        if code == "keyid-mismatch" and keys.fingerprint(public) == keyid:
            return True
        self.notes.add(code, text, epoch=self.epoch_of(seq), seq=seq, where=record.where, rank=rank, keyid=keyid)
        return False

    def _close(self, said: dict[str, Any], record: RecordAt, seq: int) -> None:
        if self.closed_at is None:
            self.closed_at = seq
        if said["records"] != seq:
            self.notes.add(
                "close-mismatch",
                f"the record that closes the run counts {said['records']} records before it, and there are {seq}.",
                epoch=self.epoch_of(seq),
                seq=seq,
                where=record.where,
            )
