"""What a file is that was given in the place of another: a wrong option is no sign of tampering."""

from __future__ import annotations

from provstore.errors import ProvstoreError
from provstore.evidence import checkpoint, public_forms
from provstore.evidence.trust.document import PAYLOAD_TYPE

MAX_BYTES = 65_535
TRUST_FILE = "a trust file"
CHECKPOINT = "a checkpoint"


def kind_of(data: bytes) -> tuple[str, str] | None:
    """Return what a file is and the option that takes it; ``None`` where nothing is sure."""
    if PAYLOAD_TYPE.encode() in data:
        return TRUST_FILE, "--trust FILE"
    if len(data) > MAX_BYTES:
        return None
    if b"PRIVATE KEY-----" in data or b'"provstore-private-key"' in data:
        return "a private key", "--key"
    if public_forms.is_public(data):
        return "a public key", "--public-key FILE"
    try:
        checkpoint.parse(data)
    except ProvstoreError:
        return None
    return CHECKPOINT, "--anchor FILE"
