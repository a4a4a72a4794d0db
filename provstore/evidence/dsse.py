"""DSSE envelopes: the bytes that are signed, and the two ways of reading an envelope.

Our own bundles are read strictly (:func:`parse`), what others made leniently (:func:`parse_foreign`). Neither looks
at the payload: it is nobody's words until its signature has been checked.

Source: DSSE v1.0.2, protocol and envelope.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from provstore.errors import InputError, NotUnderstoodError, TrustError
from provstore.evidence import keys
from provstore.model import canonical

INTOTO = "application/vnd.in-toto+json"
"""Payload type of a bundle."""
MAX_PAYLOAD_BYTES = 1 << 20
MAX_TEXT_BYTES = 2 << 20
MAX_STRING_BYTES = 64 << 10
"""Longest string of an envelope beside its payload."""
MAX_FOREIGN_SIGNATURES = 16

_MEMBERS = {"payload", "payloadType", "signatures"}
_SIGNATURE_MEMBERS = {"keyid", "sig"}
_URL_SAFE = str.maketrans("-_", "+/")


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature of an envelope."""

    keyid: str
    """A hint: it is not signed. ``""`` where a foreign envelope has none."""
    sig: bytes
    """As decoded; its length is not checked."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload with its type and signatures, checked for form only."""

    payload: bytes
    payload_type: str
    signatures: tuple[Signature, ...]

    def signed_bytes(self) -> bytes:
        """Return what every signature of this envelope is made over."""
        return pae(self.payload_type, self.payload)

    def encode(self) -> bytes:
        """Return the one text that :func:`parse` takes for this envelope."""
        signatures: list[canonical.Json] = [
            {"keyid": one.keyid, "sig": canonical.text_of(one.sig)} for one in self.signatures
        ]
        payload = canonical.text_of(self.payload)
        return canonical.encode({"payload": payload, "payloadType": self.payload_type, "signatures": signatures})


def pae(payload_type: str, body: bytes) -> bytes:
    """Return the pre-authentication encoding of a payload: what is signed.

    Raises:
        TrustError: The type holds a lone surrogate.
    """
    kind = _utf8(payload_type, "payloadType")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(body), body)


