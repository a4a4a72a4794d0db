"""record --recursive: capture directories and dumps in the folders below, and what is not looked at is said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from captures import healthy

from provstore.api.recording import record
from provstore.cli._app import run as command_line
from provstore.errors import InputError
from provstore.journal import Journal

SAMPLES = Path(__file__).parents[2] / "provstore" / "samples"


def test_capture_directories_below_a_folder_are_recorded_with_what_was_seen_beside_them(tmp_path: Path) -> None:
    for name in ("b", "a"):
        healthy(tmp_path / "jobs" / name / "capture", epochs=1, run=name)
    spool = tmp_path / "jobs" / "a" / "capture" / "watch.jsonl"
    said = {"schema": "provstore-watch/1", "seen_ns": 1, "t": "signal", "trigger": "xid", "source": "gcm", "line": "x"}
    spool.write_text(json.dumps(said) + "\n")
    report = record([tmp_path / "jobs"], recursive=True, store=f"embedded:{tmp_path / 's'}")

    assert [(one.run, one.epoch) for one in report.epochs] == [("a", 0), ("b", 0)]
    assert [(one.run, one.new) for one in report.signals] == [("a", 1)]
    assert report.notes == (
        f"{tmp_path / 'jobs'}: its capture directories are recorded; dumps there are not: give their folder",
    )


def test_a_fault_names_the_directory_that_it_is_in(tmp_path: Path) -> None:
    healthy(tmp_path / "jobs" / "good", epochs=1, run="good")
    bad = healthy(tmp_path / "jobs" / "bad", epochs=1, world=1, run="bad")
    (bad / "capture-rank0.jsonl").write_text("no header\n")
    report = record([tmp_path / "jobs"], recursive=True, store=f"embedded:{tmp_path / 's'}")

    assert [one.run for one in report.epochs] == ["good"]
    assert len(report.refused) == 1
    assert str(bad) in report.refused[0]


def test_dumps_below_a_folder_are_recorded(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "healthy", tmp_path / "jobs" / "dumps")
    report = record([tmp_path / "jobs"], "job", epoch=0, recursive=True, store=f"embedded:{tmp_path / 's'}")

    assert [one.missing_ranks for one in report.epochs] == [()]


def test_without_it_the_hint_names_an_option_that_there_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    shutil.copytree(SAMPLES / "healthy", tmp_path / "jobs" / "dumps")
    given = ["record", str(tmp_path / "jobs"), "--run", "job", "--epoch", "0", "--store", f"embedded:{tmp_path / 's'}"]
    assert command_line(given) == 2
    assert "it is read with --recursive" in capfd.readouterr().err
    assert command_line([*given, "--recursive"]) == 0


def test_a_dump_that_cannot_be_read_makes_no_run(tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    folder.mkdir()
    (folder / "fr_gloo_rank_0").write_bytes((SAMPLES / "healthy" / "fr_gloo_rank_0").read_bytes()[:100])
    with pytest.raises(InputError, match="cut off"):
        record([folder], "job", epoch=0, store=f"embedded:{tmp_path / 's'}")
    with Journal.open(tmp_path / "s" / "journal", writable=False) as journal:
        assert journal.scopes() == []
