"""Public keys in the spellings that other programs read, and one strict reader for all of them.

A fingerprint or another digest names a key and cannot be turned back into it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType

from provstore.errors import ConfigError, InputError, ProvstoreError, TrustError
from provstore.evidence import checkpoint, minisign, moments
from provstore.evidence.keys import fingerprint, require_public, wire_form
from provstore.model import canonical

DEFAULT_NAME = "provstore"
MAX_BYTES = 65_535

SPKI_PREFIX = bytes.fromhex("302a300506032b6570032100")
"""What stands before the key in a SubjectPublicKeyInfo (RFC 8410)."""

_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_MULTICODEC = b"\xed\x01"
# No control characters and no surrogates anywhere; no blank or plus in the name of a note's key.
_NAME = re.compile(r"[^\s+\x00-\x20\x7f-\x9f\ud800-\udfff]{1,1024}")
_PRINCIPAL = re.compile(r"[^\s\"\\,*?!#\x00-\x20\x7f-\x9f\ud800-\udfff]{1,1024}")
_NAMESPACE = re.compile(r"[A-Za-z0-9@._/-]+")

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END \1-----")
_HEX = re.compile(r"[0-9a-fA-F]{64}")
_VKEY = re.compile(r"([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)")
_DID = re.compile(rf"did:key:z([{_BASE58}]{{40,60}})")
_MINISIGN_BYTES = 42
_BARE_MINISIGN = re.compile(r"RW[A-Za-z0-9+/]{54}")
_PART = re.compile(r'(?:"[^"]*"|[^\s"])+')


def pem(public: bytes) -> bytes:
    """Return SubjectPublicKeyInfo as PEM, which nearly everything but ssh-keygen reads."""
    return b"-----BEGIN PUBLIC KEY-----\n" + base64.b64encode(der(public)) + b"\n-----END PUBLIC KEY-----\n"


def der(public: bytes) -> bytes:
    """Return SubjectPublicKeyInfo as DER: 44 bytes."""
    return SPKI_PREFIX + public


def openssh(public: bytes, name: str = DEFAULT_NAME) -> bytes:
    """Return the line of an OpenSSH ``.pub`` file with ``name`` as its comment."""
    _require(_NAME, name, "comment")
    return f"ssh-ed25519 {_base64(wire_form(public))} {name}\n".encode()


def allowed_signers(
    public: bytes,
    name: str = DEFAULT_NAME,
    *,
    namespaces: Sequence[str] = ("provstore",),
    valid_after: str | None = None,
    valid_before: str | None = None,
) -> bytes:
    """Return the line by which ``ssh-keygen -Y verify`` trusts a key.

    Args:
        public: The key.
        name: The principal.
        namespaces: What its signatures may be for; never empty, because a line without any is trusted for all.
        valid_after: First moment, ISO 8601 in UTC; cut to the second.
        valid_before: Last moment, in the same form.

    Raises:
        ConfigError: A name or namespace that would change the meaning of the line.
        InputError: Not a moment.
    """
    _require(_PRINCIPAL, name, "principal")
    if not namespaces:
        raise ConfigError("allowed_signers: namespaces: none, which would mean all of them")
    for namespace in namespaces:
        _require(_NAMESPACE, namespace, "namespace")
    options = [f'namespaces="{",".join(namespaces)}"']
    options += [f'valid-after="{_openssh_time(valid_after)}"'] if valid_after is not None else []
    options += [f'valid-before="{_openssh_time(valid_before)}"'] if valid_before is not None else []
    return f"{name} {','.join(options)} ssh-ed25519 {_base64(wire_form(public))}\n".encode()


def vkey(public: bytes, name: str = DEFAULT_NAME) -> bytes:
    """Return the verifier key of signed notes (Go's ``sumdb/note``); ``name`` is part of it."""
    _require(_NAME, name, "key name")
    return checkpoint.vkey(name, public).encode() + b"\n"


def jwk(public: bytes) -> bytes:
    """Return the JSON Web Key (RFC 8037)."""
    return canonical.encode({"crv": "Ed25519", "kty": "OKP", "x": _base64url(public)}) + b"\n"


def hexadecimal(public: bytes) -> bytes:
    """Return the 32 bytes in hexadecimal."""
    return public.hex().encode() + b"\n"


def did_key(public: bytes) -> bytes:
    """Return the ``did:key`` identifier: base58 of the multicodec prefix and the key."""
    return f"did:key:z{_base58(_MULTICODEC + public)}\n".encode()


def spki_sha256(public: bytes) -> bytes:
    """Return the SHA-256 of the DER form in hexadecimal: a digest, not a key."""
    return sha256(der(public)).hexdigest().encode() + b"\n"


def securesystemslib_id(public: bytes) -> bytes:
    """Return the key id of securesystemslib and in-toto: the SHA-256 of its JSON form of the key."""
    form: canonical.Json = {"keytype": "ed25519", "keyval": {"public": public.hex()}, "scheme": "ed25519"}
    return sha256(canonical.encode(form)).hexdigest().encode() + b"\n"


def ssh_fingerprint(public: bytes) -> bytes:
    """Return the OpenSSH fingerprint, which is the key id here: a digest, not a key."""
    return fingerprint(public).encode() + b"\n"


def _nameless(writer: Callable[[bytes], bytes]) -> Callable[..., bytes]:
    """Return a writer that takes a name like the others, and has no place for it."""
    return lambda public, name=DEFAULT_NAME: writer(public)  # noqa: ARG005 - one signature for all


FORMS: Mapping[str, Callable[..., bytes]] = MappingProxyType({
    "pem": _nameless(pem),
    "der": _nameless(der),
    "openssh": openssh,
    "allowed_signers": allowed_signers,
    "vkey": vkey,
    "minisign": _nameless(minisign.public_file),
    "jwk": _nameless(jwk),
    "hex": _nameless(hexadecimal),
    "did-key": _nameless(did_key),
    "fingerprint": _nameless(ssh_fingerprint),
    "spki-sha256": _nameless(spki_sha256),
    "securesystemslib-id": _nameless(securesystemslib_id),
})  # fmt: skip
"""Writers by the name of their form: ``writer(public, name="provstore")`` gives the content of a file."""

DIGESTS = frozenset({"fingerprint", "spki-sha256", "securesystemslib-id"})
"""Forms that name a key without telling it."""


def read_public(data: bytes | str, place: str) -> bytes:
    """Return the one public key that ``data`` holds in any of the forms that tell it.

    Args:
        data: Content of a file, or a text such as 64 hexadecimal digits.
        place: Where it is from, for the text of errors.

    Raises:
        InputError: None of the forms, malformed, several keys, or a private key.
        TrustError: A key that is not safe to trust, or that does not fit the digest beside it.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > MAX_BYTES:
        raise InputError(f"{place}: public key: more than {MAX_BYTES} bytes")
    if raw.startswith(SPKI_PREFIX):
        return require_public(raw[len(SPKI_PREFIX) :], place)
    try:
        text = raw.decode("utf-8").strip(" \t\r\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: public key: neither text nor the DER of an Ed25519 key") from error
    return require_public(_read_text(text, place), place)


def is_public(data: bytes) -> bool:
    """Return whether this is a public key and can be nothing else; bare hexadecimal may be a secret as well."""
    if _HEX.fullmatch(data.decode("utf-8", "replace").strip(" \t\r\n")):
        return False
    try:
        read_public(data, "public key")
    except ProvstoreError:
        return False
    return True


def _read_text(text: str, place: str) -> bytes:
    if "PRIVATE KEY-----" in text or "secret key" in text.partition("\n")[0]:
        raise InputError(f"{place}: public key: this is a private key; keep it to yourself")
    if text.startswith("-----BEGIN "):
        return _read_pem(text, place)
    if text.startswith("{"):
        return _read_jwk(text, place)
    if text.startswith("untrusted comment:"):
        return _read_minisign(text, place)
    lines = [line.strip(" \t\r") for line in text.split("\n")]
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(lines) != 1:
        raise InputError(f"{place}: public key: {len(lines)} lines; exactly one key is read")
    return _read_line(lines[0], place)


def _read_line(line: str, place: str) -> bytes:
    if _HEX.fullmatch(line):
        return bytes.fromhex(line)
    if line.startswith("did:key:"):
        return _read_did(line, place)
    if _BARE_MINISIGN.fullmatch(line):
        return _minisign_key(line, place)
    if line.startswith("SHA256:"):
        raise InputError(f"{place}: public key: a fingerprint names a key and does not tell it")
    if match := _VKEY.fullmatch(line):
        return _read_vkey(match, place)
    if "ssh-ed25519" in line:
        return _read_openssh(line, place)
    known = ", ".join(name for name in FORMS if name not in DIGESTS)
    raise InputError(f"{place}: public key: in none of the forms {known}")


def _read_pem(text: str, place: str) -> bytes:
    match = _PEM.fullmatch(text)
    if match is None or match[1] != "PUBLIC KEY":
        raise InputError(f"{place}: public key: not exactly one PEM block of kind PUBLIC KEY")
    body = _bytes_of(re.sub(r"\r?\n", "", match[2]), f"{place}: PEM")
    if not body.startswith(SPKI_PREFIX):
        raise InputError(f"{place}: PEM: not an Ed25519 key")
    return body[len(SPKI_PREFIX) :]


def _read_jwk(text: str, place: str) -> bytes:
    canonical.require_shape(text.encode(), max_bytes=MAX_BYTES, thing=f"{place}: JWK")
    try:
        members = json.loads(text, object_pairs_hook=canonical.without_repetition)
    except InputError as error:
        raise InputError(f"{place}: JWK: {error}") from error
    except ValueError as error:
        raise InputError(f"{place}: JWK: not JSON") from error
    if "d" in members or members.get("type") == "provstore-private-key":
        raise InputError(f"{place}: public key: this is a private key; keep it to yourself")
    is_fitting = members.get("kty") == "OKP" and members.get("crv") == "Ed25519"
    if not is_fitting or str(members.get("alg", "EdDSA")) not in {"EdDSA", "Ed25519"}:
        raise InputError(f"{place}: JWK: not an Ed25519 key (kty OKP, crv Ed25519)")
    x = members.get("x")
    try:
        public = base64.urlsafe_b64decode(x + "=") if isinstance(x, str) else b""
    except (binascii.Error, ValueError):
        public = b""
    if _base64url(public) != x:
        raise InputError(f"{place}: JWK: x: not base64url without padding")
    return public


def _read_minisign(text: str, place: str) -> bytes:
    lines = [line.rstrip("\r") for line in text.split("\n")]
    if len(lines) != 2:
        raise InputError(f"{place}: minisign: not a comment and one line")
    return _minisign_key(lines[1], place)


def _minisign_key(line: str, place: str) -> bytes:
    body = _bytes_of(line, f"{place}: minisign")
    if len(body) != _MINISIGN_BYTES or not body.startswith(b"Ed"):
        raise InputError(f"{place}: minisign: not an Ed25519 public key")
    return body[10:]


def _read_did(line: str, place: str) -> bytes:
    match = _DID.fullmatch(line)
    number = 0
    for digit in match[1] if match else "":
        number = number * 58 + _BASE58.index(digit)
    body = number.to_bytes(48, "big").lstrip(b"\0")
    if match is None or not body.startswith(_MULTICODEC) or _base58(body) != match[1]:
        raise InputError(f"{place}: did:key: not an Ed25519 key")
    return body[len(_MULTICODEC) :]


def _read_vkey(match: re.Match[str], place: str) -> bytes:
    name, stated, text = match.groups()
    body = _bytes_of(text, f"{place}: vkey")
    if not body.startswith(checkpoint.ED25519):
        raise InputError(f"{place}: vkey: not an Ed25519 key")
    public = body[len(checkpoint.ED25519) :]
    if checkpoint.key_hash(name, public).hex() != stated:
        raise TrustError(f"{place}: vkey: the stated hash is not that of name and key", code="keyid-mismatch")
    return public


def _read_openssh(line: str, place: str) -> bytes:
    parts = _PART.findall(line)
    # A key line begins with the key's type; a line of allowed_signers has principals and perhaps options before it.
    at = next((place for place, part in enumerate(parts[:3]) if part == "ssh-ed25519"), None)
    if at is None or len(parts) < at + 2:
        raise InputError(f"{place}: OpenSSH: not the line of an Ed25519 key")
    if at == 2 and "cert-authority" in parts[1]:
        raise InputError(f"{place}: OpenSSH: a certificate authority, not a key")
    blob = _bytes_of(parts[at + 1], f"{place}: OpenSSH")
    public = blob[-32:]
    if blob != wire_form(public):
        raise InputError(f"{place}: OpenSSH: not an Ed25519 key")
    return public


def _bytes_of(text: str, place: str) -> bytes:
    try:
        return canonical.bytes_of(text)
    except InputError as error:
        raise InputError(f"{place}: not canonical base64") from error


def _require(pattern: re.Pattern[str], text: str, what: str) -> None:
    if not pattern.fullmatch(text):
        raise ConfigError(f"{text[:60]!r}: {what}: empty, or with a blank or sign that has a meaning of its own")


def _openssh_time(moment: str) -> str:
    moments.nanoseconds(moment)
    return re.sub(r"[-:T]", "", moment[:19]) + "Z"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _base58(data: bytes) -> str:
    number, digits = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        digits = _BASE58[digit] + digits
    return digits
