"""Sealing: what waits is signed in order, each bundle follows from the last, nothing is signed on a broken base."""

from __future__ import annotations

import hashlib
import json

import pytest

from provstore.errors import ConfigError, TrustError
from provstore.evidence import bundles, dsse, keys, merkle, records, statement
from provstore.evidence.bundles import Ledger, Limits
from provstore.model.evidence import BundleAt, Observation, RankHead, RecordAt

STORE = "0" * 32
NOW = 1_796_000_000_000_000_000


def _line(n: int, rank: int | None = 0, step: int | None = None) -> bytes:
    return records.observation("job", 0, n, Observation("loss", {"value": n / 2}, rank=rank, step=step))


def _filled(count: int, ranks: int = 1) -> Ledger:
    ledger = Ledger("job", 0, STORE)
    ledger.add(_line(at // ranks, at % ranks, at) for at in range(count))
    return ledger


class _Log:
    """Records and bundles in memory."""

    run, attempt, store = "job", 0, STORE

    def __init__(self, lines, envelopes):
        self.lines, self.envelopes = list(lines), list(envelopes)

    def records(self):
        return (RecordAt(at, line, "memory") for at, line in enumerate(self.lines))

    def bundles(self):
        return (BundleAt(envelope, None, "memory") for envelope in self.envelopes)


def _sealed(ledger: Ledger, signer: keys.PrivateKey, **limits: int) -> list[bundles.Sealed]:
    done = []
    while ledger.pending:
        one = ledger.seal(signer, limits=Limits(**limits), clock_ns=lambda: NOW)
        ledger.accept(one)
        done.append(one)
    return done


@pytest.fixture(scope="module")
def signer() -> keys.PrivateKey:
    return keys.PrivateKey.generate()


def test_a_bundle_signs_root_range_and_digest_of_its_epoch_file(signer):
    lines = [_line(at, 0, at) for at in range(5)]
    (one,) = _sealed(_filled(5), signer)
    payload = dsse.parse(one.envelope).payload
    said = json.loads(payload)
    predicate = said["predicate"]
    assert said["subject"] == [
        {
            "name": "job/0/epoch-0",
            "digest": {"sha256": hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest()},
        }
    ]
    assert (predicate["first"], predicate["size"], predicate["prev"]) == (0, 5, "0" * 64)
    assert predicate["root"] == merkle.root_of([merkle.leaf_hash(line) for line in lines]).hex()
    assert predicate["steps"] == [0, 4]
    assert predicate["clock"]["wall"] == "2026-11-30T00:53:20Z"
    assert keys.is_signed(signer.public_key, dsse.pae(dsse.INTOTO, payload), dsse.parse(one.envelope).signatures[0].sig)


def test_each_bundle_names_the_digest_of_the_payload_before_it(signer):
    first, second, third = _sealed(_filled(25), signer, records=10)
    assert [(one.epoch.first, one.epoch.size, one.epoch.number) for one in (first, second, third)] == [
        (0, 10, 0),
        (10, 20, 1),
        (20, 25, 2),
    ]
    assert second.epoch.prev == hashlib.sha256(dsse.parse(first.envelope).payload).hexdigest()
    assert third.epoch.prev == hashlib.sha256(dsse.parse(second.envelope).payload).hexdigest()


def test_an_epoch_closes_before_its_file_becomes_larger_than_allowed(signer):
    big = [records.observation("job", 0, at, Observation("text", {"value": "x" * 30_000}, rank=0)) for at in range(7)]
    ledger = Ledger("job", 0, STORE)
    ledger.add(big)
    assert [one.epoch.size - one.epoch.first for one in _sealed(ledger, signer, size_bytes=65_536)] == [2, 2, 2, 1]


def test_the_chain_of_a_rank_is_the_hash_of_its_own_leaves(signer):
    (one,) = _sealed(_filled(6, ranks=2), signer)
    head = hashlib.sha256(b"provstore-rank-head-v1\0job\x001").digest()
    for at in (1, 3, 5):
        leaf = hashlib.sha256(b"\0" + _line(at // 2, 1, at)).digest()
        head = hashlib.sha256(head + leaf).digest()
    assert one.epoch.ranks[1] == RankHead(1, 3, head.hex())


def test_a_chain_goes_on_over_epochs_and_agrees_however_it_is_asked_for(signer):
    whole, stepwise = _filled(40, ranks=3), Ledger("job", 0, STORE)
    asked = []
    for at in range(40):
        stepwise.add([_line(at // 3, at % 3, at)])
        asked.append(stepwise.chain(at % 3))
        if at % 7 == 0:
            stepwise.accept(stepwise.seal(signer, limits=Limits()))
    assert [whole.chain(rank) for rank in range(3)] == [stepwise.chain(rank) for rank in range(3)]
    assert asked[-1] == whole.chain(39 % 3)


def test_a_ledger_that_is_read_back_goes_on_where_the_last_one_stood(signer):
    ledger = _filled(12, ranks=2)
    lines = [_line(at // 2, at % 2, at) for at in range(12)]
    done = [ledger.seal(signer, limits=Limits(records=5))]
    ledger.accept(done[0])
    again = bundles.load(_Log(lines, [done[0].envelope]))
    assert (again.size, again.pending, again.number, again.prev) == (5, 7, 1, ledger.prev)
    assert again.counts == ledger.counts == {0: 6, 1: 6}
    one, other = (each.seal(signer, limits=Limits(), clock_ns=lambda: NOW).epoch for each in (ledger, again))
    assert (one.root, one.ranks, one.prev, one.subject_sha256) == (
        other.root,
        other.ranks,
        other.prev,
        other.subject_sha256,
    )


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda lines, found: ([*lines[:3], _line(99, 0, 3), *lines[4:]], found), "root-mismatch"),
        (lambda lines, found: (lines[:3], found), "rows-missing"),
        (lambda lines, found: (lines, found[1:]), "chain-broken"),
        (lambda lines, found: (lines, [found[0], found[0]]), "chain-broken"),
        (lambda lines, found: (lines, [found[0][:-9]]), "envelope-malformed"),
    ],
    ids=["a record was changed", "records are gone", "a bundle is gone", "a bundle twice", "a bundle is cut"],
)
def test_nothing_is_signed_on_top_of_what_does_not_hold(signer, change, code):
    ledger = _filled(10)
    lines = [_line(at, 0, at) for at in range(10)]
    found = [one.envelope for one in _sealed(ledger, signer, records=5)]
    changed, envelopes = change(lines, found)
    with pytest.raises(TrustError) as refused:
        bundles.load(_Log(changed, envelopes))
    assert refused.value.code == code


def test_a_bundle_of_another_store_is_not_continued(signer):
    ledger = _filled(3)
    (one,) = _sealed(ledger, signer)
    log = _Log([_line(at, 0, at) for at in range(3)], [one.envelope])
    log.store = "f" * 32
    with pytest.raises(TrustError, match="another run or store"):
        bundles.load(log)


def test_the_policy_of_an_epoch_is_the_weakest_that_its_records_state(signer):
    ledger = Ledger("job", 0, STORE)
    policy = records.policy("job", 0, 0, mode="full", reason="asked for", document={"k": 8})
    ledger.add([policy, _line(0)])
    first = ledger.seal(signer, limits=Limits())
    ledger.accept(first)
    facts = {"encoding": "lines", "rows": 1, "sha256": "a" * 64}
    ledger.add([records.ingest("job", 0, 1, batch=7, source=None, facts=facts, mode="validation", reason="no tensors")])
    second = ledger.seal(signer, limits=Limits())
    digest = hashlib.sha256(policy).hexdigest()
    assert first.epoch.policy == statement.Policy(digest, "full", "asked for")
    assert second.epoch.policy == statement.Policy(digest, "validation", "no tensors")


def test_the_last_record_of_a_run_closes_it(signer):
    ledger = _filled(2)
    ledger.add([records.run_close("job", 0, 0, reason="finished", records=2, batches=0)])
    (one,) = _sealed(ledger, signer)
    assert one.epoch.closed
    assert ledger.closed


def test_a_signer_that_signs_something_else_is_found_before_anything_is_kept(signer):
    class Liar:
        public_key = signer.public_key

        def sign(self, message: bytes) -> bytes:
            return signer.sign(message + b"!")

    ledger = _filled(2)
    with pytest.raises(TrustError):
        ledger.seal(Liar(), limits=Limits())
    assert (ledger.size, ledger.pending) == (0, 2)


@pytest.mark.parametrize("limits", [{"records": 0}, {"size_bytes": 1000}, {"size_bytes": 1 << 28}, {"seconds": 0.0}])
def test_limits_that_could_not_be_verified_elsewhere_are_refused(limits):
    with pytest.raises(ConfigError, match="limits"):
        Limits(**limits)


def test_writer_and_verifier_agree_on_the_policy_of_every_epoch(signer):
    from provstore.evidence.trust.keys import Trust
    from provstore.evidence.verify.walk import verify

    facts = {"encoding": "lines", "rows": 1, "sha256": "a" * 64}

    def policy(n, mode):
        return records.policy("job", 0, n, mode=mode, reason=f"because {n}", document={})

    def ingested(n, mode):
        return records.ingest("job", 0, n, batch=n, source=None, facts=facts, mode=mode, reason=f"file {n}")

    lines = [
        *(ingested(0, "validation"), _line(0)),
        *(policy(1, "validation"), policy(2, "full")),
        *(ingested(3, "full"), ingested(4, "delta")),
        *(policy(5, "delta"), ingested(6, "full")),
        *(_line(1), _line(2)),
    ]
    ledger = Ledger("job", 0, STORE)
    ledger.add(lines)
    done = _sealed(ledger, signer, records=2)
    found = [(one.epoch.policy.mode, one.epoch.policy.reason) for one in done]
    assert found == [
        ("validation", "file 0"),
        ("validation", "because 1"),
        ("delta", "file 4"),
        ("delta", "because 5"),
        ("delta", "because 5"),
    ]
    log = _Log(lines, [])
    log.bundles = lambda: (BundleAt(one.envelope, one.note, "memory") for one in done)
    checked = verify(log, Trust.of_keys([signer.public_key], "test"))
    assert {one.code for one in checked.findings} == {"not-closed", "unanchored"}
