"""What the package signs, its verifier takes: policies, many ranks, rank keys, closed runs."""

import pytest

from provstore.evidence import bundles, rank_heads
from provstore.evidence.keys import PrivateKey
from provstore.evidence.trust.keys import TrustedKey
from provstore.evidence.verify.walk import verify
from provstore.model.evidence import BundleAt
from tests.sealing import ORG, RUN, STORE, Log, head_of, line, loss, losses, trusting
from tests.unit.evidence.test_verify_ends import closing, ingest, policy
from tests.unit.evidence.verifying import codes, faults


def signed(*epochs, key, heads=()):
    """A log whose epochs the package has signed."""
    ledger = bundles.Ledger(RUN, 0, STORE)
    ledger.add_heads(heads)
    made = []
    for lines in epochs:
        ledger.add(lines)
        done = ledger.seal(key, limits=bundles.Limits(), org=ORG)
        made.append(BundleAt(done.envelope, done.note, f"bundle {len(made)}"))
        ledger.accept(done)
    return Log([one for lines in epochs for one in lines], made)


@pytest.fixture
def key():
    return PrivateKey.generate()


def test_a_run_of_several_epochs_and_its_end(key):
    lines = losses(12)
    log = signed(lines[:5], lines[5:], [closing(records=12)], key=key)
    answer = verify(log, trusting(key))

    assert codes(answer) == ["unanchored"]
    assert answer.head_note == log.signed[-1].checkpoint


@pytest.mark.parametrize(
    "epoch",
    [
        [policy(0, "full", "audit")],
        [
            policy(0, "full", "audit"),
            ingest(1, "delta", "load"),
            ingest(2, "validation", "disk"),
            ingest(3, "full", "x"),
        ],
        [policy(0, "validation", "load"), ingest(1, "full", "audit")],
        [ingest(0, "full", "audit"), policy(1, "delta", "load")],
        [policy(0, "delta", "load"), policy(1, "full", "audit")],
        [policy(0, "full", "audit"), policy(1, "validation", "disk"), policy(2, "delta", "load")],
        [ingest(0, "full", "audit")],
        [ingest(0, "validation", "load")],
    ],
)
def test_the_policy_that_is_signed_is_the_weakest_that_the_records_state(key, epoch):
    following = [loss(0, 1, 0)]

    assert faults(verify(signed(epoch, following, key=key), trusting(key))) == []


@pytest.mark.parametrize("count", [2_000, 2_001])
def test_more_ranks_than_a_bundle_lists_with_keys_of_their_own(key, count):
    rank_key = PrivateKey.generate()
    lines = [loss(0, rank, rank) for rank in range(count)]
    heads = [
        rank_heads.sign(RUN, 0, rank, 1, head_of(RUN, rank, [lines[rank]]), rank_key) if rank % 500 == 0 else None
        for rank in range(count)
    ]
    log = signed(lines, key=key, heads=[head for head in heads if head is not None])
    trust = trusting(key)
    listed = TrustedKey(heads[0].keyid, "ed25519", rank_key.public_key, "rank")
    answer = verify(log, type(trust)(1, None, (), 0, (*trust.keys, listed), (), "test", first_use=False))

    assert faults(answer) == []
    log.lines[1500] = line("observation", 0, 1500, name="loss", step=1, values=[])
    assert "rank-head-mismatch" in faults(verify(log, trust))
