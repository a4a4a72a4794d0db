"""Each finding stands at its epoch, record, place, rank and key, and names what it follows from."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from provstore.evidence import checkpoint
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.evidence.statement import Policy
from provstore.evidence.verify import content
from provstore.evidence.verify import keys as verify_keys
from provstore.model.evidence import BundleAt
from tests.mutations import edited
from tests.sealing import NOTHING, Sealing, line, loss, losses, sealed, signed_again, trusting
from tests.sealing import tree as root_of
from tests.unit.evidence.verifying import checked, places

EARLY, SINCE, LATE = "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z", "2026-05-01T00:00:00Z"


def signer(made):
    return fingerprint(made.key.public_key)


def spelled(said):
    return json.dumps(said, sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"prev": NOTHING}, [("chain-broken", 1, 3, "bundle 1")]),
        ({"number": 5}, [("epoch-order", 5, 3, "bundle 5")]),
        ({"number": 0}, [("epoch-order", 0, 3, "bundle 0")]),
        ({"first": 2}, [("range-gap", 1, 2, "bundle 1"), ("subject-mismatch", 1, 2, "bundle 1")]),
        ({"first": 4}, [("range-gap", 1, 4, "bundle 1"), ("subject-mismatch", 1, 4, "bundle 1")]),
        ({"run": "run-2"}, [("wrong-run", 1, None, "bundle 1")]),
        ({"root": NOTHING}, [("root-mismatch", 1, 3, "bundle 1")]),
        ({"subject_sha256": NOTHING}, [("subject-mismatch", 1, 3, "bundle 1")]),
        ({"policy": Policy(NOTHING, "full", "x")}, [("policy-mismatch", 1, None, "bundle 1")]),
    ],
)
def test_a_bundle_that_states_one_thing_wrongly_is_named_with_its_signer(changes, found):
    made = sealed([3])
    made.add(losses(6)[3:], **changes)
    expected = [(*one, None, signer(made), None) for one in found]
    if "run" in changes:
        expected.insert(0, ("unsigned-tail", None, 3, "", None, None, None))

    assert places(checked(made)) == expected


def test_a_bundle_that_closes_the_run_without_a_record_is_named_at_its_last_record():
    made = sealed([3])
    made.add(losses(6)[3:], closed=True)

    assert places(checked(made)) == [("close-mismatch", 1, 5, "bundle 1", None, None, None)]


def test_bundles_behind_the_one_that_closes_are_named_one_by_one():
    made = sealed([3])
    made.add(losses(6)[3:], closed=True)
    made.add(losses(7)[6:])
    made.add(losses(8)[7:])

    assert [one for one in places(checked(made)) if one[0] == "after-close"] == [
        ("after-close", 2, 6, "bundle 2", None, signer(made), None),
        ("after-close", 3, 7, "bundle 3", None, signer(made), None),
    ]


def test_what_is_no_bundle_is_named_at_the_epoch_that_should_be_there_and_explains_what_follows():
    made = sealed([2, 2, 2, 2, 2])
    for at in (1, 2):
        made.signed[at] = BundleAt(b"{}", None, f"place {at}")
    answer = checked(made)
    malformed, behind = "envelope-malformed", ("bundle 3", None, signer(made), "envelope-malformed")

    assert places(answer) == [
        ("bad-signature", 1, None, "place 1", None, None, malformed),
        (malformed, 1, None, "place 1", None, None, None),
        ("bad-signature", 2, None, "place 2", None, None, malformed),
        (malformed, 2, None, "place 2", None, None, None),
        ("chain-broken", 3, 6, *behind),
        ("epoch-order", 3, 6, *behind),
        ("range-gap", 3, 6, *behind),
    ]
    assert (answer.signed, answer.counts["bundles"]) == (10, 5)


def test_a_last_bundle_that_does_not_open_explains_the_tail_and_the_open_end():
    made = sealed([2, 2])
    stranger = PrivateKey.generate()
    made.put(made.epochs[1], key=stranger)
    del made.signed[1]

    assert places(checked(made), "unanchored") == [
        ("not-closed", None, None, "", None, None, "untrusted-key"),
        ("unsigned-tail", None, 2, "", None, None, "untrusted-key"),
        ("untrusted-key", 1, None, "bundle 1", None, fingerprint(stranger.public_key), None),
    ]


def test_a_signature_over_other_bytes_is_named_with_the_key_that_it_claims():
    made = sealed([2, 2])
    said = json.loads(made.signed[1].envelope)
    said["signatures"] = json.loads(made.signed[0].envelope)["signatures"]
    made.signed[1] = replace(made.signed[1], envelope=spelled(said))

    assert places(checked(made)) == [
        ("unsigned-tail", None, 2, "", None, None, "bad-signature"),
        ("bad-signature", 1, None, "bundle 1", None, signer(made), None),
    ]


def test_a_signature_of_another_trusted_key_is_named_with_the_key_that_made_it():
    made, other = sealed([2, 2]), PrivateKey.generate()
    said = json.loads(made.signed[1].envelope)
    said["signatures"][0]["keyid"] = fingerprint(other.public_key)
    made.signed[1] = replace(made.signed[1], envelope=spelled(said))
    answer = checked(made, trusting(made.key, other))

    assert places(answer) == [("keyid-mismatch", 1, None, "bundle 1", None, signer(made), None)]
    assert answer.axes["key"] == "fault"
    assert f"key {fingerprint(other.public_key)}, but key {signer(made)}" in answer.findings[-1].text


def test_a_key_of_an_unknown_algorithm_is_unknown_on_the_axis_of_keys_and_one_of_another_run_is_a_fault():
    made = sealed([2])
    (known,) = trusting(made.key).keys
    unknown = checked(made, replace(trusting(made.key), keys=(replace(known, alg="ed448"),)))
    elsewhere = checked(made, replace(trusting(made.key), keys=(replace(known, runs="run-2"),)))
    place = (0, None, "bundle 0", None, signer(made), None)

    assert ("unknown-schema", *place) in places(unknown)
    assert (unknown.axes["key"], unknown.axes["signature"], unknown.axes["envelope"]) == ("unknown", "ok", "ok")
    assert ("untrusted-key", *place) in places(elsewhere)
    assert (elsewhere.axes["key"], elsewhere.axes["signature"]) == ("fault", "ok")


def test_a_long_name_of_a_key_is_cut():
    made, said = sealed([2]), {}
    said = json.loads(made.signed[0].envelope)
    said["signatures"][0]["keyid"] = "k" * 100
    made.signed[0] = replace(made.signed[0], envelope=spelled(said))
    answer = checked(made, trusting(PrivateKey.generate()))

    assert {one.keyid for one in answer.findings if one.code == "untrusted-key"} <= {"k" * 80, None}


def test_a_signed_statement_that_nobody_can_read_is_named_with_its_signer():
    for change, code in (
        (lambda said: said["predicate"].pop("world"), "envelope-malformed"),
        (lambda said: said["predicate"].update(schema=2), "unknown-schema"),
    ):
        made = sealed([2, 2])
        made.signed[1] = signed_again(made.signed[1], change, made.key)
        assert places(checked(made)) == [
            ("unsigned-tail", None, 2, "", None, None, code),
            (code, 1, None, "bundle 1", None, signer(made), None),
        ]


@pytest.mark.parametrize(
    ("note", "code", "is_signed"),
    [
        (lambda made: None, "anchor-partial", False),
        (lambda made: b"no note", "envelope-malformed", False),
        (lambda made: checkpoint.make(made.origin(), 4, bytes(32), PrivateKey.generate()), "bad-signature", True),
        (lambda made: checkpoint.make(made.origin() + "1", 4, root_of(made.lines), made.key), "wrong-run", True),
        (lambda made: checkpoint.make(made.origin(), 3, root_of(made.lines), made.key), "root-mismatch", True),
    ],
)  # fmt: skip
def test_a_checkpoint_that_does_not_fit_is_named_beside_its_bundle(note, code, is_signed):
    made = sealed([2, 2])
    made.signed[1] = replace(made.signed[1], checkpoint=note(made))

    key = signer(made) if is_signed else None
    assert places(checked(made)) == [(code, 1, None, "bundle 1 checkpoint", None, key, None)]


def test_a_changed_record_is_told_by_its_epoch_its_ranks_and_all_later_roots():
    made = sealed([4, 4, 4])
    log = made.log()
    log.lines[5] = edited(log.lines[5], step=1000)
    key, caused = signer(made), "root-mismatch"

    assert places(checked(log, trusting(made.key))) == [
        ("rank-head-mismatch", 1, None, "bundle 1", 1, None, caused),
        ("root-mismatch", 1, 4, "bundle 1", None, key, None),
        ("subject-mismatch", 1, 4, "bundle 1", None, key, None),
        ("rank-head-mismatch", 2, None, "bundle 2", 1, None, caused),
        ("root-mismatch", 2, 8, "bundle 2", None, key, caused),
    ]


def test_missing_records_are_told_at_the_first_one_that_is_gone():
    made = sealed([4, 4, 4])
    log = made.log()
    del log.lines[6:]

    answer = checked(log, trusting(made.key))
    assert places(answer) == [("rows-missing", 1, 6, "bundle 1", None, signer(made), None)]
    assert "12 records are signed, and 6 are here" in answer.findings[-1].text
    assert (answer.counts["records"], answer.counts["unsigned"], answer.leaves_seen) == (6, 0, 6)


def test_a_bundle_of_another_run_over_other_records_is_told_as_such():
    made = sealed([2])
    made.add(losses(4)[2:], run="run-2", root=NOTHING)

    assert places(checked(made)) == [
        ("unsigned-tail", None, 2, "", None, None, None),
        ("wrong-run", 1, None, "bundle 1", None, signer(made), None),
        ("root-mismatch", 1, 2, "bundle 1", None, signer(made), "wrong-run"),
    ]


def test_a_digest_of_all_chains_that_does_not_fit_is_told_by_its_bundle():
    made = sealed([2])
    made.add(losses(4)[2:], ranks=(), ranks_sha256=NOTHING)
    assert places(checked(made)) == [("rank-head-mismatch", 1, None, "bundle 1", None, signer(made), None)]

    log = made.log()
    log.lines[3] = edited(log.lines[3], step=1000)
    found = [one for one in places(checked(log, trusting(made.key))) if one[0] == "rank-head-mismatch"]
    assert found == [("rank-head-mismatch", 1, None, "bundle 1", None, signer(made), "root-mismatch")]


def test_numbers_of_records_are_told_at_the_record_and_its_rank():
    made = sealed([4, 4])
    log = made.log()
    log.numbers = [0, 1, 7, 3, 4, 5, 6, 7]
    assert places(checked(log, trusting(made.key))) == [
        ("seq-gap-or-dup", 0, 2, "line 2", None, None, None),
        ("seq-gap-or-dup", 0, 3, "line 3", None, None, None),
    ]

    made = Sealing(PrivateKey.generate())
    made.add([loss(0, 1, 0), loss(1, 1, 1)])
    made.add([loss(3, 1, 2), loss(4, 1, 3), line("event", 1)][:2])
    assert places(checked(made)) == [("seq-gap-or-dup", 1, 2, "line 2", 1, None, None)]


def test_a_line_that_is_no_record_of_this_run_is_told_at_its_place():
    made = Sealing(PrivateKey.generate())
    made.add([loss(0, 0, 0)])
    made.add([loss(0, 1, 1, run="run-2"), loss(1, 1, 2, attempt=3)])
    answer = checked(made)
    assert places(answer) == [
        ("wrong-run", 1, 1, "line 1", None, None, None), ("wrong-run", 1, 2, "line 2", None, None, None),
    ]  # fmt: skip
    assert "the record is about run run-1, attempt 3." in answer.findings[-1].text

    log = made.log()
    log.lines[1] = b"no record"
    answer = checked(log, trusting(made.key))
    ((code, *place),) = [one for one in places(answer) if one[3] == "line 1"]
    assert (code, place) == ("payload-noncanonical", [1, 1, "line 1", None, None, None])
    assert (answer.axes["tree"], answer.axes["envelope"]) == ("fault", "ok")


def certificate(n, rank, public, **own):
    return line(
        "rank-certificate", n, **({"certified": rank, "keyid": fingerprint(public), "public": public.hex()} | own)
    )


def test_a_key_that_a_record_names_wrongly_is_told_with_its_rank_on_the_axis_of_keys():
    public, name = PrivateKey.generate().public_key, "SHA256:" + "A" * 43
    made = sealed([4])
    made.add([certificate(0, 2, public, keyid=name)])
    answer = checked(made)
    assert places(answer) == [("keyid-mismatch", 1, 4, "line 4", 2, name, None)]
    assert (answer.axes["key"], answer.axes["tree"]) == ("fault", "ok")

    made = sealed([4])
    made.add([line("key-rotation", 0, old=signer(made), new=name, public=public.hex())])
    assert places(checked(made)) == [("keyid-mismatch", 1, 4, "line 4", None, name, None)]


def test_a_rotation_that_another_key_signed_is_told_at_its_record_with_the_key_that_signed():
    made, fresh = sealed([4]), PrivateKey.generate()
    old, made.key = made.key, fresh
    public = fresh.public_key
    made.add([line("key-rotation", 0, old=fingerprint(old.public_key), new=fingerprint(public), public=public.hex())])
    answer = checked(made, trusting(old, fresh))

    assert places(answer) == [("keyid-mismatch", 1, 4, "line 4", None, fingerprint(public), None)]
    assert answer.axes["key"] == "fault"


def test_more_keys_or_rotations_than_are_looked_at_are_told_at_the_first_that_is_not(monkeypatch):
    monkeypatch.setattr(content, "MOST_CERTIFICATES", 1)
    monkeypatch.setattr(verify_keys, "MOST_ROTATIONS", 1)
    made, publics = sealed([4]), [PrivateKey.generate().public_key for _ in range(2)]
    made.add([certificate(n, 2, public) for n, public in enumerate(publics)])
    answer = checked(made)
    assert ("cap-exceeded", 1, 5, "", 2, None, None) in places(answer)
    assert (answer.axes["key"], answer.axes["envelope"]) == ("unknown", "ok")

    made = sealed([4])
    turned = [
        line("key-rotation", n, old=signer(made), new=fingerprint(one), public=one.hex())
        for n, one in enumerate(publics)
    ]
    made.add(turned)
    answer = checked(made)
    assert places(answer) == [("cap-exceeded", None, 5, "", None, None, None)]
    assert (answer.axes["key"], answer.axes["envelope"]) == ("unknown", "ok")


def test_a_total_that_is_wrong_is_told_at_the_record_that_closes():
    made = sealed([4])
    made.add([line("run-close", 0, reason="finished", records=3, batches=0)])
    answer = checked(made)

    assert places(answer) == [("close-mismatch", 1, 4, "line 4", None, None, None)]
    assert "counts 3 records before it, and there are 4" in answer.findings[-1].text


def test_records_behind_the_end_are_told_at_the_first_of_them():
    made = sealed([4])
    made.add([line("run-close", 0, reason="finished", records=4, batches=0), loss(1, 0, 1), loss(1, 1, 2)])
    assert places(checked(made)) == [("after-close", 1, 5, "", None, None, None)]

    log = made.log()
    log.lines.append(loss(1, 2, 3))
    answer = checked(log, trusting(made.key))
    assert places(answer) == [
        ("unsigned-tail", None, 7, "", None, None, None), ("after-close", 1, 5, "", None, None, None),
    ]  # fmt: skip
    assert "3 in number" in answer.findings[-1].text
    assert (answer.counts["unsigned"], answer.counts["signed"], answer.counts["ranks"]) == (1, 7, 4)


def test_an_odd_clock_is_told_at_the_bundle_or_the_record_that_claims_it():
    made = sealed([2], wall="2026-03-01T12:00:00Z")
    made.add([loss(0, 2, 0, at="i64:9"), loss(1, 2, 1, at="i64:3")], wall="2026-03-01T11:00:00Z")

    assert places(checked(made)) == [
        ("clock-odd", 1, None, "bundle 1", None, None, None), ("clock-odd", 1, 3, "line 3", 2, None, None),
    ]  # fmt: skip


def test_a_wall_time_that_is_none_is_told_and_leaves_the_one_before_it_in_force():
    made = sealed([1], wall="2026-03-01T12:00:00Z")
    made.add([loss(0, 1, 1)], wall="2026-02-30T12:00:00Z")
    made.add([loss(0, 2, 2)], wall="2026-03-01T11:00:00Z")

    assert [(one.epoch, one.where) for one in checked(made).findings if one.code == "clock-odd"] == [
        (1, "bundle 1"), (2, "bundle 2"),
    ]  # fmt: skip


def test_ten_years_are_3652_days_and_a_step_of_exactly_that_is_odd():
    ten = 3_652 * 86_400 * 10**9
    for step, is_odd in ((ten - 1, False), (ten, True)):
        made = Sealing(PrivateKey.generate())
        made.add([loss(0, None, 0, at="i64:5"), loss(1, None, 1, at=f"i64:{5 + step}")])
        found = [one for one in checked(made).findings if one.code == "clock-odd"]
        assert [(one.seq, one.rank) for one in found] == ([(1, None)] if is_odd else [])
        assert all("the collector claims is ten years or more after" in one.text for one in found)


def test_a_closing_record_that_was_changed_explains_that_its_bundle_closes_and_no_record_does():
    made = sealed([4])
    made.add([line("run-close", 0, reason="finished", records=4, batches=0)])
    log = made.log()
    log.lines[4] = loss(1, 0, 4)
    told = [one for one in places(checked(log, trusting(made.key))) if one[0] == "close-mismatch"]

    assert told == [("close-mismatch", 1, 4, "bundle 1", None, None, "root-mismatch")]
