"""Ranks: their chains, their keys, and digests that they must hold alike."""

from dataclasses import replace

import pytest

from provstore.evidence import rank_heads, statement
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.evidence.trust.keys import Revocation, TrustedKey
from provstore.evidence.verify import content, tree
from provstore.model.evidence import RankHead
from provstore.model.lost import Lost
from tests.mutations import edited
from tests.sealing import RUN, Sealing, line, loss, losses, sealed, trusting
from tests.unit.evidence.verifying import asked, checked, codes, faults, of, only

PARAMETERS = {"name": "parameters", "step": 7}


def certificate(n, rank, public):
    return line("rank-certificate", n, certified=rank, keyid=fingerprint(public), public=public.hex())


def signing_ranks(count=4, certified=None):
    """A run whose ranks have keys, certified in its first epoch."""
    ranks = {rank: PrivateKey.generate() for rank in range(count)}
    made = Sealing(PrivateKey.generate(), rank_keys=ranks)
    certified = range(count) if certified is None else certified
    made.add([certificate(n, rank, ranks[rank].public_key) for n, rank in enumerate(certified)])
    return made


def digest(n, rank, sha256, ranks, **own):
    return line("digest", n, rank, **(PARAMETERS | {"ranks": list(ranks), "sha256": sha256} | own))


def test_ranks_with_keys_that_sign_their_chains_are_ok():
    made = signing_ranks()
    made.add(losses(8))
    made.add(losses(12)[8:])

    assert faults(checked(made)) == []
    assert "uncorroborated" not in codes(checked(made))


def test_a_changed_record_names_its_rank_and_the_key_of_that_rank():
    made = signing_ranks()
    made.add(losses(8))
    log = made.log()
    log.lines[4 + 6] = edited(log.lines[4 + 6], step=1000)
    answer = checked(log, trusting(made.key))
    found = only(answer, "rank-head-mismatch")

    assert (found.rank, found.keyid, found.cause) == (2, fingerprint(made.rank_keys[2].public_key), "root-mismatch")


@pytest.mark.parametrize("change", [{"head": "0" * 64}, {"count": 3}])
def test_a_bundle_that_states_another_chain_is_named_although_its_root_fits(change):
    made = sealed([4])
    lines = losses(8)
    made.lines += lines[4:]
    true = made._true(4)
    made.lines = made.lines[:4]
    made.add(lines[4:], ranks=(*true.ranks[:2], replace(true.ranks[2], **change), true.ranks[3]))
    answer = checked(made)

    assert faults(answer) == ["rank-head-mismatch"]
    assert (only(answer, "rank-head-mismatch").rank, only(answer, "rank-head-mismatch").cause) == (2, None)


def test_a_rank_that_its_bundle_leaves_out_or_invents_is_named():
    made = sealed([4])
    true = sealed([8], made.key).epochs[0].ranks
    made.add(losses(8)[4:], ranks=(*true[:3], RankHead(9, 1, "0" * 64)))
    answer = checked(made)

    assert [one.rank for one in of(answer, "rank-head-mismatch")] == [3, 9]


def test_when_too_many_chains_differ_the_bundle_is_named_and_not_the_ranks(monkeypatch):
    monkeypatch.setattr(tree, "MOST_KEPT_HEADS", 3)
    made = sealed([4], PrivateKey.generate())
    made.add(losses(8)[4:], ranks=())
    answer = checked(made)

    assert only(answer, "rank-head-mismatch").rank is None
    assert only(answer, "rank-head-mismatch").epoch == 1


def test_above_the_listed_ranks_the_digest_of_their_chains_is_compared():
    key = PrivateKey.generate()
    true = sealed([8], key)
    digest_of = statement.ranks_digest(true.epochs[0].ranks)
    fits, differs = Sealing(key), Sealing(key)
    fits.add(losses(8), ranks=(), ranks_sha256=digest_of)
    differs.add(losses(8), ranks=(), ranks_sha256="0" * 64)

    assert faults(checked(fits)) == []
    assert faults(checked(differs)) == ["rank-head-mismatch"]


def test_a_signature_of_a_key_that_nobody_certified_is_not_trusted():
    made = signing_ranks(certified=[0, 1, 3])
    made.add(losses(8))
    answer = checked(made)

    assert faults(answer) == ["untrusted-key"]
    assert (only(answer, "untrusted-key").rank, only(answer, "untrusted-key").epoch) == (2, 1)


def test_a_key_of_a_rank_whose_record_damage_took_away_is_no_unknown_key():
    made = signing_ranks()
    made.add(losses(8))
    log = made.log()
    log.lines, log.numbers = log.lines[4:], list(range(4, 12))
    answer = checked(log, trusting(made.key), lost=Lost(records=((0, 4),)))

    assert {one.cause for code in faults(answer) for one in of(answer, code)} == {"journal-damaged"}
    assert set(faults(answer)) == {"untrusted-key", "rows-missing"}
    assert "untrusted-key" in {one.code for one in checked(log, trusting(made.key)).findings if one.cause is None}


