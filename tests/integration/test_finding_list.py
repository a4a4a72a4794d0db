"""evidence list --finding: the actions and bundles that carry a finding, by its code or id, on each engine."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from captures import RankCapture

import provstore
from provstore.api.carrying import listed_with
from provstore.api.recording import record
from provstore.cli._app import run as command_line
from provstore.errors import ConfigError, InputError
from provstore.ingest.watching import Sources, Watch
from tests.conftest import Place
from tests.docs.test_answers import strict

SAMPLES = Path(__file__).parents[2] / "provstore" / "samples"
SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "schemas" / "evidence-list.json"
EXPECTED = "gloo/0@0-3/1/2"
"""The action of rank 2 in the second call, which gave it other bytes than the others got."""


def disagreeing(directory: Path) -> Path:
    for rank in range(4):
        capture = RankCapture(directory, rank, 4)
        for epoch in range(2):
            capture.begin(epoch)
            for at in range(2):
                said = capture.call(epoch, step=2 * epoch + at)
                if (rank, epoch, at) == (2, 0, 1):
                    said["out"] = "sha256:" + "9" * 64
            capture.end(epoch)
        capture.write()
    Watch(directory, Sources(gcm=("false",))).poll()
    return directory


@pytest.fixture
def place(stores: Place, tmp_path: Path) -> tuple[str, Path]:
    """Address of a store that outlives its process, and the directory of its journal."""
    if stores.kind == "memory":
        pytest.skip("nothing of it is there for another command")
    return stores.uri, tmp_path / "journal"


@pytest.fixture
def recorded(place: tuple[str, Path], tmp_path: Path) -> tuple[str, Path]:
    uri, journal = place
    record([disagreeing(tmp_path / "capture")], store=uri, journal=journal)
    return place


def test_the_action_that_a_finding_names_is_listed_with_its_bundle(recorded: tuple[str, Path]) -> None:
    uri, journal = recorded
    found = listed_with("replica-disagreement", store=uri, journal=journal)
    (run,) = found.runs
    assert found.carried is not None

    # Judged from the stored digests, and seen beside the job.
    assert [(row.action_id, row.rank, row.epoch) for row in found.carried.rows] == [(EXPECTED, 2, 0)] * 2
    assert len({row.finding for row in found.carried.rows}) == 2
    assert [one.epoch for one in run.recorded] == [0]
    assert {row.bundle for row in found.carried.rows} == {run.recorded[0].digest}


def test_a_finding_is_found_by_its_id_and_by_the_beginning_of_it(recorded: tuple[str, Path]) -> None:
    uri, journal = recorded
    page = listed_with("replica-disagreement", store=uri, journal=journal).carried
    assert page is not None
    for row in page.rows:
        for asked in (row.finding, row.finding[:12]):
            found = listed_with(asked, store=uri, journal=journal).carried
            assert found is not None
            assert [one.finding for one in found.rows] == [row.finding]


def test_a_finding_that_names_no_action_is_listed_by_itself(recorded: tuple[str, Path]) -> None:
    uri, journal = recorded
    page = listed_with("signal-failed", "job", store=uri, journal=journal).carried

    assert page is not None
    assert [(row.code, row.action_id, row.bundle) for row in page.rows] == [("signal-failed", None, None)]


def test_a_known_code_that_nothing_carries_is_an_empty_answer(recorded: tuple[str, Path]) -> None:
    uri, journal = recorded
    found = listed_with("nan-origin", store=uri, journal=journal)

    assert (found.runs, found.carried and found.carried.total) == ((), 0)


@pytest.mark.parametrize("asked", ["unheard-of", "", "abc", "0123456789abcdef"])
def test_an_id_that_nothing_has_is_an_error(recorded: tuple[str, Path], asked: str) -> None:
    uri, journal = recorded
    with pytest.raises(InputError, match="--finding: no such code"):
        listed_with(asked, store=uri, journal=journal)


def test_other_choices_narrow_it(recorded: tuple[str, Path]) -> None:
    uri, journal = recorded
    for choice, total in (({"epoch": 0}, 2), ({"epoch": 1}, 0), ({"mode": "delta"}, 2), ({"mode": "full"}, 0)):
        page = listed_with("replica-disagreement", store=uri, journal=journal, **choice).carried
        assert page is not None
        assert page.total == total, choice


def test_pages_hold_every_row_once(recorded: tuple[str, Path]) -> None:
    uri, journal = recorded
    pages = [
        listed_with("replica-disagreement", store=uri, journal=journal, limit=1, offset=at).carried for at in range(3)
    ]
    rows = [row for page in pages if page is not None for row in page.rows]

    assert [page.has_more for page in pages if page is not None] == [True, False, False]
    assert len(set(rows)) == len(rows) == 2


def test_a_page_below_nothing_is_refused(recorded: tuple[str, Path]) -> None:
    with pytest.raises(ConfigError, match="--offset"):
        listed_with("device", store=recorded[0], journal=recorded[1], offset=-1)


def test_the_actions_of_a_saved_diagnosis_are_those_of_its_culprits_in_its_call(place: tuple[str, Path]) -> None:
    uri, journal = place
    with provstore.open(uri, journal=journal) as store:
        store.ingest(SAMPLES / "mismatch")
        diagnosis = store.diagnose(save=True)
    record([SAMPLES / "mismatch"], "mismatch", epoch=0, store=uri, journal=journal)
    (finding,) = diagnosis.findings
    page = listed_with(finding.code, store=uri, journal=journal).carried
    assert page is not None

    assert {row.finding for row in page.rows} == {finding.key}
    assert {row.rank for row in page.rows} == {one.rank for one in finding.culprits}
    assert {row.seq for row in page.rows} == {finding.seq}
    assert all(row.action_id and row.bundle for row in page.rows)


def test_the_command_shows_a_page_and_its_json_is_as_documented(
    recorded: tuple[str, Path], capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    where = ["--store", recorded[0], "--journal", str(recorded[1])]
    capfd.readouterr()
    assert command_line(["evidence", "list", "--finding", "replica-disagreement", "--limit", "1", *where]) == 0
    shown = capfd.readouterr().out
    assert EXPECTED in shown
    assert "1 to 1 of 2 rows: --offset and --limit show the others" in shown
    assert "weakest recorded" in shown
    assert "strongest demanded" in shown

    assert command_line(["evidence", "list", "--finding", "replica-disagreement", "--json", *where]) == 0
    said = json.loads(capfd.readouterr().out)
    jsonschema.validate(said, strict(json.loads(SCHEMA.read_text())))
    assert said["carried"]["total"] == 2

    assert command_line(["evidence", "list", "--finding", "unheard-of", *where]) == 2
