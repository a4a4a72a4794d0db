"""Anchors against the bytes, and what they show about the age of a signature."""

from dataclasses import replace

import pytest

from provstore.evidence import checkpoint
from provstore.evidence.anchors import Anchor
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.evidence.statement import AnchorClaim
from provstore.evidence.trust.keys import Revocation, Trust, TrustedKey
from provstore.evidence.verify import keys as verify_keys
from provstore.model.evidence import BundleAt
from provstore.model.verification import AnchorReach
from tests.mutations import edited
from tests.sealing import Log, line, losses, sealed, tree, trusting
from tests.unit.evidence.verifying import asked, checked, codes, faults, of, only

EARLY, SINCE, LATE = "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z", "2026-05-01T00:00:00Z"


def closed(sizes):
    made = sealed(sizes)
    made.add([line("run-close", 0, reason="finished", records=sum(sizes), batches=0)])
    return made


def test_a_run_that_is_closed_and_anchored_whole_passes():
    made = closed([4, 4])
    answer = checked(made, anchors=[made.anchor(9, EARLY)])

    assert codes(answer) == []
    assert answer.reach == AnchorReach(9, 9, "held", EARLY)
    assert answer.axes["anchor"] == "ok"
    assert asked(answer) == ("pass", 0)


def test_the_furthest_anchor_that_holds_is_the_reach():
    made = sealed([4, 4])
    answer = checked(made, anchors=[made.anchor(7, LATE, "b"), made.anchor(3, EARLY, "a")])

    assert answer.reach == AnchorReach(7, 8, "b", LATE)
    assert only(answer, "anchor-partial").text == "Anchored to 7 of 8 records; completeness of the tail is not proven."


@pytest.mark.parametrize("size", [1, 3, 4, 5, 7, 8])
def test_an_anchor_is_compared_at_its_own_size_inside_an_epoch_too(size):
    made = sealed([4, 4])
    other = sealed([4, 4], made.key)
    other.lines[0] = losses(9)[8]
    forked = replace(other.anchor(size), source="other")

    assert faults(checked(made, anchors=[made.anchor(size)])) == []
    assert faults(checked(made, anchors=[forked])) == ["fork"]
    assert asked(checked(made, anchors=[forked])) == ("fault", 5)


def test_one_anchor_that_holds_does_not_hide_one_that_does_not():
    made = sealed([4, 4])
    forked = replace(made.anchor(5), root=bytes(32))
    answer = checked(made, anchors=[made.anchor(8), forked, made.anchor(2)])

    assert faults(answer) == ["fork"]


def test_an_anchor_that_does_not_hold_reaches_nowhere():
    made = sealed([4, 4])
    forked = replace(made.anchor(8), root=bytes(32))

    assert checked(made, anchors=[forked, made.anchor(3, source="kept")]).reach == AnchorReach(3, 8, "kept", None)
    assert checked(made, anchors=[forked]).reach == AnchorReach(0, 8, None, None)


def test_an_anchor_beyond_what_is_signed_is_a_rollback():
    made = sealed([4, 4])
    anchor = made.anchor(8)
    log = made.log()
    del log.signed[1]
    answer = checked(log, trusting(made.key), [anchor])

    assert faults(answer) == ["rollback"]
    assert only(answer, "rollback").seq == 4
    assert asked(answer) == ("fault", 5)


def test_an_anchor_whose_bundle_states_another_root_is_a_fork_although_the_records_are_gone():
    made = sealed([4, 4])
    log = made.log()
    del log.lines[2:]
    answer = checked(log, trusting(made.key), [replace(made.anchor(8), root=bytes(32))])

    assert {"fork", "rows-missing"} == set(faults(answer))


def test_the_last_records_gone_are_missing_and_no_fork():
    made = sealed([4, 4])
    log = made.log()
    del log.lines[7:]

    assert faults(checked(log, trusting(made.key), [made.anchor(8)])) == ["rows-missing"]


def test_an_emptied_place_is_a_rollback_when_an_anchor_is_held():
    made = sealed([4])
    answer = checked(Log([], []), trusting(made.key), [made.anchor(3)])

    assert codes(answer) == ["no-bundles", "rollback"]
    assert asked(answer)[1] == 5


def test_an_emptied_place_without_a_store_id_is_one_too():
    made = sealed([4])
    answer = checked(Log([], [], store=""), trusting(made.key), [made.anchor(3)])

    assert codes(answer) == ["no-bundles", "rollback"]


@pytest.mark.parametrize("about", [{"run": "run-2"}, {"attempt": 1}, {"store": "f" * 32}])
def test_anchors_of_other_runs_attempts_and_stores_are_none(about):
    made, other = sealed([4]), sealed([5], **about)

    assert codes(checked(made, anchors=[other.anchor(5)])) == ["not-closed", "unanchored"]
    assert codes(checked(Log([], [], store=""), trusting(made.key), [sealed([5], run="run-2").anchor(5)])) == [
        "no-bundles"
    ]


