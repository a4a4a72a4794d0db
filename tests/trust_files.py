"""Trust files made by hand: JSON and DSSE as the standards write them, signed by OpenSSL, not by the tested code."""

from __future__ import annotations

import base64
import hashlib
import json

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

TYPE = "application/vnd.provstore.trust+json"
LINEAGE = "0123456789abcdef0123456789abcdef"


class Key:
    """A key pair of the test's own; satisfies the protocol of a signer."""

    def __init__(self):
        self.private = Ed25519PrivateKey.generate()
        self.public_key = self.private.public_key().public_bytes_raw()
        wire = b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20" + self.public_key
        self.keyid = "SHA256:" + base64.b64encode(hashlib.sha256(wire).digest()).decode().rstrip("=")

    @property
    def blob(self):
        """The key as OpenSSH writes it."""
        return base64.b64encode(b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20" + self.public_key).decode()

    def sign(self, message):
        return self.private.sign(message)


def entry(key, role="run", /, **changes):
    whole = {
        "alg": "ed25519",
        "alias": None,
        "keyid": key.keyid,
        "namespaces": [],
        "notAfter": None,
        "notBefore": None,
        "public": key.public_key.hex(),
        "role": role,
        "runs": "*",
        "status": "active",
    }
    return {**whole, **changes}


def document(root, listed=(), /, *, threshold=1, version=1, **changes):
    whole = {
        "expires": None,
        "keys": sorted(listed, key=lambda one: one["keyid"]),
        "lineage": LINEAGE,
        "revocations": [],
        "root": {
            "keys": sorted((entry(one, "root") for one in root), key=lambda one: one["keyid"]),
            "threshold": threshold,
        },
        "schema": 1,
        "version": version,
    }
    return {**whole, **changes}


def text(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def pae(payload, kind=TYPE):
    return b"DSSEv1 " + b" ".join([str(len(kind)).encode(), kind.encode(), str(len(payload)).encode(), payload])


def signature(key, payload, kind=TYPE):
    return {"keyid": key.keyid, "sig": base64.b64encode(key.sign(pae(payload, kind))).decode()}


def envelope(payload, signers, /, **changes):
    """Return the file: ``payload`` as bytes, or a document that becomes bytes."""
    payload = payload if isinstance(payload, bytes) else text(payload)
    whole = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": TYPE,
        "signatures": sorted((signature(one, payload) for one in signers), key=lambda one: one["keyid"]),
    }
    return text({**whole, **changes})
