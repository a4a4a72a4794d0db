"""Whose keys a run is sealed with: what nobody vouches for is not signed on top of, and a signer's failure is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import provstore
from provstore.errors import InputError, StoreError, TrustError
from provstore.evidence import bundles, dsse, keys, records, statement
from provstore.evidence.bundles import Limits
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.evidence.trust.keys import ED25519, RUN, Revocation, Trust, TrustedKey
from provstore.ingest.vouching import Vouching
from provstore.journal import Journal
from provstore.model.evidence import Observation


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVSTORE_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PROVSTORE_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("PROVSTORE_ANCHORS", raising=False)
    monkeypatch.delenv("PROVSTORE_TRUST", raising=False)


@pytest.fixture
def key() -> PrivateKey:
    return PrivateKey.generate()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"embedded:{tmp_path / 's'}"


def trusting(*known: PrivateKey, revoked: PrivateKey | None = None) -> Trust:
    listed = tuple(TrustedKey(fingerprint(one.public_key), ED25519, one.public_key, RUN) for one in known)
    gone = () if revoked is None else (Revocation(fingerprint(revoked.public_key), "2020-01-31T00:00:00Z", "lost"),)
    return Trust(1, None, (), 0, listed, gone, "test", first_use=False)


def record(store: provstore.Store, count: int = 3, rank: int = 0, signer: PrivateKey | None = None) -> None:
    store.record([Observation("loss", {"value": at}, rank=rank) for at in range(count)], run="job", rank_signer=signer)


def sizes(journal: Path) -> tuple[int, int]:
    with Journal.open(journal, writable=False) as held:
        size = held.evidence_size("job", 0)
    return size.records, size.bundles


def written(tmp_path: Path, change: Callable[[Journal], None]) -> None:
    """Change a store's journal past the store, as whoever can write to its folder."""
    (place,) = {path.parent for path in tmp_path.rglob("*.pvj")}
    with Journal.open(place, writable=True) as journal:
        change(journal)


def forge(tmp_path: Path, forger: PrivateKey, keyid: str | None = None) -> None:
    """Put a bundle of another key at the end of the chain; it fits all that is there."""

    def add(journal: Journal) -> None:
        log = journal.evidence("job", 0)
        ledger = bundles.load(log, log.heads())
        count = ledger.next_count(0)
        line = records.observation("job", 0, count, Observation("loss", {"value": 666}, rank=0))
        journal.append_records("job", 0, [line])
        ledger.add([line])
        made = ledger.seal(forger, limits=Limits())
        envelope = made.envelope
        if keyid is not None:
            said = json.loads(envelope)
            said["signatures"][0]["keyid"] = keyid
            envelope = json.dumps(said, separators=(",", ":")).encode()
        journal.append_bundle("job", 0, envelope, made.note)

    written(tmp_path, add)


# The last bundle


def test_nothing_is_signed_on_top_of_a_bundle_that_nobody_vouches_for(tmp_path, key, uri):
    forger = PrivateKey.generate()
    with provstore.open(uri) as store:
        record(store)
        store.seal(signer=key)
    forge(tmp_path, forger)
    with provstore.open(uri) as store:
        record(store)
        with pytest.raises(TrustError, match=r"the last bundle .* names key .* nor one that is trusted") as caught:
            store.seal(signer=key)
        assert fingerprint(forger.public_key) in str(caught.value)
        assert caught.value.code == "untrusted-key"
        assert "--after-unknown-key" in (caught.value.hint or "")
        with pytest.raises(TrustError, match="nor one that is trusted"):
            store.seal(signer=key, close="finished")
        (sealed,) = store.seal(signer=key, vouch=Vouching(after_unknown_key=True)).runs
    assert (sealed.epochs, sealed.records) == ((2,), 3)


def test_a_refused_close_leaves_no_end_behind(tmp_path, key, uri):
    with provstore.open(uri) as store:
        record(store)
        store.seal(signer=key)
    forge(tmp_path, PrivateKey.generate())
    with provstore.open(uri) as store:
        with pytest.raises(TrustError):
            store.seal(signer=key, close="finished")
        record(store, count=1)