def test_an_anchor_counts_whatever_key_signed_it():
    made, stranger = sealed([4]), PrivateKey.generate()
    note = checkpoint.make(made.origin(), 4, bytes(32), stranger)

    assert faults(checked(made, anchors=[Anchor(made.origin(), 4, bytes(32), note, None, "held")])) == ["fork"]


def test_without_an_anchor_the_report_says_what_would_not_be_seen():
    made = closed([4, 4])
    answer = checked(made)
    text = (
        "No fault found in 3 bundles, 9 records. Not anchored: a cut tail, a rollback to an older copy, an emptied "
        "store, or a rewrite by a holder of the signing key would not be seen."
    )

    assert only(answer, "unanchored").text == text
    assert answer.limits[0] == text
    assert asked(answer) == ("limited", 3)
    assert asked(answer, "unanchored") == ("limited", 0)


def test_where_a_fault_was_found_nothing_says_that_none_was():
    made = sealed([4])
    log = made.log()
    log.lines[1] = losses(9)[8]
    answer = checked(log, trusting(made.key))

    assert not any("No fault found" in text for text in (*answer.limits, *(one.text for one in answer.findings)))
    assert any(text.startswith("Not anchored: ") for text in answer.limits)


def test_an_anchor_inside_the_store_holds_nothing_in_place(tmp_path):
    made = sealed([4])
    inside = replace(made.anchor(4), source=str(tmp_path / "store" / "held"))
    outside = replace(made.anchor(3), source=str(tmp_path / "held"))
    within = tmp_path / "store"

    alone = checked(made, anchors=[inside], within=within)
    assert {"anchor-not-independent", "unanchored"} <= set(codes(alone))
    assert alone.reach.size == 0
    both = checked(made, anchors=[inside, outside], within=within)
    assert both.reach.size == 3
    assert "unanchored" not in codes(both)


def test_an_anchor_inside_the_store_that_contradicts_it_still_tells(tmp_path):
    made = sealed([4])
    inside = replace(made.anchor(4), root=bytes(32), source=str(tmp_path / "held"))

    assert "fork" in codes(checked(made, anchors=[inside], within=tmp_path))


def revoking(key, since=SINCE):
    trust = trusting(key)
    return replace(trust, revocations=(Revocation(trust.keys[0].keyid, since, "stolen"),))


def test_a_signature_that_an_anchor_from_before_the_revocation_covers_counts():
    made = closed([4, 4])
    answer = checked(made, revoking(made.key), [made.anchor(9, EARLY)])

    assert codes(answer) == []
    assert answer.axes["key"] == "ok"


def test_a_signature_beyond_the_last_anchor_from_before_the_revocation_does_not():
    made = sealed([4, 4])
    answer = checked(made, revoking(made.key), [made.anchor(6, EARLY), made.anchor(8, LATE)])

    assert [one.epoch for one in of(answer, "key-revoked")] == [1]
    assert only(answer, "key-revoked").keyid == fingerprint(made.key.public_key)
    assert asked(answer) == ("fault", 1)


@pytest.mark.parametrize("anchors", [[], [("late", LATE)], [("undated", None)], [("at", SINCE)]])
def test_without_an_anchor_from_before_the_revocation_it_is_unproven(anchors):
    made = closed([4])
    held = [made.anchor(5, seen, source) for source, seen in anchors]
    answer = checked(made, revoking(made.key), held)
    text = f"Unproven: the key is revoked since {SINCE} and nothing shows that this signature is older."

    assert faults(answer) == []
    # The fixed words stand first; which key it is and what would help stand behind them.
    helps = (
        f"It is key {fingerprint(made.key.public_key)}; an anchor that was seen before {SINCE}, or a checkpoint with a "
        "time stamp from before (--anchor, --tsa), would show it."
    )
    assert {one.text for one in of(answer, "key-unproven")} == {f"{text} {helps}"}
    assert text in answer.limits
    assert asked(answer, "unanchored", "open") == ("limited", 3)


def test_an_anchor_from_before_the_revocation_that_does_not_fit_proves_nothing():
    made = closed([4])
    answer = checked(made, revoking(made.key), [replace(made.anchor(5, EARLY), root=bytes(32))])

    assert {"fork", "key-unproven"} <= set(codes(answer))


def test_a_bundle_that_quotes_an_anchor_from_after_the_revocation_is_younger():
    made = sealed([4])
    claim = AnchorClaim(made.origin(), 4, tree(made.lines).hex(), LATE)
    made.anchors = (AnchorClaim(made.origin(), 2, tree(made.lines[:2]).hex(), EARLY), claim)
    made.add(losses(8)[4:])

    assert [one.epoch for one in of(checked(made, revoking(made.key)), "key-revoked")] == [1]
    assert [one.epoch for one in of(checked(made, revoking(made.key)), "key-unproven")] == [0]
    assert codes(checked(made, revoking(made.key, "2026-06-01T00:00:00Z"))).count("key-revoked") == 0


