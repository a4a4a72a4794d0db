"""The bytes of a trust file: one spelling, signatures of its own root, and nothing else is taken for one."""

import base64
import json
import random

import pytest
from securesystemslib.dsse import Envelope as PeerEnvelope
from securesystemslib.signer import SSlibKey

from provstore.errors import ConfigError, InputError, NotUnderstoodError, ProvstoreError, TrustError
from provstore.evidence.trust import changes as trust_changes
from provstore.evidence.trust import document as trust_document
from provstore.evidence.trust.keys import TrustedKey
from tests.integer_ed25519 import NON_CANONICAL, SMALL_ORDER
from tests.trust_files import Key, document, entry, envelope, pae, signature, text

ROOT, SECOND, BOB = Key(), Key(), Key()


def parse(data):
    return trust_document.parse(data, "trust.json")


def refused(data, code):
    with pytest.raises(TrustError) as caught:
        parse(data)
    assert str(caught.value).startswith("trust.json: ")
    assert caught.value.code == code
    return str(caught.value)


def test_a_trust_file_written_by_hand_is_read():
    one = entry(BOB, "rank", runs="exp-*", alias="bob", notAfter="2027-01-01T00:00:00Z", namespaces=["provstore"])
    trust = parse(envelope(document([ROOT], [one], version=7), [ROOT])).trust

    assert (trust.version, trust.threshold, trust.expires, trust.source) == (7, 1, None, "trust.json")
    assert [key.public for key in trust.root] == [ROOT.public_key]
    assert trust.keys == (
        TrustedKey(
            BOB.keyid, "ed25519", BOB.public_key, "rank", "exp-*", ("provstore",), None, "2027-01-01T00:00:00Z",
            "active", "bob",
        ),
    )  # fmt: skip


def test_what_is_written_is_what_was_read_to_the_last_byte():
    revocation = {"keyid": BOB.keyid, "reason": "lost: “laptop”", "since": "2026-01-31T00:00:00Z"}
    keys = [entry(BOB, status="revoked"), entry(ROOT, "log", alias="a\u0000b")]
    data = envelope(document([ROOT, SECOND], keys, threshold=2, revocations=[revocation]), [ROOT, SECOND])

    assert trust_document.sign(parse(data).trust, [SECOND, ROOT]) == data + b"\n"


def test_another_implementation_of_dsse_finds_the_threshold_of_signatures():
    trust = trust_changes.first([ROOT.public_key, SECOND.public_key], threshold=2)
    peer = PeerEnvelope.from_dict(json.loads(trust_document.sign(trust, [ROOT, SECOND])))
    keys = [SSlibKey.from_crypto(key.private.public_key(), keyid=key.keyid) for key in (ROOT, SECOND)]

    assert set(peer.verify(keys, 2)) == {ROOT.keyid, SECOND.keyid}


@pytest.mark.parametrize("signers", [[], [SECOND]], ids=["nobody", "a stranger"])
def test_a_file_that_its_root_did_not_sign_is_refused(signers):
    data = envelope(document([ROOT]), signers)

    refused(data, "envelope-malformed" if not signers else "untrusted-key")


def test_one_signature_is_not_enough_where_two_must_sign():
    message = refused(envelope(document([ROOT, SECOND], threshold=2), [ROOT]), "untrusted-key")

    assert "signed by 1 of its root keys, 2 must sign" in message


def test_one_key_that_signs_twice_is_not_two():
    payload = text(document([ROOT, SECOND], threshold=2))
    twice = [signature(ROOT, payload)] * 2

    refused(envelope(payload, [], signatures=twice), "envelope-malformed")


def test_one_key_under_two_key_ids_is_not_two():
    payload = text(document([ROOT, SECOND], threshold=2))
    forged = {**signature(ROOT, payload), "keyid": SECOND.keyid}
    both = sorted([signature(ROOT, payload), forged], key=lambda one: one["keyid"])

    refused(envelope(payload, [], signatures=both), "bad-signature")


