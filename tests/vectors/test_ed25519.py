"""Signatures of the reference implementation are made and accepted; every way to spoil one is rejected."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import cryptography_vectors
import pytest

from provstore.evidence import keys
from tests.integer_ed25519 import BASE, IDENTITY, ORDER, SMALL_ORDER, add, encoded, multiply

SEED = 20260801


def reference_rows():
    with cryptography_vectors.open_vector_file("asymmetric/Ed25519/sign.input", "r") as lines:
        for line in lines:
            secret, public, message, signed, _ = line.split(":")
            message = bytes.fromhex(message)
            yield bytes.fromhex(secret)[:32], bytes.fromhex(public), message, bytes.fromhex(signed)[:64]


def test_all_1024_rows_of_the_reference_implementation_are_signed_alike_and_accepted():
    rows = list(reference_rows())
    for seed, public, message, signature in rows:
        key = keys.PrivateKey.from_seed(seed)
        assert key.public_key == public
        assert key.sign(message) == signature
        assert keys.is_signed(public, message, signature)

    assert len(rows) == 1024


def flipped(data, bit):
    return bytes(byte ^ (1 << bit % 8 if place == bit // 8 else 0) for place, byte in enumerate(data))


def with_s(signature, s):
    return signature[:32] + s.to_bytes(32, "little")


def spoilt(public, message, signature, chance):
    """Yield the class and the altered (public, message, signature) of each way to spoil a signature."""
    s = int.from_bytes(signature[32:], "little")
    for length in (0, 1, 32, 63):
        yield "truncated", public, message, signature[:length]
    yield "truncated in front", public, message, signature[1:]
    for tail in (b"\0", message[:1] or b"x", signature):
        yield "extended", public, message, signature + tail
    yield "extended in front", public, message, b"\0" + signature
    yield "R flipped", public, message, flipped(signature, chance.randrange(256))
    yield "S flipped", public, message, flipped(signature, 256 + chance.randrange(256))
    for multiple in (1, 2, 3, 8, 14):
        yield "S + multiple of L", public, message, with_s(signature, s + multiple * ORDER)
    for value in (ORDER, ORDER + 1, 2**252, 2**253, 2**255 - 1, 2**256 - 1):
        yield "S out of range", public, message, with_s(signature, value)
    yield "S negated", public, message, with_s(signature, ORDER - s)
    yield "zero", public, message, bytes(64)
    yield "R zero", public, message, bytes(32) + signature[32:]
    yield "S zero", public, message, signature[:32] + bytes(32)
    yield "all ones", public, message, b"\xff" * 64
    yield "R and S exchanged", public, message, signature[32:] + signature[:32]
    yield "other message", public, message + b"\0", signature
    yield "other message", public, flipped(message or b"x", 0), signature
    yield "other key", keys.PrivateKey.from_seed(chance.randbytes(32)).public_key, message, signature
    yield "key flipped", flipped(public, chance.randrange(255)), message, signature
    yield "key truncated", public[:31], message, signature
    yield "key extended", public + b"\0", message, signature


def test_every_way_to_spoil_a_signature_is_rejected():
    chance = random.Random(SEED)
    tried = 0
    for _ in range(60):
        key = keys.PrivateKey.from_seed(chance.randbytes(32))
        message = chance.randbytes(chance.randrange(200))
        assert keys.is_signed(key.public_key, message, key.sign(message))
        for name, *altered in spoilt(key.public_key, message, key.sign(message), chance):
            assert not keys.is_signed(*altered), (name, SEED)
            tried += 1

    assert tried >= 600


def test_every_single_bit_of_a_signature_a_key_and_a_message_counts():
    chance = random.Random(SEED)
    key = keys.PrivateKey.from_seed(chance.randbytes(32))
    message = chance.randbytes(48)
    signature = key.sign(message)

    assert not any(keys.is_signed(key.public_key, message, flipped(signature, bit)) for bit in range(512))
    assert not any(keys.is_signed(flipped(key.public_key, bit), message, signature) for bit in range(256))
    assert not any(keys.is_signed(key.public_key, flipped(message, bit), signature) for bit in range(384))


@pytest.mark.parametrize("public", SMALL_ORDER, ids=bytes.hex)
def test_a_key_of_small_order_signs_nothing_although_openssl_takes_any_message_for_the_identity(public):
    for r in SMALL_ORDER:
        for message in (b"", b"any message", b"another one"):
            assert not keys.is_signed(public, message, r + bytes(32))


def test_openssl_takes_any_message_for_the_identity_key_which_is_why_it_does_not_verify_here():
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    identity = encoded(IDENTITY)
    Ed25519PublicKey.from_public_bytes(identity).verify(identity + bytes(32), b"any message")

    assert not keys.is_signed(identity, b"any message", identity + bytes(32))


def test_the_integers_of_the_test_agree_with_the_keys_of_the_reference_implementation():
    import hashlib

    for seed, public, _, _ in list(reference_rows())[:20]:
        scalar = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little")
        scalar = scalar & (2**254 - 8) | 2**254
        assert encoded(multiply(scalar, BASE)) == public
    assert multiply(ORDER, BASE) == IDENTITY
    assert add(BASE, IDENTITY) == BASE


def public_set(name):
    folder = os.environ.get("PROVSTORE_VECTORS")
    found = sorted(Path(folder).rglob(name)) if folder else []
    if not found:
        pytest.skip(f"{name}: not in PROVSTORE_VECTORS ({folder or 'not set'})")
    return json.loads(found[0].read_text(encoding="utf-8"))


def test_wycheproof_s_151_verdicts_hold():
    judged = [
        (case["result"] == "valid", bytes.fromhex((group.get("publicKey") or group["key"])["pk"]), case)
        for group in public_set("ed25519_test.json")["testGroups"] for case in group["tests"]
    ]  # fmt: skip
    deviations = [
        case["tcId"]
        for valid, public, case in judged
        if keys.is_signed(public, bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"])) is not valid
    ]

    assert deviations == []
    assert len(judged) >= 151


def test_43_of_the_914_edge_cases_of_cctv_are_accepted():
    cases = public_set("ed25519vectors.json")
    accepted = [
        case for case in cases
        if keys.is_signed(bytes.fromhex(case["key"]), case["msg"].encode(), bytes.fromhex(case["sig"]))
    ]  # fmt: skip

    assert (len(accepted), len(cases)) == (43, 914)
