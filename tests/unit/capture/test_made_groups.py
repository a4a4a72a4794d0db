"""Calls in groups that are made during a recording are recorded from their first on, each under an id of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import captured, needs_hooks, run_job

pytestmark = needs_hooks
RANKS = 2


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    job = run_job("made_later", tmp_path_factory.mktemp("made") / "capture", ranks=RANKS)
    assert job.codes == [0] * RANKS, job.texts
    return job.out


@pytest.mark.parametrize("rank", range(RANKS))
@pytest.mark.parametrize(
    ("run", "calls"),
    [
        ("before", [("0@0-1", 1), ("0@0-1", 2)]),
        ("made", [("1@0-1", 1), ("1@0-1", 2), ("1@0-1", 3), ("2@0-1", 1)]),
        ("again", [("0@0-1", 3), ("0.2@0-1", 1), ("0.2@0-1", 2), ("1.2@0-1", 1)]),
    ],
)
def test_all_calls_are_recorded(recorded: Path, run: str, calls: list[tuple[str, int]], rank: int) -> None:
    lines = captured(recorded / run, rank)
    groups = {line["group"]: line["name"] for line in lines if line["t"] == "group"}

    assert [(line["group"], line["seq"]) for line in lines if line["t"] == "call"] == calls
    assert [line for line in lines if line["t"] == "fault"] == []
    assert groups == {name: name.partition("@")[0] for name, _ in calls}