@pytest.mark.parametrize("seen", [None, "yesterday"])
def test_a_quoted_anchor_without_a_time_shows_nothing(seen):
    made = sealed([4])
    made.anchors = (AnchorClaim(made.origin(), 4, tree(made.lines).hex(), seen),)
    made.add(losses(8)[4:])

    assert "key-revoked" not in codes(checked(made, revoking(made.key)))


def test_the_clock_of_the_writer_proves_nothing_about_a_revoked_key():
    made = sealed([4], wall="2020-01-01T00:00:{:02d}Z")

    assert "key-unproven" in codes(checked(made, revoking(made.key)))


def test_a_key_that_is_revoked_without_a_date_is_unproven():
    made = sealed([4])
    answer = checked(made, listing(made.key, status="revoked", alias="old"), [made.anchor(4, EARLY)])

    assert "since an unknown time" in only(answer, "key-unproven").text
    assert f"It is key old ({fingerprint(made.key.public_key)})" in only(answer, "key-unproven").text


def listing(key, **own):
    listed = TrustedKey(fingerprint(key.public_key), "ed25519", key.public_key, "run", **own)
    return Trust(1, None, (), 0, (listed,), (), "test", first_use=False)


@pytest.mark.parametrize(
    ("window", "at", "seen", "found"),
    [
        ({"not_after": SINCE}, EARLY, None, None),
        ({"not_after": SINCE}, SINCE, None, None),
        ({"not_after": SINCE}, LATE, None, "key-unproven"),
        ({"not_after": SINCE}, None, None, "key-unproven"),
        ({"not_after": SINCE}, LATE, EARLY, None),
        ({"not_after": SINCE}, LATE, SINCE, None),
        ({"not_after": SINCE}, LATE, LATE, "key-unproven"),
        ({"not_before": SINCE}, EARLY, None, "untrusted-key"),
        ({"not_before": SINCE}, LATE, None, None),
        ({"not_before": SINCE}, SINCE, None, None),
        ({"not_before": SINCE}, LATE, EARLY, "untrusted-key"),
        ({"not_before": SINCE}, None, LATE, None),
        ({"not_before": EARLY, "not_after": LATE}, SINCE, None, None),
    ],
)
def test_the_window_of_a_key_is_judged_by_the_stated_time_and_by_anchors(window, at, seen, found):
    made = sealed([4], wall="2019-01-01T00:00:{:02d}Z")
    anchors = [] if seen is None else [made.anchor(4, seen)]
    answer = checked(made, listing(made.key, **window), anchors, at=at)

    assert {"key-unproven", "untrusted-key", "key-revoked"} & set(codes(answer)) == ({found} if found else set())


def rotation(old, new):
    return line("key-rotation", 0, old=fingerprint(old), new=fingerprint(new), public=new.hex())


def test_an_announced_key_is_trusted_only_by_the_trust_file():
    made, fresh = sealed([4]), PrivateKey.generate()
    made.add([rotation(made.key.public_key, fresh.public_key)])
    old = made.key
    made.key = fresh
    made.add(losses(8)[4:])

    assert faults(checked(made, trusting(old))) == ["untrusted-key"]
    assert faults(checked(made, trusting(old, fresh))) == []


def test_a_rotation_that_the_old_key_did_not_sign_is_told():
    made, fresh = sealed([4]), PrivateKey.generate()
    old, made.key = made.key, fresh
    made.add([rotation(old.public_key, fresh.public_key)])
    answer = checked(made, trusting(old, fresh))

    assert faults(answer) == ["keyid-mismatch"]
    assert (only(answer, "keyid-mismatch").epoch, only(answer, "keyid-mismatch").seq) == (1, 4)


def test_a_rotation_to_a_key_that_is_not_the_named_one_is_told():
    made = sealed([4])
    public = PrivateKey.generate().public_key
    text = line("key-rotation", 0, old=fingerprint(made.key.public_key), new="SHA256:" + "A" * 43, public=public.hex())
    made.add([text])

    assert faults(checked(made)) == ["keyid-mismatch"]


def test_more_rotations_than_are_looked_at_are_unknown(monkeypatch):
    monkeypatch.setattr(verify_keys, "MOST_ROTATIONS", 2)
    made = sealed([4])
    fresh = PrivateKey.generate().public_key
    lines = [edited(rotation(made.key.public_key, fresh), n=n) for n in range(3)]
    made.add(lines[:2])
    assert faults(checked(made)) == []

    made.add(lines[2:])
    assert faults(checked(made)) == ["cap-exceeded"]


def test_a_bad_last_bundle_explains_the_rollback():
    made = sealed([4, 4])
    log = made.log()
    log.signed[1] = BundleAt(b"{}", None, "bundle 1")
    answer = checked(log, trusting(made.key), [made.anchor(8)])

    assert only(answer, "rollback").cause == "envelope-malformed"
    assert only(answer, "unsigned-tail").cause == "envelope-malformed"
