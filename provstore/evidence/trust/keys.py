"""Whom a verifier trusts: keys with their role and their runs, revocations, and the root keys that vouch for both."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

ED25519 = "ed25519"
"""The one algorithm known here; a key of any other is listed as unknown and never verifies anything."""

ROOT, RUN, RANK, LOG, AGENT, FILE = "root", "run", "rank", "log", "agent", "file"
ROLES = (ROOT, RUN, RANK, LOG, AGENT, FILE)
"""What a key may sign: trust files, bundles, rank heads, checkpoints, agent chains, raw files."""

ACTIVE, RETIRED, REVOKED = "active", "retired", "revoked"
STATUSES = (ACTIVE, RETIRED, REVOKED)
"""In use; replaced, what it signed still holds; revoked, what it signed counts only as an anchor dates it."""

ALL_RUNS = "*"
NAMESPACE = "provstore"
MAX_CANDIDATES = 64


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """One public key, and what it is trusted for."""

    keyid: str
    """OpenSSH fingerprint, recomputed from the key; as stated where the algorithm is unknown."""
    alg: str
    public: bytes
    role: str
    """One of :data:`ROLES`."""
    runs: str = ALL_RUNS
    """Pattern of run ids: ``*``, ``?`` and ``[…]`` as in a shell; case counts."""
    namespaces: tuple[str, ...] = (NAMESPACE,)
    """Namespaces of an allowed_signers line."""
    not_before: str | None = None
    """ISO 8601 in UTC, to the second."""
    not_after: str | None = None
    status: str = ACTIVE
    alias: str | None = None
    """A name for people; nothing depends on it."""

    @property
    def is_known(self) -> bool:
        """Whether signatures of its algorithm can be checked here."""
        return self.alg == ED25519

    def serves(self, run: str, roles: Collection[str]) -> bool:
        """Return whether a signature of this key about ``run`` in one of ``roles`` may be looked at."""
        return self.is_known and self.role in roles and fnmatch.fnmatchcase(run, self.runs)

    def is_valid_at(self, moment: str) -> bool:
        """Return whether ``moment`` (ISO 8601 in UTC, to the second) lies in the key's window, both ends included."""
        return (self.not_before or "") <= moment and (self.not_after is None or moment <= self.not_after)


@dataclass(frozen=True, slots=True)
class Revocation:
    """From when on a key's signatures are not its owner's."""

    keyid: str
    since: str
    """ISO 8601 in UTC, to the second."""
    reason: str


@dataclass(frozen=True, slots=True)
class Trust:
    """One version of a trust file, verified, or a list of keys given by hand."""

    version: int
    expires: str | None
    root: tuple[TrustedKey, ...]
    threshold: int
    """How many root keys must sign the next version."""
    keys: tuple[TrustedKey, ...]
    revocations: tuple[Revocation, ...]
    source: str
    """Where it came from: a path, or how the keys were given."""
    first_use: bool
    """Nobody vouched for the root keys: they were believed because they came first."""
    lineage: str = ""
    """32 hex digits that all versions of one trust file share; empty for keys given by hand."""

    def candidates(self, keyid: str | None, run: str, roles: Collection[str]) -> list[TrustedKey]:
        """Return the keys that may have signed about ``run`` in one of ``roles``, the one that ``keyid`` names first.

        At most 64: with more, only the named key is sure to be among them. A key of an unknown algorithm never is.
        """
        found: list[TrustedKey] = []
        for key in self._hinted_first(keyid):
            if key.serves(run, roles):
                found.append(key)
                if len(found) == MAX_CANDIDATES:
                    break
        return found

    def key(self, keyid: str) -> TrustedKey | None:
        """Return the listed key of that id, of whatever role and algorithm; else the root key of that id."""
        return next((key for key in (*self.keys, *self.root) if key.keyid == keyid), None)

    def revocation(self, keyid: str) -> Revocation | None:
        """Return the revocation of a key."""
        return next((one for one in self.revocations if one.keyid == keyid), None)

    def unknown(self) -> tuple[TrustedKey, ...]:
        """Return the keys whose algorithm is not known here: nothing that they signed can be judged."""
        return tuple(key for key in (*self.root, *self.keys) if not key.is_known)

    def _hinted_first(self, keyid: str | None) -> Iterator[TrustedKey]:
        yield from (key for key in self.keys if key.keyid == keyid)
        yield from (key for key in self.keys if key.keyid != keyid)

    @staticmethod
    def of_keys(publics: Sequence[bytes], source: str) -> Trust:
        """Return trust in these keys for all runs, in the role ``run``; a key given twice counts once.

        Raises:
            TrustError: One of them is not a public key that is safe to trust.
        """
        from provstore.evidence.keys import fingerprint, require_public

        checked = dict.fromkeys(require_public(public, source) for public in publics)
        keys = tuple(TrustedKey(fingerprint(public), ED25519, public, RUN) for public in checked)
        return Trust(0, None, (), 0, keys, (), source, first_use=False)
