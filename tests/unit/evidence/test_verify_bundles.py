"""Bundles: what is no envelope, who signed it, whether it follows, and what its checkpoint says."""

import json
from dataclasses import replace

import pytest

from provstore.errors import StoreError
from provstore.evidence import checkpoint, dsse
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.evidence.trust.keys import Trust, TrustedKey
from tests.sealing import losses, sealed, signed_again, tree, trusting
from tests.unit.evidence.verifying import asked, checked, codes, faults, of, only


def changed(log, position, **members):
    """The log with other members in one envelope."""
    said = json.loads(log.signed[position].envelope) | members
    text = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    log.signed[position] = replace(log.signed[position], envelope=text)
    return log


def trust_of(key, **own):
    listed = TrustedKey(fingerprint(key.public_key), "ed25519", key.public_key, "run")
    return Trust(1, None, (), 0, (replace(listed, **own),), (), "test", first_use=False)


def test_a_sound_run_gives_limits_only():
    answer = checked(sealed([3, 4, 5]))

    assert codes(answer) == ["not-closed", "unanchored"]
    assert answer.counts == {"bundles": 3, "records": 12, "signed": 12, "unsigned": 0, "ranks": 4}
    assert (answer.signed, answer.leaves_seen) == (12, 12)
    assert answer.head_note == sealed_note(answer)


def sealed_note(answer):
    assert answer.head_note is not None
    point = checkpoint.parse(answer.head_note)
    assert point.size == 12
    return answer.head_note


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"\xff", b'{"payload":1}', b"null"])
def test_what_is_no_envelope_is_no_signature_either(text):
    log = sealed([3, 3]).log()
    key = PrivateKey.generate()
    log.signed[1] = replace(log.signed[1], envelope=text)

    assert {"envelope-malformed", "bad-signature"} <= set(codes(checked(log, trusting(key))))


def test_base64_with_loose_ends_is_no_signature():
    made = sealed([3])
    log = made.log()
    said = json.loads(log.signed[0].envelope)
    sig = said["signatures"][0]["sig"]
    assert sig.endswith("==")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    said["signatures"][0]["sig"] = sig[:-3] + alphabet[alphabet.index(sig[-3]) + 1] + "=="
    answer = checked(changed(log, 0, **said), trusting(made.key))

    assert "base64-noncanonical" in codes(answer)
    assert only(answer, "bad-signature").cause == "base64-noncanonical"
    assert asked(answer, "tail", "open", "unanchored") == ("fault", 1)


def test_an_envelope_beyond_the_cap_is_unknown_and_not_read():
    made = sealed([3, 3])
    log = changed(made.log(), 1, payload="A" * (3 << 20))
    answer = checked(log, trusting(made.key))

    assert "cap-exceeded" in codes(answer)
    assert answer.axes["envelope"] == "unknown"


def test_a_signature_by_another_trusted_key_holds_but_the_name_is_told():
    one, other = PrivateKey.generate(), PrivateKey.generate()
    made = sealed([3], one)
    said = json.loads(made.signed[0].envelope)
    said["signatures"][0]["keyid"] = fingerprint(other.public_key)
    answer = checked(changed(made.log(), 0, **said), trusting(one, other))

    assert faults(answer) == ["keyid-mismatch"]
    assert only(answer, "keyid-mismatch").keyid == fingerprint(one.public_key)


def test_a_key_that_is_not_listed_is_named():
    made = sealed([3])
    answer = checked(made, trusting(PrivateKey.generate()))

    assert faults(answer) == ["untrusted-key"]
    assert only(answer, "untrusted-key").keyid == fingerprint(made.key.public_key)
    assert answer.signed == 0


@pytest.mark.parametrize("limits", [{"role": "rank"}, {"role": "log"}, {"runs": "other-*"}])
def test_a_listed_key_counts_only_for_its_role_and_runs(limits):
    made = sealed([3])

    assert faults(checked(made, trust_of(made.key, **limits))) == ["untrusted-key"]


