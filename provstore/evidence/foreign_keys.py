"""What a PKCS#8 or OpenSSH private-key file says before it is opened: its kind, its cost, its public key.

A planted file can ask for hours or for all memory in its first hundred bytes; that is refused here, before any
derivation.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field

from provstore.errors import InputError
from provstore.evidence.keys import PUBLIC_BYTES, require_public

PKCS8 = "PKCS#8"
OPENSSH = "OpenSSH"
# Each keeps opening a file below about 5 CPU-seconds and 512 MiB.
MAX_SCRYPT_BYTES = 2**28
MAX_PBKDF2_ROUNDS = 10_000_000
MAX_BCRYPT_ROUNDS = 256

_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END \1-----")
_LABELS = {b"PRIVATE KEY": PKCS8, b"ENCRYPTED PRIVATE KEY": PKCS8, b"OPENSSH PRIVATE KEY": OPENSSH}
_OPENSSH_MAGIC = b"openssh-key-v1\x00"

# Object identifiers in DER: RFC 8410, RFC 8018 (PBES2, PBKDF2), RFC 7914 (scrypt).
_ED25519 = bytes.fromhex("2b6570")
_PBES2 = bytes.fromhex("2a864886f70d01050d")
_PBKDF2 = bytes.fromhex("2a864886f70d01050c")
_SCRYPT = bytes.fromhex("2b06010401da47040b")

_INTEGER, _OCTETS, _OID, _SEQUENCE = 0x02, 0x04, 0x06, 0x30


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A private key in somebody else's format, not opened.

    Args:
        kind: ``PKCS#8`` or ``OpenSSH``.
        body: The decoded bytes: DER, or the OpenSSH structure.
        is_encrypted: Whether a passphrase is needed.
        public: The public key, where the file says it in clear.
    """

    kind: str
    body: bytes = field(repr=False)
    is_encrypted: bool
    public: bytes | None


class _MalformedError(Exception):
    """The bytes do not have the structure of their format."""


def parse(data: bytes, place: str) -> ForeignKey | None:
    """Return what ``data`` says in clear, None if it is neither PKCS#8 nor an OpenSSH private key.

    Raises:
        InputError: Malformed, not Ed25519, an unknown way of encryption, or opening it would cost too much.
    """
    kind, body = _unwrapped(data, place)
    if kind is None:
        return None
    try:
        return _openssh(body, place) if kind == OPENSSH else _pkcs8(body, place)
    except _MalformedError as error:
        raise InputError(f"{place}: key file: not a {kind} private key: {error}") from error


def _unwrapped(data: bytes, place: str) -> tuple[str | None, bytes]:
    if data[:1] == b"\x30":
        return PKCS8, data
    text = data.strip()
    if not text.startswith(b"-----BEGIN "):
        return None, b""
    match = _PEM.fullmatch(text)
    if match is None:
        raise InputError(f"{place}: key file: not exactly one PEM block without headers")
    if match[1] not in _LABELS:
        raise InputError(f"{place}: key file: PEM of kind {match[1].decode()!r}; readable are PKCS#8 and OpenSSH keys")
    try:
        return _LABELS[match[1]], base64.b64decode(re.sub(rb"\r?\n", b"", match[2]), validate=True)
    except binascii.Error as error:
        raise InputError(f"{place}: key file: PEM: the base64 is damaged") from error


def _pkcs8(body: bytes, place: str) -> ForeignKey:
    outer = _only(body, _SEQUENCE)
    tag, first, rest = _element(outer)
    if tag == _INTEGER:
        if _element(_value(rest, _SEQUENCE)[0])[:2] != (_OID, _ED25519):
            raise InputError(f"{place}: key file: not an Ed25519 key")
        return ForeignKey(PKCS8, body, is_encrypted=False, public=None)
    algorithm, parameters = _algorithm(first)
    if tag != _SEQUENCE or algorithm != _PBES2:
        raise InputError(f"{place}: key file: encrypted in an outdated way; readable is PBES2 with scrypt or PBKDF2")
    _require_cost(*_algorithm(_value(parameters, _SEQUENCE)[0]), place)
    return ForeignKey(PKCS8, body, is_encrypted=True, public=None)