def test_the_trust_file_may_list_the_key_of_a_rank():
    made = signing_ranks(certified=[0, 1, 3])
    made.add(losses(8))
    public = made.rank_keys[2].public_key
    trust = trusting(made.key)
    listed = TrustedKey(fingerprint(public), "ed25519", public, "rank")

    assert faults(checked(made, replace(trust, keys=(*trust.keys, listed)))) == []
    assert faults(checked(made, replace(trust, keys=(*trust.keys, replace(listed, role="log"))))) == ["untrusted-key"]


def test_a_certificate_counts_for_its_rank_only():
    made = signing_ranks()
    made.rank_keys[2] = made.rank_keys[3]
    made.add(losses(8))
    answer = checked(made)

    assert faults(answer) == ["untrusted-key"]
    assert only(answer, "untrusted-key").rank == 2


def test_a_certificate_does_not_count_before_it_is_recorded():
    ranks = {0: PrivateKey.generate()}
    made = Sealing(PrivateKey.generate(), rank_keys=ranks)
    made.add(losses(2, 1))
    made.add([certificate(0, 0, ranks[0].public_key), loss(2, 0, 2)])
    answer = checked(made)

    assert [one.epoch for one in of(answer, "untrusted-key")] == [0]


def test_a_certificate_that_no_good_bundle_covers_counts_for_nothing():
    made = signing_ranks(1)
    made.add(losses(2, 1))
    log = made.log()
    forged = PrivateKey.generate()
    log.lines[0] = certificate(0, 0, forged.public_key)
    answer = checked(log, trusting(made.key))

    assert "untrusted-key" in faults(answer)


def test_a_certificate_by_a_revoked_key_counts_for_nothing():
    made = signing_ranks(1)
    made.add(losses(2, 1))
    trust = trusting(made.key)
    keyid = trust.keys[0].keyid
    answer = checked(made, replace(trust, revocations=(Revocation(keyid, "2026-01-01T00:00:00Z", "stolen"),)))

    assert {"key-unproven", "untrusted-key"} <= set(codes(answer))


@pytest.mark.parametrize(
    ("own", "code"),
    [
        ({"keyid": "SHA256:" + "A" * 43}, "keyid-mismatch"),
        ({"public": "01" + "00" * 31, "keyid": fingerprint(b"\x01" + bytes(31))}, "untrusted-key"),
    ],
)
def test_a_certificate_of_a_key_that_is_not_the_named_one_or_unsafe_is_told(own, code):
    made = sealed([4])
    public = PrivateKey.generate().public_key
    named = {"certified": 2, "keyid": fingerprint(public), "public": public.hex()} | own
    made.add([line("rank-certificate", 0, **named)])
    answer = checked(made)

    assert faults(answer) == [code]
    assert (only(answer, code).rank, only(answer, code).seq) == (2, 4)


def test_a_signature_that_does_not_fit_the_chain_names_rank_and_key():
    made = signing_ranks()
    made.lines += losses(8)
    true = made._true(4)
    made.lines = made.lines[:4]
    wrong = rank_heads.sign(RUN, 0, 2, 1, bytes(32), made.rank_keys[2])
    made.add(losses(8), ranks=(*true.ranks[:2], replace(true.ranks[2], sig=wrong.sig), true.ranks[3]))
    answer = checked(made)
    found = only(answer, "rank-head-mismatch")

    assert faults(answer) == ["rank-head-mismatch"]
    assert (found.rank, found.keyid) == (2, fingerprint(made.rank_keys[2].public_key))
    assert "signature" in found.text


def test_a_rank_with_a_key_that_did_not_sign_is_vouched_for_by_the_collector_only():
    made = signing_ranks()
    key = made.rank_keys.pop(2)
    made.add(losses(8))
    made.add(losses(12)[8:])
    answer = checked(made)

    assert faults(answer) == []
    assert (only(answer, "uncorroborated").rank, only(answer, "uncorroborated").epoch) == (2, 1)
    assert only(answer, "uncorroborated").keyid == fingerprint(key.public_key)
    assert asked(answer)[1] == 3


def test_a_digest_that_all_ranks_state_alike_is_no_finding():
    made = sealed([4])
    made.add([digest(1, rank, "a" * 64, range(4)) for rank in range(4)])

    assert codes(checked(made)) == ["not-closed", "unanchored"]


def test_of_eight_ranks_the_one_that_contradicts_is_named_with_its_key():
    made = signing_ranks(8)
    made.add([digest(0, rank, ("b" if rank == 5 else "a") * 64, range(8)) for rank in range(8)])
    answer = checked(made)
    found = only(answer, "rank-disagrees")
    keyid = fingerprint(made.rank_keys[5].public_key)

    assert faults(answer) == ["rank-disagrees"]
    assert (found.rank, found.keyid, found.epoch, found.seq) == (5, keyid, 1, 13)
    assert f"Asserted by rank 5 with key {keyid}" in found.text
    assert "contradicts 7 of the 8 ranks" in found.text


