"""Findings about ranks, about reading that stops and about damage: each at its epoch, record, place, rank and key."""

from __future__ import annotations

from dataclasses import replace

from provstore.errors import StoreError
from provstore.evidence import statement
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.evidence.verify import tree, walk
from provstore.evidence.verify.walk import epoch_finder
from provstore.model.lost import Lost
from provstore.model.verification import AnchorReach
from tests.mutations import edited
from tests.sealing import NOTHING, Sealing, line, loss, losses, sealed, trusting
from tests.unit.evidence.verifying import checked, places

EARLY = "2026-03-01T00:00:00Z"


def signer(made):
    return fingerprint(made.key.public_key)


def certificate(n, rank, public, **own):
    return line(
        "rank-certificate", n, **({"certified": rank, "keyid": fingerprint(public), "public": public.hex()} | own)
    )


def signing(certified=(0, 1, 2, 3)):
    ranks = {rank: PrivateKey.generate() for rank in range(4)}
    made = Sealing(PrivateKey.generate(), rank_keys=ranks)
    made.add([certificate(n, rank, ranks[rank].public_key) for n, rank in enumerate(certified)])
    return made


def test_a_rank_that_nobody_vouches_for_is_told_with_the_key_that_it_claims():
    made = signing([0, 1, 3])
    made.add(losses(4))
    made.add(losses(8)[4:])
    claimed = fingerprint(made.rank_keys[2].public_key)

    assert places(checked(made)) == [("untrusted-key", n, None, f"bundle {n}", 2, claimed, None) for n in (1, 2)]


def test_a_signature_over_another_chain_is_told_on_the_axis_of_the_chain():
    made = signing()
    made.rank_keys[2] = made.rank_keys[2]
    made.lines += losses(4)
    true = made._true(4)
    made.lines = made.lines[:4]
    wrong = replace(true.ranks[2], sig=true.ranks[1].sig)
    made.add(losses(4), ranks=(*true.ranks[:2], wrong, true.ranks[3]))
    answer = checked(made)
    key = fingerprint(made.rank_keys[2].public_key)

    assert places(answer) == [("rank-head-mismatch", 1, None, "bundle 1", 2, key, None)]
    assert (answer.axes["chain"], answer.axes["key"]) == ("fault", "ok")
    assert f"is not that of its key {key}" in answer.findings[-1].text


def test_a_rank_that_does_not_sign_is_told_once_with_the_key_that_it_has():
    made = signing()
    key = fingerprint(made.rank_keys.pop(2).public_key)
    made.add(losses(4))
    made.add(losses(8)[4:])

    assert places(checked(made)) == [("uncorroborated", 1, None, "bundle 1", 2, key, None)]


def test_a_second_key_of_a_rank_is_told_at_the_record_that_names_it():
    made = sealed([4])
    first, second = (PrivateKey.generate().public_key for _ in range(2))
    made.add([certificate(0, 2, first), certificate(1, 2, first), certificate(2, 2, second)])
    answer = checked(made)
    found = [one for one in places(answer) if one[2] is not None]

    assert found == [("uncorroborated", 1, 6, "", 2, fingerprint(second), None)]
    assert (answer.axes["key"], answer.axes["chain"]) == ("unproven", "unproven")


def test_a_bundle_with_a_digest_of_its_chains_only_is_told_where_ranks_have_keys():
    made = signing()
    made.lines += losses(4)
    true = made._true(4)
    made.lines = made.lines[:4]
    made.add(losses(4), ranks=(), ranks_sha256=statement.ranks_digest(true.ranks))
    answer = checked(made)

    assert places(answer) == [("uncorroborated", 1, None, "bundle 1", None, None, None)]


def digest(n, rank, sha256, ranks=(0, 1, 2)):
    return line("digest", n, rank, name="weights", step=None, ranks=list(ranks), sha256=sha256 * 64)


def test_ranks_that_state_other_digests_are_told_at_their_records():
    made = sealed([4])
    made.add([digest(1, 0, "a"), digest(1, 1, "a"), digest(1, 2, "b")])
    answer = checked(made)
    assert places(answer) == [("rank-disagrees", 1, 6, "", 2, None, None)]
    assert answer.findings[-1].text.endswith(
        f"Asserted by rank 2, which has no key: digest {'b' * 16}… of weights; "
        "it contradicts 2 of the 3 ranks that must hold the same."
    )

    made = sealed([4])
    made.add([digest(1, 0, "a", (0, 1)), digest(1, 1, "b", (0, 1))])
    assert places(checked(made)) == [("uncorroborated", 1, 4, "", None, None, None)]
    made = sealed([4])
    made.add([digest(1, 2, "a")])
    answer = checked(made)
    assert places(answer) == [("uncorroborated", 1, 4, "", 2, None, None)]
    assert answer.findings[-1].text.endswith("of weights; no other of 3 ranks confirms it.")


