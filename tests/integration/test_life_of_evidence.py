"""The life of evidence: ingest, record, seal, verify, close; and what an auditor is told at each step."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import provstore
from provstore.errors import ConfigError, InputError, StoreError, TrustError
from provstore.evidence.bundles import Limits
from provstore.evidence.keys import PrivateKey
from provstore.journal import Journal
from provstore.model.evidence import AgreedDigest, Observation
from tests.simulator import Scenario, Shape3D, simulate


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVSTORE_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PROVSTORE_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("PROVSTORE_ANCHORS", raising=False)


@pytest.fixture
def key() -> PrivateKey:
    return PrivateKey.generate()


@pytest.fixture
def belief(key: PrivateKey, tmp_path: Path):
    path = tmp_path / "public.hex"
    path.write_text(key.public_key.hex())
    return lambda **more: provstore.belief(public_keys=[path], **more)


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    simulate(Scenario("ddp", Shape3D(world=4, steps=3))).write(tmp_path / "job")
    return tmp_path / "job"


def _codes(answer) -> list[str]:
    return [finding.code for finding in answer.findings]


def test_what_is_ingested_is_unsigned_until_it_is_sealed(dumps, tmp_path, key, belief):
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        store.ingest(dumps)
        (before,) = store.verify(belief=belief())
        store.seal(signer=key)
        (after,) = store.verify(belief=belief())
    assert before.verdict == "unknown"
    assert before.exit_code == 4
    assert {"no-bundles", "unsigned-tail"} <= set(_codes(before))
    assert after.exit_code == 3
    assert _codes(after) == ["not-closed", "unanchored"]


def test_a_closed_run_under_an_anchor_passes(dumps, tmp_path, key, belief):
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        store.ingest(dumps)
        store.seal(signer=key, run="job", close="finished", world=4)
        (first,) = store.verify("job", belief=belief())
        (second,) = store.verify("job", belief=belief())
    assert _codes(first) == ["unanchored"]
    assert (second.verdict, second.exit_code, second.findings) == ("pass", 0, ())
    assert second.anchor.size == second.counts["records"]


def test_verifying_twice_without_keeping_an_anchor_gives_the_same_report(dumps, tmp_path, key, belief):
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        store.ingest(dumps)
        store.seal(signer=key)
        one, other = (store.verify(belief=belief(), refresh=False) for _ in range(2))
    assert [answer.to_dict() for answer in one] == [answer.to_dict() for answer in other]


def test_limits_that_are_allowed_change_the_exit_code_and_not_the_words(dumps, tmp_path, key, belief):
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        store.ingest(dumps)
        store.seal(signer=key)
        (answer,) = store.verify(belief=belief(allow=["unanchored", "open"]))
    assert (answer.exit_code, answer.verdict) == (0, "limited")
    assert answer.limits[0].startswith("No fault found in 1 bundles,")
    assert "Run never closed: nobody has signed that these are all its records." in answer.limits


def test_later_ingest_into_a_closed_run_is_refused_with_the_remedy(dumps, tmp_path, key):
    other = tmp_path / "other"
    simulate(Scenario("ddp", Shape3D(world=4, steps=5))).write(other)
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        store.ingest(dumps)
        store.seal(signer=key, run="job", close="finished")
        again, late = store.ingest(dumps), store.ingest(other, run="job")
        assert (again.count("known"), again.count("refused")) == (4, 0)
        assert (late.count("new"), late.count("refused")) == (0, 4)
        assert "--attempt" in str(late.files[0].reason)
        assert store.ingest(other, run="job", attempt=1).count("new") == 4
        with pytest.raises(InputError, match="closed"):
            store.record([Observation("late", {})], run="job")
        # Nothing was unsigned, which is no mistake of who seals on a timer; to close it twice is one.
        (done,) = store.seal(signer=key, run="job", attempt=0).runs
        assert (done.epochs, done.records, done.closed) == ((), 0, True)
        with pytest.raises(InputError, match="closed already"):
            store.seal(signer=key, run="job", attempt=0, close="finished")


def test_sealing_again_signs_only_what_is_new(dumps, tmp_path, key):
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        store.ingest(dumps)
        (first,) = store.seal(signer=key).runs
        (second,) = store.seal(signer=key).runs
        store.record([Observation("loss", {"value": 0.5}, rank=0, step=1)], run="job")
        (third,) = store.seal(signer=key).runs
    assert (first.epochs, second.epochs, third.epochs) == ((0,), (), (1,))
    assert third.size == first.size + 1
    assert second.checkpoint == first.checkpoint


def test_a_batch_that_was_altered_is_not_signed(dumps, tmp_path, key):
    uri = f"embedded:{tmp_path / 's'}"
    with provstore.open(uri) as store:
        store.ingest(dumps)
    blob = max((tmp_path / "s" / "journal" / "blobs").rglob("*.zst"))
    blob.write_bytes(blob.read_bytes()[:-1] + b"!")
    with provstore.open(uri) as store, pytest.raises(StoreError, match="cannot be signed"):
        store.seal(signer=key)
    with Journal.open(tmp_path / "s" / "journal", writable=False) as journal:
        assert journal.evidence_size("job", 0).bundles == 0


def test_a_facts_file_exchanged_together_with_its_frame_is_found_by_its_record(dumps, tmp_path, key, belief):
    """The checksums of the journal can be made to fit by whoever rewrites it; the signed record cannot."""
    from provstore.journal import batches

    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        store.ingest(dumps)
        store.seal(signer=key)
        real = batches.Batch.facts_sha256
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batches.Batch, "facts_sha256", lambda batch: real(batch)[::-1])
            (answer,) = store.verify(belief=belief(), source="journal")
    assert answer.exit_code == 1
    assert set(_codes(answer)) >= {"subject-mismatch"}


def test_an_edit_of_the_graph_is_named_with_node_property_and_cover(dumps, tmp_path, key, belief):
    from provstore.cypher import Query
    from provstore.stores.embedded import connect

    uri = f"embedded:{tmp_path / 's'}"
    with provstore.open(uri) as store:
        store.ingest(dumps)
        store.seal(signer=key)
        (call,) = store.cypher("MATCH (c:Call {rank: 2, seq: 2}) RETURN c.iri AS iri ORDER BY iri LIMIT 1").rows
    graph = connect(str(tmp_path / "s"), writable=True)
    graph.alter(Query("edit", "MATCH (c:Element {iri: $iri}) SET c.completed_ns = 7", ("iri",), ()), dict(call))
    graph.close()
    with provstore.open(uri, read_only=True) as store:
        (answer,) = store.verify(belief=belief())
        assert answer.exit_code == 1
        (found,) = [one for one in answer.findings if one.code == "graph-mismatch"]
        assert found.where == f"{call['iri']} completed_ns"
        assert (found.rank, found.epoch) == (2, 0)
        assert found.seq is not None
    provstore.rebuild(uri)
    with provstore.open(uri, read_only=True) as store:
        (answer,) = store.verify(belief=belief())
    assert "graph-mismatch" not in _codes(answer)


def test_an_older_copy_of_the_store_is_a_rollback_against_the_anchor(dumps, tmp_path, key, belief):
    import shutil

    place = tmp_path / "s"
    with provstore.open(f"embedded:{place}") as store:
        store.ingest(dumps)
        store.seal(signer=key)
    shutil.copytree(place, tmp_path / "old")
    with provstore.open(f"embedded:{place}") as store:
        store.record([Observation("loss", {"value": 1.0}, rank=0)], run="job")
        store.seal(signer=key)
        store.verify(belief=belief())
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "old", place)
    with provstore.open(f"embedded:{place}", read_only=True) as store:
        (answer,) = store.verify("job", belief=belief())
    assert answer.exit_code == 5
    assert "rollback" in _codes(answer)


def test_a_run_that_was_deleted_whole_is_missed(dumps, tmp_path, key, belief):
    import shutil

    place = tmp_path / "s"
    with provstore.open(f"embedded:{place}") as store:
        store.ingest(dumps)
        store.seal(signer=key)
        store.verify(belief=belief())
    shutil.rmtree(place)
    with provstore.open(f"embedded:{place}") as store:
        store.record([Observation("loss", {"value": 1.0}, rank=0)], run="another")
        answers = store.verify(belief=belief())
    gone = [answer for answer in answers if answer.run == "job"]
    assert [answer.exit_code for answer in gone] == [5]


def test_an_anchor_inside_the_store_is_said_to_hold_nothing(dumps, tmp_path, key, belief):
    place = tmp_path / "s"
    with provstore.open(f"embedded:{place}") as store:
        store.ingest(dumps)
        (sealed,) = store.seal(signer=key).runs
        inside = place / "checkpoint.txt"
        inside.write_text(sealed.checkpoint)
        (answer,) = store.verify("job", belief=belief(anchors=[inside]))
    assert "anchor-not-independent" in _codes(answer)
    assert answer.exit_code == 3


def test_a_checkpoint_kept_elsewhere_anchors_as_far_as_it_reaches(dumps, tmp_path, key, belief):
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        store.ingest(dumps)
        (first,) = store.seal(signer=key).runs
        kept = tmp_path / "checkpoint.txt"
        kept.write_text(first.checkpoint)
        store.record([Observation("loss", {"value": 1.0}, rank=0)], run="job")
        store.seal(signer=key)
        (answer,) = store.verify("job", belief=belief(anchors=[kept]), refresh=False)
    assert (answer.anchor.size, answer.anchor.of) == (first.size, first.size + 1)
    assert (
        f"Anchored to {first.size} of {first.size + 1} records; completeness of the tail is not proven."
        in answer.limits
    )


def test_an_unknown_key_and_no_key_at_all_are_told_apart(dumps, tmp_path, key, belief):
    other = tmp_path / "other.hex"
    other.write_text(PrivateKey.generate().public_key.hex())
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        store.ingest(dumps)
        store.seal(signer=key)
        (answer,) = store.verify("job", belief=provstore.belief(public_keys=[other]))
    assert answer.exit_code == 1
    assert "untrusted-key" in _codes(answer)
    with pytest.raises(ConfigError, match="nothing says whose signatures count"):
        provstore.belief()


def test_a_trust_file_inside_the_store_is_refused(dumps, tmp_path, key, belief):
    from dataclasses import replace

    place = tmp_path / "s"
    with provstore.open(f"embedded:{place}") as store:
        store.ingest(dumps)
        inside = place / "trust.json"
        inside.write_bytes(b"{}")
        with pytest.raises(TrustError):
            store.verify("job", belief=replace(belief(), trust_path=inside))


def test_values_survive_record_graph_rebuild_and_verification_to_the_last_bit(tmp_path, key, belief):
    import struct

    nan = struct.unpack(">d", bytes.fromhex("7ff8dead00000001"))[0]
    values = {
        "nan": nan, "inf": float("inf"), "minus inf": float("-inf"), "minus zero": -0.0, "subnormal": 5e-324,
        "low": -(2**63), "high": 2**63 - 1, "emoji 🚀": "🚀 \U0001f9ea", "nul": "a\0b", "empty": "", "none": None,
        "yes": True,
    }  # fmt: skip
    uri = f"embedded:{tmp_path / 's'}"
    with provstore.open(uri) as store:
        store.record([Observation("odd\0 name 🚀", values, rank=0)], run="bits")
        store.seal(signer=key)
    provstore.rebuild(uri)
    with provstore.open(uri, read_only=True) as store:
        (answer,) = store.verify(belief=belief())
        (row,) = store.cypher("MATCH (r:Record {kind: 'observation'}) RETURN r.record AS text, r.name AS name").rows
    assert _codes(answer) == ["not-closed", "unanchored"]
    assert row["name"] == "odd\0 name 🚀"
    for spelled in (
        '"f64:nan:7ff8dead00000001"', '"f64:inf"', '"f64:-inf"', '"f64:-0x0.0p+0"', '"f64:0x0.0000000000001p-1022"',
        '"i64:-9223372036854775808"', '"i64:9223372036854775807"', '"a\\u0000b"', "🚀 \U0001f9ea",
    ):  # fmt: skip
        assert spelled in str(row["text"])


def test_an_open_store_with_a_signer_signs_in_the_background_and_the_rest_on_closing(dumps, tmp_path, key, belief):
    uri = f"embedded:{tmp_path / 's'}"
    with provstore.open(uri, signer=key, limits=Limits(records=100, seconds=0.3)) as store:
        store.ingest(dumps)
        for start in range(0, 1000, 50):
            said = [Observation("loss", {"value": at}, rank=at % 4) for at in range(start, start + 50)]
            store.record(said, run="job")
        deadline = time.monotonic() + 20
        while store.opened.journal.evidence_size("job", 0).bundles < 5 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert store.opened.journal.evidence_size("job", 0).bundles >= 5
        store.record([Observation("last", {}, rank=0)], run="job")
    with provstore.open(uri, read_only=True) as store:
        (answer,) = store.verify(belief=belief())
    assert answer.counts["unsigned"] == answer.counts["batches_unsigned"] == 0
    assert answer.counts["records"] == 1005
    assert _codes(answer) == ["not-closed", "unanchored"]


def test_a_signer_that_fails_leaves_an_unsigned_tail_that_can_be_signed_later(tmp_path, key, belief, caplog):
    class Broken:
        public_key = key.public_key

        def sign(self, message: bytes) -> bytes:
            raise OSError("the hardware module is gone")

    uri = f"embedded:{tmp_path / 's'}"
    with provstore.open(uri, signer=Broken(), limits=Limits(records=1)) as store:
        for at in range(5):
            store.record([Observation("loss", {"value": at}, rank=0)], run="job")
    assert "the signer failed: OSError: the hardware module is gone" in caplog.text
    with provstore.open(uri) as store:
        (before,) = store.verify(belief=belief())
        store.seal(signer=key)
        (after,) = store.verify(belief=belief())
    assert (before.counts["records"], before.counts["signed"]) == (5, 0)
    assert (after.counts["records"], after.counts["signed"]) == (5, 5)


def test_a_rank_with_its_own_key_is_held_to_what_it_signed(tmp_path, key, belief):
    rank_key = PrivateKey.generate()
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        for at in range(4):
            store.record([Observation("loss", {"value": at}, rank=1)], run="job", rank_signer=rank_key)
            store.record([Observation("loss", {"value": at}, rank=0)], run="job")
        store.seal(signer=key)
        (answer,) = store.verify(belief=belief())
        with pytest.raises(InputError, match="one rank's key"):
            store.record([Observation("x", {}, rank=0), Observation("x", {}, rank=1)], run="job", rank_signer=rank_key)
    assert _codes(answer) == ["not-closed", "unanchored"]


def test_a_rank_that_states_another_digest_than_its_group_is_named_with_its_key(tmp_path, key, belief):
    ranks = list(range(8))
    rank_keys = [PrivateKey.generate() for _ in ranks]
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        for rank in ranks:
            digest = ("b" if rank == 5 else "a") * 64
            store.record(
                [AgreedDigest("parameters", digest, rank, ranks, step=3)], run="job", rank_signer=rank_keys[rank]
            )
        store.seal(signer=key)
        (answer,) = store.verify(belief=belief())
    from provstore.evidence.keys import fingerprint

    (found,) = [one for one in answer.findings if one.code == "rank-disagrees"]
    assert found.rank == 5
    assert found.keyid == fingerprint(rank_keys[5].public_key)


def test_imported_documents_are_signed_too(tmp_path, key, belief):
    document = tmp_path / "a.provn"
    document.write_text("document\n  prefix ex <http://example.org/>\n  entity(ex:a)\nendDocument\n")
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        store.ingest(document)
        (sealed,) = store.seal(signer=key).runs
        (answer,) = store.verify(belief=belief())
    assert sealed.run == ""
    assert answer.counts["batches_unsigned"] == 0
    assert _codes(answer) == ["not-closed", "unanchored"]


def test_a_recovery_of_the_journal_is_told_in_the_next_bundle(dumps, tmp_path, key):
    uri = f"embedded:{tmp_path / 's'}"
    with provstore.open(uri) as store:
        store.ingest(dumps)
    (segment,) = (tmp_path / "s" / "journal").glob("seg-*.pvj")
    with segment.open("ab") as file:
        file.write(b"\x01\x02torn")
    with provstore.open(uri) as store:
        store.seal(signer=key)
        store.seal(signer=key)
        rows = store.cypher("MATCH (r:Record {kind: 'recovery'}) RETURN r.record AS text").rows
    assert len(rows) == 1
    assert "unfinished frame" in str(rows[0]["text"])


def test_sealing_needs_a_store_that_is_open_for_writing(dumps, tmp_path, key):
    uri = f"embedded:{tmp_path / 's'}"
    with provstore.open(uri) as store:
        store.ingest(dumps)
    with provstore.open(uri, read_only=True) as store:
        with pytest.raises(ConfigError, match="reading only"):
            store.seal(signer=key)
        with pytest.raises(ConfigError, match="reading only"):
            store.record([Observation("x", {})], run="job")


def test_the_moment_of_a_judgement_is_a_date_or_a_time_with_its_zone(key, tmp_path):
    (tmp_path / "key.hex").write_text(key.public_key.hex())

    def moment(text):
        return provstore.belief(public_keys=[tmp_path / "key.hex"], at=text).at

    assert moment("2026-12-31") == "2026-12-31T00:00:00Z"
    assert moment("2026-12-31T01:00:00+01:00") == "2026-12-31T00:00:00Z"
    with pytest.raises(InputError, match="needs its zone"):
        moment("2026-12-31T00:00:00")


def test_sealing_beside_damage_says_that_something_is_lost(dumps, tmp_path, key):
    uri = f"embedded:{tmp_path / 's'}"
    with provstore.open(uri) as store:
        store.ingest(dumps)
        store.record([Observation("loss", {"value": 1.0}, rank=0)], run="other")
    (segment,) = (tmp_path / "s" / "journal").glob("seg-*.pvj")
    data = bytearray(segment.read_bytes())
    data[data.index(b'"kind":"batch"') + 30] ^= 1
    segment.write_bytes(data)
    with provstore.open(uri) as store:
        report = store.seal(signer=key, run="other")
    assert len(report.problems) == 1
    assert "damaged" in report.problems[0]
