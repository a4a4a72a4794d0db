"""What a file is that was given in the place of another: a wrong option is no sign of tampering."""

from __future__ import annotations

from provstore.errors import InputError, ProvstoreError
from provstore.evidence import checkpoint, public_forms
from provstore.evidence.trust.document import PAYLOAD_TYPE

MAX_BYTES = 65_535
TRUST_FILE = "a trust file"
CHECKPOINT = "a checkpoint"


def mistaken(data: bytes, place: str, wanted: str) -> InputError | None:
    """Return the error that says which other kind of file was given; ``None`` where it is the kind, or none is sure.

    Args:
        data: What the file holds.
        place: The file and what it was given as.
        wanted: The kind that it should be, such as :data:`CHECKPOINT`.
    """
    kind = kind_of(data)
    if kind is None or kind[0] == wanted:
        return None
    return InputError(f"{place}: this is {kind[0]}, no {wanted.removeprefix('a ')}: use {kind[1]}")


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
