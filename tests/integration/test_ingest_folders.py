"""Folders that are given to ingest: exported evidence is found in them, and what nobody can read makes no run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from captures import healthy

import provstore
from provstore.api.evidence_export import opened
from provstore.api.recording import record
from provstore.errors import InputError
from provstore.exports.evidence.agent_records import AgentExportOptions
from provstore.model.report import KNOWN, NEW, REFUSED

SAMPLES = Path(__file__).parents[2] / "provstore" / "samples"


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """Agent records of a run that another store holds."""
    record([healthy(tmp_path / "c", epochs=1)], store=f"embedded:{tmp_path / 'other'}")
    with opened(f"embedded:{tmp_path / 'other'}") as evidence:
        evidence.exported_agents(tmp_path / "exported", options=AgentExportOptions(per_action=True))
    return tmp_path / "exported"


@pytest.mark.parametrize("source", [None, "evidence", "aep"])
def test_every_file_of_an_exported_folder_is_taken_in_as_it_is_alone(
    exported: Path, tmp_path: Path, source: str | None
) -> None:
    names = sorted(path.name for path in exported.glob("*.jsonl"))
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        report = store.ingest(exported, source=source)
        again = [store.ingest(exported / name).files[0].status for name in names]

    assert [Path(one.file).name for one in report.files] == names
    assert {one.status for one in report.files} == {NEW}
    assert again == [KNOWN] * len(names)


def test_dumps_beside_exported_evidence_are_taken_in_too(exported: Path, tmp_path: Path) -> None:
    for path in (SAMPLES / "healthy").iterdir():
        shutil.copy(path, exported)
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        report = store.ingest(exported, run="both")
    found = [one.taken_for for one in report.files if one.status == NEW]

    assert (found.count("flight-recorder"), found.count("aep")) == (4, 3)
    assert len({one.file for one in report.files}) == len(report.files)


def test_a_folder_below_is_looked_into_when_that_is_asked(exported: Path, tmp_path: Path) -> None:
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        assert len(store.ingest(tmp_path / "exported", recursive=True, source="evidence").files) == 3
        shutil.move(exported, tmp_path / "above" / "exported")
        assert {one.status for one in store.ingest(tmp_path / "above", recursive=True).files} == {KNOWN}
        with pytest.raises(InputError):
            store.ingest(tmp_path / "above")


def test_a_folder_without_evidence_is_refused_where_only_evidence_is_asked_for(tmp_path: Path) -> None:
    with (
        provstore.open(f"embedded:{tmp_path / 's'}") as store,
        pytest.raises(InputError, match="no file of this folder holds any"),
    ):
        store.ingest(SAMPLES / "healthy", source="evidence")


def cut_off(folder: Path) -> Path:
    folder.mkdir()
    (folder / "fr_gloo_rank_0").write_bytes((SAMPLES / "healthy" / "fr_gloo_rank_0").read_bytes()[:100])
    return folder


def test_a_file_that_is_no_rank_s_dump_and_cannot_be_read_makes_no_run(tmp_path: Path) -> None:
    (tmp_path / "notes").write_bytes(b"\x80\x02garbage")
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        report = store.ingest(tmp_path / "notes")
        rows = list(store.query("runs/list").rows)

    assert [(one.status, one.rank, one.run) for one in report.files] == [(REFUSED, None, None)]
    assert (report.runs, report.facts, rows) == ((), 0, [])


def test_a_rank_s_dump_that_cannot_be_read_is_known_of_its_run(tmp_path: Path) -> None:
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        report = store.ingest(cut_off(tmp_path / "cut"))
        rows = list(store.query("dumps/refused", run="cut", attempt=0).rows)

    assert report.runs == (("cut", 0),)
    assert [row["rank"] for row in rows] == [0]


def test_a_file_that_cannot_be_read_is_a_fact_of_a_run_that_is_there(tmp_path: Path) -> None:
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        store.ingest(SAMPLES / "healthy", run="cut")
        report = store.ingest(cut_off(tmp_path / "cut"))
        refused = store.query("runs/list").rows

    assert report.runs == (("cut", 0),)
    assert report.facts > 0
    assert len(list(refused)) == 1


def test_beside_readable_dumps_the_refused_file_names_its_run(tmp_path: Path) -> None:
    with provstore.open(f"embedded:{tmp_path / 's'}") as store:
        report = store.ingest(SAMPLES / "healthy", cut_off(tmp_path / "cut"))

    assert report.runs == (("healthy", 0), ("cut", 0))
    refused = [(one.run, one.file) for one in report.files if one.status == REFUSED]
    assert refused == [("cut", "fr_gloo_rank_0")]
