"""One file by itself: what it shows, and what it cannot show alone."""

from __future__ import annotations

import json

import pytest

from provstore.errors import InputError
from provstore.evidence import bundles, checkpoint, keys, merkle, records
from provstore.evidence.trust.keys import Revocation, Trust
from provstore.evidence.verify.file import ALONE, verify_file
from provstore.model.evidence import Observation


@pytest.fixture(scope="module")
def key():
    return keys.PrivateKey.generate()


@pytest.fixture
def sealed(key):
    lines = [records.observation("job", 2, n, Observation("loss", {"v": n}, rank=0)) for n in range(5)]
    ledger = bundles.Ledger("job", 2, "a" * 32)
    ledger.add(lines)
    return lines, ledger.seal(key, limits=bundles.Limits())


@pytest.fixture
def trust(key):
    return Trust.of_keys([key.public_key], "test")


def _codes(answer):
    return sorted(one.code for one in answer.findings)


def test_a_bundle_alone_is_signed_and_says_that_it_is_alone(sealed, trust, tmp_path):
    path = tmp_path / "epoch-0.dsse.json"
    path.write_bytes(sealed[1].envelope)
    answer = verify_file(path, trust)
    assert (answer.run, answer.attempt, answer.exit_code) == ("job", 2, 3)
    assert _codes(answer) == ["unanchored"]
    assert ALONE in answer.limits
    assert "tree" not in answer.axes


def test_the_records_beside_a_bundle_are_compared_with_it(sealed, trust, tmp_path):
    lines, one = sealed
    (tmp_path / "epoch-0.dsse.json").write_bytes(one.envelope)
    (tmp_path / "epoch-0.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    assert verify_file(tmp_path / "epoch-0.dsse.json", trust).axes["tree"] == "ok"
    (tmp_path / "epoch-0.jsonl").write_bytes(b"".join(line + b"\n" for line in lines[1:]))
    answer = verify_file(tmp_path / "epoch-0.dsse.json", trust)
    assert (answer.exit_code, "subject-mismatch" in _codes(answer)) == (1, True)


@pytest.mark.parametrize("at", range(0, 1400, 97))
def test_a_changed_bit_of_a_bundle_is_never_accepted(sealed, trust, tmp_path, at):
    data = bytearray(sealed[1].envelope)
    data[at % len(data)] ^= 1
    path = tmp_path / "x.json"
    path.write_bytes(data)
    assert verify_file(path, trust).exit_code in (1, 4)


def test_an_unknown_and_a_revoked_key_are_told_apart(sealed, trust, tmp_path, key):
    from dataclasses import replace

    path = tmp_path / "x.json"
    path.write_bytes(sealed[1].envelope)
    other = Trust.of_keys([keys.PrivateKey.generate().public_key], "other")
    assert "untrusted-key" in _codes(verify_file(path, other))
    revoked = Revocation(keys.fingerprint(key.public_key), "2026-01-01T00:00:00Z", "lost")
    answer = verify_file(path, replace(trust, revocations=(revoked,)))
    assert (answer.exit_code, "key-unproven" in _codes(answer)) == (3, True)


def test_a_key_that_may_not_sign_this_run_is_not_trusted(sealed, trust, tmp_path):
    from dataclasses import replace

    path = tmp_path / "x.json"
    path.write_bytes(sealed[1].envelope)
    limited = replace(trust, keys=tuple(replace(one, runs="other-*") for one in trust.keys))
    assert verify_file(path, limited).exit_code == 1


def test_a_checkpoint_alone_shows_who_signed_it(sealed, trust, tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(sealed[1].note)
    answer = verify_file(path, trust)
    assert (answer.run, answer.exit_code, answer.axes["signature"]) == ("job", 3, "ok")
    path.write_bytes(sealed[1].note.replace(b"\n5\n", b"\n6\n"))
    assert verify_file(path, trust).exit_code == 1


def test_a_proof_is_checked_with_the_record_beside_it(sealed, trust, tmp_path):
    lines, one = sealed
    leaves = [merkle.leaf_hash(line) for line in lines]
    proof = checkpoint.tlog_proof(3, merkle.inclusion(leaves, 3, 5), one.note)
    path, record = tmp_path / "record-3.tlog-proof", tmp_path / "record-3.json"
    path.write_bytes(proof)
    with pytest.raises(InputError, match="not beside it"):
        verify_file(path, trust)
    record.write_bytes(lines[3])
    assert verify_file(path, trust).axes["tree"] == "ok"
    record.write_bytes(lines[2])
    answer = verify_file(path, trust)
    assert (answer.exit_code, answer.axes["tree"]) == (1, "fault")


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"{", b"\xff" * 40, b"c2sp.org/tlog-proof@v1\n", b"a\nb\nc\n", b"[" * 9000]
)
def test_what_is_no_evidence_is_never_accepted(data, trust, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(data)
    assert verify_file(path, trust).exit_code in (1, 4)


def test_a_sigstore_bundle_is_read_as_its_envelope(sealed, trust, tmp_path):
    envelope = json.loads(sealed[1].envelope)
    whole = {
        "dsseEnvelope": envelope,
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": "x"}, "tlogEntries": []},
    }
    path = tmp_path / "x.sigstore.json"
    path.write_text(json.dumps(whole, separators=(",", ":"), sort_keys=True))
    assert verify_file(path, trust).axes["signature"] == "ok"
