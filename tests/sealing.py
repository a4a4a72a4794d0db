"""Evidence made by hand: a second way of signing runs, for tests, that shares nothing with the signer of the package.

Roots, rank chains and digests come from the definitions, recursively and slowly. Only the encoding of statements,
envelopes and notes is the package's, which has its own tests.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from provstore.evidence import checkpoint, dsse, statement
from provstore.evidence.anchors import Anchor
from provstore.evidence.keys import PrivateKey
from provstore.evidence.trust.keys import Trust
from provstore.model.evidence import BundleAt, RankHead, RecordAt

RUN, ATTEMPT, STORE, ORG = "run-1", 0, "0123456789abcdef0123456789abcdef", "provstore"
NOTHING = "0" * 64


def root_of(leaves: Sequence[bytes]) -> bytes:
    """RFC 6962, section 2.1, as it is written there."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\x01" + root_of(leaves[:split]) + root_of(leaves[split:])).digest()


def leaf(line: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + line).digest()


def tree(lines: Sequence[bytes]) -> bytes:
    return root_of([leaf(line) for line in lines])


def head_of(run: str, rank: int, lines: Sequence[bytes]) -> bytes:
    """The chain over one rank's records."""
    head = hashlib.sha256(b"provstore-rank-head-v1\x00" + run.encode() + b"\x00" + str(rank).encode()).digest()
    for line in lines:
        head = hashlib.sha256(head + leaf(line)).digest()
    return head


