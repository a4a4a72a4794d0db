"""A gradient that one rank spoilt, finite and far too large: who asks what is wrong with the run is told which rank."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from captures import RankCapture, floats

from provstore.api.recording import record
from provstore.cli._app import run
from provstore.evidence.content import statistics_line
from provstore.evidence.content.statistics_line import Statistics

WORLD, STEPS = 4, 6


def stated(size: float) -> str:
    figures = Statistics(2, min=-size, max=size, abs_max=size, l2=size, percentiles=(size,) * 7, sample_n=2)
    return statistics_line.line(figures).decode()


def captured(directory: Path, name: str, spoilt: dict[int, int]) -> Path:
    """Ranks put values of size 1 into each step's reduction; from the step in ``spoilt`` on a rank puts in 10,000."""
    for rank in range(WORLD):
        capture = RankCapture(directory, rank, WORLD, name)
        capture.begin(0)
        for step in range(STEPS):
            said = capture.call(0, floats(1.0, step), step=step)
            is_spoilt = rank in spoilt and spoilt[rank] <= step < spoilt[rank] + 2
            said["stats_in"], said["stats_out"] = stated(10_000.0 if is_spoilt else 1.0 + rank / 10), stated(4.0)
        capture.end(0)
        capture.write()
    return directory


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("outliers")
    uri = f"embedded:{folder / 'store'}"
    record([captured(folder / "spoilt", "spoilt", {2: 3}), captured(folder / "sound", "sound", {})], store=uri)
    return uri


def test_the_rank_is_named_once_with_its_first_call_and_only_as_probable(store, capfd):
    assert run(["diagnose", "run:spoilt", "--store", store, "--json"]) == 1
    (found,) = json.loads(capfd.readouterr().out)["findings"]
    assert (found["code"], found["confidence"]) == ("cross-rank-outlier", "probable")
    assert [one["rank"] for one in found["culprits"]] == [2]
    assert (found["op"], found["seq"]) == ("all_reduce", 3)
    assert "far larger than what the other ranks put in" in found["summary"]


def test_a_run_whose_ranks_are_alike_accuses_nobody(store, capfd):
    assert run(["diagnose", "run:sound", "--store", store]) == 3
    said = " ".join(capfd.readouterr().out.split())
    assert "sound, attempt 0: cannot decide" in said
    assert "nothing to diagnose: no dump of it is stored" in said


def test_who_asks_for_nan_alone_is_not_told_of_sizes(store, capfd):
    assert run(["diagnose", "run:spoilt", "--store", store, "--about", "nan", "--json"]) != 1
    assert "cross-rank-outlier" not in capfd.readouterr().out
