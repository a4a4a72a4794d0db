"""One file by itself: what it shows, and what it cannot show alone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from provstore.errors import InputError, TrustError
from provstore.evidence import bundles, checkpoint, dsse, files, keys, merkle, records
from provstore.evidence.trust.keys import Revocation, Trust
from provstore.evidence.verify.file import ALONE, is_evidence, verify_file
from provstore.model.evidence import BundleAt, Observation
from provstore.model.verification import ALWAYS
from tests.sealing import signed_again


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
    path = tmp_path / "x.json"
    path.write_bytes(sealed[1].envelope)
    other = Trust.of_keys([keys.PrivateKey.generate().public_key], "other")
    assert "untrusted-key" in _codes(verify_file(path, other))
    revoked = Revocation(keys.fingerprint(key.public_key), "2026-01-01T00:00:00Z", "lost")
    answer = verify_file(path, replace(trust, revocations=(revoked,)))
    assert (answer.exit_code, "key-unproven" in _codes(answer)) == (3, True)


def test_a_key_that_may_not_sign_this_run_is_not_trusted(sealed, trust, tmp_path):
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


def shown(answer):
    """Everything that is said but words: the run, the axes, and of each finding its code, epoch, record and key."""
    told = [(one.code, one.epoch, one.seq, one.keyid) for one in answer.findings]
    return (answer.run, answer.attempt), dict(answer.axes), sorted(told, key=lambda one: one[0])


def written(tmp_path, data, name="x.json"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


def proof_of(sealed, tmp_path, index=3, end=b""):
    lines, one = sealed
    leaves = [merkle.leaf_hash(line) for line in lines]
    (tmp_path / f"record-{index}.json").write_bytes(lines[index] + end)
    data = checkpoint.tlog_proof(index, merkle.inclusion(leaves, index, 5), one.note)
    return written(tmp_path, data, f"record-{index}.tlog-proof")


SOUND = {"envelope": "ok", "signature": "ok", "key": "ok", "anchor": "unproven"}


def test_everything_that_a_sound_bundle_shows_is_told_and_no_more(sealed, trust, tmp_path, key):
    path = written(tmp_path, sealed[1].envelope)
    answer = verify_file(path, trust)

    assert shown(answer) == (("job", 2), SOUND, [("unanchored", 0, None, keys.fingerprint(key.public_key))])
    assert answer.limits == (ALONE, ALWAYS)
    assert [(one.run, one.attempt, one.where, one.text) for one in answer.findings] == [("job", 2, str(path), ALONE)]


def test_everything_that_a_sound_checkpoint_shows_is_told_and_no_more(sealed, trust, tmp_path, key):
    answer = verify_file(written(tmp_path, sealed[1].note), trust)

    axes = {"signature": "ok", "key": "ok", "anchor": "unproven"}
    assert shown(answer) == (("job", 2), axes, [("unanchored", None, None, keys.fingerprint(key.public_key))])


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_everything_that_a_sound_proof_shows_is_told_and_no_more(sealed, trust, tmp_path, key, end):
    answer = verify_file(proof_of(sealed, tmp_path, end=end), trust)

    axes = {"signature": "ok", "key": "ok", "tree": "ok", "anchor": "unproven"}
    assert shown(answer) == (("job", 2), axes, [("unanchored", None, 3, keys.fingerprint(key.public_key))])


def test_a_checkpoint_that_no_trusted_key_signed_is_told_with_the_run_that_it_names(sealed, tmp_path):
    stranger = Trust.of_keys([keys.PrivateKey.generate().public_key], "other")
    answer = verify_file(written(tmp_path, sealed[1].note), stranger)

    axes = {"signature": "fault", "anchor": "unproven"}
    assert shown(answer) == (("job", 2), axes, [("unanchored", None, None, None), ("untrusted-key", None, None, None)])


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_checkpoint_of_another_log_is_about_no_run(key, trust, tmp_path, is_trusted):
    signer = key if is_trusted else keys.PrivateKey.generate()
    note = checkpoint.make("example.org/log", 5, bytes(32), signer)
    answer = verify_file(written(tmp_path, note), trust)

    assert (answer.run, answer.attempt, answer.axes["signature"]) == ("", 0, "ok" if is_trusted else "fault")
    if is_trusted:
        limited = replace(trust, keys=tuple(replace(one, runs="job") for one in trust.keys))
        told = verify_file(written(tmp_path, note), limited)
        assert told.axes["key"] == "fault"
        assert any("is not trusted to sign this" in one.text for one in told.findings)


def test_a_bundle_of_no_trusted_key_has_a_sound_form_and_a_fault_in_its_signature(sealed, trust, tmp_path, key):
    axes = {"envelope": "ok", "signature": "fault", "anchor": "unproven"}
    path, other = written(tmp_path, sealed[1].envelope), Trust.of_keys([keys.PrivateKey.generate().public_key], "other")
    assert shown(verify_file(path, other)) == (
        ("", 0), axes, [("unanchored", None, None, None), ("untrusted-key", None, None, None)]
    )  # fmt: skip

    said = json.loads(sealed[1].envelope)
    said["signatures"][0]["sig"] = json.loads(dsse.sign(b"{}", dsse.INTOTO, key).encode())["signatures"][0]["sig"]
    changed = written(tmp_path, json.dumps(said, separators=(",", ":"), sort_keys=True).encode())
    assert shown(verify_file(changed, trust)) == (
        ("", 0), axes, [("bad-signature", None, None, None), ("unanchored", None, None, None)]
    )  # fmt: skip
    unknown = replace(trust, keys=tuple(replace(one, alg="ed448") for one in trust.keys))
    assert _codes(verify_file(changed, unknown)) == ["unanchored", "untrusted-key"]


def test_a_bundle_that_names_another_key_than_the_one_that_signed_it_is_told(sealed, trust, tmp_path, key):
    other = keys.PrivateKey.generate().public_key
    both = Trust.of_keys([other, key.public_key], "test")
    said = json.loads(sealed[1].envelope)
    said["signatures"][0]["keyid"] = keys.fingerprint(other)
    path = written(tmp_path, json.dumps(said, separators=(",", ":"), sort_keys=True).encode())
    signer = keys.fingerprint(key.public_key)

    assert shown(verify_file(path, both)) == (
        ("job", 2), SOUND | {"key": "fault"}, [("keyid-mismatch", 0, None, signer), ("unanchored", 0, None, signer)]
    )  # fmt: skip


def test_a_signed_statement_of_a_later_schema_is_unknown_and_accuses_nobody(sealed, trust, tmp_path, key):
    at = BundleAt(sealed[1].envelope, None, "")
    later = signed_again(at, lambda said: said["predicate"].update(schema=2), key)
    answer = verify_file(written(tmp_path, later.envelope), trust)

    assert (dict(answer.axes), _codes(answer)) == (
        {"envelope": "unknown", "anchor": "unproven"}, ["unanchored", "unknown-schema"]
    )  # fmt: skip
    assert answer.exit_code == 4


@pytest.mark.parametrize("data", [b"{}", b"a\nb\nc\n"])
def test_what_has_an_odd_form_is_a_fault_that_no_signature_covers(trust, tmp_path, data):
    answer = verify_file(written(tmp_path, data), trust)

    assert (dict(answer.axes), _codes(answer)) == (
        {"envelope": "fault", "anchor": "unproven"}, ["bad-signature", "envelope-malformed", "unanchored"]
    )  # fmt: skip


SINCE, UNTIL = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


@pytest.mark.parametrize("what", ["bundle", "checkpoint", "proof"])
@pytest.mark.parametrize(
    ("window", "at", "is_proven", "words"),
    [
        ((SINCE, UNTIL), None, False, f"from {SINCE} to {UNTIL},"),
        ((SINCE, UNTIL), "2026-01-15T00:00:00Z", True, ""),
        ((SINCE, UNTIL), "2026-02-15T00:00:00Z", False, f"from {SINCE} to {UNTIL},"),
        ((SINCE, None), "2026-01-15T00:00:00Z", True, ""),
        ((SINCE, None), "2025-12-15T00:00:00Z", False, f"from {SINCE} to further notice,"),
        ((None, UNTIL), None, False, f"from the beginning to {UNTIL},"),
        ((None, UNTIL), "2026-02-01T00:00:00Z", True, ""),
        ((None, None), None, True, ""),
    ],
)
def test_a_key_counts_in_its_window_where_the_time_is_known(
    sealed, trust, tmp_path, key, what, window, at, is_proven, words
):
    listed = tuple(replace(one, not_before=window[0], not_after=window[1]) for one in trust.keys)
    path = (
        proof_of(sealed, tmp_path)
        if what == "proof"
        else written(tmp_path, sealed[1].envelope if what == "bundle" else sealed[1].note)
    )
    answer = verify_file(path, replace(trust, keys=listed), at)

    assert answer.axes["key"] == ("ok" if is_proven else "unproven")
    assert ("key-unproven" in _codes(answer)) is not is_proven
    told = [one for one in answer.findings if one.code == "key-unproven"]
    assert all(words in one.text and keys.fingerprint(key.public_key) in one.text for one in told)


def test_a_revoked_key_is_unproven_and_a_key_of_another_run_is_a_fault(sealed, trust, tmp_path, key):
    path, keyid = written(tmp_path, sealed[1].envelope), keys.fingerprint(key.public_key)
    revoked = verify_file(path, replace(trust, revocations=(Revocation(keyid, SINCE, "lost"),)))
    assert shown(revoked) == (
        ("job", 2), SOUND | {"key": "unproven"}, [("key-unproven", 0, None, keyid), ("unanchored", 0, None, keyid)]
    )  # fmt: skip
    assert any(f"since {SINCE}" in one.text and keyid in one.text for one in revoked.findings)

    limited = verify_file(path, replace(trust, keys=tuple(replace(one, runs="other-*") for one in trust.keys)))
    assert shown(limited) == (
        ("job", 2), SOUND | {"key": "fault"}, [("unanchored", 0, None, keyid), ("untrusted-key", 0, None, keyid)]
    )  # fmt: skip
    assert any("is not trusted to sign job" in one.text for one in limited.findings)


def test_a_part_of_an_export_is_refused_with_what_to_give_instead(sealed, trust, tmp_path):
    line = sealed[0][0]
    for name, data, what, hint in (
        ("record-7.json", line, "is one record:", "record-7.tlog-proof"),
        ("any.json", line + b"\n", "is one record:", "any.tlog-proof"),
        ("epoch-4.jsonl", line, "is the record lines of an epoch:", "epoch-4.dsse.json"),
        ("run.intoto.jsonl", line, "is a file of lines:", ".dsse.json"),
        ("epoch-4.pae.bin", b"x", "is a part of a bundle:", "epoch-4.dsse.json"),
        ("epoch-4.sig.raw", b"x", "is a part of a bundle:", "epoch-4.dsse.json"),
        ("pub-2.pem", b"x", "is a public key:", "--public-key"),
        ("vkey", b"x", "is a public key:", "--public-key"),
        ("mine", b"ssh-ed25519 AAAA", "is a public key:", "--public-key"),
        ("mine", b"-----BEGIN PUBLIC KEY-----\n", "is a public key:", "--public-key"),
        ("VERIFY.txt", b"x", "is a text about an export:", "folder"),
        ("SHA256SUMS.minisig", b"x", "is a list of the digests", "folder"),
    ):
        path = written(tmp_path, data, name)
        with pytest.raises(InputError, match=what) as refused:
            verify_file(path, trust)
        assert hint in (refused.value.hint or ""), name
        assert "no signature covers it by itself" in str(refused.value)
        assert not is_evidence(path)


def test_evidence_is_told_from_other_files_by_its_beginning(sealed, tmp_path):
    assert is_evidence(written(tmp_path, sealed[1].envelope))
    assert is_evidence(written(tmp_path, sealed[1].note))
    assert is_evidence(proof_of(sealed, tmp_path))
    assert is_evidence(written(tmp_path, b"{"))
    assert not is_evidence(written(tmp_path, b""))
    assert not is_evidence(written(tmp_path, b"origin\n5\nAAAA\n"))


def test_a_file_longer_than_evidence_can_be_is_not_judged(trust, tmp_path):
    path = tmp_path / "x"
    with path.open("wb") as file:
        file.truncate(files.MAX_SIGSTORE_BYTES + 1)
    with pytest.raises(TrustError) as refused:
        verify_file(path, trust)
    assert refused.value.code == "cap-exceeded"
    with pytest.raises(InputError, match="cannot be read"):
        verify_file(tmp_path / "none", trust)