def line(kind: str, n: int, rank: int | None = None, *, run: str = RUN, attempt: int = ATTEMPT, **own: Any) -> bytes:
    """A record in the one spelling: names in order, no blanks."""
    common = {"at": None, "attempt": attempt, "kind": kind, "n": n, "rank": rank, "run": run, "schema": 1}
    return json.dumps(common | own, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def loss(n: int, rank: int | None, value: int, **own: Any) -> bytes:
    """An observation of a rank."""
    values = [{"n": "loss", "t": "i", "v": f"i64:{value}"}]
    return line("observation", n, rank, **({"name": "loss", "step": value, "values": values} | own))


def losses(count: int, ranks: int = 4, **own: Any) -> list[bytes]:
    """Observations of the ranks in turn."""
    return [loss(index // ranks, index % ranks, index, **own) for index in range(count)]


@dataclass
class Log:
    """An EvidenceLog of lists."""

    lines: list[bytes]
    signed: list[BundleAt]
    run: str = RUN
    attempt: int = ATTEMPT
    store: str = STORE
    numbers: list[int | None] | None = None
    """Indices as the place states them; the right ones unless given."""

    def bundles(self) -> Iterator[BundleAt]:
        return iter(self.signed)

    def records(self) -> Iterator[RecordAt]:
        numbers = range(len(self.lines)) if self.numbers is None else self.numbers
        return (RecordAt(n, one, f"line {at}") for at, (n, one) in enumerate(zip(numbers, self.lines, strict=True)))

    def copy(self) -> Log:
        numbers = None if self.numbers is None else list(self.numbers)
        return replace(self, lines=list(self.lines), signed=list(self.signed), numbers=numbers)


@dataclass
class Sealing:
    """Signs epoch after epoch over the lines of one run."""

    key: PrivateKey
    run: str = RUN
    attempt: int = ATTEMPT
    store: str = STORE
    rank_keys: dict[int, PrivateKey] = field(default_factory=dict)
    lines: list[bytes] = field(default_factory=list)
    epochs: list[statement.Epoch] = field(default_factory=list)
    signed: list[BundleAt] = field(default_factory=list)
    wall: str = "2026-03-01T12:00:{:02d}Z"
    anchors: tuple[statement.AnchorClaim, ...] = ()

    def add(self, lines: Sequence[bytes], **changes: Any) -> statement.Epoch:
        """Sign the next epoch; ``changes`` are stated instead of what is true."""
        first = len(self.lines)
        self.lines += lines
        epoch = replace(self._true(first), **changes)
        self.put(epoch)
        return epoch

    def put(self, epoch: statement.Epoch, note: bytes | None = None, key: PrivateKey | None = None) -> None:
        """Sign a statement as it is given."""
        self.epochs.append(epoch)
        self.signed.append(bundle(epoch, key or self.key, note=note))

    def log(self) -> Log:
        return Log(list(self.lines), list(self.signed), self.run, self.attempt, self.store)

    def origin(self) -> str:
        return checkpoint.origin(ORG, self.store, self.run, self.attempt)

    def anchor(self, size: int, seen: str | None = None, source: str = "held") -> Anchor:
        """A checkpoint of the first records, as a verifier keeps it."""
        note = checkpoint.make(self.origin(), size, tree(self.lines[:size]), self.key)
        return Anchor(self.origin(), size, tree(self.lines[:size]), note, seen, source)

    def _true(self, first: int) -> statement.Epoch:
        said = [json.loads(one) for one in self.lines]
        own = said[first:]
        last = self.epochs[-1] if self.epochs else None
        steps = [one["step"] for one in own if isinstance(one.get("step"), int)]
        return statement.Epoch(
            run=self.run,
            attempt=self.attempt,
            store=self.store,
            number=len(self.epochs),
            first=first,
            size=len(self.lines),
            root=tree(self.lines).hex(),
            prev=hashlib.sha256(last.payload()).hexdigest() if last else NOTHING,
            subject_sha256=hashlib.sha256(b"".join(one + b"\n" for one in self.lines[first:])).hexdigest(),
            train_epoch=None,
            steps=(min(steps), max(steps)) if steps else None,
            world=None,
            ranks=self._heads(said),
            ranks_sha256=None,
            policy=_policy(self.lines, said, first),
            wall=self.wall.format(len(self.epochs)),
            mono_ns=0,
            clock_source="time.time_ns",
            anchors=self.anchors,
            closed=bool(own) and own[-1]["kind"] == "run-close",
        )

    def _heads(self, said: Sequence[dict[str, Any]]) -> tuple[RankHead, ...]:
        heads = []
        for rank in sorted({one["rank"] for one in said if one["rank"] is not None}):
            mine = [text for text, one in zip(self.lines, said) if one["rank"] == rank]
            head = head_of(self.run, rank, mine)
            heads.append(rank_head(self, rank, len(mine), head))
        return tuple(heads)


def rank_head(sealing: Sealing, rank: int, count: int, head: bytes) -> RankHead:
    """A rank's head, signed where the rank has a key."""
    from provstore.evidence import rank_heads

    key = sealing.rank_keys.get(rank)
    if key is None:
        return RankHead(rank, count, head.hex())
    return rank_heads.sign(sealing.run, sealing.attempt, rank, count, head, key)


def bundle(epoch: statement.Epoch, key: PrivateKey, *, note: bytes | None = None) -> BundleAt:
    """A bundle as a place holds it."""
    envelope = dsse.sign(epoch.payload(), dsse.INTOTO, key).encode()
    origin = checkpoint.origin(ORG, epoch.store, epoch.run, epoch.attempt)
    made = checkpoint.make(origin, epoch.size, bytes.fromhex(epoch.root), key) if note is None else note
    return BundleAt(envelope, made, f"bundle {epoch.number}")


def signed_again(at: BundleAt, change: Callable[[Any], None], key: PrivateKey) -> BundleAt:
    """A bundle with a changed statement, and a good signature over it."""
    said = json.loads(dsse.parse(at.envelope).payload)
    change(said)
    payload = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return replace(at, envelope=dsse.sign(payload, dsse.INTOTO, key).encode())


def trusting(*keys: PrivateKey) -> Trust:
    return Trust.of_keys([key.public_key for key in keys], "test")


def sealed(sizes: Sequence[int], key: PrivateKey | None = None, **own: Any) -> Sealing:
    """A run with epochs of these sizes, of four ranks."""
    made = Sealing(key or PrivateKey.generate(), **own)
    lines = losses(sum(sizes), run=made.run, attempt=made.attempt)
    for size in sizes:
        made.add(lines[len(made.lines) : len(made.lines) + size])
    return made


def _policy(lines: Sequence[bytes], said: Sequence[dict[str, Any]], first: int) -> statement.Policy:
    stated = statement.Policy(NOTHING, "validation", "no recording policy is stated")
    order = ("validation", "delta", "full")
    weakest: tuple[str, str] | None = None
    for index, (text, one) in enumerate(zip(lines, said)):
        if one["kind"] == "policy":
            stated = statement.Policy(hashlib.sha256(text).hexdigest(), one["mode"], one["reason"])
        states = one["policy"] if one["kind"] == "ingest" else one if one["kind"] == "policy" else None
        if index >= first and states and (weakest is None or order.index(states["mode"]) < order.index(weakest[0])):
            weakest = states["mode"], states["reason"]
    if weakest is None or (weakest[0] == stated.mode and stated.digest != NOTHING):
        return stated
    return statement.Policy(stated.digest, *weakest)
