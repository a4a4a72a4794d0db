"""Signatures of agent records: the one profile that is in force, to the letter."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from provstore.errors import InputError
from provstore.evidence import dsse, keys
from provstore.evidence.aep import forms, legacy
from provstore.evidence.aep.chains import DROPPED
from provstore.evidence.aep.emit import PREDICATE_TYPE, SCHEME, STATEMENT_TYPE, SUBJECT, statement
from provstore.evidence.aep.key_ring import candidates
from provstore.evidence.aep.text import MAX_LEVELS, JsonText
from provstore.model.aep import Axis
from provstore.model.canonical import bytes_of

ENVELOPE: Final = "dsse_envelope"
COPY: Final = "signature"
COPY_DIFFERS: Final = "signature-copy-differs"
UNKNOWN_KEY: Final = "unknown-key"
UNSIGNED: Final = Axis(True, "unsigned")


@dataclass(frozen=True, slots=True)
class _Envelope:
    payload_type: object
    text: str
    """The payload as it stands: base64."""
    body: bytes | None
    """Decoded; ``None`` when it is not base64."""
    keyid: str
    sig: bytes | None
    faults: tuple[str, ...]
    """What is wrong with the form, whoever signed."""


def authenticity(text: JsonText, known: Mapping[str, bytes], *, check_legacy: bool) -> tuple[Axis, tuple[str, ...]]:
    """Return what the signature of a record is worth, and the codes of findings beside it.

    Args:
        text: The record.
        known: Public keys by the id that signatures name them with.
        check_legacy: Check signatures of retired schemes as well; their status does not depend on it.
    """
    record: Mapping[str, Any] = text.value
    if record.get(ENVELOPE) is None:
        if record.get(COPY) is None:
            return UNSIGNED, ()
        return legacy.bare(text, known, check=check_legacy), ()
    envelope = _read(record[ENVELOPE])
    findings = (COPY_DIFFERS,) if _copy_differs(record, envelope) else ()
    publics = candidates(known, envelope.keyid)
    if not publics:
        return _without_key(record, envelope, check_legacy=check_legacy), findings
    axes = [_judged(text, envelope, public, check_legacy=check_legacy) for public in publics]
    # The key that made the signature decides; another one of the same id says nothing against it.
    return next((axis for axis in axes if axis.status != "invalid"), axes[0]), findings


def _judged(text: JsonText, envelope: _Envelope, public: bytes, *, check_legacy: bool) -> Axis:
    details: dict[str, object] = {"scheme": SCHEME, "keyid": envelope.keyid, "key": keys.fingerprint(public)}
    if envelope.faults or envelope.body is None or envelope.sig is None:
        return Axis(True, "invalid", "; ".join(envelope.faults), details)
    if not keys.is_signed(public, dsse.pae(dsse.INTOTO, envelope.body), envelope.sig):
        retired = dsse.pae(dsse.INTOTO, envelope.text.encode())
        if keys.is_signed(public, retired, envelope.sig):
            details |= {"scheme": legacy.B64_PAE, **_differences(text.value, _statement(envelope.body).value)}
            if check_legacy:
                details["legacy"] = {"scheme": legacy.B64_PAE, "verified": True}
            return Axis(True, "unsupported-legacy", "signed over the base64 text of the payload", details)
        return Axis(True, "invalid", "the signature does not hold over the envelope", details)
    if _is_plain(text, envelope.body):
        return Axis(True, "valid", None, {**details, "canonical_variant": forms.VERBATIM.variant, "binding": "exact"})
    return _bound(text, _statement(envelope.body), details)


def _statement(body: bytes) -> JsonText:
    """Return what is signed: a record nests one level deeper in it."""
    return JsonText(body, MAX_LEVELS + 1)


def _is_plain(text: JsonText, body: bytes) -> bool:
    """Return whether what is signed is, to the byte, what is signed of such a record here: then no look inside it."""
    run = text.value.get("run_id")
    return isinstance(run, str) and body == statement(run, text.canon(drop=DROPPED))


def _bound(text: JsonText, signed: JsonText, details: dict[str, object]) -> Axis:
    """Return whether what is signed is what the record says."""
    reason = _statement_fault(signed)
    if reason is not None:
        return Axis(True, "invalid", reason, details)
    subject = signed.value["subject"][0]
    if not _is_same(text, signed):
        return Axis(True, "binding-mismatch", "the record says something else than what is signed", details)
    if subject["name"] != f"{SUBJECT}{text.value.get('run_id')}":
        return Axis(True, "binding-mismatch", "the signed subject names another run", details)
    for form in forms.FORMS:
        if hashlib.sha256(signed.canon(form, part="predicate")).hexdigest() == subject["digest"]["sha256"]:
            return Axis(True, "valid", None, {**details, "canonical_variant": form.variant, "binding": "exact"})
    return Axis(True, "binding-mismatch", "the signed digest is not the one of the record", details)


def _is_same(text: JsonText, signed: JsonText) -> bool:
    for form in (forms.VERBATIM, forms.SAME_VALUE):
        if text.canon(form, drop=DROPPED) == signed.canon(form, part="predicate"):
            return True
    return False


def _statement_fault(signed: JsonText) -> str | None:
    """Return why the signed body is no statement of the profile."""
    value = signed.value
    if not isinstance(value, dict):
        return f"the signed body is no statement: {signed.fault or 'no object'}"
    if value.get("_type") != STATEMENT_TYPE:
        return f"_type is not {STATEMENT_TYPE}"
    if value.get("predicateType") != PREDICATE_TYPE:
        return f"predicateType is not {PREDICATE_TYPE}"
    if not isinstance(value.get("predicate"), dict):
        return "predicate is no object"
    subjects = value.get("subject")
    if not isinstance(subjects, list) or len(subjects) != 1 or not isinstance(subjects[0], dict):
        return "subject is not one subject"
    if not isinstance(subjects[0].get("name"), str):
        return "the subject has no name"
    digests = subjects[0].get("digest")
    if not isinstance(digests, dict) or not isinstance(digests.get("sha256"), str):
        return "the subject has no sha256"
    return None


def _without_key(record: Mapping[str, Any], envelope: _Envelope, *, check_legacy: bool) -> Axis:
    details: dict[str, object] = {"scheme": SCHEME, "keyid": envelope.keyid}
    if not envelope.keyid:
        return Axis(True, "invalid", "; ".join(envelope.faults), details)
    if envelope.faults:
        details["faults"] = list(envelope.faults)
    if envelope.body is not None and legacy.looks_like_base64_pae(record, _statement(envelope.body).value):
        details["looks-like"] = legacy.B64_PAE
        if check_legacy:
            details["legacy"] = {"scheme": legacy.B64_PAE, "verified": "not-possible"}
    return Axis(False, None, UNKNOWN_KEY, details)


def _differences(record: Mapping[str, Any], said: object) -> dict[str, object]:
    """Return what today's rules would say of a signature over the base64 text."""
    predicate = said.get("predicate") if isinstance(said, dict) else None
    signed = predicate.get("schema_version") if isinstance(predicate, dict) else None
    return {
        "today": ["invalid", "binding-mismatch"] if signed != record.get("schema_version") else ["invalid"],
        "predicate_schema_version": signed,
        "record_schema_version": record.get("schema_version"),
    }


