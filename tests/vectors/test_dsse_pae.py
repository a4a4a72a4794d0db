"""What a signature is made over: by a second implementation, by the example of the standard, and by a peer."""

from __future__ import annotations

import json

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st
from securesystemslib.dsse import Envelope as PeerEnvelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey

from provstore.evidence import checkpoint, dsse, keys, rank_heads

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_bodies = st.binary(max_size=300)


def second_pae(kind, body):
    """DSSE, PAE(), one byte after the other."""
    out = bytearray()

    def number(n):
        digits = []
        while True:
            n, digit = divmod(n, 10)
            digits.append(0x30 + digit)
            if not n:
                break
        out.extend(reversed(digits))

    for byte in b"DSSEv1":
        out.append(byte)
    for part in (kind.encode("utf-8"), body):
        out.append(0x20)
        number(len(part))
        out.append(0x20)
        for byte in part:
            out.append(byte)
    return bytes(out)


def test_the_example_of_the_standard_is_encoded_as_printed_there():
    assert dsse.pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_lengths_count_bytes_and_not_characters():
    assert dsse.pae("é", "😀".encode()) == b"DSSEv1 2 \xc3\xa9 4 \xf0\x9f\x98\x80"
    assert dsse.pae("", b"") == b"DSSEv1 0  0 "


@settings(max_examples=300)
@given(_texts, _bodies)
def test_the_encoding_is_that_of_a_second_implementation_and_of_securesystemslib(kind, body):
    assert dsse.pae(kind, body) == second_pae(kind, body) == PeerEnvelope(body, kind, {}).pae()


@settings(max_examples=300)
@given(_texts, _bodies, _texts, _bodies)
def test_two_different_payloads_are_never_encoded_alike(kind, body, other_kind, other_body):
    same = (kind, body) == (other_kind, other_body)

    assert (dsse.pae(kind, body) == dsse.pae(other_kind, other_body)) is same


def test_an_envelope_of_ours_is_accepted_by_securesystemslib_and_an_altered_one_is_not():
    key = keys.PrivateKey.generate()
    made = dsse.sign(b'{"a":1}', dsse.INTOTO, key)
    peer_key = SSlibKey.from_crypto(
        Ed25519PublicKey.from_public_bytes(key.public_key), keyid=keys.fingerprint(key.public_key)
    )

    def accepts(envelope):
        try:
            PeerEnvelope.from_dict(json.loads(envelope.encode())).verify([peer_key], 1)
        except VerificationError:
            return False
        return True

    assert accepts(made)
    assert not accepts(dsse.Envelope(made.payload + b" ", made.payload_type, made.signatures))
    assert not accepts(dsse.Envelope(made.payload, made.payload_type + "x", made.signatures))


def test_an_envelope_of_securesystemslib_is_read_here():
    private = Ed25519PrivateKey.generate()
    signer = CryptoSigner(private)
    peer = PeerEnvelope(b"payload", "application/x", {})
    peer.sign(signer)
    found, odd = dsse.parse_foreign(json.dumps(peer.to_dict()).encode())

    assert (found.payload, found.payload_type, odd) == (b"payload", "application/x", ())
    public = private.public_key().public_bytes_raw()
    assert keys.is_signed(public, found.signed_bytes(), found.signatures[0].sig)


def test_what_is_signed_for_one_purpose_is_never_what_is_signed_for_another():
    """Envelopes begin with DSSEv1 and a blank; checkpoints with an origin, in which no blank can be."""
    head = dsse.pae(rank_heads.TYPE, rank_heads.body("r", 0, 1, 2, bytes(32)))
    bundle = dsse.pae(dsse.INTOTO, b"{}")
    note = checkpoint.make(checkpoint.origin("DSSEv1 1 x", "s", "r", 0), 1, bytes(32), keys.PrivateKey.generate())

    assert head.startswith(b"DSSEv1 ")
    assert bundle.startswith(b"DSSEv1 ")
    assert head.split(b" ")[2] != bundle.split(b" ")[2]
    assert b" " not in checkpoint.parse(note).text
    assert not checkpoint.parse(note).text.startswith(b"DSSEv1 ")
