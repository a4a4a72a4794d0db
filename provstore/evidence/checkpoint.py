"""Checkpoints and proofs: root and size of a run's tree as a signed note, and one record's proof against it.

Source: C2SP signed-note, tlog-checkpoint and tlog-proof.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import quote

from provstore.errors import ConfigError, InputError, TrustError
from provstore.evidence import keys, merkle
from provstore.model import canonical

ED25519 = b"\x01"
"""Signature type in key hashes and verifier keys."""
MAX_NOTE_BYTES = 64 << 10
MAX_SIGNATURE_LINES = 64
MAX_PROOF_BYTES = MAX_NOTE_BYTES * 2
PROOF_HEAD = "c2sp.org/tlog-proof@v1"

_DASH = "\u2014 "
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")
_KEY_HASH_BYTES = 4
_EMPTY_COMPONENT = "%"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Size and root of a tree as somebody signed them; checked for form only."""

    origin: str
    size: int
    root: bytes
    note: bytes
    """The note, exactly as it came."""
    signatures: tuple[tuple[str, bytes, bytes], ...]
    """Key name, key hash and signature of every signature line, unknown ones included."""

    @property
    def text(self) -> bytes:
        """What the signatures are made over."""
        return _text(self.origin, self.size, self.root)


def origin(org: str, store: str, run: str, attempt: int) -> str:
    """Return the name of one attempt's tree, ``<org>/<store>/<run>/<attempt>``: no blank and no plus can be in it.

    Raises:
        InputError: A part holds a lone surrogate.
    """
    return "/".join((*(_component(part) for part in (org, store, run)), str(attempt)))


def key_hash(name: str, public: bytes) -> bytes:
    """Return the four bytes by which a signature line names its key."""
    return sha256(name.encode() + b"\n" + ED25519 + public).digest()[:_KEY_HASH_BYTES]


def vkey(name: str, public: bytes) -> str:
    """Return a public key as verifiers of notes take it."""
    return f"{name}+{key_hash(name, public).hex()}+{canonical.text_of(ED25519 + public)}"


def make(origin: str, size: int, root: bytes, signer: keys.Signer) -> bytes:
    """Return the signed note about a tree; the key's name is the origin.

    Raises:
        ConfigError: An origin, size or root that no note can hold.
        TrustError: The signer gave a wrong signature.
    """
    if not _is_key_name(origin) or not _DECIMAL.fullmatch(str(size)) or len(root) != merkle.HASH_BYTES:
        raise ConfigError(f"checkpoint: {origin!r}, {size}: needs a name without blanks or plus, a size and a root")
    text = _text(origin, size, root)
    line = key_hash(origin, signer.public_key) + keys.signed(signer, text)
    return text + f"\n{_DASH}{origin} {canonical.text_of(line)}\n".encode()


def parse(note: bytes) -> Checkpoint:
    """Return what a signed note says; nothing of it is true before :func:`check`.

    Raises:
        TrustError: ``envelope-malformed`` or ``cap-exceeded``.
    """
    text = _decoded(note, "checkpoint", MAX_NOTE_BYTES)
    body, blank, lines = text.rpartition("\n\n")
    head = body.split("\n")
    if not blank or len(head) != 3 or not lines.endswith("\n"):
        raise _malformed("checkpoint: lines: need origin, size and root, a blank line, and signature lines")
    named, size, root = head
    if not _is_key_name(named):
        raise _malformed(f"checkpoint: origin: {named[:60]!a} is empty or holds a blank or a plus")
    signatures = lines[:-1].split("\n")
    if len(signatures) > MAX_SIGNATURE_LINES:
        raise TrustError(f"checkpoint: signatures: more than {MAX_SIGNATURE_LINES} lines", code="cap-exceeded")
    found = tuple(_signature(line) for line in signatures)
    return Checkpoint(named, _number(size, "checkpoint: size"), _hash(root, "checkpoint: root"), note, found)