def _copy_differs(record: Mapping[str, Any], envelope: _Envelope) -> bool:
    copy = record.get(COPY)
    if copy is None:
        return False
    if not isinstance(copy, dict) or copy.get("alg") != "ed25519" or copy.get("key_id") != envelope.keyid:
        return True
    return envelope.sig is None or copy.get("sig") != base64.b64encode(envelope.sig).decode("ascii")


# Reading the envelope.


def _read(value: object) -> _Envelope:
    if not isinstance(value, dict):
        return _Envelope(None, "", None, "", None, (f"{ENVELOPE} is no object",))
    faults = []
    if value.get("payloadType") != dsse.INTOTO:
        faults.append(f"payloadType is not {dsse.INTOTO}")
    text = value.get("payload")
    body = _decoded(text, "payload", faults)
    listed = value.get("signatures")
    signatures = listed if isinstance(listed, list) else []
    if len(signatures) != 1:
        faults.append(f"{len(signatures)} signatures instead of one")
    first = signatures[0] if signatures and isinstance(signatures[0], dict) else {}
    keyid = first.get("keyid")
    if not isinstance(keyid, str) or not keyid:
        faults.append("the signature names no key")
    sig = _decoded(first.get("sig"), "sig", faults)
    if sig is not None and len(sig) != keys.SIGNATURE_BYTES:
        faults.append(f"sig is not {keys.SIGNATURE_BYTES} bytes")
    name = keyid if isinstance(keyid, str) else ""
    return _Envelope(value.get("payloadType"), text if isinstance(text, str) else "", body, name, sig, tuple(faults))


def _decoded(text: object, place: str, faults: list[str]) -> bytes | None:
    try:
        if not isinstance(text, str):
            raise InputError("no string")
        return bytes_of(text)
    except InputError as error:
        faults.append(f"{place} is not standard base64: {error}")
        return None