def test_a_key_twice_in_the_root_is_refused():
    root = document([ROOT, ROOT], threshold=2)

    assert "listed twice" in refused(envelope(root, [ROOT]), "envelope-malformed")


def test_one_key_with_two_ids_is_refused_by_the_id_that_is_not_its_own():
    root = document([ROOT])
    root["root"]["keys"].append(entry(ROOT, "root", keyid=SECOND.keyid))
    root["root"]["keys"].sort(key=lambda one: one["keyid"])

    refused(envelope(root, [ROOT]), "keyid-mismatch")


def test_a_stored_key_id_that_is_not_the_keys_is_a_fault():
    data = envelope(document([ROOT], [entry(BOB, keyid=SECOND.keyid)]), [ROOT])

    assert BOB.keyid in refused(data, "keyid-mismatch")


def test_a_key_listed_twice_is_refused():
    data = envelope(document([ROOT], [entry(BOB), entry(BOB, "rank")]), [ROOT])

    refused(data, "envelope-malformed")


@pytest.mark.parametrize("public", sorted({*SMALL_ORDER, *NON_CANONICAL}), ids=bytes.hex)
def test_a_key_that_anybody_could_sign_for_is_refused_in_root_and_keys(public):
    weak = Key()
    weak.public_key = public
    weak.keyid = trust_document.fingerprint(public)

    refused(envelope(document([ROOT], [entry(weak)]), [ROOT]), "untrusted-key")
    refused(envelope(document([ROOT, weak]), [ROOT]), "untrusted-key")


def test_an_unknown_algorithm_is_kept_and_never_usable():
    strange = entry(BOB, alg="ml-dsa-44", public="ab" * 1312)
    trust = parse(envelope(document([ROOT], [strange]), [ROOT])).trust

    assert [key.alg for key in trust.unknown()] == ["ml-dsa-44"]
    assert trust.candidates(BOB.keyid, "any", ["run"]) == []


def test_a_root_that_needs_keys_of_an_unknown_algorithm_is_not_understood():
    root = document([ROOT], threshold=2)
    root["root"]["keys"] = sorted(
        [entry(ROOT, "root"), entry(SECOND, "root", alg="ml-dsa-44")], key=lambda one: one["keyid"]
    )

    with pytest.raises(NotUnderstoodError, match="algorithm that is not known here") as caught:
        parse(envelope(root, [ROOT, SECOND]))
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("schema", [0, 2, "1", None, True])
def test_an_unknown_schema_is_not_understood(schema):
    with pytest.raises(NotUnderstoodError, match="schema") as caught:
        parse(envelope(document([ROOT], schema=schema), [ROOT]))
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (text(document([ROOT])) + b" ", "payload-noncanonical"),
        (json.dumps(document([ROOT]), sort_keys=True).encode(), "payload-noncanonical"),
        (text(document([ROOT])).replace(b'"version":1', b'"version":1.0'), "payload-noncanonical"),
        (text(document([ROOT])).replace(b'"version":1', b'"version":1,"version":1'), "payload-noncanonical"),
        (b"\xef\xbb\xbf" + text(document([ROOT])), "payload-noncanonical"),
        (b"[" * 100_000, "payload-noncanonical"),
        (b"", "payload-noncanonical"),
        (b"null", "envelope-malformed"),
        (b"[]", "envelope-malformed"),
    ],
    ids=["blank", "spaces", "float", "repeated member", "BOM", "deep", "empty", "null", "list"],
)
def test_a_signed_payload_in_any_other_spelling_is_refused(payload, code):
    refused(envelope(payload, [ROOT]), code)