def sign(payload: bytes, payload_type: str, signer: keys.Signer) -> Envelope:
    """Return an envelope with one signature, which was checked before it is given.

    Raises:
        TrustError: The payload is larger than anybody here would read, or the signer gave a wrong signature.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise TrustError(
            f"envelope: payload: {len(payload)} bytes are more than {MAX_PAYLOAD_BYTES}", code="cap-exceeded"
        )
    sig = keys.signed(signer, pae(payload_type, payload))
    return Envelope(payload, payload_type, (Signature(keys.fingerprint(signer.public_key), sig),))


def parse(data: bytes, *, payload_type: str = INTOTO, most_signatures: int = 1) -> Envelope:
    """Return an envelope of our own: canonical JSON, the known members, canonical base64.

    Args:
        data: The envelope exactly as stored.
        payload_type: The only type that is taken.
        most_signatures: How many signatures it may have; it must have one at least.

    Raises:
        TrustError: ``envelope-malformed``, ``base64-noncanonical`` or ``cap-exceeded``.
    """
    try:
        value = canonical.parse(data, max_bytes=MAX_TEXT_BYTES, thing="envelope")
    except NotUnderstoodError as error:
        raise TrustError(str(error), code="cap-exceeded") from error
    except InputError as error:
        raise _malformed(str(error)) from error
    members = _object(value, _MEMBERS, "members")
    if members["payloadType"] != payload_type:
        raise _malformed(f"envelope: payloadType: {_shown(members['payloadType'])} is not {payload_type}")
    payload = _decoded(_payload_text(members["payload"]), "payload")
    found = tuple(_own_signature(one) for one in _signature_list(members["signatures"], most_signatures))
    return Envelope(_within(payload), payload_type, found)


def parse_foreign(data: bytes) -> tuple[Envelope, tuple[str, ...]]:
    """Return an envelope that somebody else made, and the codes of what is odd about its text.

    As DSSE asks, unknown members are ignored and both base64 alphabets are taken. A repeated name, or a known name in
    another case, is refused: readers differ in which of the two they take.

    Raises:
        TrustError: ``envelope-malformed`` or ``cap-exceeded``.
    """
    members = _members(_foreign_json(data), _MEMBERS, required=_MEMBERS)
    signatures = _signature_list(members["signatures"], MAX_FOREIGN_SIGNATURES, cap=True)
    kind = _string(members["payloadType"], "payloadType")
    payload, odd = _lenient(_payload_text(members["payload"]), "payload")
    found = []
    for one in signatures:
        fields = _members(one, _SIGNATURE_MEMBERS, required={"sig"})
        keyid = fields.get("keyid")
        sig, sig_odd = _lenient(_string(fields["sig"], "sig"), "sig")
        found.append(Signature("" if keyid is None else _string(keyid, "keyid"), sig))
        odd = odd or sig_odd
    return Envelope(_within(payload), kind, tuple(found)), ("base64-noncanonical",) if odd else ()


def _malformed(message: str) -> TrustError:
    return TrustError(message, code="envelope-malformed")


def _shown(value: object) -> str:
    return ascii(value[:60]) if isinstance(value, str) else f"a {type(value).__name__}"


def _object(value: object, members: set[str], place: str) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != members:
        raise _malformed(f"envelope: {place}: need exactly {', '.join(sorted(members))}")
    return value


def _members(value: object, known: set[str], required: set[str]) -> dict[str, Any]:
    """Return a foreign object in which no name could be mistaken for a known one."""
    if not isinstance(value, dict) or not required <= value.keys():
        raise _malformed(f"envelope: members: need {', '.join(sorted(required))}")
    folded = {name.casefold() for name in known}
    for name in value.keys() - known:
        if name.casefold() in folded:
            raise _malformed(f"envelope: member {name[:40]!a}: a known name in another case")
    return value


def _signature_list(value: object, most: int, *, cap: bool = False) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise _malformed("envelope: signatures: need a list with a signature")
    if len(value) > most:
        message = f"envelope: signatures: {len(value)} are more than {most}"
        raise TrustError(message, code="cap-exceeded" if cap else "envelope-malformed")
    return value


def _own_signature(value: object) -> Signature:
    fields = _object(value, _SIGNATURE_MEMBERS, "signature")
    return Signature(_string(fields["keyid"], "keyid"), _decoded(_string(fields["sig"], "sig"), "sig"))


def _string(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise _malformed(f"envelope: {place}: is no string")
    if len(value) > MAX_STRING_BYTES or len(_utf8(value, place)) > MAX_STRING_BYTES:
        raise TrustError(f"envelope: {place}: more than {MAX_STRING_BYTES} bytes", code="cap-exceeded")
    return value


def _payload_text(value: object) -> str:
    if not isinstance(value, str):
        raise _malformed("envelope: payload: is no string")
    if len(value) > (MAX_PAYLOAD_BYTES + 2) // 3 * 4:
        raise TrustError(f"envelope: payload: more than {MAX_PAYLOAD_BYTES} bytes", code="cap-exceeded")
    return value


def _within(payload: bytes) -> bytes:
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise TrustError(f"envelope: payload: more than {MAX_PAYLOAD_BYTES} bytes", code="cap-exceeded")
    return payload


def _utf8(text: str, place: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _malformed(f"envelope: {place}: holds a lone surrogate, which is no Unicode text") from error


def _decoded(text: str, place: str) -> bytes:
    try:
        return canonical.bytes_of(text)
    except InputError as error:
        raise TrustError(f"envelope: {place}: {error}", code="base64-noncanonical") from error


def _lenient(text: str, place: str) -> tuple[bytes, bool]:
    """Return decoded base64 of either alphabet, and whether it has loose trailing bits."""
    mixed = ("-" in text or "_" in text) and ("+" in text or "/" in text)
    try:
        if mixed:
            raise ValueError("both alphabets at once")
        standard = text.translate(_URL_SAFE)
        data = base64.b64decode(standard.encode("ascii"), validate=True)
    except ValueError as error:
        raise _malformed(f"envelope: {place}: {text[:40]!a}: not base64: {error}") from error
    return data, canonical.text_of(data) != standard


def _foreign_json(data: bytes) -> object:
    try:
        canonical.require_shape(data, max_bytes=MAX_TEXT_BYTES, thing="envelope")
        return _FOREIGN.decode(data.decode())
    except NotUnderstoodError as error:
        raise TrustError(str(error), code="cap-exceeded") from error
    except InputError as error:
        raise _malformed(f"envelope: {error}") from error
    except ValueError as error:
        raise _malformed(f"envelope: JSON: {error}") from error


def _no_constant(name: str) -> object:
    raise _malformed(f"envelope: number: {name} is no JSON")


def _number(_: str) -> int:
    return 0


# Numbers stand only in members that are ignored, and are not converted: a long one would cost or raise.
_FOREIGN = json.JSONDecoder(
    object_pairs_hook=canonical.without_repetition, parse_float=_number, parse_int=_number, parse_constant=_no_constant
)
