"""SSH signatures over files, as ``ssh-keygen -Y`` makes and checks them (OpenSSH's PROTOCOL.sshsig, version 1).

What is signed is never the file but a text that begins with ``SSHSIG``, so such a signature can never be one over an
envelope or a checkpoint.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from dataclasses import dataclass

from provstore.errors import TrustError
from provstore.evidence import keys

NAMESPACE = "provstore"
_MAGIC = b"SSHSIG"
_VERSION = 1
_HASH = b"sha512"
_ALGORITHM = b"ssh-ed25519"
_BEGIN = "-----BEGIN SSH SIGNATURE-----"
_END = "-----END SSH SIGNATURE-----"
_COLUMNS = 70
# An Ed25519 signature with a namespace of a line needs under 1 KiB.
_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class SshSignature:
    """One SSH signature: whose it claims to be, for what, and the 64 bytes."""

    public: bytes
    namespace: str
    signature: bytes


def sign(message: bytes, signer: keys.Signer, namespace: str = NAMESPACE) -> bytes:
    """Return the armored SSH signature over ``message``, as ``ssh-keygen -Y sign`` writes it.

    Raises:
        TrustError: The signer's key is not usable or its signature does not hold.
    """
    named = namespace.encode("utf-8")
    signature = keys.signed(signer, _signed_text(message, named))
    blob = b"".join(
        (
            _MAGIC,
            struct.pack(">I", _VERSION),
            _string(keys.wire_form(signer.public_key)),
            _string(named),
            _string(b""),
            _string(_HASH),
            _string(_string(_ALGORITHM) + _string(signature)),
        )
    )
    text = base64.b64encode(blob).decode("ascii")
    lines = [text[at : at + _COLUMNS] for at in range(0, len(text), _COLUMNS)]
    return "\n".join((_BEGIN, *lines, _END, "")).encode("ascii")


def check(armored: bytes, message: bytes, public: bytes, namespace: str = NAMESPACE) -> None:
    """Check that ``armored`` is the signature of ``public`` over ``message`` for ``namespace``.

    Raises:
        TrustError: It is malformed, made by another key or for another namespace, or does not hold.
    """
    found = parse(armored)
    if found.public != public:
        raise TrustError(f"ssh signature: made by {keys.fingerprint(found.public)}: another key", code="untrusted-key")
    if found.namespace != namespace:
        raise TrustError(f"ssh signature: namespace {found.namespace!r}: not {namespace!r}", code="bad-signature")
    if not keys.is_signed(public, _signed_text(message, namespace.encode("utf-8")), found.signature):
        raise TrustError("ssh signature: signature: does not hold for these bytes", code="bad-signature")


def parse(armored: bytes) -> SshSignature:
    """Return what an armored signature says; only the form that ``sign`` writes is taken.

    Raises:
        TrustError: It is not one, or uses another algorithm or hash.
    """
    rest = _unarmored(armored)
    if not rest.startswith(_MAGIC + struct.pack(">I", _VERSION)):
        raise _malformed("not SSHSIG version 1")
    rest = rest[len(_MAGIC) + 4 :]
    fields = []
    for _ in range(5):
        field, rest = _taken(rest)
        fields.append(field)
    wire, named, reserved, hashed, outer = fields
    algorithm, inner = _taken(outer)
    signature, none = _taken(inner)
    if rest or none or reserved or hashed != _HASH or algorithm != _ALGORITHM:
        raise _malformed("not Ed25519 over SHA-512, or with bytes behind the signature")
    if len(signature) != keys.SIGNATURE_BYTES or len(wire) < keys.PUBLIC_BYTES:
        raise _malformed("a key or signature of the wrong length")
    public = wire[-keys.PUBLIC_BYTES :]
    if keys.wire_form(public) != wire:
        raise _malformed("not an Ed25519 key")
    try:
        namespace = named.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _malformed("a namespace that is not UTF-8") from error
    return SshSignature(keys.require_public(public, "ssh signature"), namespace, signature)


def _unarmored(armored: bytes) -> bytes:
    if len(armored) > _MOST_BYTES:
        raise _malformed(f"longer than {_MOST_BYTES} bytes")
    try:
        lines = armored.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise _malformed("not ASCII") from error
    if len(lines) < 4 or lines[0] != _BEGIN or lines[-2:] != [_END, ""]:
        raise _malformed("no begin and end line")
    text = "".join(lines[1:-2])
    try:
        blob = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise _malformed("not base64") from error
    if base64.b64encode(blob).decode("ascii") != text:
        raise TrustError("ssh signature: base64: has another spelling", code="base64-noncanonical")
    return blob


def _signed_text(message: bytes, namespace: bytes) -> bytes:
    digest = hashlib.sha512(message).digest()
    return _MAGIC + _string(namespace) + _string(b"") + _string(_HASH) + _string(digest)


def _string(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def _taken(rest: bytes) -> tuple[bytes, bytes]:
    if len(rest) < 4:
        raise _malformed("cut short")
    length = int.from_bytes(rest[:4], "big")
    if length > len(rest) - 4:
        raise _malformed("cut short")
    return rest[4 : 4 + length], rest[4 + length :]


def _malformed(reason: str) -> TrustError:
    return TrustError(f"ssh signature: {reason}", code="envelope-malformed")
