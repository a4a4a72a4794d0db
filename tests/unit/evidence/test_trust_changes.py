"""What each change of a trust file changes, and what it leaves."""

import pytest

from provstore.errors import ConfigError, TrustError
from provstore.evidence.trust import changes
from provstore.evidence.trust.keys import TrustedKey
from tests.trust_files import Key

A, B, C, BOB = Key(), Key(), Key(), Key()


def key(one, role="run", **more):
    return TrustedKey(one.keyid, "ed25519", one.public_key, role, **more)


FIRST = changes.first([A.public_key])
LISTED = changes.with_keys(FIRST, [key(A), key(BOB, runs="exp-*", alias="bob")])


def states(trust):
    return {one.keyid: one.status for one in trust.keys}


def test_two_first_files_are_two_lineages():
    assert FIRST.lineage != changes.first([A.public_key]).lineage
    assert (FIRST.version, LISTED.version, LISTED.lineage) == (1, 2, FIRST.lineage)


def test_a_key_that_is_trusted_anew_is_listed_once_as_last_stated():
    again = changes.with_keys(LISTED, [key(BOB, "rank")])

    assert [(one.role, one.runs) for one in again.keys if one.keyid == BOB.keyid] == [("rank", "*")]


def test_a_revoked_key_is_not_trusted_again():
    revoked = changes.revoked(LISTED, BOB.keyid, "2026-01-31T00:00:00Z", "stolen")

    assert states(revoked)[BOB.keyid] == "revoked"
    with pytest.raises(ConfigError, match="not taken back"):
        changes.with_keys(revoked, [key(BOB)])


def test_a_revocation_may_only_move_back():
    revoked = changes.revoked(LISTED, BOB.keyid, "2026-01-31T00:00:00Z", "stolen")

    for later in ("2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"):
        with pytest.raises(ConfigError, match="already"):
            changes.revoked(revoked, BOB.keyid, later, "again")
    earlier = changes.revoked(revoked, BOB.keyid, "2026-01-01T00:00:00Z", "earlier than thought")
    assert [(one.since, one.reason) for one in earlier.revocations] == [
        ("2026-01-01T00:00:00Z", "earlier than thought")
    ]


def test_a_root_key_is_rotated_before_it_is_revoked():
    with pytest.raises(ConfigError, match="root key") as caught:
        changes.revoked(LISTED, A.keyid, "2026-01-31T00:00:00Z", "stolen")
    assert "rotate" in caught.value.hint
    rotated = changes.rotated(LISTED, A.keyid, B.public_key)

    assert states(changes.revoked(rotated, A.keyid, "2026-01-31T00:00:00Z", "stolen"))[A.keyid] == "revoked"


def test_an_unknown_key_can_be_neither_revoked_nor_rotated():
    for change in (
        lambda: changes.revoked(LISTED, C.keyid, "2026-01-31T00:00:00Z", "stolen"),
        lambda: changes.rotated(LISTED, C.keyid, B.public_key),
    ):
        with pytest.raises(ConfigError, match="no such key"):
            change()


def test_rotating_a_run_key_keeps_its_role_and_runs_and_retires_the_old_one():
    rotated = changes.rotated(LISTED, BOB.keyid, B.public_key)

    assert states(rotated) == {A.keyid: "active", BOB.keyid: "retired", B.keyid: "active"}
    new = rotated.key(B.keyid)
    assert (new.role, new.runs, new.alias, rotated.root) == ("run", "exp-*", "bob", LISTED.root)


def test_rotating_a_root_key_that_is_a_run_key_too_replaces_both():
    rotated = changes.rotated(LISTED, A.keyid, B.public_key)

    assert [one.keyid for one in rotated.root] == [B.keyid]
    assert states(rotated) == {A.keyid: "retired", BOB.keyid: "active", B.keyid: "active"}


def test_a_key_rotates_only_to_a_new_one():
    revoked = changes.revoked(LISTED, BOB.keyid, "2026-01-31T00:00:00Z", "stolen")

    for trust, old, new in ((LISTED, A, A), (LISTED, A, BOB), (revoked, A, BOB)):
        with pytest.raises(ConfigError, match="listed already"):
            changes.rotated(trust, old.keyid, new.public_key)
    with pytest.raises(ConfigError, match="revoked"):
        changes.rotated(revoked, BOB.keyid, B.public_key)
    with pytest.raises(TrustError):
        changes.rotated(LISTED, A.keyid, bytes(32))
