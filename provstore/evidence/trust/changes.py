"""The next version of a trust file: pure functions, one a change; nothing counts until the root keys have signed it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

from provstore.errors import ConfigError
from provstore.evidence.keys import fingerprint, require_public
from provstore.evidence.trust.keys import ED25519, RETIRED, REVOKED, ROOT, Revocation, Trust, TrustedKey


def first(root: Sequence[bytes], *, threshold: int = 1, expires: str | None = None, source: str = "") -> Trust:
    """Return version 1 of a new trust file: these root keys, and nobody trusted yet.

    Raises:
        TrustError: One of them is not a public key that is safe to trust.
    """
    keys = tuple(root_key(public) for public in root)
    return Trust(1, expires, keys, threshold, (), (), source, first_use=False, lineage=secrets.token_hex(16))


def root_key(public: bytes, alias: str | None = None) -> TrustedKey:
    """Return a public key as a root key.

    Raises:
        TrustError: It is not a public key that is safe to trust.
    """
    require_public(public, "root key")
    return TrustedKey(fingerprint(public), ED25519, public, ROOT, namespaces=(), alias=alias)


def with_keys(trust: Trust, keys: Sequence[TrustedKey]) -> Trust:
    """Return the next version, in which these keys are trusted; one that was listed is listed anew.

    Raises:
        ConfigError: One of them is revoked.
    """
    for key in keys:
        if trust.revocation(key.keyid):
            raise ConfigError(f"{key.keyid}: trust: it is revoked, and a revocation is not taken back")
    added = {key.keyid for key in keys}
    return _next(trust, keys=(*(one for one in trust.keys if one.keyid not in added), *keys))


def expiring(trust: Trust, moment: str | None) -> Trust:
    """Return the next version, which holds until ``moment``; until it is replaced, when None."""
    return _next(trust, expires=moment)


def revoked(trust: Trust, keyid: str, since: str, reason: str) -> Trust:
    """Return the next version, in which a key's signatures count only as anchors from before ``since`` cover them.

    A second revocation may only move ``since`` back.

    Raises:
        ConfigError: A root key, an unknown key, or one that is revoked from an earlier moment on.
    """
    if any(key.keyid == keyid for key in trust.root):
        raise ConfigError(
            f"{keyid}: trust: it is a root key",
            hint="provstore keys rotate OLD NEW puts another in its place; then it can be revoked",
        )
    before = trust.revocation(keyid)
    if before is not None and before.since <= since:
        raise ConfigError(f"{keyid}: trust: it is revoked since {before.since} already")
    if before is None and trust.key(keyid) is None:
        raise ConfigError(f"{keyid}: trust: no such key is listed")
    kept = tuple(one for one in trust.revocations if one.keyid != keyid)
    return _next(
        trust,
        revocations=(*kept, Revocation(keyid, since, reason)),
        keys=tuple(replace(key, status=REVOKED) if key.keyid == keyid else key for key in trust.keys),
    )


def rotated(trust: Trust, keyid: str, public: bytes, *, alias: str | None = None) -> Trust:
    """Return the next version, in which another key stands wherever ``keyid`` stood: in the root, in a role, or both.

    The old key stays listed as retired: what it signed holds. A replaced root key needs the signatures of the
    threshold of the old root and of the new one.

    Raises:
        ConfigError: The old key is not listed, or revoked; or the new one is listed already.
        TrustError: The new one is not a public key that is safe to trust.
    """
    require_public(public, "new key")
    new = fingerprint(public)
    listed = next((key for key in trust.keys if key.keyid == keyid), None)
    is_root = any(key.keyid == keyid for key in trust.root)
    if listed is None and not is_root:
        raise ConfigError(f"{keyid}: trust: no such key is listed")
    if listed is not None and listed.status == REVOKED and not is_root:
        raise ConfigError(f"{keyid}: trust: it is revoked", hint="provstore keys trust adds another key in its place")
    if trust.key(new) is not None or trust.revocation(new) is not None:
        raise ConfigError(f"{new}: trust: it is listed already; a new key is needed")
    root = tuple(root_key(public, alias) if key.keyid == keyid else key for key in trust.root)
    if listed is None or listed.status == REVOKED:
        return _next(trust, root=root)
    retired = replace(listed, status=RETIRED)
    follower = replace(listed, keyid=new, public=public, alias=alias or listed.alias, status="active")
    others = tuple(key for key in trust.keys if key.keyid != keyid)
    return _next(trust, root=root, keys=(*others, retired, follower))


def _next(trust: Trust, **changes: object) -> Trust:
    return replace(trust, version=trust.version + 1, **changes)  # type: ignore[arg-type]
