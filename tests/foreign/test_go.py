"""Go's sumdb/note and tlog open our checkpoints and check our proofs; go-securesystemslib checks our envelopes."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from provstore.errors import TrustError
from provstore.evidence import checkpoint, dsse, keys, merkle, public_forms
from tests.foreign import tools

ORIGIN = "example.org/5f3c/run%20%CF%80/0"
SIZES = (1, 2, 3, 4, 7, 8, 9, 64, 100, 127)
LINES = [b'{"n":%d}' % n for n in range(max(SIZES))]
TREE = merkle.Tree(merkle.leaf_hashes(LINES))


def answers(*questions: dict[str, Any]) -> list[dict[str, Any]]:
    """Put questions to the Go program in one run; bytes travel as base64."""
    program = tools.go_program()

    def plain(value: Any) -> Any:
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        return [plain(one) for one in value] if isinstance(value, list) else value

    asked = [{name: plain(value) for name, value in question.items()} for question in questions]
    shown = tools.run([program], stdin=json.dumps(asked).encode())
    assert shown.returncode == 0, shown.stderr
    found: list[dict[str, Any]] = json.loads(shown.stdout)
    assert len(found) == len(questions)
    return found


def accepted(*questions: dict[str, Any]) -> list[bool]:
    return [answer["Accepted"] for answer in answers(*questions)]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_go_opens_our_checkpoint_with_our_verifier_key() -> None:
    key = keys.PrivateKey.generate()
    note = checkpoint.make(ORIGIN, 100, TREE.root(100), key)
    vkey = checkpoint.vkey(ORIGIN, key.public_key)
    (found,) = answers({"Check": "note", "Note": note, "Vkey": vkey})
    assert found["Accepted"], found["Reason"]
    root = base64.b64encode(TREE.root(100)).decode()
    assert base64.b64decode(found["Value"]).decode() == f"{ORIGIN}\n100\n{root}\n"


def test_go_opens_it_with_the_verifier_key_that_the_key_command_writes() -> None:
    key = keys.PrivateKey.generate()
    note = checkpoint.make(ORIGIN, 1, TREE.root(1), key)
    vkey = public_forms.vkey(key.public_key, ORIGIN).decode().strip()
    assert accepted({"Check": "note", "Note": note, "Vkey": vkey}) == [True]


def test_go_rejects_a_flipped_bit_anywhere_in_a_checkpoint() -> None:
    key = keys.PrivateKey.generate()
    note = checkpoint.make(ORIGIN, 100, TREE.root(100), key)
    vkey = checkpoint.vkey(ORIGIN, key.public_key)
    asked = [{"Check": "note", "Note": flipped(note, at), "Vkey": vkey} for at in range(len(note))]
    taken = [at for at, is_accepted in enumerate(accepted(*asked)) if is_accepted]
    # Two bits of the last character of 68 bytes in base64 are loose: Go's reader takes them, ours does not.
    assert set(taken) <= {len(note) - 3}
    for at in taken:
        with pytest.raises(TrustError, match="base64"):
            checkpoint.parse(flipped(note, at))


def test_go_rejects_a_checkpoint_of_another_key_or_name() -> None:
    key, other = keys.PrivateKey.generate(), keys.PrivateKey.generate()
    note = checkpoint.make(ORIGIN, 100, TREE.root(100), key)
    wrong = [checkpoint.vkey(ORIGIN, other.public_key), checkpoint.vkey("example.org/other", key.public_key)]
    assert accepted(*({"Check": "note", "Note": note, "Vkey": vkey} for vkey in wrong)) == [False, False]


def test_go_computes_our_roots() -> None:
    found = answers(*({"Check": "root", "Records": LINES[:size]} for size in (0, *SIZES)))
    assert [base64.b64decode(one["Value"]) for one in found] == [TREE.root(size) for size in (0, *SIZES)]


def inclusion(index: int, size: int) -> dict[str, Any]:
    return {
        "Check": "inclusion",
        "Record": LINES[index],
        "Index": index,
        "Size": size,
        "Root": TREE.root(size),
        "Proof": TREE.inclusion(index, size),
    }


def consistency(first: int, second: int) -> dict[str, Any]:
    return {
        "Check": "consistency",
        "First": first,
        "FirstRoot": TREE.root(first),
        "Size": second,
        "Root": TREE.root(second),
        "Proof": TREE.consistency(first, second),
    }


def test_go_accepts_every_inclusion_proof() -> None:
    assert all(accepted(*(inclusion(index, size) for size in SIZES for index in range(size))))


def test_go_accepts_every_consistency_proof() -> None:
    assert all(accepted(*(consistency(first, size) for size in SIZES for first in range(1, size + 1))))


def test_go_rejects_wrong_indices_roots_records_and_hashes_of_inclusion_proofs() -> None:
    wrong = []
    for size in SIZES[1:]:
        for index in range(size):
            good = inclusion(index, size)
            proof = good["Proof"]
            wrong += [
                {**good, "Index": (index + 1) % size},
                {**good, "Root": TREE.root(size - 1)},
                {**good, "Record": flipped(LINES[index], 0)},
                {**good, "Proof": [flipped(proof[0], 31), *proof[1:]]},
                {**good, "Proof": proof[:-1]},
                {**good, "Proof": [*proof, bytes(32)]},
            ]
    assert not any(accepted(*wrong))


def test_go_rejects_wrong_sizes_roots_and_hashes_of_consistency_proofs() -> None:
    wrong = []
    for size in SIZES[1:]:
        for first in range(1, size):
            good = consistency(first, size)
            proof = good["Proof"]
            wrong += [
                {**good, "FirstRoot": flipped(good["FirstRoot"], 0)},
                {**good, "Root": flipped(good["Root"], 0)},
                {**good, "Proof": [flipped(proof[0], 0), *proof[1:]]},
                {**good, "Proof": proof[:-1]},
                {**good, "Proof": [*proof, bytes(32)]},
            ]
    assert not any(accepted(*wrong))


def envelope(key: keys.PrivateKey, text: bytes) -> dict[str, Any]:
    pem = public_forms.FORMS["pem"](key.public_key).decode()
    return {"Check": "envelope", "Envelope": text, "PublicPem": pem}


def test_go_accepts_our_envelope_and_gives_back_the_payload() -> None:
    key = keys.PrivateKey.generate()
    payload = b'{"_type":"https://in-toto.io/Statement/v1"}'
    (found,) = answers(envelope(key, dsse.sign(payload, dsse.INTOTO, key).encode()))
    assert found["Accepted"], found["Reason"]
    assert base64.b64decode(found["Value"]) == payload


def test_go_rejects_a_flipped_bit_of_payload_type_and_signature() -> None:
    key = keys.PrivateKey.generate()
    good = dsse.sign(b'{"a":1}', dsse.INTOTO, key)
    (signature,) = good.signatures
    wrong = [replace(good, payload=flipped(good.payload, at)) for at in range(len(good.payload))]
    wrong += [replace(good, signatures=(replace(signature, sig=flipped(signature.sig, at)),)) for at in range(64)]
    wrong.append(replace(good, payload_type="application/vnd.in-toto+Json"))
    assert not any(accepted(*(envelope(key, one.encode()) for one in wrong)))


# One key in every spelling of a key id that is in use; the digests were computed with OpenSSL and ssh-keygen.
_PUBLIC = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
# The seed of that key: a value that is printed everywhere and protects nothing.
_SEED = bytes(range(32))
_SPKI_HEX = "a050837d85070582ccf7394b0988847cc312cb88259b894899f6f239cf1791a5"


@pytest.mark.parametrize(
    ("keyid", "is_accepted"),
    [
        (None, True),
        ("", True),
        ("SHA256:lbmsoA0yIEcEiVDRnMWuzm+nV+3ZEEpVIURqFoeSspg", True),
        (_SPKI_HEX, False),
        ("63d00ee3cf4f5c61ad94efa696c68f13b608fe56ecea13fb144a6fd18e9235b9", False),
        ("did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd", False),
    ],
    ids=["absent", "empty", "fingerprint", "SPKI", "securesystemslib", "did-key"],
)
def test_go_takes_only_the_fingerprint_or_no_key_id(keyid: str | None, is_accepted: bool) -> None:
    key = keys.PrivateKey.from_seed(_SEED)
    assert key.public_key.hex() == _PUBLIC
    signed = json.loads(dsse.sign(b'{"a":1}', dsse.INTOTO, key).encode())
    if keyid is None:
        del signed["signatures"][0]["keyid"]
    else:
        signed["signatures"][0]["keyid"] = keyid
    (found,) = answers(envelope(key, json.dumps(signed).encode()))
    assert found["Accepted"] is is_accepted, found["Reason"]
    if not is_accepted:
        assert "accepted signatures do not match threshold" in found["Reason"]