def test_a_bundle_that_names_a_trusted_key_which_did_not_sign_it_is_never_signed_on(tmp_path, key, uri):
    friend = PrivateKey.generate()
    with provstore.open(uri) as store:
        record(store)
        store.seal(signer=key)
    forge(tmp_path, PrivateKey.generate(), fingerprint(friend.public_key))
    with provstore.open(uri) as store:
        record(store)
        with pytest.raises(TrustError) as caught:
            store.seal(signer=key, vouch=Vouching(lambda: trusting(friend), after_unknown_key=True))
    assert caught.value.code == "bad-signature"


def test_two_operators_who_trust_each_other_take_turns(tmp_path, key, uri):
    other = PrivateKey.generate()
    both = trusting(key, other)
    with provstore.open(uri) as store:
        for signer in (key, other, other, key):
            record(store)
            assert len(store.seal(signer=signer, vouch=Vouching(lambda: both)).runs[0].epochs) == 1


def test_nothing_is_signed_on_top_of_a_revoked_key(tmp_path, key, uri):
    stolen = PrivateKey.generate()
    held = trusting(key, stolen, revoked=stolen)
    with provstore.open(uri) as store:
        record(store)
        store.seal(signer=stolen)
        record(store)
        with pytest.raises(TrustError, match="which is revoked") as caught:
            store.seal(signer=key, vouch=Vouching(lambda: held))
        assert caught.value.code == "key-revoked"
        store.seal(signer=key, vouch=Vouching(lambda: held, after_unknown_key=True))


def test_where_nothing_waits_an_unknown_key_at_the_end_is_no_failure(key, uri):
    with provstore.open(uri) as store:
        record(store)
        store.seal(signer=PrivateKey.generate())
        (again,) = store.seal(signer=key).runs
    assert again.epochs == ()


def test_the_background_signer_goes_on_after_its_own_key_and_stops_after_an_unknown_one(tmp_path, key, uri, caplog):
    for _ in range(2):
        with provstore.open(uri, signer=key) as store:
            record(store)
    forge(tmp_path, PrivateKey.generate())
    with provstore.open(uri, signer=key) as store:
        record(store)
    (place,) = {path.parent for path in tmp_path.rglob("*.pvj")}
    assert sizes(place) == (10, 3)
    assert "nor one that is trusted" in caplog.text


# Keys of ranks


def certify(tmp_path: Path, rank: int, public: bytes) -> None:
    def add(journal: Journal) -> None:
        log = journal.evidence("job", 0)
        count = bundles.load(log, log.heads()).next_count(None)
        line = records.rank_certificate("job", 0, count, certified=rank, public=public)
        journal.append_records("job", 0, [line])

    written(tmp_path, add)


@pytest.mark.parametrize("is_sealed", [True, False], ids=["signed", "waiting"])
def test_a_second_key_of_a_rank_is_not_signed_without_a_word(tmp_path, key, uri, is_sealed):
    own, evil = PrivateKey.generate(), PrivateKey.generate()
    with provstore.open(uri) as store:
        record(store, rank=3, signer=own)
        if is_sealed:
            store.seal(signer=key)
    certify(tmp_path, 3, evil.public_key)
    with provstore.open(uri) as store:
        with pytest.raises(TrustError, match="rank 3") as caught:
            store.seal(signer=key)
        assert fingerprint(own.public_key) in str(caught.value)
        assert fingerprint(evil.public_key) in str(caught.value)
        assert "--rekeyed-rank 3" in (caught.value.hint or "")
        with pytest.raises(TrustError, match="rank 3"):
            store.seal(signer=key, vouch=Vouching(rekeyed_ranks=frozenset((2,))))
        store.seal(signer=key, vouch=Vouching(rekeyed_ranks=frozenset((3,))))
        path = tmp_path / "public.hex"
        path.write_text(key.public_key.hex())
        (answer,) = store.verify(belief=provstore.belief(public_keys=[path]))
    told = [one for one in answer.findings if one.code == "uncorroborated" and "two keys" in one.text]
    assert [one.rank for one in told] == [3]
    assert fingerprint(own.public_key) in told[0].text
    assert fingerprint(evil.public_key) in told[0].text