def test_a_key_of_an_unknown_algorithm_gives_unknown_and_never_ok():
    made = sealed([3])
    answer = checked(made, trust_of(made.key, alg="ml-dsa-44"))

    assert codes(answer) == ["not-closed", "unknown-schema", "unsigned-tail"]
    assert answer.axes["key"] == "unknown"
    assert asked(answer) == ("unknown", 4)


def test_an_altered_payload_is_a_bad_signature_and_moves_nothing():
    made = sealed([3, 3, 3])
    log = made.log()
    payload = bytearray(dsse.parse(log.signed[1].envelope).payload)
    payload[payload.index(b'"closed":false') + 3] ^= 1
    import base64

    answer = checked(changed(log, 1, payload=base64.b64encode(payload).decode()), trusting(made.key))

    assert faults(answer) == ["bad-signature", "chain-broken", "epoch-order", "range-gap"]
    assert only(answer, "bad-signature").epoch == 1
    assert {one.cause for one in answer.findings if one.epoch == 2} == {"bad-signature"}


def test_two_bad_bundles_in_a_row_are_numbered_one_after_the_other():
    made = sealed([3, 3, 3, 3])
    log = changed(changed(made.log(), 1, signatures=[]), 2, signatures=[])
    answer = checked(log, trusting(made.key))

    assert [one.epoch for one in of(answer, "bad-signature")] == [1, 2]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"prev": "1" * 64}, "chain-broken"),
        ({"number": 2}, "epoch-order"),
        ({"first": 2}, "range-gap"),
    ],
)
def test_a_signed_bundle_that_does_not_follow_is_named(change, code):
    made = sealed([3])
    made.add(losses(6)[3:], **change)
    answer = checked(made)

    assert code in faults(answer)
    assert not {"chain-broken", "epoch-order", "range-gap"} - {code} & set(codes(answer))
    assert only(answer, code).cause is None


@pytest.mark.parametrize("change", [{"run": "run-2"}, {"attempt": 1}, {"store": "f" * 32}])
def test_a_bundle_for_elsewhere_is_named_and_moves_nothing(change):
    made = sealed([3])
    made.add(losses(6)[3:], **change)
    answer = checked(made)

    assert faults(answer) == ["wrong-run"]
    assert answer.signed == 3


def test_a_place_without_a_store_id_takes_one_store_only():
    made = sealed([3, 3])
    log = made.log()
    log.store = ""
    assert faults(checked(log, trusting(made.key))) == []

    made.add(losses(9)[6:], store="f" * 32)
    log = made.log()
    log.store = ""
    assert "wrong-run" in faults(checked(log, trusting(made.key)))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("predicateType", lambda said: said.update(predicateType="https://example.org/other/v1")),
        ("_type", lambda said: said.update(_type="https://in-toto.io/Statement/v9")),
        ("schema", lambda said: said["predicate"].update(schema=2)),
    ],
)
def test_a_signed_statement_of_an_unknown_kind_is_unknown_and_keeps_its_place(name, change):
    made = sealed([3, 3])
    made.signed[1] = signed_again(made.signed[1], change, made.key)
    answer = checked(made)

    assert codes(answer) == ["not-closed", "unanchored", "unknown-schema", "unsigned-tail"]
    assert asked(answer) == ("unknown", 4)
    assert only(answer, "unknown-schema").epoch == 1


def test_a_bundle_behind_one_of_an_unknown_kind_must_still_follow_it():
    made = sealed([3, 3])
    unknown = signed_again(made.signed[1], lambda said: said["predicate"].update(schema=2), made.key)
    made.signed[1] = unknown
    import hashlib

    digest = hashlib.sha256(dsse.parse(unknown.envelope).payload).hexdigest()
    made.add(losses(9)[6:], prev=digest)
    assert faults(checked(made)) == ["unknown-schema"]

    made.add(losses(12)[9:], number=5)
    assert "epoch-order" in faults(checked(made))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda said: said["predicate"].pop("world"), "envelope-malformed"),
        (lambda said: said["predicate"].update(size=0), "envelope-malformed"),
        (lambda said: said["predicate"].update(extra=1), "envelope-malformed"),
    ],
)
def test_a_signed_statement_that_is_malformed_moves_nothing(change, code):
    made = sealed([3, 3])
    made.signed[1] = signed_again(made.signed[1], change, made.key)
    answer = checked(made)

    assert faults(answer) == [code]
    assert (answer.signed, only(answer, "unsigned-tail").cause) == (3, code)