def _require_cost(derivation: bytes, parameters: bytes, place: str) -> None:
    _, rest = _value(parameters, _OCTETS)
    numbers = []
    while rest[:1] == bytes([_INTEGER]):
        number, rest = _value(rest, _INTEGER)
        numbers.append(int.from_bytes(number, "big"))
    if derivation == _PBKDF2 and numbers:
        if not 0 < numbers[0] <= MAX_PBKDF2_ROUNDS:
            raise InputError(f"{place}: key file: PBKDF2: {numbers[0]} rounds are not 1 to {MAX_PBKDF2_ROUNDS}")
    elif derivation == _SCRYPT and len(numbers) >= 3:
        cost, block, parallel = numbers[:3]
        if not 0 < 128 * cost * block * parallel <= MAX_SCRYPT_BYTES:
            raise InputError(f"{place}: key file: scrypt: N {cost}, r {block}, p {parallel} ask for more than 256 MiB")
    else:
        raise InputError(f"{place}: key file: derived in an unknown way; readable are scrypt and PBKDF2")


def _openssh(body: bytes, place: str) -> ForeignKey:
    if not body.startswith(_OPENSSH_MAGIC):
        raise _MalformedError("the first bytes are others")
    rest = body[len(_OPENSSH_MAGIC) :]
    cipher, rest = _string(rest)
    derivation, rest = _string(rest)
    options, rest = _string(rest)
    if rest[:4] != b"\x00\x00\x00\x01":
        raise _MalformedError("it does not hold exactly one key")
    blob, _ = _string(rest[4:])
    algorithm, blob = _string(blob)
    if algorithm != b"ssh-ed25519":
        raise InputError(f"{place}: key file: not an Ed25519 key")
    public, end = _string(blob)
    if end or len(public) != PUBLIC_BYTES:
        raise _MalformedError("its public part has a wrong length")
    is_encrypted = (cipher, derivation) != (b"none", b"none")
    if is_encrypted:
        _, rounds = _string(options)
        count = int.from_bytes(rounds, "big")
        if derivation != b"bcrypt" or len(rounds) != 4 or not 0 < count <= MAX_BCRYPT_ROUNDS:
            raise InputError(f"{place}: key file: bcrypt: {count} rounds are not 1 to {MAX_BCRYPT_ROUNDS}")
    return ForeignKey(OPENSSH, body, is_encrypted=is_encrypted, public=require_public(public, place))


def _string(data: bytes) -> tuple[bytes, bytes]:
    """Return a string behind its four-byte length, and the rest."""
    end = 4 + int.from_bytes(data[:4], "big")
    if len(data) < 4 or len(data) < end:
        raise _MalformedError("it ends too early")
    return data[4:end], data[end:]


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Return tag, content and rest of one DER element."""
    if len(data) < 2:
        raise _MalformedError("it ends too early")
    length, start = data[1], 2
    if length >= 0x80:
        start = 2 + (length & 0x7F)
        length = int.from_bytes(data[2:start], "big")
        if start > 4 or length < 0x80:
            raise _MalformedError("a length is not DER")
    if len(data) < start + length:
        raise _MalformedError("it ends too early")
    return data[0], data[start : start + length], data[start + length :]


def _value(data: bytes, wanted: int) -> tuple[bytes, bytes]:
    tag, content, rest = _element(data)
    if tag != wanted:
        raise _MalformedError("an element has another type")
    return content, rest


def _only(data: bytes, wanted: int) -> bytes:
    content, rest = _value(data, wanted)
    if rest:
        raise _MalformedError("bytes follow its end")
    return content


def _algorithm(data: bytes) -> tuple[bytes, bytes]:
    """Return the object identifier and the content of the parameters of an AlgorithmIdentifier's content."""
    identifier, rest = _value(data, _OID)
    return identifier, _value(rest, _SEQUENCE)[0]