def test_in_one_attempt_a_rank_records_with_one_key_and_with_another_in_the_next(key, uri):
    first, second = PrivateKey.generate(), PrivateKey.generate()
    said = [Observation("loss", {"value": 1}, rank=3)]
    with provstore.open(uri) as store:
        store.record(said, run="job", rank_signer=first)
        with pytest.raises(InputError, match="in one attempt a rank has one key"):
            store.record(said, run="job", rank_signer=second)
        store.record(said, run="job", rank_signer=first)
        store.record(said, run="job", attempt=1, rank_signer=second)
        assert [one.records for one in store.seal(signer=key).runs] == [3, 2]


# Signers that fail


class ServiceDownError(Exception):
    """What a key service may raise."""


class Service:
    """A key of a service that is out of reach after so many signatures."""

    def __init__(self, key: PrivateKey, works: int = 0) -> None:
        self._key, self._works = key, works

    @property
    def public_key(self) -> bytes:
        return self._key.public_key

    def sign(self, message: bytes) -> bytes:
        if self._works == 0:
            raise ServiceDownError("connection reset by peer")
        self._works -= 1
        return self._key.sign(message)


@pytest.mark.parametrize("works", [0, 1], ids=["envelope", "checkpoint"])
def test_a_signer_that_fails_is_named_with_the_cause_and_nothing_is_half_written(tmp_path, key, uri, works):
    with provstore.open(uri) as store:
        record(store)
        with pytest.raises(StoreError) as caught:
            store.seal(signer=Service(key, works))
        assert "Service" in str(caught.value)
        assert fingerprint(key.public_key) in str(caught.value)
        assert "ServiceDownError: connection reset by peer" in str(caught.value)
        assert isinstance(caught.value.__cause__, ServiceDownError)
        (place,) = {path.parent for path in tmp_path.rglob("*.pvj")}
        assert store.seal(signer=key).runs[0].records == 3
    assert sizes(place) == (3, 1)


def test_a_rank_whose_signer_fails_records_nothing(tmp_path, key, uri):
    with provstore.open(uri) as store:
        record(store)
        with pytest.raises(StoreError, match="the signer failed: ServiceDownError"):
            record(store, rank=1, signer=Service(PrivateKey.generate()))
        assert store.seal(signer=key).runs[0].records == 3


def test_a_signer_that_cannot_say_its_key_is_told_as_such(key, uri):
    class Mute:
        @property
        def public_key(self) -> bytes:
            raise ServiceDownError("no route")

        def sign(self, message: bytes) -> bytes:
            return b""

    with provstore.open(uri) as store:
        record(store)
        with pytest.raises(StoreError, match="Mute does not give its public key: ServiceDownError: no route"):
            store.seal(signer=Mute())


def test_an_end_at_which_the_signer_failed_is_signed_by_the_next_try(key, uri):
    with provstore.open(uri) as store:
        record(store)
        with pytest.raises(StoreError, match="the signer failed"):
            store.seal(signer=Service(key), close="finished")
        with pytest.raises(InputError, match="recorded as finished"):
            store.seal(signer=key, run="job", close="aborted")
        (sealed,) = store.seal(signer=key, run="job", close="finished").runs
        assert sealed.closed
        assert sealed.records == 4


def test_an_end_at_which_the_signer_failed_is_signed_when_all_runs_are(key, uri):
    with provstore.open(uri) as store:
        record(store)
        with pytest.raises(StoreError, match="the signer failed"):
            store.seal(signer=Service(key), close="finished")
        (sealed,) = store.seal(signer=key).runs
        assert sealed.closed
        assert store.seal(signer=key).runs == ()


def test_what_was_forged_is_a_good_bundle_but_for_its_key(tmp_path, key, uri):
    """Else the tests above would refuse it for another reason."""
    with provstore.open(uri) as store:
        record(store)
        store.seal(signer=key)
    forger = PrivateKey.generate()
    forge(tmp_path, forger)
    (place,) = {path.parent for path in tmp_path.rglob("*.pvj")}
    with Journal.open(place, writable=False) as journal:
        last = journal.evidence("job", 0).last_bundle()
    envelope = dsse.parse(last.envelope)
    assert keys.is_signed(forger.public_key, envelope.signed_bytes(), envelope.signatures[0].sig)
    assert statement.parse(envelope.payload).size == 4