class Stopping:
    """A place that can be read so far, on each reading of a kind."""

    def __init__(self, log, **readings):
        self.run, self.attempt, self.store = log.run, log.attempt, log.store
        self._log, self._readings = log, readings

    def bundles(self):
        return self._so_far("bundles", self._log.bundles())

    def records(self):
        return self._so_far("records", self._log.records())

    def _so_far(self, kind, rows):
        most = self._readings.get(kind, [99]).pop(0)
        for at, row in enumerate(rows):
            if at == most:
                raise StoreError("journal: it is damaged")
            yield row


def test_reading_that_stops_is_told_on_the_axis_of_what_was_not_read():
    made = sealed([2, 2, 2])
    for readings, axis, words in (
        ({"bundles": [1, 99]}, "envelope", "reading its bundles stopped: journal: it is damaged"),
        ({"records": [3]}, "tree", "reading its records stopped: journal: it is damaged"),
    ):
        answer = checked(Stopping(made.log(), **readings), trusting(made.key))
        assert [one for one in places(answer) if one[0] == "check-unfinished"] == [
            ("check-unfinished", None, None, "", None, None, None)
        ]
        assert {name for name, state in answer.axes.items() if state == "unknown"} == {axis}
        assert words in next(one.text for one in answer.findings if one.code == "check-unfinished")


def test_bundles_that_cannot_be_read_again_are_told_one_by_one_on_the_axis_of_the_chain():
    made = signing()
    made.add(losses(4))
    made.add(losses(8)[4:])
    answer = checked(Stopping(made.log(), bundles=[99, 2]), trusting(made.key))

    assert places(answer) == [("check-unfinished", 2, None, "bundle 2", None, None, None)]
    assert answer.axes["chain"] == "unknown"


def test_records_that_damage_took_are_told_at_the_first_and_explain_all_that_follows():
    made = sealed([4, 4, 4, 4])
    log = made.log()
    log.lines, log.numbers = log.lines[:5] + log.lines[7:], [*range(5), *range(7, 16)]
    answer = checked(log, trusting(made.key), lost=Lost(records=((5, 7),)))

    assert places(answer) == [("rows-missing", None, 5, "the journal", None, None, "journal-damaged")]
    assert "the records from here to 6 are not here" in next(
        o.text for o in answer.findings if o.code == "rows-missing"
    )
    assert (answer.counts["records"], answer.leaves_seen, answer.head_note) == (14, 14, None)
    log.lines[-1] = edited(log.lines[-1], step=1000)
    told = places(checked(log, trusting(made.key), lost=Lost(records=((5, 7),))))
    assert ("subject-mismatch", 3, 12, "bundle 3", None, signer(made), None) in told


def test_bundles_that_damage_took_explain_a_gap_in_their_chain_only_where_numbers_move_on():
    made = sealed([2, 2, 2])
    log = made.log()
    del log.signed[1]
    found = places(checked(log, trusting(made.key), lost=Lost(bundles=frozenset((1,)))))
    assert {one[0] for one in found} == {"chain-broken", "epoch-order", "range-gap"}
    assert {one[-1] for one in found} == {"journal-damaged"}
    assert {one[-1] for one in places(checked(log, trusting(made.key), lost=Lost(bundles=frozenset((0,)))))} == {None}

    log = made.log()
    log.signed[1], log.signed[2] = log.signed[2], log.signed[1]
    told = places(checked(log, trusting(made.key), lost=Lost(bundles=frozenset((1, 2)))))
    assert {one[-1] for one in told if one[1] == 1 and one[0] == "epoch-order"} == {None}


def test_more_epochs_over_one_record_than_are_compared_are_told_there(monkeypatch):
    monkeypatch.setattr(tree, "MOST_OPEN_EPOCHS", 2)
    made = sealed([1])
    made.add(losses(2)[1:], first=0)
    assert "cap-exceeded" not in {one[0] for one in places(checked(made))}
    made.add(losses(3)[2:], first=0)
    answer = checked(made)

    assert [one for one in places(answer) if one[0] == "cap-exceeded"] == [
        ("cap-exceeded", None, 0, "", None, None, None)
    ]
    assert answer.axes["envelope"] == "ok"


