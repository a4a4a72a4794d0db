"""How the user's own trust file sees a key before it signs: what a verifier would say, said while it can be changed."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from provstore import config
from provstore.api.keys import own_keys
from provstore.errors import ConfigError, ProvstoreError
from provstore.evidence.keys import fingerprint
from provstore.evidence.trust import file as trust_file
from provstore.evidence.trust.fields import now
from provstore.evidence.trust.keys import ACTIVE, RETIRED, REVOKED, RUN, Trust, TrustedKey


@dataclass(frozen=True, slots=True)
class Standing:
    """A key that is to sign, and the trust file that will judge it.

    Args:
        public: The public key.
        path: The trust file.
        held: What it states; ``None`` where there is none, or it cannot be read: whoever verifies is told why.
    """

    public: bytes
    path: Path
    held: Trust | None

    @property
    def keyid(self) -> str:
        """Fingerprint of the key."""
        return fingerprint(self.public)

    def require_usable(self) -> None:
        """Return if the key may sign.

        Raises:
            ConfigError: The trust file revoked it.
        """
        listed = self.held.key(self.keyid) if self.held else None
        found = self.held.revocation(self.keyid) if self.held else None
        if found is None and (listed is None or listed.status != REVOKED):
            return
        said = f" since {found.since} ({found.reason})" if found else ""
        raise ConfigError(
            f"{self._named(listed)}: key: revoked{said} by {self.path}: nothing is signed with it", hint=self._instead()
        )

    def remarks(self, runs: Iterable[str], at: str | None = None) -> tuple[str, ...]:
        """Return what a verifier will say of signatures that this key makes about these runs.

        Args:
            runs: Names of runs.
            at: The moment; the present when not given.
        """
        if self.held is None:
            return ()
        listed = next((key for key in self.held.keys if key.keyid == self.keyid and key.role == RUN), None)
        if listed is None:
            other = [key.role for key in (*self.held.keys, *self.held.root) if key.keyid == self.keyid]
            as_what = f" for signing runs, only as {' and '.join(dict.fromkeys(other))}" if other else ""
            said = f"{self.path} does not list {self.keyid}{as_what}"
            return (f"{said}: provstore verify will not trust this signature before provstore keys trust",)
        name, moment, remarks = self._named(listed), at or now(), list[str]()
        if listed.status == RETIRED:
            remarks.append(f"{name} is retired: {self.path} put another key in its place")
        if outside := sorted({run for run in runs if not fnmatch.fnmatchcase(run, listed.runs)}):
            shown = ", ".join(run or "imported documents" for run in outside[:3]) + (" …" if len(outside) > 3 else "")
            remarks.append(
                f"{self.path} trusts {name} only for runs {listed.runs}: provstore verify will not trust this "
                f"signature for {shown}"
            )
        if not listed.is_valid_at(moment):
            window = f"{listed.not_before or 'the beginning'} to {listed.not_after or 'no end'}"
            remarks.append(f"{name} is valid from {window}, and it is {moment}: provstore verify will say so")
        return tuple(remarks)

    def _named(self, listed: TrustedKey | None) -> str:
        alias = listed.alias if listed else None
        return f"{alias} ({self.keyid})" if alias else self.keyid

    def _instead(self) -> str:
        """Return how to sign with a key that is in use."""
        usable = {key.keyid for key in self.held.keys if _is_usable(key, self.held)} if self.held else set()
        names = [path.stem for path, public in own_keys(lambda _: None) if fingerprint(public) in usable]
        if names:
            return f"--key {names[0]} is active"
        return "make another: provstore keys generate NAME, then provstore keys trust NAME"


def standing(public: bytes) -> Standing:
    """Return how the user's trust file sees a key."""
    return Standing(public, config.trust_file(), own_trust())


def own_trust() -> Trust | None:
    """Return what the user's trust file states; ``None`` where there is none, or it cannot be read."""
    path = config.trust_file()
    try:
        return trust_file.read(path).trust if path.exists() else None
    except (ProvstoreError, OSError):
        return None


def _is_usable(key: TrustedKey, held: Trust) -> bool:
    return (
        key.is_known
        and key.role == RUN
        and key.status == ACTIVE
        and held.revocation(key.keyid) is None
        and key.is_valid_at(now())
    )
