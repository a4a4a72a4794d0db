"""Findings about anchors and the age of keys: each where it is held, or with the bundle and key that it doubts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.evidence.statement import AnchorClaim
from provstore.evidence.trust.keys import Revocation
from provstore.model.verification import AnchorReach
from tests.sealing import losses, sealed, trusting
from tests.sealing import tree as root_of
from tests.unit.evidence.verifying import checked, only, places

EARLY, SINCE, LATE = "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z", "2026-05-01T00:00:00Z"


def signer(made):
    return fingerprint(made.key.public_key)


def test_an_anchor_that_contradicts_is_told_where_it_is_held():
    made = sealed([4, 4])
    forked = replace(made.anchor(5, source="held 5"), root=bytes(32))
    assert places(checked(made, anchors=[forked])) == [("fork", None, None, "held 5", None, None, None)]

    log = made.log()
    del log.signed[1]
    answer = checked(log, trusting(made.key), [made.anchor(8, EARLY, "held 8")])
    assert places(answer, "not-closed", "unsigned-tail") == [("rollback", None, 4, "held 8", None, None, None)]
    assert f"(seen {EARLY}) covers 8 records, and only 4 are signed here" in only(answer, "rollback").text
    assert answer.reach == AnchorReach(8, 4, "held 8", EARLY)


def test_an_anchor_between_damaged_records_is_a_fork_that_follows_from_them():
    made = sealed([4, 4])
    log = made.log()
    log.lines = log.lines[:2]
    log.lines.append(losses(9)[8])
    anchor = made.anchor(6, source="held 6")
    log.lines += made.lines[3:5]

    found = [one for one in places(checked(log, trusting(made.key), [anchor])) if one[0] == "fork"]
    assert found == [("fork", None, None, "held 6", None, None, "root-mismatch")]


def test_an_anchor_inside_the_store_is_told_by_its_path(tmp_path):
    made, path = sealed([4]), str(tmp_path / "held")
    answer = checked(made, anchors=[replace(made.anchor(4), source=path)], within=tmp_path)

    assert ("anchor-not-independent", None, None, path, None, None, None) in places(answer)
    assert path in next(one.text for one in answer.findings if one.code == "anchor-not-independent")


def doubting(made, **listed):
    trust = trusting(made.key)
    return replace(trust, keys=tuple(replace(one, **listed) for one in trust.keys))


def revoking(made):
    return replace(trusting(made.key), revocations=(Revocation(signer(made), SINCE, "stolen"),))


def test_a_key_in_doubt_is_told_with_each_bundle_that_it_signed():
    made = sealed([4, 4])
    unproven = [("key-unproven", n, None, f"bundle {n}", None, signer(made), None) for n in (0, 1)]
    outside = [("key-unproven", n, 4 * n, f"bundle {n}", None, signer(made), None) for n in (0, 1)]

    assert places(checked(made, revoking(made))) == unproven
    assert places(checked(made, doubting(made, status="revoked"))) == unproven
    assert places(checked(made, doubting(made, not_after=EARLY))) == outside
    assert places(checked(made, doubting(made, not_before=LATE))) == outside
    early = [made.anchor(4, EARLY), made.anchor(8, LATE)]
    assert places(checked(made, revoking(made), early)) == [("key-revoked", 1, 4, "bundle 1", None, signer(made), None)]
    assert places(checked(made, doubting(made, not_after=SINCE), early)) == outside[1:]
    assert places(checked(made, doubting(made, not_before=SINCE), early)) == [
        ("untrusted-key", 0, 0, "bundle 0", None, signer(made), None)
    ]
    limits = checked(made, revoking(made)).limits
    assert sum("revoked since" in text for text in limits) == 1


def test_the_furthest_anchor_from_before_counts_and_none_of_the_same_moment():
    made = sealed([4, 4])
    held = [made.anchor(8, EARLY, "b"), made.anchor(4, "2026-02-01T00:00:00Z", "a")]
    assert places(checked(made, revoking(made), held)) == []
    at = [made.anchor(8, SINCE)]
    assert {one[0] for one in places(checked(made, revoking(made), at))} == {"key-unproven"}
    quoted = AnchorClaim(made.origin(), 8, root_of(made.lines).hex(), SINCE)
    made.anchors = (quoted,)
    made.add(losses(12)[8:])
    assert [one[:2] for one in places(checked(made, revoking(made))) if one[0] == "key-revoked"] == [("key-revoked", 2)]


@pytest.mark.parametrize("at", [None, LATE])
def test_a_key_in_its_window_by_the_stated_time_or_an_anchor_is_not_in_doubt(at):
    made = sealed([4, 4])
    anchors = [] if at else [made.anchor(8, LATE)]
    trust = doubting(made, not_before=EARLY, not_after=LATE)

    assert [one for one in places(checked(made, trust, anchors, at=at)) if one[0] != "anchor-partial"] == []


def test_why_a_key_counts_no_more_is_told_in_words():
    made = sealed([4, 4])
    held = [made.anchor(4, EARLY), made.anchor(8, LATE)]
    covered = only(checked(made, revoking(made), held), "key-revoked").text
    assert covered.endswith(
        f": key {signer(made)} is revoked since {SINCE}, and the last anchor from before that covers 4 records: "
        "whoever stole the key may have signed."
    )
    made.anchors = (AnchorClaim(made.origin(), 8, root_of(made.lines).hex(), LATE),)
    made.add(losses(12)[8:])
    quoting = [one.text for one in checked(made, revoking(made)).findings if one.code == "key-revoked"]
    assert [text.partition(", and ")[2] for text in quoting] == [
        "its bundle quotes an anchor from after that: whoever stole the key may have signed."
    ]


def test_why_a_signature_is_not_trusted_is_told_in_words():
    made = sealed([2])
    named = f": its bundle names key {signer(made)}, which "
    stranger = trusting(PrivateKey.generate())
    assert only(checked(made, stranger), "untrusted-key").text.endswith(
        f"{named}is not listed in the trust file, and no trusted key made the signature."
    )
    assert only(checked(made, doubting(made, runs="run-2")), "untrusted-key").text.endswith(
        f"{named}is not trusted to sign run-1 as run, and no trusted key made the signature."
    )