def test_what_follows_a_malformed_statement_names_it_as_its_cause():
    made = sealed([3, 3, 3])
    made.signed[1] = signed_again(made.signed[1], lambda said: said["predicate"].pop("world"), made.key)
    answer = checked(made)

    assert faults(answer) == ["chain-broken", "envelope-malformed", "epoch-order", "range-gap"]
    assert {one.cause for one in answer.findings if one.epoch == 2} == {"envelope-malformed"}


def test_a_signed_statement_in_another_spelling_is_told():
    made = sealed([3])
    payload = dsse.parse(made.signed[0].envelope).payload.replace(b'"closed":false', b'"closed": false')
    made.signed[0] = replace(made.signed[0], envelope=dsse.sign(payload, dsse.INTOTO, made.key).encode())

    assert faults(checked(made)) == ["payload-noncanonical"]


def test_a_missing_checkpoint_is_a_limit():
    made = sealed([3, 3])
    made.signed[1] = replace(made.signed[1], checkpoint=None)
    answer = checked(made)

    assert only(answer, "anchor-partial").epoch == 1
    assert answer.head_note is None


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda made: b"no note", "envelope-malformed"),
        (lambda made: checkpoint.make(made.origin(), 6, tree(made.lines), PrivateKey.generate()), "bad-signature"),
        (lambda made: checkpoint.make(made.origin() + "1", 6, tree(made.lines), made.key), "wrong-run"),
        (lambda made: checkpoint.make(made.origin(), 5, tree(made.lines), made.key), "root-mismatch"),
        (lambda made: checkpoint.make(made.origin(), 6, tree(made.lines[:5]), made.key), "root-mismatch"),
    ],
)
def test_a_checkpoint_that_does_not_fit_its_bundle_is_no_next_anchor(make, code):
    made = sealed([3, 3])
    made.signed[1] = replace(made.signed[1], checkpoint=make(made))
    answer = checked(made)

    assert faults(answer) == [code]
    assert answer.head_note is None


def test_a_checkpoint_may_be_signed_by_a_log_key():
    made, log_key = sealed([3]), PrivateKey.generate()
    note = checkpoint.make(made.origin(), 3, tree(made.lines), log_key)
    made.signed[0] = replace(made.signed[0], checkpoint=note)
    listed = TrustedKey(fingerprint(log_key.public_key), "ed25519", log_key.public_key, "log")
    trust = trusting(made.key)

    assert faults(checked(made, replace(trust, keys=(*trust.keys, listed)))) == []
    assert faults(checked(made)) == ["bad-signature"]


def test_no_bundle_at_all_is_unknown():
    made = sealed([3])
    log = made.log()
    log.signed = []
    answer = checked(log, trusting(made.key))

    assert codes(answer) == ["no-bundles"]
    assert asked(answer) == ("unknown", 4)


class Broken:
    """A place whose bundles or records cannot be read to the end."""

    def __init__(self, log, what):
        self.run, self.attempt, self.store = log.run, log.attempt, log.store
        self._log, self._what = log, what

    def bundles(self):
        return self._cut(self._log.bundles(), self._what == "bundles")

    def records(self):
        return self._cut(self._log.records(), self._what == "records")

    @staticmethod
    def _cut(rows, cut):
        for at, row in enumerate(rows):
            if cut and at == 2:
                raise StoreError("journal: seg-00000001: bytes are damaged")
            yield row


@pytest.mark.parametrize("what", ["bundles", "records"])
def test_reading_that_stops_is_told_and_accuses_nobody(what):
    made = sealed([3, 3, 3])
    answer = checked(Broken(made.log(), what), trusting(made.key), [made.anchor(9)])

    assert faults(answer) == []
    assert "check-unfinished" in codes(answer)
    assert asked(answer)[1] == 4
    assert ("not-closed" in codes(answer)) is (what == "records")
    assert "unsigned-tail" not in codes(answer)
