"""Retired schemes of signatures: named always, checked on demand, never accepted."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from provstore.evidence import keys
from provstore.evidence.aep import forms
from provstore.evidence.aep.chains import DROPPED
from provstore.evidence.aep.key_ring import candidates
from provstore.evidence.aep.text import JsonText
from provstore.model.aep import Axis

JS_CANONICAL: Final = "js-canonical-ed25519"
B64_PAE: Final = "js-dsse-b64-pae"
RUST_STRUCT: Final = "rust-struct-sha256-ed25519"
TRACE_PIPELINE: Final = "trace-pipeline-ed25519"
TRAIN_AEP: Final = "train-aep-ed25519"
STATUS: Final = "unsupported-legacy"

_HEX = re.compile(r"[0-9a-fA-F]{128}")
_RUNTIME = "@wasmagent/aep@2.3.1"


def bare(text: JsonText, known: Mapping[str, bytes], *, check: bool) -> Axis:
    """Return the axis of a record with a ``signature`` and no envelope.

    Args:
        text: The record.
        known: Public keys by id.
        check: Try the schemes that such a signature may be of.
    """
    signature = text.value["signature"]
    fields = signature if isinstance(signature, dict) else {}
    keyid, sig = fields.get("key_id"), fields.get("sig")
    scheme = _guessed(sig)
    details: dict[str, object] = {"keyid": keyid} if isinstance(keyid, str) else {}
    if check:
        scheme, verified = _checked(text, sig, candidates(known, keyid), scheme)
        details["legacy"] = {"scheme": scheme, "verified": verified}
    return Axis(True, STATUS, "a signature without an envelope", {"scheme": scheme, **details})


def looks_like_base64_pae(record: Mapping[str, Any], statement: object) -> bool:
    """Return whether an envelope shows the marks of the writer that signed the base64 text."""
    predicate = statement.get("predicate") if isinstance(statement, dict) else None
    signed = predicate.get("schema_version") if isinstance(predicate, dict) else None
    said = record.get("schema_version")
    return (signed, said) == ("aep/v0.3", "aep/v0.4") or (signed != said and record.get("runtime_version") == _RUNTIME)


def _guessed(sig: object) -> str:
    """Return the scheme that the spelling of a signature points to."""
    if isinstance(sig, str) and _HEX.fullmatch(sig):
        return RUST_STRUCT
    return TRACE_PIPELINE if isinstance(sig, str) and set("-_") & set(sig) else JS_CANONICAL


def _checked(text: JsonText, sig: object, publics: Sequence[bytes], guessed: str) -> tuple[str, bool | str]:
    """Return the scheme and whether the signature holds by it; ``not-possible`` without its key."""
    data = _signature_bytes(sig)
    if not publics:
        return guessed, "not-possible"
    if data is None:
        return guessed, False
    for scheme, messages in _SCHEMES.items():
        if any(keys.is_signed(public, message, data) for message in messages(text) for public in publics):
            return scheme, True
    # The order of the members may have changed on the way: that it fails then proves nothing.
    return guessed, "not-possible" if guessed == RUST_STRUCT else False


def _signature_bytes(sig: object) -> bytes | None:
    if not isinstance(sig, str):
        return None
    if _HEX.fullmatch(sig):
        return bytes.fromhex(sig)
    try:
        standard = sig.translate(str.maketrans("-_", "+/"))
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _canonical(text: JsonText) -> list[bytes]:
    return [text.canon(form, drop=DROPPED) for form in forms.FORMS]


def _without_signature(text: JsonText) -> list[bytes]:
    return [text.canon(form, drop=("signature",)) for form in forms.FORMS]


def _in_order(text: JsonText) -> list[bytes]:
    tree = {name: member for name, member in text.tree().items() if name not in DROPPED}
    return [hashlib.sha256(forms.written(tree, forms.IN_ORDER).encode()).digest()]


_SCHEMES: dict[str, Callable[[JsonText], list[bytes]]] = {
    JS_CANONICAL: _canonical,
    RUST_STRUCT: _in_order,
    TRACE_PIPELINE: _without_signature,
}
