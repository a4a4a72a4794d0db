"""record: dumps and captures become records that bind what was done, and no label names more than is there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fr_files
import pytest
from captures import FULL, RankCapture, floats, healthy, tensor_digest

import provstore
from provstore.api import assistant
from provstore.api.control import switch
from provstore.api.recording import record
from provstore.errors import ConfigError, InputError, SafeModeError, StoreError
from provstore.evidence.aep import schema
from provstore.evidence.keys import PrivateKey
from provstore.ingest import recording
from provstore.ingest.recording import StoredBundle
from provstore.journal import Journal, scan, segments
from provstore.model.recording_report import RecordReport

HEALTHY_DDP = Path(__file__).parents[2].parent / "shared" / "corpus" / "fr-gloo" / "healthy_ddp"
needs_corpus = pytest.mark.skipif(not HEALTHY_DDP.is_dir(), reason="the corpus is not here")


def taken(store: Path, *paths: Path, **more: Any) -> RecordReport:
    return record(paths, store=f"embedded:{store}", **more)


@contextmanager
def journal_of(store: Path) -> Iterator[Journal]:
    with Journal.open(store / "journal", writable=False) as journal:
        yield journal


def bundles(store: Path, run: str = "job") -> list[StoredBundle]:
    with journal_of(store) as journal:
        return recording.stored_bundles(journal, run)


def modes(store: Path, run: str = "job", attempt: int = 0) -> Counter[tuple[str, str, tuple[str, ...]]]:
    with journal_of(store) as journal:
        found = recording.actions(journal, run, attempt)
        return Counter((action.mode, action.policy_mode, action.shortfall) for action in found)


def agent_records(store: Path, run: str = "job") -> list[dict[str, Any]]:
    with journal_of(store) as journal:
        stored = [recording.agent_record(journal, bundle) for bundle in recording.stored_bundles(journal, run)]
    return [json.loads(one) for one in stored if one is not None]


def position(store: Path) -> int:
    with journal_of(store) as journal:
        return journal.position


@needs_corpus
def test_dumps_of_a_healthy_job_are_recorded_without_content_and_say_so(tmp_path: Path) -> None:
    report = taken(tmp_path, HEALTHY_DDP, run="job", epoch=3)
    (bundle,) = bundles(tmp_path)

    assert {mode for mode, _, _ in modes(tmp_path)} == {"validation"}
    assert {demanded for _, demanded, _ in modes(tmp_path)} == {"delta", "validation"}
    assert {(demanded, shortfall) for _, demanded, shortfall in modes(tmp_path)} == {
        ("delta", ("no-tensor-access",)),
        ("validation", ()),
    }
    assert bundle.record["epoch_basis"] == "stated"
    assert bundle.record["world_size"] == 4
    assert bundle.missing_ranks == []
    assert report.epochs[0].actions == 68


@needs_corpus
def test_the_digest_of_a_bundle_is_the_same_from_a_copy_elsewhere_and_beside_other_facts(tmp_path: Path) -> None:
    copy, key = shutil.copytree(HEALTHY_DDP, tmp_path / "elsewhere" / "dumps"), PrivateKey.generate()
    with provstore.open(f"embedded:{tmp_path / 'b'}") as store:
        store.ingest(HEALTHY_DDP, run="job")
        store.seal(signer=key)
    first = taken(tmp_path / "a", HEALTHY_DDP, run="job", epoch=3)
    second = taken(tmp_path / "b", copy, run="job", epoch=3, signer=key)

    assert first.epochs[0].digest == second.epochs[0].digest


def test_what_is_recorded_is_not_recorded_again(tmp_path: Path) -> None:
    capture = healthy(tmp_path / "capture")
    first = taken(tmp_path / "s", capture)
    before = position(tmp_path / "s")
    second = taken(tmp_path / "s", capture)

    assert second.is_known
    assert position(tmp_path / "s") == before
    assert [one.digest for one in second.epochs] == [one.digest for one in first.epochs]


def test_ranks_that_come_later_are_a_second_part_linked_to_the_first(tmp_path: Path) -> None:
    for rank in range(2):
        capture = RankCapture(tmp_path / f"c{rank}", rank)
        capture.begin(0)
        capture.call(0)
        capture.end(0)
        capture.write()
    for rank in range(2):
        taken(tmp_path / "s", tmp_path / f"c{rank}")
    first, second = bundles(tmp_path / "s")

    assert (first.part, second.part) == (0, 1)
    assert second.record["follows"] == first.digest
    assert [row["rank"] for row in second.record["ranks"]] == [1]
    assert first.missing_ranks == [1]


def test_bundles_of_a_run_are_chained_over_epochs_and_attempts(tmp_path: Path) -> None:
    taken(tmp_path / "s", healthy(tmp_path / "c0", epochs=2))
    taken(tmp_path / "s", healthy(tmp_path / "c1", epochs=1, attempt=1))
    found = bundles(tmp_path / "s")

    links = [bundle.link for bundle in found]
    assert [link["prev"] for link in links if link] == [None, found[0].digest, found[1].digest]
    said = agent_records(tmp_path / "s")
    assert said[0]["prev_record_hash"] is None
    assert len({one["prev_record_hash"] for one in said}) == 3


def test_every_agent_record_fits_its_schema_signed_or_not(tmp_path: Path) -> None:
    taken(tmp_path / "plain", healthy(tmp_path / "capture"))
    taken(tmp_path / "signed", tmp_path / "capture", signer=PrivateKey.generate())
    plain, signed = agent_records(tmp_path / "plain"), agent_records(tmp_path / "signed")

    assert len(plain) == len(signed) == 3
    assert [schema.errors("aep-record", one) for one in (*plain, *signed)] == [[]] * 6
    assert not any("signature" in one for one in plain)
    assert all(one["signature"]["alg"] == "ed25519" for one in signed)


def test_an_agent_record_with_many_escalated_actions_stays_small_and_counts_the_rest(tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "c", world=1)
    capture.begin(0)
    for at in range(300):
        capture.call(0, escalations=["rank:0/esc-0"], finite_out=at != 250)
    capture.end(0)
    taken(tmp_path / "s", capture.write(), signer=PrivateKey.generate())
    with journal_of(tmp_path / "s") as journal:
        stored = recording.agent_record(journal, recording.stored_bundles(journal, "job")[0])
    assert stored is not None
    said = json.loads(stored)

    assert len(stored) <= 65_535
    assert 2 <= len(said["actions"]) <= 201
    assert said["actions"][1]["action_id"].split("/")[-2] == "250"
    assert said["training"]["omitted"] == 300 - (len(said["actions"]) - 1)
    assert schema.errors("aep-record", said) == []


def test_content_that_is_there_is_named(tmp_path: Path) -> None:
    taken(tmp_path / "s", healthy(tmp_path / "c", epochs=1, world=1))

    assert modes(tmp_path / "s") == {("delta", "delta", ()): 2}


@pytest.mark.parametrize("lacking", ["in", "out", "stats_in", "stats_out"])
def test_a_label_above_the_content_is_lowered(tmp_path: Path, lacking: str) -> None:
    capture = RankCapture(tmp_path / "c", world=1)
    capture.call(0)
    capture.call(0, **{lacking: None})
    taken(tmp_path / "s", capture.write())

    assert modes(tmp_path / "s") == {("delta", "delta", ()): 1, ("validation", "delta", ("capture-fault",)): 1}


def full_call(capture: RankCapture, values: bytes = floats(1.0, 2.0), **more: Any) -> dict[str, Any]:
    return capture.call(0, values, policy=FULL, mode="full", **more)


def test_full_needs_a_snapshot_that_proves_the_digest_of_every_side(tmp_path: Path) -> None:
    values = floats(1.0, 2.0)
    capture = RankCapture(tmp_path / "c", world=1)
    for sides in (("in", "out"), ("out",), ()):
        said = full_call(capture)
        for side in sides:
            capture.snapshot(said, side, values)
    taken(tmp_path / "s", capture.write())

    assert modes(tmp_path / "s") == {("full", "full", ()): 1, ("delta", "full", ("capture-fault",)): 2}


@pytest.mark.parametrize(
    "change",
    [
        {"hash": "0" * 64},
        {"tensor": "sha256:" + "0" * 64},
        {"offset": 4},
        {"bytes": 4},
        {"file": "../snap-rank0-0.bin"},
        {"file": "snap-rank0-7.bin"},
        {"chunk": 1},
        {"path": ["zz"]},
        {"arg": "0"},
    ],
    ids=str,
)
def test_a_snapshot_that_does_not_prove_its_digest_is_none(tmp_path: Path, change: dict[str, Any]) -> None:
    capture = RankCapture(tmp_path / "c", world=1)
    said = full_call(capture)
    capture.snapshot(said, "in", floats(1.0, 2.0))
    capture.snapshot(said, "out", floats(1.0, 2.0)).update(change)
    taken(tmp_path / "s", capture.write())

    assert modes(tmp_path / "s") == {("delta", "full", ("capture-fault",)): 1}


def test_a_kept_snapshot_is_found_by_its_index_and_gives_the_bytes(tmp_path: Path) -> None:
    values = floats(3.0, 4.0, 5.0)
    capture = RankCapture(tmp_path / "c", world=1)
    said = full_call(capture, values)
    for side in ("in", "out"):
        capture.snapshot(said, side, values)
    taken(tmp_path / "s", capture.write())
    with journal_of(tmp_path / "s") as journal:
        (bundle,) = recording.stored_bundles(journal, "job")
        rows = list(recording.table(journal, bundle, "snapshots-index"))
        kept = [recording.blob(journal, bundle, row["blob"])[row["offset"] :][: row["bytes"]] for row in rows]

    assert kept == [values, values]
    assert {row["tensor"] for row in rows} == {tensor_digest("float32", [3], values)}
    assert {row["action"] for row in rows} == {"gloo/0@0-0/0/0"}


def test_statistics_are_kept_under_the_name_that_the_action_gives(tmp_path: Path) -> None:
    taken(tmp_path / "s", healthy(tmp_path / "c", epochs=1, world=1, calls=1))
    with journal_of(tmp_path / "s") as journal:
        (bundle,) = recording.stored_bundles(journal, "job")
        (action,) = recording.actions(journal, "job", 0)
        rows = list(recording.table(journal, bundle, "statistics"))

    assert rows == [{"count": 2, "l2": "f64:0x1.0000000000000p+0"}]
    assert action.delta_ref is not None


def test_a_state_of_random_numbers_is_kept_under_its_digest_and_one_that_is_another_is_named(tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "c", world=1)
    capture.call(0)
    state, other = b"state", b"other"
    for data, name in ((state, state), (other, b"what it should be")):
        sha256 = hashlib.sha256(name).hexdigest()
        (tmp_path / "c" / "blobs").mkdir(parents=True, exist_ok=True)
        (tmp_path / "c" / "blobs" / sha256).write_bytes(data)
        line = {"t": "rng", "epoch": 0, "step": 0, "at_ns": 5, "where": "epoch", "digest": f"sha256:{sha256}"}
        capture.lines.append({**line, "blob": f"sha256:{sha256}", "states": ["python"]})
    report = taken(tmp_path / "s", capture.write())
    with journal_of(tmp_path / "s") as journal:
        (bundle,) = recording.stored_bundles(journal, "job")
        first, second = recording.table(journal, bundle, "rng")
        kept = recording.blob(journal, bundle, first["blob"])

    assert kept == state
    assert "blob" not in second
    assert len(report.problems) == 1
    assert bundle.jseq > 0


def test_an_epoch_without_actions_needs_an_end_and_a_reason(tmp_path: Path) -> None:
    for epoch, reason in ((0, "nothing to do"), (1, None)):
        capture = RankCapture(tmp_path / f"c{epoch}", world=1)
        capture.begin(epoch)
        capture.end(epoch, reason=reason)
        capture.write()
    (one,) = taken(tmp_path / "s", tmp_path / "c0").epochs

    assert one.actions == 0
    with pytest.raises(InputError, match="no action was recorded"):
        taken(tmp_path / "s", tmp_path / "c1")


def test_an_epoch_that_never_ended_has_no_agent_record(tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "c", world=1)
    capture.begin(0)
    capture.call(0)
    (one,) = taken(tmp_path / "s", capture.write(torn=b'{"t":"ca')).epochs

    assert not one.closed
    assert one.agent_record is None
    assert bundles(tmp_path / "s")[0].record["closed"] is False


def test_a_rank_of_which_nothing_is_there_is_named(tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "c", rank=1, world=4)
    capture.call(0)
    taken(tmp_path / "s", capture.write())

    assert bundles(tmp_path / "s")[0].missing_ranks == [0, 2, 3]


def test_a_class_that_is_none_is_unknown_and_demanded_in_full(tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "c", world=1)
    capture.call(0, op="frobnicate", **{"class": "harmless"})
    taken(tmp_path / "s", capture.write())

    assert modes(tmp_path / "s") == {("delta", "full", ()): 1}


def test_a_dumped_call_on_a_group_with_a_member_outside_the_run_is_external_and_demanded_in_full(
    tmp_path: Path,
) -> None:
    groups = {"0": ("default_pg", (0, 1)), "1": ("weights", (0, 7)), "2": ("pair", (0, 1))}
    entries = [fr_files.Entry(group=name, pg_id=int(name), record_id=at) for at, name in enumerate(groups)]
    for rank in range(2):
        path = tmp_path / "dumps" / f"nccl_trace_rank_{rank}"
        fr_files.write_pickle(path, fr_files.table("2.10", entries if rank == 0 else entries[::2], groups))
    taken(tmp_path / "s", tmp_path / "dumps", run="job", epoch=0)

    with journal_of(tmp_path / "s") as journal:
        found = {one.group: one for one in recording.actions(journal, "job", 0) if one.rank == 0}
    assert {group: (one.side_effect_class, one.policy_mode) for group, one in found.items()} == {
        "0@0-1": ("mutate-local", "delta"), "1@0-7x7": ("mutate-external", "full"), "2@0-1": ("mutate-local", "delta"),
    }  # fmt: skip
    assert found["1@0-7x7"].policy_reason == "external mutation"
    assert found["1@0-7x7"].mode == "validation", "a dump holds no tensor"


def test_a_mode_floor_demands_more_and_never_lowers(tmp_path: Path) -> None:
    healthy(tmp_path / "c", epochs=1, world=1, calls=1)
    taken(tmp_path / "s", tmp_path / "c", mode_floor="full")
    taken(tmp_path / "t", tmp_path / "c", mode_floor="validation")

    assert modes(tmp_path / "s") == {("delta", "full", ("no-tensor-access",)): 1}
    assert modes(tmp_path / "t") == {("delta", "delta", ()): 1}


def test_escalations_and_faults_are_records_once(tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "c", world=1)
    capture.call(0, escalations=["rank:0/esc-0"])
    capture.lines += [
        {"t": "escalation", "event": "opened", "epoch": 0, "number": 0, "trigger": "non-finite", "source": "rank:0",
         "scope": "group:0", "rule": "P2", "opened_ns": 5, "opened_step": 1, "value": "f64:nan:7ff8000000000000"},
        {"t": "fault", "where": "digest", "error": "OSError: full", "count": 3, "at_ns": 9},
    ]  # fmt: skip
    capture.write()
    taken(tmp_path / "s", tmp_path / "c")
    taken(tmp_path / "s", tmp_path / "c")
    with journal_of(tmp_path / "s") as journal:
        kinds = Counter(json.loads(one.line)["kind"] for one in journal.evidence("job", 0).records())

    assert kinds["escalation"] == kinds["capture-fault"] == 1
    assert bundles(tmp_path / "s")[0].record["faults"] == 1
    assert bundles(tmp_path / "s")[0].record["escalations"] == ["rank:0/esc-0"]
    (said,) = assistant.ask("summarize_epoch", {"epoch": 0}, f"embedded:{tmp_path / 's'}")["escalations"]
    assert (said["trigger"], said["source"], said["event"]) == ("non-finite", "rank:0", "opened")


def test_ranks_that_switched_late_to_an_order_are_listed(tmp_path: Path) -> None:
    for rank, step in enumerate((7, 7, 9)):
        capture = RankCapture(tmp_path / "c", rank, world=3)
        capture.call(0)
        capture.lines.append(
            {"t": "escalation", "event": "opened", "epoch": 0, "number": 1, "trigger": "manual", "source": "operator",
             "scope": "run", "rule": "P1", "opened_ns": 5, "opened_step": step}
        )  # fmt: skip
        capture.write()
    taken(tmp_path / "s", tmp_path / "c")

    assert bundles(tmp_path / "s")[0].record["late_ranks"] == [[2, 2]]


def test_ranks_that_all_switched_late_to_an_order_are_listed_too(tmp_path: Path) -> None:
    for rank in range(2):
        capture = RankCapture(tmp_path / "c", rank, world=2)
        capture.call(0)
        capture.lines.append(
            {"t": "escalation", "event": "opened", "epoch": 0, "number": 1, "trigger": "manual", "source": "operator",
             "scope": "run", "rule": "P1", "opened_ns": 5, "opened_step": 9, "evidence": ["late-by:2"]}
        )  # fmt: skip
        capture.write()
    taken(tmp_path / "s", tmp_path / "c")

    assert bundles(tmp_path / "s")[0].record["late_ranks"] == [[0, 1]]


def test_hostile_values_are_named_and_the_other_lines_are_recorded(tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "c", world=1)
    capture.call(0)
    for bad in (
        {"op": 7}, {"at_ns": -1}, {"at_ns": 2**70}, {"seq": True}, {"in": "sha256:xyz"}, {"shapes_in": [[-1]]},
        {"policy": None}, {"mode": "more"}, {"ordinal": "0"}, {"group": None}, {"side": "up"}, {"finite_in": 1},
        {"op": "\ud800"},
    ):  # fmt: skip
        capture.call(0, **bad)
    capture.lines.append({"t": "what", "epoch": 0})
    report = taken(tmp_path / "s", capture.write())

    assert report.epochs[0].actions == 1
    assert len(report.problems) == 14
    assert all("capture-rank0.jsonl: offset " in problem for problem in report.problems)
    assert bundles(tmp_path / "s")[0].record["unreadable"] == 14


def test_an_address_of_a_checkpoint_keeps_no_user_or_password(tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "c", world=1)
    files = [{"path": "a", "bytes": 1, "sha256": "a" * 64}]
    capture.lines.append(
        {"t": "checkpoint", "epoch": 0, "step": 3, "at_ns": 5, "action": "save", "uri": "s3://me:pw@host/x",
         "files": files}
    )  # fmt: skip
    taken(tmp_path / "s", capture.write())
    (bundle,) = bundles(tmp_path / "s")
    text = b"".join(path.read_bytes() for path in (tmp_path / "s" / "journal").glob("seg-*"))

    assert bundle.record["checkpoint"] == "s3://host/x"
    assert b"me:pw" not in text
    assert modes(tmp_path / "s") == {("full", "full", ()): 1}


def test_a_trace_id_that_disagrees_with_the_recorded_one_is_kept_beside_it(tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "c", world=1, header={"trace": {"trace_id": "abc", "parent_action": "agent/1"}})
    capture.call(0)
    taken(tmp_path / "s", capture.write(), trace_id="def")

    assert bundles(tmp_path / "s")[0].record["trace"] == {
        "conflicts": ["abc"],
        "parent_action": "agent/1",
        "parent_trace_id": None,
        "trace_id": "def",
    }


def test_another_recording_of_the_same_calls_leaves_the_first_as_it_is_and_says_so(tmp_path: Path) -> None:
    healthy(tmp_path / "c", epochs=1, world=1, calls=1)
    capture = RankCapture(tmp_path / "d", world=1)
    capture.begin(0)
    capture.call(0, floats(9.0))
    capture.write()
    taken(tmp_path / "s", tmp_path / "c")
    (one,) = taken(tmp_path / "s", tmp_path / "d").epochs

    assert (one.status, one.known_actions, one.other_content) == ("known", 1, 1)


def test_a_recording_that_ended_between_its_steps_is_taken_up(tmp_path: Path) -> None:
    capture = healthy(tmp_path / "c", epochs=2)
    whole = taken(tmp_path / "whole", capture)
    ends = _where_frames_begin(tmp_path / "whole")[1:]
    for at, (name, end) in enumerate(ends):
        store = shutil.copytree(tmp_path / "whole", tmp_path / f"cut{at}")
        os.truncate(store / "journal" / name, end)
        again = taken(store, capture)

        assert [one.digest for one in again.epochs] == [one.digest for one in whole.epochs]
        assert modes(store) == modes(tmp_path / "whole")
        assert all(bundle.link is not None for bundle in bundles(store))


def _where_frames_begin(store: Path) -> list[tuple[str, int]]:
    """Segment and offset of each frame of records: a process that was killed leaves what is before one of them."""
    found = scan.scan(store / "journal")
    return [(segments.file_name(entry.segment), entry.offset) for entry in found.evidence()]


def test_a_recorded_and_sealed_run_verifies_in_journal_and_graph(tmp_path: Path) -> None:
    from provstore.evidence.keys import fingerprint

    key = PrivateKey.generate()
    taken(tmp_path / "s", healthy(tmp_path / "c"), signer=key)
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        store.seal(signer=key, close="finished")
        rows = store.query("evidence/bundles", run="job", attempt=0).rows

    assert {row["keyid"] for row in rows} == {fingerprint(key.public_key)}
    assert {(row["policy_mode"], row["policy_reason"]) for row in rows[:1]} == {("delta", "local mutation, low risk")}


@pytest.mark.parametrize(
    ("more", "error", "reason"),
    [
        ({"epoch": 1}, ConfigError, "--run"),
        ({"run": "job"}, ConfigError, "--epoch"),
        ({"run": "", "epoch": 1}, ConfigError, "--run: is empty"),
        ({"run": "job", "epoch": -1}, ConfigError, "--epoch"),
        ({"run": "job", "epoch": 1, "attempt": -1}, ConfigError, "--attempt"),
        ({"run": "job", "epoch": 1, "mode_floor": "most"}, ConfigError, "--mode-floor"),
        ({"run": "job", "epoch": 1, "trace_id": ""}, ConfigError, "--trace-id"),
    ],
    ids=str,
)
def test_a_wrong_option_is_named(tmp_path: Path, more: dict[str, Any], error: type[Exception], reason: str) -> None:
    dumps = tmp_path / "dumps"
    fr_files.write_pickle(dumps / "nccl_trace_rank_0", fr_files.table("2.10", [fr_files.Entry()]))
    with pytest.raises(error, match=reason):
        taken(tmp_path / "s", dumps, **more)


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04.", b"{}", b"[", b"\0" * 10_000, b'{"version":"2.10","entries":[]}'], ids=repr
)
def test_a_dump_that_cannot_be_used_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    (dumps / "nccl_trace_rank_0").write_bytes(content)
    with pytest.raises(InputError):
        taken(tmp_path / "s", dumps, run="job", epoch=1)


@pytest.mark.parametrize("loss", ["missing", "altered"])
def test_a_check_of_the_store_names_bytes_that_a_bundle_misses(tmp_path: Path, loss: str) -> None:
    taken(tmp_path / "s", healthy(tmp_path / "c", epochs=1))
    with journal_of(tmp_path / "s") as journal:
        sound = journal.check()
    (bundle,) = bundles(tmp_path / "s")
    for role in ("statistics", None):
        sha256 = bundle.link["aep"] if role is None and bundle.link else bundle.blobs("statistics")[0]["sha256"]
        path = tmp_path / "s" / "journal" / "blobs" / sha256[:2] / f"{sha256}.zst"
        path.unlink() if loss == "missing" else path.write_bytes(b"other")
    with journal_of(tmp_path / "s") as journal:
        found = [str(problem) for problem in journal.check() if problem.is_loss]

    assert sound == []
    assert len(found) == 2
    assert all(loss in one for one in found)


def test_a_full_disk_loses_nothing_that_was_recorded_and_is_named(tmp_path: Path) -> None:
    whole = taken(tmp_path / "whole", healthy(tmp_path / "c"))
    limit = next((tmp_path / "whole" / "journal").glob("seg-*")).stat().st_size // 2
    code = (
        "import resource, sys; from provstore.api.recording import record;"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}));"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"record([{str(tmp_path / 'c')!r}], store={'embedded:' + str(tmp_path / 's')!r})"
    )
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    again = taken(tmp_path / "s", tmp_path / "c")

    assert "disk full" in failed.stderr
    assert [one.digest for one in again.epochs] == [one.digest for one in whole.epochs]
    assert modes(tmp_path / "s") == modes(tmp_path / "whole")


def test_a_closed_run_takes_nothing_more(tmp_path: Path) -> None:
    key = PrivateKey.generate()
    taken(tmp_path / "s", healthy(tmp_path / "c", epochs=1), signer=key)
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        store.seal(signer=key, close="finished")
    with pytest.raises(InputError, match="is closed"):
        taken(tmp_path / "s", healthy(tmp_path / "d", epochs=2))


def test_what_a_closed_run_holds_is_recorded_already_and_writes_nothing(tmp_path: Path) -> None:
    key = PrivateKey.generate()
    first = taken(tmp_path / "s", healthy(tmp_path / "c", epochs=2), signer=key)
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        store.seal(signer=key, close="finished")
    before, files = position(tmp_path / "s"), sorted((tmp_path / "s" / "journal" / "blobs").rglob("*"))
    for signer in (None, key):
        again = taken(tmp_path / "s", tmp_path / "c", signer=signer)
        assert [one.status for one in again.epochs] == ["known"] * 2
        assert [one.digest for one in again.epochs] == [one.digest for one in first.epochs]
        assert (again.refused, again.problems) == ((), ())
    assert position(tmp_path / "s") == before
    assert sorted((tmp_path / "s" / "journal" / "blobs").rglob("*")) == files
    with pytest.raises(InputError, match="is closed") as refused:
        taken(tmp_path / "s", healthy(tmp_path / "d", epochs=3), signer=key)
    assert "--attempt" in str(refused.value.hint)
    assert position(tmp_path / "s") == before
    assert sorted((tmp_path / "s" / "journal" / "blobs").rglob("*")) == files


def test_dumps_of_a_closed_run_are_recorded_already_and_new_ones_are_refused(tmp_path: Path) -> None:
    key = PrivateKey.generate()
    samples = Path(provstore.__file__).parent / "samples"
    taken(tmp_path / "s", samples / "hang", run="job", epoch=0)
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        store.seal(signer=key, run="job", close="finished")
    before = position(tmp_path / "s")
    again = taken(tmp_path / "s", samples / "hang", run="job", epoch=0)
    assert [one.status for one in again.epochs] == ["known"]
    with pytest.raises(InputError, match="is closed"):
        taken(tmp_path / "s", samples / "healthy", run="job", epoch=0)
    assert position(tmp_path / "s") == before


def test_nothing_is_recorded_in_safe_mode(tmp_path: Path) -> None:
    uri = f"embedded:{tmp_path / 's'}"
    taken(tmp_path / "s", healthy(tmp_path / "c", epochs=1))
    switch(uri, on=True, reason="look first")
    with pytest.raises(SafeModeError, match="look first"):
        taken(tmp_path / "s", healthy(tmp_path / "d", epochs=2))
    assert len(bundles(tmp_path / "s")) == 1
    switch(uri, on=False, reason="done")
    taken(tmp_path / "s", tmp_path / "d")

    assert len(bundles(tmp_path / "s")) == 2


def test_a_journal_that_another_process_writes_is_named(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "s" / "journal", writable=True), pytest.raises(StoreError, match="being written"):
        taken(tmp_path / "s", healthy(tmp_path / "c", epochs=1))


def run_command(store: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "provstore", "record", "--store", f"embedded:{store}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "100"})


def test_the_command_says_what_was_recorded_demanded_and_missing(tmp_path: Path) -> None:
    healthy(tmp_path / "c", epochs=1, world=1, calls=1)
    done = run_command(tmp_path / "s", tmp_path / "c", "--mode-floor", "full")

    assert done.returncode == 0, done.stderr
    assert "run job, attempt 0, epoch 0: 1 action recorded" in done.stdout
    assert "recorded delta 1; demanded full 1" in done.stdout
    assert "shortfall no-tensor-access 1" in done.stdout
    again = run_command(tmp_path / "s", tmp_path / "c", "--json")
    assert json.loads(again.stdout)["already_recorded"] is True


def test_the_command_tells_what_it_left_out_and_ends_with_three(tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "c", world=1)
    capture.call(0)
    capture.lines.append({"t": "\x1b[31mred[/red]", "epoch": 0})
    done = run_command(tmp_path / "s", capture.write())

    assert done.returncode == 3
    assert "left out: capture-rank0.jsonl: offset" in done.stdout
    assert "\x1b" not in done.stdout
    assert "Traceback" not in done.stderr


def test_how_samples_are_drawn_is_a_table_of_the_bundle_only_where_it_was_recorded(tmp_path: Path) -> None:
    for name, is_told in (("with", True), ("without", False)):
        capture = RankCapture(tmp_path / name, world=1)
        capture.begin(0)
        if is_told:
            said = {"t": "sampler", "epoch": 0, "at_ns": 7, "kind": "DistributedSampler", "seed": 2**60, "shard": 1}
            capture.lines.append(said)
        capture.call(0)
        capture.end(0)
        report = taken(tmp_path / f"{name}-store", capture.write())
        assert report.problems == ()
    (told,), (untold,) = bundles(tmp_path / "with-store"), bundles(tmp_path / "without-store")
    with journal_of(tmp_path / "with-store") as journal:
        (row,) = recording.table(journal, told, "samplers")
    assert (row["kind"], row["shard"], row["rank"], row["seed"]) == ("DistributedSampler", 1, 0, f"i64:{2**60}")
    assert [blob["role"] for blob in untold.record["blobs"]] == ["statistics", "headers"]
