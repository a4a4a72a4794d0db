"""record: whatever stands in its way, what is there is recorded, what is not is named, and the evidence holds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from captures import FULL, RankCapture, floats, healthy

import provstore
from provstore.api.evidence_export import opened
from provstore.api.recording import record
from provstore.api.verifying import Belief
from provstore.evidence.keys import PrivateKey
from provstore.evidence.trust.keys import Trust
from provstore.exports.evidence.agent_records import AgentExportOptions
from provstore.journal import Journal, scan, segments


def lines_of(store: Path, run: str = "job") -> list[dict[str, Any]]:
    with Journal.open(store / "journal", writable=False) as journal:
        return [json.loads(one.line) for one in journal.evidence(run, 0).records()]


def run_record(
    store: Path,
    *arguments: str | Path,
    program: str = "import runpy; runpy.run_module('provstore', run_name='__main__')",
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, "record", "--store", f"embedded:{store}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def codes(store: Path, key: PrivateKey) -> set[str]:
    """Codes of what a verification finds in everything that is stored, beside that nobody keeps anchors."""
    with provstore.open(f"embedded:{store}") as opened:
        belief = Belief(Trust.of_keys([key.public_key], "test"))
        return {one.code for answer in opened.verify(belief=belief, refresh=False) for one in answer.findings}


def with_notes(directory: Path, epoch: int = 0) -> Path:
    """A capture with a fault and an escalation among its calls, as a job's writer thread may have written them."""
    capture = RankCapture(directory, world=1)
    capture.call(epoch)
    early = {"t": "fault", "where": "digest", "error": "OSError: full", "count": 1, "at_ns": capture.now()}
    capture.call(epoch)
    capture.lines.append(
        {"t": "escalation", "event": "opened", "epoch": epoch, "number": 0, "trigger": "non-finite", "source": "rank:0",
         "scope": "group:0", "rule": "P2", "opened_ns": 5, "opened_step": 1, "at_ns": capture.now()}
    )  # fmt: skip
    capture.call(epoch)
    capture.lines.append({**early, "epoch": epoch})
    return capture.write()


def test_escalations_and_faults_stand_among_the_actions_and_the_record_verifies(tmp_path: Path) -> None:
    key = PrivateKey.generate()
    record([with_notes(tmp_path / "c")], store=f"embedded:{tmp_path / 's'}", signer=key)
    of_rank = [one for one in lines_of(tmp_path / "s") if one.get("rank") == 0]

    assert [one["n"] for one in of_rank] == [0, 1, 2, 3, 4]
    assert [one["kind"] for one in of_rank] == ["action", "capture-fault", "action", "escalation", "action"]
    assert codes(tmp_path / "s", key) == {"not-closed", "unanchored"}


def test_a_recording_with_notes_that_was_interrupted_is_completed_and_verifies(tmp_path: Path) -> None:
    key, capture = PrivateKey.generate(), with_notes(tmp_path / "c")
    record([capture], store=f"embedded:{tmp_path / 'whole'}")
    found = scan.scan(tmp_path / "whole" / "journal")
    for at, entry in enumerate([*found.evidence()][1:]):
        store = shutil.copytree(tmp_path / "whole", tmp_path / f"cut{at}")
        os.truncate(store / "journal" / segments.file_name(entry.segment), entry.offset)
        record([capture], store=f"embedded:{store}", signer=key)

        assert codes(store, key) == {"not-closed", "unanchored"}
        # Signing adds the record of the one batch, which holds the lineage of the rank.
        assert Counter(one["kind"] for one in lines_of(store)) == Counter(
            [*(one["kind"] for one in lines_of(tmp_path / "whole")), "ingest"]
        )


def test_a_fault_that_is_told_later_is_kept_and_the_numbers_of_the_rank_have_no_gap(tmp_path: Path) -> None:
    key, directory = PrivateKey.generate(), tmp_path / "c"
    capture = RankCapture(directory, world=1)
    capture.begin(0)
    capture.call(0)
    record([capture.write()], store=f"embedded:{tmp_path / 's'}", signer=key)
    fault = {"t": "fault", "epoch": 0, "where": "digest", "error": "OSError", "count": 1, "at_ns": capture.now()}
    capture.lines.append(fault)
    capture.begin(1)
    capture.call(1)
    record([capture.write()], store=f"embedded:{tmp_path / 's'}", signer=key)

    of_rank = [(one["kind"], one["n"]) for one in lines_of(tmp_path / "s") if one.get("rank") == 0]
    assert of_rank == [("action", 0), ("capture-fault", 1), ("action", 2)]
    assert codes(tmp_path / "s", key) == {"not-closed", "unanchored"}