def test_the_epoch_of_a_record_is_the_one_that_signs_it():
    class One:
        def __init__(self, number, first, size, is_foreign=False):
            self.number, self.first, self.size, self.is_foreign = number, first, size, is_foreign

    epoch_of = epoch_finder([One(0, 0, 3), One(1, 3, 5), One(9, 5, 6, is_foreign=True), One(2, 6, 8), One(3, 6, 7)])
    assert [epoch_of(seq) for seq in range(9)] == [0, 0, 0, 1, 1, None, 2, 2, None]
    many = epoch_finder([One(0, 0, 99), *(One(n, n, n + 1) for n in range(1, 40))])
    assert [many(seq) for seq in (0, 1, 39)] == [0, 1, 39]


def test_the_answer_tells_what_it_is_about():
    made = sealed([2, 3])
    made.lines.append(loss(9, None, 1))
    answer = checked(made.log(), trusting(made.key), [made.anchor(2, EARLY)], source="a place")

    assert (answer.source, answer.signed, answer.leaves_seen) == ("a place", 5, 6)
    assert dict(answer.counts) == {"bundles": 2, "records": 6, "signed": 5, "unsigned": 1, "ranks": 4}
    assert answer.head_note == made.signed[1].checkpoint
    assert answer.reach == AnchorReach(2, 5, "held", EARLY)
    assert walk.PARTLY_ANCHORED.format(size=2, records=5) in answer.limits


def test_behind_lost_records_the_numbers_of_each_rank_may_jump_once_and_forward_only():
    def answer(*after):
        made = Sealing(PrivateKey.generate())
        made.add([loss(0, 1, 0), loss(0, 2, 1), loss(1, 1, 2), *after])
        log = made.log()
        del log.lines[2]
        log.numbers = [0, 1, *range(3, 3 + len(after))]
        told = checked(log, trusting(made.key), lost=Lost(records=((2, 3),)))
        return [(one.seq, one.rank) for one in told.findings if one.code == "seq-gap-or-dup"]

    assert answer(loss(2, 1, 3), loss(1, 2, 4)) == []
    assert answer(loss(5, 1, 3), loss(6, 1, 4), loss(4, 2, 5)) == []
    assert answer(loss(5, 1, 3), loss(7, 1, 4)) == [(4, 1)]
    assert answer(loss(0, 1, 3)) == [(3, 1)]


def test_a_clock_is_told_in_words_with_whose_it_is():
    made = Sealing(PrivateKey.generate())
    made.add([loss(n, rank, n, at=f"i64:{9 - n}") for rank in (3, None) for n in (0, 1)])
    told = {one.rank: one.text for one in checked(made).findings if one.code == "clock-odd"}

    end = "claims is before the one before it; later steps of its clock are not listed."
    assert told[3].endswith(f"the time that rank 3 {end}")
    assert told[None].endswith(f"the time that the collector {end}")


def test_a_disagreement_is_told_in_words_with_name_step_and_who_says_it():
    made = signing()
    key, contradicts = (
        fingerprint(made.rank_keys[2].public_key),
        "it contradicts 2 of the 3 ranks that must hold the same.",
    )
    stated = {"name": "weights", "step": 7, "ranks": [0, 1, 2]}
    made.add([line("digest", 0, rank, sha256=one * 64, **stated) for rank, one in ((0, "a"), (1, "a"), (2, "b"))])
    made.add([line("digest", 4, None, sha256="a" * 64, name="loss", step=None, ranks=[0, 1])])
    made.add([line("digest", 1, 0, sha256="a" * 64, name="x", step=3, ranks=[0, 1]),
              line("digest", 1, 1, sha256="b" * 64, name="x", step=3, ranks=[0, 1])])  # fmt: skip
    told = [
        one.text.partition(": ")[2]
        for one in checked(made).findings
        if one.code in {"rank-disagrees", "uncorroborated"}
    ]

    assert told == [
        f"Asserted by rank 2 with key {key}: digest {'b' * 16}… of weights at step 7; {contradicts}",
        f"The collector says: digest {'a' * 16}… of loss; no other of 2 ranks confirms it.",
        "the ranks state different digests of x at step 3, and no majority tells who is right.",
    ]


def test_chains_that_do_not_fit_are_told_in_words_with_what_is_signed_and_what_is_here():
    made = sealed([4])
    made.lines += losses(8)[4:]
    true = made._true(4).ranks
    made.lines = made.lines[:4]
    made.add(losses(8)[4:], ranks=(replace(true[0], count=9), replace(true[1], head=NOTHING), true[2]))
    told = {one.rank: one.text for one in checked(made).findings if one.code == "rank-head-mismatch"}

    assert told[0].endswith("rank 0's chain does not end where its bundle says: 9 records are signed, 2 are here.")
    assert told[1].endswith("the 2 records of rank 1 are not the ones whose chain is signed in its bundle.")
    assert told[3].endswith("rank 3's chain does not end where its bundle says: 0 records are signed, 2 are here.")
    assert len(told) == 3
