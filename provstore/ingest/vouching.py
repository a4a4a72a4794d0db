"""What must hold before anything is signed on top: whose the last bundle is, and that each rank has one key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from provstore.errors import InputError, TrustError
from provstore.evidence import dsse, keys, records
from provstore.evidence.bundles import Ledger
from provstore.evidence.trust.keys import REVOKED, RUN, Trust
from provstore.model.evidence import BundleAt

_GO_ON = "after provstore verify, seal --after-unknown-key goes on"
_KEYID_CHARACTERS = 60


def require_same_key(ledger: Ledger, rank: int, keyid: str) -> None:
    """Refuse to record for a rank with another key than it has.

    Raises:
        InputError: It has another.
    """
    others = _keys_of(ledger, rank) - {keyid}
    if others:
        said = f"{_of(ledger)}: rank {rank}: its key is {min(others)}, not {keyid}"
        raise InputError(f"{said}: in one attempt a rank has one key", hint="give what starts anew another attempt")


def _of(ledger: Ledger) -> str:
    return f"{ledger.run}: attempt {ledger.attempt}"


def _keys_of(ledger: Ledger, rank: int) -> set[str]:
    return {keyid for certified, keyid in ledger.certified if certified == rank}


@dataclass(frozen=True, slots=True)
class Vouching:
    """Who answers for what is signed already, and for what waits."""

    trusted: Callable[[], Trust | None] = lambda: None
    """Gives the keys of others who sign runs; asked only when the last bundle is not of the key that signs now."""
    after_unknown_key: bool = False
    """Go on after a bundle of a key that is not known, or that is revoked."""
    rekeyed_ranks: frozenset[int] = frozenset()
    """Ranks of which the operator says that they have a second key in one attempt."""

    def require_last(self, last: BundleAt | None, ledger: Ledger, public: bytes, *, is_idle: bool) -> None:
        """Refuse to sign on top of a last bundle that nobody vouches for: what is on top of it cannot be undone.

        Args:
            last: The last bundle, if there is one.
            ledger: The run.
            public: Key that is to sign.
            is_idle: There is nothing to sign: only a bundle that its own key did not sign is refused.

        Raises:
            TrustError: The key that it names did not sign it; or no known key did.
        """
        if last is None:
            return
        envelope = dsse.parse(last.envelope)
        signed, signature = envelope.signed_bytes(), envelope.signatures[0]
        if keys.is_signed(public, signed, signature.sig):
            return
        held = self.trusted()
        known = held.candidates(signature.keyid, ledger.run, (RUN,)) if held else []
        signer = next((key for key in known if keys.is_signed(key.public, signed, signature.sig)), None)
        place, named = f"{_of(ledger)}: the last bundle ({last.where})", signature.keyid[:_KEYID_CHARACTERS]
        if signer is None and signature.keyid in {keys.fingerprint(public), *(key.keyid for key in known)}:
            hint = "provstore verify says what is wrong"
            raise TrustError(f"{place}: is not what its key {named} signed", code="bad-signature", hint=hint)
        if self.after_unknown_key or is_idle:
            return
        if signer is None:
            said = f"{place}: names key {named}, which is neither the one that signs now nor one that is trusted"
            hint = f"provstore seal --trust FILE names more keys; {_GO_ON}"
            raise TrustError(said, code="untrusted-key", hint=hint)
        if held is not None and (signer.status == REVOKED or held.revocation(signer.keyid) is not None):
            said = f"{place}: is of key {signer.keyid}, which is revoked: whoever stole it may have signed"
            raise TrustError(said, code="key-revoked", hint=_GO_ON)

    def require_one_key(self, ledger: Ledger) -> None:
        """Refuse to sign a waiting record that gives a rank another key than it has.

        Whoever can write to a journal can add such a record to what is not signed yet.

        Raises:
            TrustError: There is such a record.
        """
        for line in ledger.waiting:
            if b'"kind":"rank-certificate"' not in line:
                continue
            said = records.parse(line)
            rank, new = said["certified"], said["keyid"]
            others = _keys_of(ledger, rank) - {new}
            if others and rank not in self.rekeyed_ranks:
                raise TrustError(
                    f"{_of(ledger)}: rank {rank}: a record that waits gives it key {new}, and it has {min(others)}: "
                    "one of them may not be its own",
                    code="untrusted-key",
                    hint=f"provstore seal --rekeyed-rank {rank} signs it; what starts anew belongs in another attempt",
                )
