"""The text of provstore's own key file: canonical JSON with everything needed to open it but the passphrase.

The bounds on the derivation are checked while parsing, before anything is derived.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field

from provstore.errors import InputError, NotUnderstoodError, TrustError
from provstore.evidence.keys import fingerprint, require_public
from provstore.model import canonical, versions
from provstore.model.canonical import Json

TYPE = "provstore-private-key"
VERSION = 1
CIPHER = "xsalsa20-poly1305"
DERIVATION = "argon2id"
SALT_BYTES = 16
NONCE_BYTES = 24
TAG_BYTES = 16

_MEMBERS = {"cipher", "data", "kdf", "keyid", "nonce", "public", "type", "version"}
_KIB = 1024
_KDF_MEMBERS = {"memory", "name", "operations", "salt"}


@dataclass(frozen=True, slots=True)
class Cost:
    """What one guess of the passphrase costs.

    Args:
        operations: Passes of argon2id over the memory.
        memory: Bytes.
    """

    operations: int
    memory: int


INTERACTIVE = Cost(2, 2**26)
MODERATE = Cost(3, 2**28)
SENSITIVE = Cost(4, 2**30)
"""libsodium's three settings: the least that is read, the default, and the most that is read."""


@dataclass(frozen=True, slots=True)
class Lock:
    """How a key is encrypted."""

    cost: Cost
    salt: bytes
    nonce: bytes


@dataclass(frozen=True, slots=True)
class KeyDocument:
    """A private key in provstore's own format, not opened.

    Args:
        public: The public key, as the file says.
        data: The seed, encrypted when there is a lock.
        lock: How it is encrypted, None when it is not.
    """

    public: bytes
    data: bytes = field(repr=False)
    lock: Lock | None


def encode(document: KeyDocument) -> bytes:
    """Return the text of a key file."""
    lock = document.lock
    members: dict[str, Json] = {
        "cipher": None,
        "data": _tagged(document.data),
        "kdf": None,
        "keyid": fingerprint(document.public),
        "nonce": None,
        "public": document.public.hex(),
        "type": TYPE,
        "version": VERSION,
    }
    if lock is not None:
        cost: dict[str, Json] = {"memory": lock.cost.memory, "operations": lock.cost.operations}
        derivation: Json = {**cost, "name": DERIVATION, "salt": _tagged(lock.salt)}
        members |= {"cipher": CIPHER, "kdf": derivation, "nonce": _tagged(lock.nonce)}
    return canonical.encode(members) + b"\n"


def parse(data: bytes, place: str) -> KeyDocument:
    """Return what a key file of this format says.

    Raises:
        InputError: Not such a file, or its derivation is too cheap or too costly.
        NotUnderstoodError: A version that is not known.
        TrustError: The stated key id is not that of the stated public key, or that key is not usable.
    """
    if not data.startswith(b"{"):
        raise InputError(f"{place}: key file: not a private key; readable are provstore's own, PKCS#8 and OpenSSH")
    members = canonical.parse(data.removesuffix(b"\n"), thing=f"{place}: key file")
    if not isinstance(members, dict) or members.get("type") != TYPE:
        raise InputError(f"{place}: key file: not a private key of provstore")
    if type(members.get("version")) is not int or members["version"] != VERSION:
        raise versions.unknown(members.get("version"), VERSION, f"{place}: key file", "version")
    if members.keys() != _MEMBERS:
        raise InputError(f"{place}: key file: its members are not exactly {', '.join(sorted(_MEMBERS))}")
    public = _public(members, place)
    lock = _lock(members, place)
    length = 32 if lock is None else 32 + TAG_BYTES
    return KeyDocument(public, _bytes(members["data"], length, f"{place}: data"), lock)


def _public(members: dict[str, Json], place: str) -> bytes:
    text = members["public"]
    try:
        public = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        public = b""
    if public.hex() != text:
        raise InputError(f"{place}: key file: public: not in lower-case hexadecimal")
    require_public(public, place)
    if members["keyid"] != fingerprint(public):
        raise TrustError(
            f"{place}: key file: the stated key id {members['keyid']!r:.60} is not that of the public key, "
            f"{fingerprint(public)}",
            code="keyid-mismatch",
        )
    return public


def _lock(members: dict[str, Json], place: str) -> Lock | None:
    derivation = members["kdf"]
    if derivation is None and members["cipher"] is None and members["nonce"] is None:
        return None
    if not isinstance(derivation, dict) or derivation.keys() != _KDF_MEMBERS:
        raise InputError(f"{place}: key file: kdf: its members are not exactly {', '.join(sorted(_KDF_MEMBERS))}")
    if members["cipher"] != CIPHER or derivation["name"] != DERIVATION:
        raise NotUnderstoodError(f"{place}: key file: encrypted in an unknown way")
    cost = Cost(
        _bounded(derivation["operations"], INTERACTIVE.operations, SENSITIVE.operations, f"{place}: operations"),
        _bounded(derivation["memory"], INTERACTIVE.memory, SENSITIVE.memory, f"{place}: memory"),
    )
    if cost.memory % _KIB:
        # argon2 counts in KiB: two numbers that give one key would be two spellings of it.
        raise InputError(f"{place}: memory: {cost.memory} bytes are not a whole number of KiB")
    salt = _bytes(derivation["salt"], SALT_BYTES, f"{place}: salt")
    return Lock(cost, salt, _bytes(members["nonce"], NONCE_BYTES, f"{place}: nonce"))


def _bounded(value: Json, least: int, most: int, place: str) -> int:
    if type(value) is not int or not least <= value <= most:
        raise InputError(f"{place}: {DERIVATION}: {value!r:.40} is not {least} to {most}")
    return value


def _tagged(data: bytes) -> str:
    return "b64:" + base64.b64encode(data).decode("ascii")


def _bytes(text: Json, length: int, place: str) -> bytes:
    try:
        data = base64.b64decode(text[4:], validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        data = b""
    if len(data) != length or _tagged(data) != text:
        raise InputError(f"{place}: not b64: and the base64 of {length} bytes")
    return data
