"""Signatures that minisign and signify check: prehashed ones for any signing key, raw ones for keys of their own.

A prehashed signature (minisign's ``ED``) covers the 64 bytes of a BLAKE2b digest. A raw one (signify's ``.sig``) covers
the file itself: made over an envelope's signed bytes it would be the envelope's signature. So raw files are signed with
keys of role ``file``, which sign nothing else, and what this product signs elsewhere is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from provstore.errors import ConfigError, TrustError
from provstore.evidence import keys

FILE_ROLE = "file"
_RAW = b"Ed"
_PREHASHED = b"ED"
_NUMBER_BYTES = 8
_UNTRUSTED = "untrusted comment: "
_TRUSTED = "trusted comment: "
# Limits of minisign 0.11 for its two comments.
_MOST_UNTRUSTED = 1024
_MOST_TRUSTED = 8192


@dataclass(frozen=True, slots=True)
class MinisignSignature:
    """A prehashed signature: the key's number, the signature, the comment that is signed too, and its signature."""

    number: bytes
    signature: bytes
    trusted_comment: str
    comment_signature: bytes


def key_number(public: bytes) -> bytes:
    """Return the 8 bytes by which minisign and signify tell keys apart: a digest of the key, as it has no other."""
    return hashlib.sha256(keys.wire_form(public)).digest()[:_NUMBER_BYTES]


def public_file(public: bytes) -> bytes:
    """Return the public key file that both minisign and signify read."""
    number = key_number(public)
    comment = f"{_UNTRUSTED}minisign public key {_shown(number)}"
    return _lines(comment, _base64(_RAW + number + public))


def sign(message: bytes, signer: keys.Signer, trusted_comment: str) -> bytes:
    """Return the ``.minisig`` file over ``message``: prehashed, with a comment that is signed along.

    Raises:
        ConfigError: The comment has control characters or is longer than minisign reads.
        TrustError: The signer's key is not usable or its signature does not hold.
    """
    _require_comment(trusted_comment)
    signature = keys.signed(signer, _digest(message))
    over_comment = keys.signed(signer, signature + trusted_comment.encode("utf-8"))
    number = key_number(signer.public_key)
    return _lines(
        f"{_UNTRUSTED}signature from minisign key {_shown(number)}",
        _base64(_PREHASHED + number + signature),
        f"{_TRUSTED}{trusted_comment}",
        _base64(over_comment),
    )


def check(minisig: bytes, message: bytes, public: bytes) -> str:
    """Check a ``.minisig`` file over ``message`` and return its trusted comment.

    Raises:
        TrustError: It is malformed or in the raw form, names another key, or a signature does not hold.
    """
    found = parse(minisig)
    if found.number != key_number(public):
        raise TrustError(f"minisign signature: key {_shown(found.number)}: another key", code="untrusted-key")
    comment = found.trusted_comment.encode("utf-8")
    if not keys.is_signed(public, _digest(message), found.signature):
        raise TrustError("minisign signature: signature: does not hold for these bytes", code="bad-signature")
    if not keys.is_signed(public, found.signature + comment, found.comment_signature):
        raise TrustError("minisign signature: trusted comment: is not what was signed", code="bad-signature")
    return found.trusted_comment


def parse(minisig: bytes) -> MinisignSignature:
    """Return what a ``.minisig`` file says; the raw form is refused.

    Raises:
        TrustError: It is not such a file.
    """
    lines = _read(minisig, 4)
    algorithm, number, signature = _unpacked(lines[1])
    if algorithm != _PREHASHED:
        raise TrustError("minisign signature: algorithm: not the prehashed form", code="unsupported-legacy")
    if not lines[2].startswith(_TRUSTED):
        raise _malformed("no trusted comment")
    over_comment = _decoded(lines[3])
    if len(over_comment) != keys.SIGNATURE_BYTES:
        raise _malformed("a signature of the wrong length")
    return MinisignSignature(number, signature, lines[2][len(_TRUSTED) :], over_comment)


