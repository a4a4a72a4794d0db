"""One signed envelope in the spellings that foreign verifiers read."""

from __future__ import annotations

from dataclasses import replace

from provstore.errors import ConfigError
from provstore.evidence import public_forms
from provstore.evidence.dsse import Envelope
from provstore.exports.evidence import HEX, NONE
from provstore.model import canonical

BUNDLE_MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"


def with_keyid(envelope: Envelope, form: str, public: bytes | None) -> Envelope:
    """Return the envelope with its key id in another spelling; the key id is not signed, so no private key is needed.

    ``none`` is the empty text and not an absent member: securesystemslib refuses an absent one.

    Raises:
        ConfigError: ``hex`` is made from the public key, which is not known.
    """
    (signature,) = envelope.signatures
    if form == NONE:
        keyid = ""
    elif form == HEX and public is not None:
        keyid = public_forms.FORMS["securesystemslib-id"](public).decode().strip()
    elif form == HEX:
        text = f"key id: hex: it is made from the public key, and that of {signature.keyid} is not known here"
        raise ConfigError(text, hint="give it with --public-key FILE")
    else:
        keyid = signature.keyid
    return replace(envelope, signatures=(replace(signature, keyid=keyid),))


def sigstore_bundle(envelope: Envelope, hint: str) -> bytes:
    """Return a Sigstore bundle v0.3 for verification with a key: no certificate, no transparency log.

    Args:
        envelope: The envelope.
        hint: Names the key; not signed.
    """
    (signature,) = envelope.signatures
    told: canonical.Json = {
        "payload": canonical.text_of(envelope.payload),
        "payloadType": envelope.payload_type,
        "signatures": [{"keyid": signature.keyid, "sig": canonical.text_of(signature.sig)}],
    }
    material: canonical.Json = {"publicKey": {"hint": hint}, "tlogEntries": []}
    return canonical.encode({"dsseEnvelope": told, "mediaType": BUNDLE_MEDIA_TYPE, "verificationMaterial": material})
