"""Statements: what a bundle signs about one evidence epoch, an in-toto Statement in canonical JSON.

Source: in-toto Attestation Framework, Statement v1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Any

from provstore.errors import ConfigError, InputError, NotUnderstoodError, TrustError
from provstore.evidence.dsse import MAX_PAYLOAD_BYTES
from provstore.model import canonical
from provstore.model.evidence import MODES, RankHead

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_EPOCH = "https://w3id.org/provstore/predicate/epoch/v1"
SCHEMA = 1
"""Version of the predicate's shape; stands in each."""
NO_DIGEST = "0" * 64
"""What stands where there is no previous payload, or no policy record."""
MAX_LISTED_RANKS = 2_000
"""Above it, the heads of ranks stand in the predicate as one digest."""

_HEX = re.compile(r"[0-9a-f]{64}")
_WALL = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]{1,9})?Z"
)
_STATEMENT = {"_type", "predicate", "predicateType", "subject"}
_PREDICATE = {
    "schema", "run", "attempt", "store", "epoch", "trainEpoch", "steps", "world", "first", "size", "root", "prev",
    "perRank", "perRankSha256", "policy", "clock", "anchors", "closed",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Policy:
    """The recording policy of an epoch."""

    digest: str
    """SHA-256 of the latest policy record; :data:`NO_DIGEST` without one."""
    mode: str
    """The weakest that is stated."""
    reason: str


NO_POLICY = Policy(NO_DIGEST, MODES[0], "no recording policy is stated")
"""Until a record states one."""


def effective(stated: Policy, weakest: tuple[str, str] | None) -> Policy:
    """Return the policy of an epoch: the weakest mode that its records state, else that of the latest policy record.

    Args:
        stated: Of the latest policy record, in this epoch or before.
        weakest: (mode, reason) of the first record of the epoch that states the weakest mode; ``None`` when none does.
    """
    if weakest is None or (weakest[0] == stated.mode and stated.digest != NO_DIGEST):
        return stated
    return Policy(stated.digest, *weakest)


@dataclass(frozen=True, slots=True)
class AnchorClaim:
    """An anchor that the writer saw: the epoch is younger than it."""

    origin: str
    size: int
    root: str
    seen: str | None


@dataclass(frozen=True, slots=True)
class Epoch:
    """What is signed about one evidence epoch."""

    run: str
    attempt: int
    store: str
    number: int
    first: int
    """Index in the run tree of its first record."""
    size: int
    """Size of the run tree after its last record."""
    root: str
    """64 hex digits: root of the run tree at that size."""
    prev: str
    """SHA-256 of the previous payload; :data:`NO_DIGEST` for the first."""
    subject_sha256: str
    """SHA-256 of the epoch file: its record lines, each ended by a line end."""
    train_epoch: int | None
    steps: tuple[int, int] | None
    """First and last training step."""
    world: int | None
    ranks: tuple[RankHead, ...]
    """In the order of their numbers; empty above :data:`MAX_LISTED_RANKS`."""
    ranks_sha256: str | None
    """Digest of the heads that are not listed."""
    policy: Policy
    wall: str
    """What the writer's clock said, ISO 8601 in UTC."""
    mono_ns: int
    clock_source: str
    anchors: tuple[AnchorClaim, ...]
    closed: bool
    """Nothing follows."""

    @property
    def subject_name(self) -> str:
        """What the statement is about."""
        return f"{self.run}/{self.attempt}/epoch-{self.number}"

    def payload(self) -> bytes:
        """Return the canonical statement, exactly what is signed.

        Raises:
            ConfigError: The values do not fit together; nobody would read the statement.
        """
        data = canonical.encode(_statement(self))
        try:
            parse(data)
        except TrustError as error:
            raise ConfigError(str(error)) from error
        return data


def parse(payload: bytes) -> Epoch:
    """Return what a signed payload says; its signature has been checked before.

    Raises:
        TrustError: ``payload-noncanonical``, ``unknown-schema``, ``envelope-malformed`` (members, types, ranges) or
            ``cap-exceeded``.
    """
    try:
        value = canonical.parse(payload, max_bytes=MAX_PAYLOAD_BYTES, thing="statement")
    except NotUnderstoodError as error:
        raise TrustError(str(error), code="cap-exceeded") from error
    except InputError as error:
        raise TrustError(str(error), code="payload-noncanonical") from error
    _require_known(value)
    statement = _members(value, _STATEMENT, "statement")
    said = _members(statement["predicate"], _PREDICATE, "predicate")
    epoch = _epoch(said, _subject(statement["subject"]))
    if statement["subject"][0]["name"] != epoch.subject_name:
        raise _malformed("subject: is not named after run, attempt and epoch of the predicate")
    return epoch


def epoch_digest(lines: Sequence[bytes]) -> str:
    """Return the SHA-256 of an epoch file: record lines, each ended by a line end."""
    found = sha256()
    # Short joins stay in the processor's cache; one over a whole epoch costs twice the time.
    for start in range(0, len(lines), 512):
        found.update(b"\n".join(lines[start : start + 512]))
        found.update(b"\n")
    return found.hexdigest()


def listed(heads: Sequence[RankHead]) -> tuple[tuple[RankHead, ...], str | None]:
    """Return the heads as a predicate carries them: the list, or above the limit none and the digest of the list."""
    ordered = tuple(sorted(heads, key=lambda head: head.rank))
    return (ordered, None) if len(ordered) <= MAX_LISTED_RANKS else ((), ranks_digest(ordered))


def ranks_digest(heads: Sequence[RankHead]) -> str:
    """Return the SHA-256 of the canonical list of heads, in the order of their ranks, whoever signed them.

    A verifier makes the list anew from the records, and signatures cannot be made anew.
    """
    plain = [RankHead(head.rank, head.count, head.head) for head in heads]
    return sha256(canonical.encode([_head_json(head) for head in plain])).hexdigest()


def _head_json(head: RankHead) -> canonical.Json:
    return {"count": head.count, "head": head.head, "keyid": head.keyid, "rank": head.rank, "sig": head.sig}


def _statement(epoch: Epoch) -> dict[str, canonical.Json]:
    predicate: dict[str, canonical.Json] = {
        "schema": SCHEMA,
        "run": epoch.run,
        "attempt": epoch.attempt,
        "store": epoch.store,
        "epoch": epoch.number,
        "trainEpoch": epoch.train_epoch,
        "steps": None if epoch.steps is None else list(epoch.steps),
        "world": epoch.world,
        "first": epoch.first,
        "size": epoch.size,
        "root": epoch.root,
        "prev": epoch.prev,
        "perRank": [_head_json(head) for head in epoch.ranks],
        "perRankSha256": epoch.ranks_sha256,
        "policy": {"digest": epoch.policy.digest, "mode": epoch.policy.mode, "reason": epoch.policy.reason},
        "clock": {"wall": epoch.wall, "mono": canonical.tag_integer(epoch.mono_ns), "source": epoch.clock_source},
        "anchors": [
            {"origin": one.origin, "root": one.root, "seen": one.seen, "size": one.size} for one in epoch.anchors
        ],
        "closed": epoch.closed,
    }
    return {
        "_type": STATEMENT_TYPE,
        "predicateType": PREDICATE_EPOCH,
        "subject": [{"name": epoch.subject_name, "digest": {"sha256": epoch.subject_sha256}}],
        "predicate": predicate,
    }


def _require_known(value: object) -> None:
    """Check type and version first: what another version means by its members is not known here."""
    found = value if isinstance(value, dict) else {}
    predicate = found.get("predicate")
    schema = predicate.get("schema") if isinstance(predicate, dict) else None
    for place, said, known in (
        ("_type", found.get("_type"), STATEMENT_TYPE),
        ("predicateType", found.get("predicateType"), PREDICATE_EPOCH),
        ("schema", schema, SCHEMA),
    ):
        if type(said) is not type(known):
            raise _malformed(f"{place}: is missing, or of another type")
        if said != known:
            raise TrustError(f"statement: {place}: {str(said)[:80]!a} is not known here", code="unknown-schema")


def _epoch(said: dict[str, Any], subject_sha256: str) -> Epoch:
    policy = _members(said["policy"], {"digest", "mode", "reason"}, "policy")
    clock = _members(said["clock"], {"wall", "mono", "source"}, "clock")
    if policy["mode"] not in MODES:
        raise _malformed(f"policy: mode: is not one of {', '.join(MODES)}")
    if not _WALL.fullmatch(_text(clock["wall"], "wall")):
        raise _malformed("clock: wall: is no time in UTC")
    if not isinstance(said["closed"], bool):
        raise _malformed("closed: is neither true nor false")
    first, size = _count(said["first"], "first"), _count(said["size"], "size")
    if size <= first:
        raise _malformed(f"size: {size} is not above first, {first}")
    return Epoch(
        run=_text(said["run"], "run"),
        attempt=_count(said["attempt"], "attempt"),
        store=_text(said["store"], "store"),
        number=_count(said["epoch"], "epoch"),
        first=first,
        size=size,
        root=_hex(said["root"], "root"),
        prev=_hex(said["prev"], "prev"),
        subject_sha256=subject_sha256,
        train_epoch=_count_or_none(said["trainEpoch"], "trainEpoch"),
        steps=_steps(said["steps"]),
        world=_count_or_none(said["world"], "world"),
        ranks=_ranks(said["perRank"]),
        ranks_sha256=_ranks_digest(said["perRankSha256"], said["perRank"]),
        policy=Policy(_hex(policy["digest"], "policy: digest"), policy["mode"], _text(policy["reason"], "reason")),
        wall=clock["wall"],
        mono_ns=_mono(clock["mono"]),
        clock_source=_text(clock["source"], "clock: source"),
        anchors=tuple(_anchor(one) for one in _list(said["anchors"], "anchors")),
        closed=said["closed"],
    )


def _subject(value: object) -> str:
    subjects = _list(value, "subject")
    if len(subjects) != 1:
        raise _malformed(f"subject: {len(subjects)} are not one")
    subject = _members(subjects[0], {"name", "digest"}, "subject")
    return _hex(_members(subject["digest"], {"sha256"}, "digest")["sha256"], "subject: sha256")


def _ranks(value: object) -> tuple[RankHead, ...]:
    entries = _list(value, "perRank")
    if len(entries) > MAX_LISTED_RANKS:
        raise _malformed(f"perRank: more than {MAX_LISTED_RANKS} ranks are listed")
    heads = tuple(_head(one) for one in entries)
    if any(left.rank >= right.rank for left, right in pairwise(heads)):
        raise _malformed("perRank: ranks are not in order, once each")
    return heads


def _head(value: object) -> RankHead:
    said = _members(value, {"count", "head", "keyid", "rank", "sig"}, "perRank")
    if (said["keyid"] is None) != (said["sig"] is None):
        raise _malformed("perRank: a head has a signature without a key, or a key without a signature")
    keyid = None if said["keyid"] is None else _text(said["keyid"], "perRank: keyid")
    sig = None if said["sig"] is None else _text(said["sig"], "perRank: sig")
    rank, count = _count(said["rank"], "perRank: rank"), _count(said["count"], "perRank: count")
    return RankHead(rank, count, _hex(said["head"], "perRank: head"), keyid, sig)


def _ranks_digest(value: object, listed_ranks: object) -> str | None:
    if value is None:
        return None
    if listed_ranks:
        raise _malformed("perRankSha256: stands beside listed ranks")
    return _hex(value, "perRankSha256")


def _steps(value: object) -> tuple[int, int] | None:
    if value is None:
        return None
    steps = _list(value, "steps")
    if len(steps) != 2:
        raise _malformed("steps: are not two")
    begin, end = (_count(step, "steps") for step in steps)
    if end < begin:
        raise _malformed(f"steps: {end} is before {begin}")
    return begin, end


def _anchor(value: object) -> AnchorClaim:
    said = _members(value, {"origin", "root", "seen", "size"}, "anchors")
    seen = None if said["seen"] is None else _text(said["seen"], "anchors: seen")
    root = _hex(said["root"], "anchors: root")
    return AnchorClaim(_text(said["origin"], "anchors: origin"), _count(said["size"], "anchors: size"), root, seen)


def _malformed(message: str) -> TrustError:
    return TrustError(f"statement: {message}", code="envelope-malformed")


def _members(value: object, members: set[str], place: str) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != members:
        raise _malformed(f"{place}: needs exactly the members {', '.join(sorted(members))}")
    return value


def _list(value: object, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise _malformed(f"{place}: is no list")
    return value


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise _malformed(f"{place}: is no string")
    return value


def _hex(value: object, place: str) -> str:
    if not isinstance(value, str) or not _HEX.fullmatch(value):
        raise _malformed(f"{place}: is not 64 hex digits")
    return value


def _count(value: object, place: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _malformed(f"{place}: is no number from 0")
    return value


def _count_or_none(value: object, place: str) -> int | None:
    return None if value is None else _count(value, place)


def _mono(value: object) -> int:
    try:
        return canonical.tagged_integer(_text(value, "clock: mono"))
    except InputError as error:
        raise _malformed("clock: mono: is no tagged integer") from error
