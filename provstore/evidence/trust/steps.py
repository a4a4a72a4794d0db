"""Which version of a trust file may follow which: nobody goes back, and a new root needs the old one's signatures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from provstore.errors import TrustError
from provstore.evidence.trust.document import Signed
from provstore.evidence.trust.keys import Trust, TrustedKey


@dataclass(frozen=True, slots=True)
class Root:
    """The root keys that are believed, and the version that named them."""

    lineage: str
    version: int
    keys: tuple[TrustedKey, ...]
    threshold: int

    @staticmethod
    def of(trust: Trust) -> Root:
        """Return the root of a trust file."""
        return Root(trust.lineage, trust.version, trust.root, trust.threshold)

    def is_same(self, other: Root) -> bool:
        """Return whether the same number of the same keys decides; their aliases do not matter."""
        return self.threshold == other.threshold and _identities(self.keys) == _identities(other.keys)


def followed(held: Root, versions: Iterable[Signed]) -> Root:
    """Return the root after these versions, in this order.

    Raises:
        TrustError: One of them may not follow.
    """
    for version in versions:
        require_step(held, version)
        held = Root.of(version.trust)
    return held


def require_step(held: Root, new: Signed) -> None:
    """Return if ``new`` may take the place of the version that named ``held``, or is that version.

    Raises:
        TrustError: Another trust file (``untrusted-key``), an older version (``rollback``), or a new root that is not
            exactly the next version or not signed by the threshold of the old root (``untrusted-key``).
    """
    source, trust = new.trust.source, new.trust
    if trust.lineage != held.lineage:
        raise TrustError(f"{source}: trust: another trust file than the one held before", code="untrusted-key")
    if trust.version < held.version:
        raise TrustError(
            f"{source}: trust: version {trust.version} is older than version {held.version}, seen before",
            code="rollback",
        )
    if held.is_same(Root.of(trust)):
        return
    if trust.version != held.version + 1:
        raise TrustError(
            f"{source}: trust: new root keys need version {held.version + 1}, the file has {trust.version}",
            code="untrusted-key",
            hint="put the versions in between beside it, named like trust.json.v2",
        )
    count = len(new.signers(held.keys))
    if count < held.threshold:
        raise TrustError(
            f"{source}: trust: new root keys, signed by {count} of the old ones; {held.threshold} must sign",
            code="untrusted-key",
        )


def _identities(keys: Iterable[TrustedKey]) -> set[tuple[str, bytes]]:
    return {(key.alg, key.public) for key in keys}
