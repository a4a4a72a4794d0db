"""Whether an envelope and a checkpoint are signed by a key that may sign them; nothing signed is parsed before."""

from __future__ import annotations

from dataclasses import dataclass

from provstore.errors import TrustError
from provstore.evidence import checkpoint as checkpoints
from provstore.evidence import dsse, keys, statement
from provstore.evidence.trust.keys import LOG, RUN, Trust, TrustedKey
from provstore.evidence.verify.findings import KEY, Notes
from provstore.model.evidence import BundleAt

UNREAD = frozenset(("cap-exceeded", "unknown-schema"))
"""Codes that say that nothing was judged, rather than that something is wrong."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A payload whose signature holds, and the key that made it."""

    payload: bytes
    key: TrustedKey


def is_signed(data: bytes, trust: Trust) -> bool:
    """Return whether this is an envelope that a key signed which may sign for the run that it names."""
    try:
        envelope = dsse.parse(data)
        run = statement.parse(envelope.payload).run
    except TrustError:
        return False
    (signature,) = envelope.signatures
    message = dsse.pae(envelope.payload_type, envelope.payload)
    candidates = trust.candidates(signature.keyid, run, (RUN,))
    return any(keys.is_signed(key.public, message, signature.sig) for key in candidates)


@dataclass(frozen=True, slots=True)
class Opener:
    """Opens the bundles of one run."""

    run: str
    trust: Trust
    notes: Notes

    def open(self, bundle: BundleAt, expected: int) -> Opened | str:
        """Return the payload that a trusted key signed, or the code of why there is none.

        Args:
            bundle: As the place holds it.
            expected: Number of the epoch that should come here; what the envelope says counts for nothing yet.
        """
        try:
            envelope = dsse.parse(bundle.envelope)
        except TrustError as error:
            return self._refused(error, bundle.where, expected)
        (signature,) = envelope.signatures
        message = dsse.pae(envelope.payload_type, envelope.payload)
        for key in self.trust.candidates(signature.keyid, self.run, (RUN,)):
            if keys.is_signed(key.public, message, signature.sig):
                if key.keyid != signature.keyid:
                    self.notes.add(
                        "keyid-mismatch",
                        f"the envelope names key {signature.keyid}, but key {key.keyid} made its signature.",
                        epoch=expected,
                        where=bundle.where,
                        keyid=key.keyid,
                    )
                return Opened(envelope.payload, key)
        return self._unsigned(signature.keyid, bundle.where, expected)

    def is_signed(self, point: checkpoints.Checkpoint, signer: TrustedKey) -> bool:
        """Return whether a checkpoint is signed by the key of its bundle, or another that may sign checkpoints."""
        candidates = [signer, *self.trust.candidates(signer.keyid, self.run, (RUN, LOG))]
        return any(checkpoints.check(point, key.public) for key in candidates)

    def _refused(self, error: TrustError, where: str, expected: int) -> str:
        self.notes.add(error.code, f"{error}.", epoch=expected, where=where)
        if error.code not in UNREAD:
            # The form of an envelope is not signed: an odd one must never pass for a signed one.
            self.notes.add(
                "bad-signature",
                "what stands in the place of its bundle is no envelope of ours, so no signature covers its records.",
                epoch=expected,
                where=where,
                cause=error.code,
            )
        return error.code

    def _unsigned(self, keyid: str, where: str, expected: int) -> str:
        listed = self.trust.key(keyid)
        if listed is not None and not listed.is_known:
            code, axis = "unknown-schema", KEY
            text = f"it names key {keyid} of the algorithm {listed.alg}, which is not known here."
        elif listed is not None and listed.serves(self.run, (RUN,)):
            code, axis = "bad-signature", None
            text = (
                f"the signature in its bundle is not that of key {keyid} over these bytes, nor that of any trusted key."
            )
        else:
            code, axis = "untrusted-key", None
            reason = (
                "is not listed in the trust file" if listed is None else f"is not trusted to sign {self.run} as {RUN}"
            )
            text = f"its bundle names key {keyid[:80]}, which {reason}, and no trusted key made the signature."
        self.notes.add(code, text, epoch=expected, where=where, keyid=keyid[:80], axis=axis)
        return code