OUT_OF_RANGE = [
    {"version": 0}, {"version": -1}, {"version": "2"}, {"version": True}, {"lineage": "x"}, {"extra": 1},
    {"expires": "2026-02-30T00:00:00Z"}, {"expires": "2026-01-31"}, {"expires": "2026-01-31T00:00:00+00:00"},
    {"keys": {}}, {"keys": [1]}, {"keys": None}, {"root": []},
    {"root": {"keys": [], "threshold": 0}},
    {"root": {"keys": [entry(ROOT, "root")], "threshold": 0}},
    {"root": {"keys": [entry(ROOT, "root")], "threshold": 2}},
    {"root": {"keys": [entry(ROOT, "run")], "threshold": 1}},
    {"keys": [entry(BOB, "root")]}, {"keys": [entry(BOB, "owner")]}, {"keys": [entry(BOB, status="asleep")]},
    {"keys": [entry(BOB, runs="")]}, {"keys": [entry(BOB, runs="*" * 257)]}, {"keys": [entry(BOB, alias="")]},
    {"keys": [entry(BOB, alg="")]}, {"keys": [entry(BOB, alg="Ed25519")]},
    {"keys": [entry(BOB, public=BOB.public_key.hex().upper())]}, {"keys": [entry(BOB, keyid="SHA256:x")]},
    {"keys": [entry(BOB, notBefore="yesterday")]}, {"keys": [entry(BOB, namespaces=["b", "a"])]},
    {"keys": [entry(BOB, namespaces=["a", "a"])]}, {"keys": [entry(BOB, more=1)]},
    {"keys": [entry(BOB, status="revoked")]},
    {"keys": [entry(ROOT, "file")]},
    {"revocations": [{"keyid": BOB.keyid, "reason": "", "since": "2026-01-01T00:00:00Z"}]},
    {"revocations": [{"keyid": BOB.keyid, "reason": "lost", "since": None}]},
    {"revocations": [{"keyid": ROOT.keyid, "reason": "lost", "since": "2026-01-01T00:00:00Z"}]},
    {"keys": [entry(BOB)], "revocations": [{"keyid": BOB.keyid, "reason": "x", "since": "2026-01-01T00:00:00Z"}]},
]  # fmt: skip


@pytest.mark.parametrize("changes", OUT_OF_RANGE, ids=[f"{'+'.join(one)}-{at}" for at, one in enumerate(OUT_OF_RANGE)])
def test_a_member_out_of_its_range_is_refused_although_it_is_signed(changes):
    with pytest.raises(TrustError) as caught:
        parse(envelope(document([ROOT], **changes), [ROOT]))
    assert caught.value.code in {"envelope-malformed", "untrusted-key"}


MALFORMED = [
    {"payloadType": "application/vnd.in-toto+json"}, {"payloadType": "application/vnd.provstore.trust+Json"},
    {"payloadtype": "x"}, {"signatures": {}}, {"signatures": [1]}, {"signatures": [{"keyid": ROOT.keyid}]},
    {"signatures": [{"keyid": ROOT.keyid, "sig": "AA=="}]}, {"signatures": [{"keyid": "", "sig": "AA=="}]},
    {"payload": "===="}, {"payload": 1}, {"payload": None},
]  # fmt: skip


@pytest.mark.parametrize("changes", MALFORMED, ids=[f"{'+'.join(one)}-{at}" for at, one in enumerate(MALFORMED)])
def test_an_envelope_of_another_form_is_refused(changes):
    refused(envelope(document([ROOT]), [ROOT], **changes), "envelope-malformed")


def test_base64_with_loose_ends_or_of_the_other_alphabet_is_refused():
    payload = text(document([ROOT], [entry(BOB, alias="?" * 8)]))
    while len(payload) % 3 != 1:
        payload = text(document([ROOT], [entry(BOB, alias="?" * (8 + len(payload) % 3))]))
    right = base64.b64encode(payload).decode()
    loose = right[:-3] + chr(ord(right[-3]) + 1) + "=="

    assert base64.b64decode(loose) == payload
    refused(envelope(payload, [ROOT], payload=loose), "base64-noncanonical")
    refused(envelope(payload, [ROOT], payload=right.replace("=", "")), "envelope-malformed")
    refused(envelope(payload, [ROOT], payload=right + "\n"), "envelope-malformed")


