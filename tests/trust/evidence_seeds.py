"""Evidence for tests: record lines written by hand as the format states them, and their signing inside a journal."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

RUN, ATTEMPT = "run", 0


@functools.cache
def signer() -> Any:
    """Return a private key of this process."""
    from provstore.evidence import keys

    return keys.PrivateKey.generate()


def line(kind: str, n: int, rank: int | None = None, at_ns: int | None = None, **more: Any) -> bytes:
    """Return a record of a kind, in the spelling of canonical JSON."""
    at = None if at_ns is None else f"i64:{at_ns}"
    said = {"at": at, "attempt": ATTEMPT, "kind": kind, "n": n, "rank": rank, "run": RUN, "schema": 1, **more}
    return json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def observation(n: int, rank: int | None = None, text: str = "x", at_ns: int | None = None) -> bytes:
    """Return an observation with one value."""
    value = {"n": "loss", "t": "s", "v": text}
    return line("observation", n, rank, at_ns, name="loss", step=n, values=[value])


def closing(n: int, records: int, batches: int = 0) -> bytes:
    """Return the record that ends a run."""
    return line("run-close", n, reason="finished", records=records, batches=batches)


def seal(journal: Any, clock_ns: Any = None, key: Any = None) -> list[tuple[int, bytes]]:
    """Sign what waits in a journal; return (size, checkpoint) of each bundle that is durable."""
    from provstore.evidence import bundles

    log = journal.evidence(RUN, ATTEMPT)
    ledger = bundles.load(log, log.heads())
    more = {} if clock_ns is None else {"clock_ns": clock_ns}
    done = []
    while ledger.pending:
        sealed = ledger.seal(key or signer(), limits=bundles.Limits(), **more)
        journal.append_bundle(RUN, ATTEMPT, sealed.envelope, sealed.note)
        ledger.accept(sealed)
        done.append((ledger.size, sealed.note))
    return done


def sealed_ledger(lines: Sequence[bytes]) -> Any:
    """Return one signed epoch over these records."""
    from provstore.evidence import bundles

    ledger = bundles.Ledger(RUN, ATTEMPT, "store")
    ledger.add(lines)
    return ledger.seal(signer(), limits=bundles.Limits())


def epoch_envelope() -> bytes:
    """Return a bundle over some records of two ranks."""
    return bytes(sealed_ledger([observation(at // 2, at % 2) for at in range(6)]).envelope)


def signed_note() -> bytes:
    """Return a checkpoint."""
    return bytes(sealed_ledger([observation(at) for at in range(5)]).note)


def proof() -> bytes:
    """Return a proof that a record is in the tree of a checkpoint."""
    from provstore.evidence import checkpoint, merkle

    lines = [observation(at) for at in range(5)]
    leaves = [merkle.leaf_hash(one) for one in lines]
    return checkpoint.tlog_proof(3, merkle.inclusion(leaves, 3, 5), bytes(sealed_ledger(lines).note))


def trust_bytes() -> bytes:
    """Return a trust file that trusts :func:`signer` for every run, and a second key for none any more."""
    from provstore.evidence import keys
    from provstore.evidence.trust import changes, document
    from provstore.evidence.trust import keys as trust_keys

    def key(public: bytes, role: str) -> Any:
        return trust_keys.TrustedKey(keys.fingerprint(public), "ed25519", public, role)

    root, late = signer(), keys.PrivateKey.generate()
    made = changes.first([root.public_key])
    made = changes.with_keys(made, [key(root.public_key, "run"), key(late.public_key, "rank")])
    made = changes.revoked(made, keys.fingerprint(late.public_key), "2026-01-01T00:00:00Z", "lost")
    return bytes(document.sign(made, [root]))


def faults(journal: Any, anchors: Sequence[Any] = (), public: bytes | None = None) -> set[str]:
    """Return the codes that a verification of the journal's bytes gives, those about mere limits left out."""
    from provstore.evidence.trust.keys import Trust
    from provstore.evidence.verify.walk import verify

    trusted = Trust.of_keys([public or signer().public_key], "test")
    log = journal.evidence(RUN, ATTEMPT)
    checked = verify(log, trusted, anchors, at=None, org="provstore", source="journal")
    return {found.code for found in checked.findings} - LIMITS


LIMITS = frozenset(("unanchored", "anchor-partial", "not-closed", "unsigned-tail", "no-bundles"))
"""What a verification says of a sound store that is not finished."""


def anchor(note: bytes) -> Any:
    """Return a checkpoint as something that was seen before."""
    from provstore.evidence import checkpoint
    from provstore.evidence.anchors import Anchor

    found = checkpoint.parse(note)
    return Anchor(found.origin, found.size, found.root, note, None, "test", None, None)