@pytest.mark.parametrize("epoch", [-1, 1.5, 10**20, 2**53, "0", True, [0]], ids=str)
def test_a_line_whose_epoch_is_no_number_of_one_is_left_out_by_name(tmp_path: Path, epoch: Any) -> None:
    capture = RankCapture(tmp_path / "c", world=1)
    capture.call(0)
    capture.call(0)["epoch"] = epoch
    report = record([capture.write()], store=f"embedded:{tmp_path / 's'}")

    assert [(one.epoch, one.actions) for one in report.epochs] == [(0, 1)]
    assert any("capture-rank0.jsonl: offset " in text and "epoch: " in text for text in report.problems)


def test_a_pipe_among_the_files_is_not_waited_for(tmp_path: Path) -> None:
    healthy(tmp_path / "c", epochs=1)
    (tmp_path / "c" / "capture-rank1.jsonl").unlink()
    os.mkfifo(tmp_path / "c" / "capture-rank1.jsonl")
    done = run_record(tmp_path / "s", tmp_path / "c")

    assert done.returncode == 2
    assert "refused: capture-rank1.jsonl: is no file that has an end" in done.stdout
    assert "epoch 0: 2 actions recorded" in done.stdout


@pytest.mark.parametrize("damage", ["cut", "altered", "missing", "a pipe"])
def test_a_snapshot_that_proves_nothing_is_named_by_file_and_place(tmp_path: Path, damage: str) -> None:
    values = floats(1.0, 2.0)
    capture = RankCapture(tmp_path / "c", world=1)
    for _ in range(2):
        said = capture.call(0, values, policy=FULL, mode="full")
        for side in ("in", "out"):
            capture.snapshot(said, side, values)
    capture.write()
    file = tmp_path / "c" / "snap-rank0-0.bin"
    data = file.read_bytes()
    file.unlink()
    if damage == "a pipe":
        os.mkfifo(file)
    elif damage != "missing":
        file.write_bytes(data[:-1] if damage == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
    done = run_record(tmp_path / "s", tmp_path / "c", "--json")
    said = json.loads(done.stdout)

    assert done.returncode == 3
    assert all("snap-rank0-0.bin" in text for text in said["problems"])
    assert ("offset 24" in said["problems"][0]) == (damage in {"cut", "altered"})
    modes = [one["recording_mode"] for one in lines_of(tmp_path / "s") if one["kind"] == "action"]
    assert modes == (["full", "delta"] if damage in {"cut", "altered"} else ["delta", "delta"])


def test_a_closed_run_keeps_no_other_run_from_being_recorded(tmp_path: Path) -> None:
    key = PrivateKey.generate()
    healthy(tmp_path / "c", epochs=1)
    record([tmp_path / "c"], store=f"embedded:{tmp_path / 's'}", signer=key)
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        store.seal(signer=key, close="finished")
    healthy(tmp_path / "more", epochs=2)
    healthy(tmp_path / "other", epochs=1, run="other")
    report = record([tmp_path / "more", tmp_path / "other"], store=f"embedded:{tmp_path / 's'}")

    assert [one.run for one in report.epochs] == ["other"]
    assert ["is closed" in text for text in report.refused] == [True]


def test_a_line_without_end_is_left_out_and_what_follows_it_is_recorded(tmp_path: Path) -> None:
    directory = healthy(tmp_path / "c", epochs=2, world=1)
    file = directory / "capture-rank0.jsonl"
    first, _, rest = file.read_bytes().partition(b"\n")
    with file.open("wb") as opened:
        opened.write(first + b"\n")
        opened.truncate(opened.tell() + (64 << 20))
        opened.seek(0, os.SEEK_END)
        opened.write(b"\n" + rest)
    report = record([directory], store=f"embedded:{tmp_path / 's'}")

    assert [one.actions for one in report.epochs] == [2, 2]
    assert report.problems == (
        f"capture-rank0.jsonl: offset {len(first) + 1}: a line of {(64 << 20) + 1} bytes is left out",
    )


@pytest.mark.parametrize("size", [6_000, 12_000, 20_000])
def test_a_full_disk_is_named_and_the_recording_is_completed_later(tmp_path: Path, size: int) -> None:
    directory = healthy(tmp_path / "c", epochs=3, calls=20)
    program = (
        "import resource, runpy, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); "
        "runpy.run_module('provstore', run_name='__main__')"
    )
    done = run_record(tmp_path / "s", directory, program=program)
    assert (done.returncode, "disk full" in done.stderr, "Traceback" in done.stderr) == (7, True, False)
    key = PrivateKey.generate()
    report = record([directory], store=f"embedded:{tmp_path / 's'}", signer=key)

    assert [one.digest for one in report.epochs] == [
        one.digest for one in record([directory], store=f"embedded:{tmp_path / 'other'}").epochs
    ]
    assert codes(tmp_path / "s", key) <= {"not-closed", "unanchored"}


def test_a_capture_that_is_still_being_written_is_recorded_again_when_it_has_ended(tmp_path: Path) -> None:
    key, directory = PrivateKey.generate(), healthy(tmp_path / "c", epochs=2, calls=4)
    whole = {path: path.read_bytes() for path in directory.iterdir()}
    for path, data in whole.items():
        path.write_bytes(data[: data.rindex(b'"ordinal":6') + 20])
    first = record([directory], store=f"embedded:{tmp_path / 's'}", signer=key)
    for path, data in whole.items():
        path.write_bytes(data)
    second = record([directory], store=f"embedded:{tmp_path / 's'}", signer=key)

    assert [(one.status, one.closed, one.actions) for one in first.epochs] == [("new", True, 8), ("new", False, 4)]
    assert [(one.status, one.closed, one.actions) for one in second.epochs] == [("known", True, 8), ("new", True, 4)]
    assert len(first.notes) == 2
    assert first.problems == second.problems == ()
    assert codes(tmp_path / "s", key) == {"not-closed", "unanchored"}


def test_what_is_exported_and_read_again_adds_nothing(tmp_path: Path) -> None:
    key, store = PrivateKey.generate(), tmp_path / "s"
    record([healthy(tmp_path / "c")], store=f"embedded:{store}", signer=key)
    with opened(f"embedded:{store}", None) as evidence:
        for form in ("aep-jsonl", "aep-bundle"):
            options = AgentExportOptions(form=form, per_action=True)
            evidence.exported_agents(tmp_path / form, options=options, signer=key)
    files = [path for path in tmp_path.glob("aep-*/*") if path.name != "manifest.json"]
    with provstore.open(f"embedded:{store}") as into:
        before = into.info().position
        reports = [into.ingest(path) for path in files]

        assert len(files) == 6
        assert {one.status for report in reports for one in report.files} == {"known"}
        assert into.info().position == before


@pytest.mark.parametrize("change", ["another store", "an action", "a count"])
def test_a_record_that_only_says_that_it_is_provstores_own_is_kept_as_anothers(tmp_path: Path, change: str) -> None:
    key = PrivateKey.generate()
    record([healthy(tmp_path / "c")], store=f"embedded:{tmp_path / 's'}", signer=key)
    with opened(f"embedded:{tmp_path / 's'}", None) as evidence:
        options = AgentExportOptions(form="aep-jsonl", per_action=True)
        evidence.exported_agents(tmp_path / "export", options=options)
    for file in sorted((tmp_path / "export").glob("*.jsonl")):
        said = json.loads(file.read_bytes().splitlines()[0])
        if change == "an action":
            said["actions"][0]["timestamp_ms"] += 1
        if change == "a count":
            said["training"]["attempt"] += 1
        (tmp_path / file.name).write_bytes(json.dumps(said).encode() + b"\n")
        with provstore.open(f"embedded:{tmp_path / ('t' if change == 'another store' else 's')}") as into:
            (report,) = into.ingest(tmp_path / file.name).files

            assert (report.status, report.records) == ("new", 1)
            assert any("does not hold what they say" in text for text in report.warnings)


def test_of_several_directories_the_one_with_a_fault_is_named(tmp_path: Path) -> None:
    for name in ("c", "d"):
        capture = RankCapture(tmp_path / name, world=1, run=name)
        capture.call(0)
        capture.call(0)["at_ns"] = -1
        capture.write(torn=b"{")
    report = record([tmp_path / "c", tmp_path / "d"], store=f"embedded:{tmp_path / 's'}")

    for told in (report.problems, report.notes):
        assert [text.partition(": capture-rank0.jsonl: offset ")[0] for text in told] == [
            str(tmp_path / "c"),
            str(tmp_path / "d"),
        ]


def test_another_name_that_is_asked_for_is_a_remark_and_two_names_in_one_directory_are_a_problem(
    tmp_path: Path,
) -> None:
    for rank, run in enumerate(("one", "two")):
        capture = RankCapture(tmp_path / "c", rank, run=run)
        capture.call(0)
        capture.write()
    asked_for = record([tmp_path / "c"], "other", store=f"embedded:{tmp_path / 's'}")
    found = record([tmp_path / "c"], store=f"embedded:{tmp_path / 's'}")

    assert (asked_for.problems, len(asked_for.notes)) == ((), 1)
    assert [text.endswith("recorded as one; its files name two") for text in found.problems] == [True]