def test_signatures_for_another_payload_or_another_type_do_not_hold():
    payload = text(document([ROOT]))
    other = [signature(ROOT, text(document([ROOT], version=2)))]
    raw = [{"keyid": ROOT.keyid, "sig": base64.b64encode(ROOT.sign(payload)).decode()}]

    refused(envelope(payload, [], signatures=other), "bad-signature")
    refused(envelope(payload, [], signatures=raw), "bad-signature")
    refused(envelope(payload, [], signatures=[signature(ROOT, payload, "text/plain")]), "bad-signature")


def test_a_signature_of_a_key_that_is_not_in_the_root_does_no_harm_and_counts_for_nothing():
    assert parse(envelope(document([ROOT]), [ROOT, SECOND])).signers([]) == set()
    other = parse(envelope(document([SECOND]), [SECOND])).trust.root
    assert parse(envelope(document([ROOT]), [ROOT, SECOND])).signers(other) == {SECOND.keyid}


@pytest.mark.parametrize("count", [15, 16, 17])
def test_at_most_16_signatures_are_looked_at(count):
    data = envelope(document([ROOT]), [ROOT, *(Key() for _ in range(count - 1))])

    if count <= 16:
        assert parse(data).trust.version == 1
    else:
        with pytest.raises(NotUnderstoodError, match="17 are more than 16"):
            parse(data)


@pytest.mark.parametrize("count", [9_999, 10_000, 10_001])
def test_at_most_10_000_keys_are_looked_at(count):
    row = entry(BOB, alg="future-1", public="00")
    stem = BOB.keyid[:-6]
    rows = [{**row, "keyid": f"{stem}{number:05d}A"} for number in range(count)]

    data = envelope(document([ROOT], rows), [ROOT])

    if count <= 10_000:
        assert len(parse(data).trust.keys) == count
    else:
        with pytest.raises(NotUnderstoodError, match="10001 are more than 10000"):
            parse(data)


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_a_file_larger_than_the_cap_is_not_parsed(extra):
    data = b"x" * (trust_document.MAX_TEXT_BYTES + extra)

    with pytest.raises(NotUnderstoodError if extra > 0 else TrustError, match="larger" if extra > 0 else "JSON"):
        parse(data)


def test_a_writer_takes_1_to_16_different_signers():
    trust = trust_changes.first([ROOT.public_key])

    for signers in ([], [ROOT, ROOT], [Key() for _ in range(17)]):
        with pytest.raises(ConfigError, match="1 to 16 different keys"):
            trust_document.sign(trust, signers)


def test_a_signer_whose_signature_does_not_hold_writes_nothing():
    class Broken(Key):
        def sign(self, message):
            return super().sign(message + b"!")

    with pytest.raises(TrustError) as caught:
        trust_document.sign(trust_changes.first([ROOT.public_key]), [Broken()])
    assert caught.value.code == "bad-signature"


def test_entries_and_signatures_have_one_order():
    rows = document([ROOT, SECOND], [entry(BOB), entry(Key())])
    signed = json.loads(envelope(rows, [ROOT, SECOND]))
    signed["signatures"].reverse()
    refused(text(signed), "envelope-malformed")
    for change in (lambda one: one["keys"].reverse(), lambda one: one["root"]["keys"].reverse()):
        turned = json.loads(json.dumps(rows))
        change(turned)
        refused(envelope(turned, [ROOT, SECOND]), "envelope-malformed")


def test_every_flipped_bit_of_a_trust_file_is_found():
    data = envelope(document([ROOT, SECOND], [entry(BOB, alias="bob")], threshold=2), [ROOT, SECOND])
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    bits = random.Random(seed).sample(range(len(data) * 8), 600)

    for bit in bits:
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ProvstoreError) as caught:
            parse(bytes(flipped))
        assert isinstance(caught.value, (TrustError, InputError)), bit


def test_every_truncation_of_a_trust_file_is_refused():
    data = envelope(document([ROOT]), [ROOT])

    for size in range(0, len(data), 7):
        refused(data[:size], "envelope-malformed")


def test_the_test_signs_what_the_standard_says():
    assert (
        pae(b"hello world", "http://example.com/HelloWorld")
        == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