@pytest.mark.parametrize("name", ["parameters", "Gewichte für Schicht 1"])
def test_without_a_key_the_rank_is_named_all_the_same(name):
    made = sealed([4])
    made.add([digest(1, rank, ("b" if rank == 3 else "a") * 64, range(4), name=name) for rank in range(4)])
    found = only(checked(made), "rank-disagrees")

    assert (found.rank, found.keyid) == (3, None)
    assert "rank 3, which has no key" in found.text


@pytest.mark.parametrize("words", ["aabb", "ab", "abc", "aabc"])
def test_without_a_majority_nobody_is_named(words):
    made = sealed([4])
    made.add([digest(1 if rank < 4 else 0, rank, word * 64, range(len(words))) for rank, word in enumerate(words)])
    answer = checked(made)
    found = only(answer, "uncorroborated")

    assert faults(answer) == []
    assert (found.rank, found.keyid, found.seq) == (None, None, 4)
    assert "rank 0" not in found.text


@pytest.mark.parametrize("group", [[2], [1, 2, 3]])
def test_a_digest_that_one_rank_states_alone_is_uncorroborated(group):
    made = sealed([4])
    made.add([digest(1, 2, "a" * 64, group)])
    answer = checked(made)

    assert (only(answer, "uncorroborated").rank, only(answer, "uncorroborated").seq) == (2, 4)
    assert asked(answer) == ("limited", 3)


def test_a_digest_of_the_collector_confirms_nothing():
    made = sealed([4])
    made.add([digest(1, 2, "a" * 64, [1, 2]), digest(0, None, "a" * 64, [1, 2])])

    assert "uncorroborated" in codes(checked(made))


def test_a_rank_outside_the_group_confirms_nothing():
    made = sealed([4])
    made.add([digest(1, 2, "a" * 64, [1, 2]), digest(1, 3, "a" * 64, [1, 2])])

    assert "uncorroborated" in codes(checked(made))


def test_a_rank_that_states_two_digests_contradicts_its_group():
    made = sealed([4])
    said = [(0, "a"), (1, "a"), (2, "a"), (2, "b"), (3, "a")]
    counts = {}
    lines = []
    for rank, word in said:
        counts[rank] = counts.get(rank, 0) + 1
        lines.append(digest(counts[rank], rank, word * 64, range(4)))
    made.add(lines)

    assert [one.rank for one in of(checked(made), "rank-disagrees")] == [2]


def test_groups_are_told_apart_by_name_and_step():
    made = sealed([4])
    lines = [digest(1 + step, rank, "ab"[step] * 64, range(4), step=step) for step in range(2) for rank in range(4)]
    made.add(lines)

    assert "uncorroborated" not in codes(checked(made))
    assert faults(checked(made)) == []


def test_more_waiting_groups_than_are_kept_is_unknown(monkeypatch):
    from provstore.evidence.verify import digests

    monkeypatch.setattr(digests, "MOST_WAITING", 3)
    made = sealed([4])
    made.add([digest(1 + step, 0, "a" * 64, range(4), step=step) for step in range(4)])
    answer = checked(made)

    assert "cap-exceeded" in codes(answer)
    assert asked(answer)[1] == 4


def test_a_rank_with_more_keys_than_are_looked_at_is_unknown(monkeypatch):
    monkeypatch.setattr(content, "MOST_CERTIFICATES", 2)
    made = Sealing(PrivateKey.generate())
    made.add([certificate(n, 0, PrivateKey.generate().public_key) for n in range(2)])
    assert faults(checked(made)) == []

    made.add([certificate(2, 0, PrivateKey.generate().public_key)])
    assert faults(checked(made)) == ["cap-exceeded"]


class Changing:
    """A place whose bundles are others when they are read again."""

    def __init__(self, log, other):
        self.run, self.attempt, self.store = log.run, log.attempt, log.store
        self._log, self._readings = log, iter([log.signed, other])
        self.records = log.records

    def bundles(self):
        return iter(next(self._readings))


def test_a_bundle_that_changes_while_it_is_verified_is_told():
    made, other = signing_ranks(), signing_ranks()
    for one in (made, other):
        one.add(losses(8))
    answer = checked(Changing(made.log(), other.signed), trusting(made.key))

    assert "check-unfinished" in codes(answer)


def test_bundles_that_cannot_be_read_again_are_told():
    made = signing_ranks()
    made.add(losses(8))
    gone = [replace(made.signed[0], envelope=b"")]
    answer = checked(Changing(made.log(), gone), trusting(made.key))

    assert "check-unfinished" in codes(answer)