def sign_raw(message: bytes, signer: keys.Signer, roles: Collection[str], public_name: str = "signify.pub") -> bytes:
    """Return the ``.sig`` file that signify checks: a signature over the file itself.

    Args:
        message: The file.
        signer: The key.
        roles: The roles that the trust file gives this key; it must be exactly ``file``.
        public_name: File name of the public key, which signify shows.

    Raises:
        TrustError: The key has another role, or the file is something that another signature of this product covers.
    """
    if set(roles) != {FILE_ROLE}:
        named = ", ".join(sorted(roles)) or "none"
        raise TrustError(
            f"signify signature: key {keys.fingerprint(signer.public_key)}: its role is {named}, not {FILE_ROLE}",
            code="untrusted-key",
            hint="make a key that signs nothing but files, and trust it with role file",
        )
    reason = _reserved(message)
    if reason is not None:
        raise TrustError(f"signify signature: file: {reason}; files like it are not signed raw", code="bad-signature")
    signature = keys.signed(signer, message)
    number = key_number(signer.public_key)
    return _lines(f"{_UNTRUSTED}verify with {public_name}", _base64(_RAW + number + signature))


def check_raw(sig: bytes, message: bytes, public: bytes) -> None:
    """Check a signify ``.sig`` file over ``message``.

    Raises:
        TrustError: It is malformed, names another key, or does not hold.
    """
    algorithm, number, signature = _unpacked(_read(sig, 2)[1])
    if algorithm != _RAW:
        raise _malformed("not a raw signature")
    if number != key_number(public):
        raise TrustError(f"signify signature: key {_shown(number)}: another key", code="untrusted-key")
    if not keys.is_signed(public, message, signature):
        raise TrustError("signify signature: signature: does not hold for these bytes", code="bad-signature")


def _reserved(message: bytes) -> str | None:
    """Return which other signed text these bytes would be, or nothing."""
    if message.startswith(b"DSSEv1 "):
        return "begins as the signed bytes of an envelope"
    if message.startswith(b"SSHSIG"):
        return "begins as the signed bytes of an SSH signature"
    if len(message) == hashlib.blake2b().digest_size:
        return "may be the digest that a prehashed signature covers"
    lines = message.split(b"\n", 3)
    if len(lines) >= 3 and lines[1].isdigit() and len(lines[2]) == 44 and lines[2].endswith(b"="):
        return "has the form of a checkpoint"
    return None


def _digest(message: bytes) -> bytes:
    return hashlib.blake2b(message).digest()


def _require_comment(comment: str) -> None:
    if not comment.isprintable() or len(comment.encode("utf-8")) >= _MOST_TRUSTED - len(_TRUSTED) - 1:
        raise ConfigError("minisign signature: trusted comment: not one printable line of a length that minisign reads")


def _shown(number: bytes) -> str:
    """Return a key number as minisign prints it: an integer whose bytes are stored smallest first."""
    return number[::-1].hex().upper()


def _lines(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _read(content: bytes, count: int) -> list[str]:
    if len(content) > _MOST_UNTRUSTED + _MOST_TRUSTED + 512:
        raise _malformed("too long")
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise _malformed("not UTF-8") from error
    if len(lines) != count + 1 or lines[-1] or not lines[0].startswith(_UNTRUSTED):
        raise _malformed(f"not {count} lines that begin with an untrusted comment")
    return lines


def _unpacked(line: str) -> tuple[bytes, bytes, bytes]:
    blob = _decoded(line)
    if len(blob) != 2 + _NUMBER_BYTES + keys.SIGNATURE_BYTES:
        raise _malformed("a signature of the wrong length")
    return blob[:2], blob[2 : 2 + _NUMBER_BYTES], blob[2 + _NUMBER_BYTES :]


def _decoded(line: str) -> bytes:
    try:
        blob = base64.b64decode(line, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _malformed("not base64") from error
    if _base64(blob) != line:
        raise TrustError("minisign signature: base64: has another spelling", code="base64-noncanonical")
    return blob


def _malformed(reason: str) -> TrustError:
    return TrustError(f"minisign signature: {reason}", code="envelope-malformed")