def check(checkpoint: Checkpoint, public: bytes) -> bool:
    """Return whether this key signed the note under the name of its origin.

    Lines of other keys are ignored; every line of this key must hold.
    """
    name = checkpoint.origin
    known = [sig for named, short, sig in checkpoint.signatures if named == name and short == key_hash(name, public)]
    return bool(known) and all(keys.is_signed(public, checkpoint.text, sig) for sig in known)


def tlog_proof(index: int, hashes: Sequence[bytes], note: bytes) -> bytes:
    """Return the proof that one record is in a tree: its index, the hashes from its sibling upward, the checkpoint."""
    lines = [PROOF_HEAD, f"index {index}", *(canonical.text_of(one) for one in hashes), "", ""]
    return "\n".join(lines).encode() + note


def parse_tlog_proof(data: bytes) -> tuple[int, tuple[bytes, ...], Checkpoint]:
    """Return index, hashes and checkpoint of a proof; its ``extra`` line, which nobody signed, is dropped.

    Raises:
        TrustError: ``envelope-malformed`` or ``cap-exceeded``.
    """
    head, blank, note = data.partition(b"\n\n")
    lines = _decoded(head, "proof", MAX_PROOF_BYTES).split("\n")
    if not blank or lines.pop(0) != PROOF_HEAD:
        raise _malformed(f"proof: first line: is not {PROOF_HEAD}, or no blank line follows")
    if lines and lines[0].startswith("extra "):
        _base64(lines.pop(0).removeprefix("extra "), "proof: extra")
    if not lines or not lines[0].startswith("index "):
        raise _malformed("proof: index: is missing")
    index = _number(lines.pop(0).removeprefix("index "), "proof: index")
    if len(lines) > merkle.MAX_PROOF_HASHES:
        raise TrustError(f"proof: hashes: more than {merkle.MAX_PROOF_HASHES}", code="cap-exceeded")
    return index, tuple(_hash(line, "proof: hash") for line in lines), parse(note)


def _text(origin: str, size: int, root: bytes) -> bytes:
    return f"{origin}\n{size}\n{canonical.text_of(root)}\n".encode()


def _component(part: str) -> str:
    try:
        return quote(part, safe="") or _EMPTY_COMPONENT
    except UnicodeEncodeError as error:
        raise InputError(f"checkpoint: origin: {part[:60]!a} holds a lone surrogate") from error


def _is_key_name(name: str) -> bool:
    return bool(name) and "+" not in name and not any(char.isspace() for char in name)


def _malformed(message: str) -> TrustError:
    return TrustError(message, code="envelope-malformed")


def _decoded(data: bytes, thing: str, most: int) -> str:
    if len(data) > most:
        raise TrustError(f"{thing}: size: {len(data)} bytes are more than {most}", code="cap-exceeded")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _malformed(f"{thing}: encoding: byte {error.start} is not UTF-8") from error
    if _CONTROL.search(text):
        raise _malformed(f"{thing}: text: holds a control character")
    return text


def _number(text: str, place: str) -> int:
    if not _DECIMAL.fullmatch(text):
        raise _malformed(f"{place}: {text[:40]!a} is not a decimal number without leading zeros")
    return int(text)


def _base64(text: str, place: str) -> bytes:
    try:
        return canonical.bytes_of(text)
    except InputError as error:
        raise _malformed(f"{place}: {error}") from error


def _hash(text: str, place: str) -> bytes:
    found = _base64(text, place)
    if len(found) != merkle.HASH_BYTES:
        raise _malformed(f"{place}: {len(found)} bytes are not {merkle.HASH_BYTES}")
    return found


def _signature(line: str) -> tuple[str, bytes, bytes]:
    name, blank, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not blank or not _is_key_name(name):
        raise _malformed(f"checkpoint: signature line: {line[:60]!a} is none")
    said = _base64(encoded, "checkpoint: signature")
    if len(said) <= _KEY_HASH_BYTES:
        raise _malformed("checkpoint: signature: too short")
    return name, said[:_KEY_HASH_BYTES], said[_KEY_HASH_BYTES:]
