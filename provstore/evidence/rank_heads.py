"""Rank heads: a hash chain over one rank's own records, which that rank may sign."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from provstore.errors import InputError
from provstore.evidence import dsse, keys
from provstore.model import canonical
from provstore.model.evidence import RankHead

TYPE = "application/vnd.provstore.rank-head+json"
"""DSSE payload type of what a rank signs."""

_START = b"provstore-rank-head-v1"


def start(run: str, rank: int) -> bytes:
    """Return the head of a rank without records."""
    return sha256(b"%b\x00%b\x00%d" % (_START, run.encode(), rank)).digest()


def extend(head: bytes, leaf: bytes) -> bytes:
    """Return the head after one more record, given by its leaf hash."""
    return sha256(head + leaf).digest()


def extend_all(head: bytes, leaves: Iterable[bytes]) -> bytes:
    """Return the head after more records, given by their leaf hashes in order."""
    for leaf in leaves:
        head = sha256(head + leaf).digest()
    return head


def body(run: str, attempt: int, rank: int, count: int, head: bytes) -> bytes:
    """Return what a rank signs: that its first ``count`` records end in ``head``."""
    said: dict[str, canonical.Json] = {
        "attempt": attempt,
        "count": count,
        "head": head.hex(),
        "rank": rank,
        "run": run,
    }
    return canonical.encode(said)


def sign(run: str, attempt: int, rank: int, count: int, head: bytes, signer: keys.Signer) -> RankHead:
    """Return the head with the rank's signature, which was checked before it is given."""
    sig = keys.signed(signer, dsse.pae(TYPE, body(run, attempt, rank, count, head)))
    return RankHead(rank, count, head.hex(), keys.fingerprint(signer.public_key), canonical.text_of(sig))


def is_signed(head: RankHead, run: str, attempt: int, public: bytes) -> bool:
    """Return whether ``public`` signed this head of this run; false for anything malformed or unsigned."""
    if head.sig is None:
        return False
    try:
        sig = canonical.bytes_of(head.sig)
        said = body(run, attempt, head.rank, head.count, bytes.fromhex(head.head))
    except (InputError, ValueError):
        return False
    return keys.is_signed(public, dsse.pae(TYPE, said), sig)
