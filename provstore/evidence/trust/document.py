"""The bytes of a trust file: one strict parser and one writer; what it gives has root signatures that hold."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from provstore.errors import ConfigError, InputError, NotUnderstoodError, TrustError
from provstore.evidence.dsse import pae
from provstore.evidence.keys import Signer, fingerprint, is_signed, signed
from provstore.evidence.trust import fields
from provstore.evidence.trust.keys import ACTIVE, FILE, REVOKED, Trust, TrustedKey
from provstore.model import canonical, versions
from provstore.model.canonical import Json

PAYLOAD_TYPE = "application/vnd.provstore.trust+json"
SCHEMA = 1
MAX_KEYS = 10_000
MAX_SIGNATURES = 16
MAX_TEXT_BYTES = 12 * 1024 * 1024
"""Of the whole file: 10,000 keys with long names fit, and nothing larger is read."""
MAX_PAYLOAD_BYTES = MAX_TEXT_BYTES // 4 * 3

_MEMBERS = {"expires", "keys", "lineage", "revocations", "root", "schema", "version"}
_LINEAGE = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Signed:
    """A trust file whose own threshold of root keys has signed it."""

    trust: Trust
    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]
    """(key id, signature), by key id; those of keys that are not its root are not judged here."""

    def signers(self, root: Sequence[TrustedKey]) -> set[str]:
        """Return which of these keys have signed.

        Raises:
            TrustError: A signature under the name of one of them does not hold.
        """
        return _signers(self.trust.source, self.payload, self.signatures, root)


def is_lineage(text: str) -> bool:
    """Return whether this is the name of a trust file through all of its versions: 32 hex digits."""
    return _LINEAGE.fullmatch(text) is not None


def encode(trust: Trust) -> bytes:
    """Return the payload of a trust file: canonical JSON, one spelling for one trust."""
    document: dict[str, Json] = {
        "schema": SCHEMA,
        "lineage": trust.lineage,
        "version": trust.version,
        "expires": trust.expires,
        "root": {"keys": [fields.of_key(key) for key in _sorted(trust.root)], "threshold": trust.threshold},
        "keys": [fields.of_key(key) for key in _sorted(trust.keys)],
        "revocations": [fields.of_revocation(one) for one in sorted(trust.revocations, key=lambda one: one.keyid)],
    }
    return canonical.encode(document)


def sign(trust: Trust, signers: Sequence[Signer]) -> bytes:
    """Return the trust file: its payload in a DSSE envelope signed by each of ``signers``, a line end behind it.

    Raises:
        ConfigError: No signer, more than 16, or one twice.
        TrustError: What a signer made does not hold, or ``trust`` is none that :func:`parse` would take.
    """
    publics = [signer.public_key for signer in signers]
    if not publics or len(publics) > MAX_SIGNATURES or len(set(publics)) < len(publics):
        raise ConfigError(f"trust file: signatures: 1 to {MAX_SIGNATURES} different keys sign it, not {len(publics)}")
    payload = encode(trust)
    message = pae(PAYLOAD_TYPE, payload)
    made = sorted((fingerprint(signer.public_key), signed(signer, message)) for signer in signers)
    envelope: dict[str, Json] = {
        "payload": _base64(payload),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": keyid, "sig": _base64(signature)} for keyid, signature in made],
    }
    data = canonical.encode(envelope) + b"\n"
    parse(data, trust.source)
    return data


def parse(data: bytes, source: str) -> Signed:
    """Return what the bytes of a trust file state, if the threshold of its own root keys has signed it.

    Args:
        data: The file; one line end behind the envelope is allowed.
        source: Its name for errors and for ``Trust.source``.

    Raises:
        TrustError: Malformed, not canonical, a key id that is not its key's, or too few signatures that hold.
        NotUnderstoodError: Another schema than 1, or larger than is looked at.
    """
    payload, signatures = _opened(data, source)
    document = _canonical(payload, MAX_PAYLOAD_BYTES, source, "payload-noncanonical")
    trust = _trust(document, source)
    known = _signers(source, payload, signatures, trust.root)
    if len(known) < trust.threshold:
        raise TrustError(
            f"{source}: trust: signed by {len(known)} of its root keys, {trust.threshold} must sign",
            code="untrusted-key",
        )
    return Signed(trust, payload, signatures)


def _opened(data: bytes, source: str) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
    """Return payload and signatures of the envelope; nothing is verified yet."""
    if len(data) > MAX_TEXT_BYTES:
        raise NotUnderstoodError(f"{source}: trust: larger than {MAX_TEXT_BYTES} bytes")
    envelope = _canonical(data.removesuffix(b"\n"), MAX_TEXT_BYTES, source, "envelope-malformed")
    fault = fields.Fault(source, "envelope")
    members = fault.members(envelope, {"payload", "payloadType", "signatures"})
    if members["payloadType"] != PAYLOAD_TYPE:
        raise fault(f"the payload type is not {PAYLOAD_TYPE}")
    rows = fault.listed(members["signatures"], "signatures", 1, MAX_SIGNATURES)
    signatures = []
    for row in rows:
        one = fault.members(row, {"keyid", "sig"})
        signature = _decoded(one["sig"], source)
        if len(signature) != 64:
            raise fault("a signature is not 64 bytes")
        signatures.append((fields.fingerprint_text(one["keyid"], fault), signature))
    if len({keyid for keyid, _ in signatures}) < len(signatures):
        raise fault("two signatures name one key")
    if signatures != sorted(signatures):
        raise fault("signatures are not in the order of their key ids")
    return _decoded(members["payload"], source), tuple(signatures)


def _trust(document: Json, source: str) -> Trust:
    fault = fields.Fault(source, "trust")
    if isinstance(document, dict) and not fields.is_schema(document, SCHEMA):
        raise versions.unknown(document.get("schema"), SCHEMA, f"{source}: trust")
    members = fault.members(document, _MEMBERS)
    lineage = members["lineage"]
    if not isinstance(lineage, str) or not is_lineage(lineage):
        raise fault("lineage is not 32 hex digits")
    root = fault.members(members["root"], {"keys", "threshold"})
    root_rows = fault.listed(root["keys"], "root keys", 1, MAX_SIGNATURES)
    rows = fault.listed(members["keys"], "keys", 0, MAX_KEYS)
    revoked = fault.listed(members["revocations"], "revocations", 0, MAX_KEYS)
    trust = Trust(
        version=fault.integer(members["version"], "version", 1, canonical.MAX_INTEGER),
        expires=fields.optional_moment(members["expires"], "expires", fault),
        root=_in_order([fields.key(row, source, is_root=True) for row in root_rows], fault),
        threshold=fault.integer(root["threshold"], "threshold", 1, len(root_rows)),
        keys=_in_order([fields.key(row, source, is_root=False) for row in rows], fault),
        revocations=_in_order([fields.revocation(row, source) for row in revoked], fault),
        source=source,
        first_use=False,
        lineage=lineage,
    )
    _require_consistent(trust, fault)
    return trust


def _require_consistent(trust: Trust, fault: fields.Fault) -> None:
    """Refuse a file in which the states of keys and the revocations say different things."""
    revoked = {one.keyid for one in trust.revocations}
    for key in trust.root:
        if key.keyid in revoked or key.status != ACTIVE:
            raise fault(f"{key.keyid} is a root key and revoked or retired: the root must be rotated first")
    root = {key.keyid for key in trust.root}
    for key in trust.keys:
        if key.role == FILE and key.keyid in root:
            # A raw signature over a file can be made to be one over a trust file.
            raise fault(f"{key.keyid} is a root key and signs raw files: these need a key of their own")
        if (key.status == REVOKED) != (key.keyid in revoked):
            raise fault(f"{key.keyid} has status {key.status}, its revocation says otherwise")
    if trust.threshold > sum(key.is_known for key in trust.root):
        raise NotUnderstoodError(f"{trust.source}: trust: its root needs keys of an algorithm that is not known here")


def _in_order(rows: list[fields.Row], fault: fields.Fault) -> tuple[fields.Row, ...]:
    ids = [row.keyid for row in rows]
    if len(set(ids)) < len(ids):
        raise fault("one key is listed twice")
    if ids != sorted(ids):
        raise fault("entries are not in the order of their key ids")
    return tuple(rows)


def _signers(
    source: str, payload: bytes, signatures: Sequence[tuple[str, bytes]], root: Sequence[TrustedKey]
) -> set[str]:
    message = pae(PAYLOAD_TYPE, payload)
    named = dict(signatures)
    found = set()
    for key in root:
        if key.keyid in named and key.is_known:
            if not is_signed(key.public, message, named[key.keyid]):
                raise TrustError(f"{source}: trust: the signature of {key.keyid} does not hold", code="bad-signature")
            found.add(key.keyid)
    return found


def _canonical(data: bytes, max_bytes: int, source: str, code: str) -> Json:
    try:
        return canonical.parse(data, max_bytes=max_bytes)
    except InputError as error:
        raise TrustError(f"{source}: trust: {error}", code=code) from error


def _decoded(text: Json, source: str) -> bytes:
    try:
        data = base64.b64decode(cast("str", text), validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise TrustError(f"{source}: trust: not base64: {error}", code="envelope-malformed") from error
    if _base64(data) != text:
        raise TrustError(f"{source}: trust: base64 with loose ends", code="base64-noncanonical")
    return data


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _sorted(keys: Sequence[TrustedKey]) -> list[TrustedKey]:
    return sorted(keys, key=lambda key: key.keyid)
