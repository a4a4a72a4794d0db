"""Agent records of our own: one spelling that every verifier of the family reads alike, signed or not."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

from provstore.errors import ConfigError
from provstore.evidence import dsse, keys
from provstore.model.canonical import MAX_INTEGER, text_of

SCHEME: Final = "aep-dsse-ed25519-decoded-body-v1"
"""The one scheme of signatures that is in force."""
PREDICATE_TYPE: Final = "https://wasmagent.dev/attestations/aep/v0.4"
"""The type of the signed statement, for records of aep/v0.5 as well."""
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
SUBJECT: Final = "urn:wasmagent:run:"
SIGNATURE_MEMBERS: Final = ("signature", "dsse_envelope")

_SORTED = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_MOST_LEVELS = 60


def sign_record(record: Mapping[str, Any], signer: keys.Signer, *, keyid: str | None = None) -> bytes:
    """Return the signed record as one line without its line end.

    Args:
        record: The record without ``signature`` and ``dsse_envelope``.
        signer: Its private key never leaves it.
        keyid: What verifiers know the key by; its fingerprint when not given.

    Raises:
        ConfigError: The record has no run id, carries a signature already, or holds something that verifiers spell in
            different ways.
        TrustError: The signer gave a wrong signature, or the record is larger than anybody here would read.
    """
    canon = canonical_record(record)
    envelope = dsse.sign(statement(record["run_id"], canon), dsse.INTOTO, signer)
    made = envelope.signatures[0]
    name, sig = keyid or made.keyid, text_of(made.sig)
    body = {
        "payloadType": envelope.payload_type,
        "payload": text_of(envelope.payload),
        "signatures": [{"keyid": name, "sig": sig}],
    }
    return orjson.dumps({**record, "dsse_envelope": body, "signature": {"alg": "ed25519", "key_id": name, "sig": sig}})


def statement(run_id: str, canon: bytes) -> bytes:
    """Return what is signed of a record, as it is spelled here.

    Args:
        run_id: Of the record.
        canon: Its canonical bytes.
    """
    subject = {"name": f"{SUBJECT}{run_id}", "digest": {"sha256": link(canon)}}
    said = {"_type": STATEMENT_TYPE, "subject": [subject], "predicateType": PREDICATE_TYPE}
    return b'%b,"predicate":%b}' % (orjson.dumps(said)[:-1], canon)


def canonical_record(record: Mapping[str, Any]) -> bytes:
    """Return the canonical bytes of a record that is to be signed or chained; they are also a record without signature.

    Raises:
        ConfigError: As for :func:`sign_record`.
    """
    if not isinstance(record.get("run_id"), str):
        raise ConfigError("agent record: run_id: is no string")
    if carried := [name for name in SIGNATURE_MEMBERS if name in record]:
        raise ConfigError(f"agent record: {carried[0]}: the record is signed already")
    _require_plain(record, "", 0)
    return orjson.dumps(dict(record), option=_SORTED)


def link(canon: bytes) -> str:
    """Return what the record after the one with these canonical bytes writes as its ``prev_record_hash``."""
    return hashlib.sha256(canon).hexdigest()


def _require_plain(value: object, place: str, level: int) -> None:
    """Refuse what verifiers in other languages spell in another way.

    Raises:
        ConfigError: A number with a fraction, a large integer, a name that objects of JavaScript move or drop, …
    """
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return
    if level > _MOST_LEVELS:
        raise ConfigError(f"agent record: {place[:100]}: more than {_MOST_LEVELS} levels")
    if kind is int:
        if not -MAX_INTEGER <= value <= MAX_INTEGER:  # type: ignore[operator]
            raise ConfigError(f"agent record: {place}: beyond 2**53 - 1: write it as text")
    elif isinstance(value, Mapping):
        for name, member in value.items():
            if not isinstance(name, str) or not name.isascii() or name.isdigit() or name == "__proto__":
                raise ConfigError(f"agent record: {place}: {ascii(name)[:60]}: verifiers order or drop this name")
            _require_plain(member, f"{place}/{name}", level + 1)
    elif isinstance(value, list | tuple):
        for member in value:
            _require_plain(member, place, level + 1)
    else:
        raise ConfigError(f"agent record: {place}: a {kind.__name__}: verifiers have no one spelling for it")
