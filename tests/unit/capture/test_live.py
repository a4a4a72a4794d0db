"""The live job: the fault that was asked for is in the dumps that it leaves."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from conftest import needs_hooks, torch_release

from provstore.capture import live
from provstore.errors import ConfigError

needs_torch = pytest.mark.skipif(torch_release() == (0, 0), reason="torch is not installed")


def last_entry(folder: Path, rank: int) -> dict[str, Any]:
    entry: dict[str, Any] = pickle.loads((folder / f"fr_gloo_rank_{rank}").read_bytes())["entries"][-1]
    return entry


@needs_torch
def test_a_rank_that_skips_a_call_stands_in_another_call_under_the_same_number(tmp_path: Path) -> None:
    result = live.run_job(tmp_path / "job", "skip", timeout=150, seed=1)

    assert result.truth.rank is not None
    last = {rank: last_entry(result.directory, rank) for rank in range(4)}
    assert {rank: entry["profiling_name"] for rank, entry in last.items()} == {
        rank: "gloo:all_gather" if rank == result.truth.rank else "gloo:all_reduce" for rank in range(4)
    }, result.log
    assert len({entry["collective_seq_id"] for entry in last.values()}) == 1
    lines = {frame["line"] for frame in last[0]["frames"] if frame["filename"] == str(live.TRAINING_SCRIPT)}
    text = live.TRAINING_SCRIPT.read_text().splitlines()
    assert any("dist.all_reduce(gradient)" in text[line - 1] for line in lines)
    assert set(result.exit_codes) == {-9}
    entries = pickle.loads((result.directory / "fr_gloo_rank_0").read_bytes())["entries"]
    assert {entry["timeout_ms"] for entry in entries} == {1000 * live.GROUP_TIMEOUT_SECONDS}


@needs_hooks
def test_a_nan_enters_on_the_faulty_rank_alone(tmp_path: Path) -> None:
    result = live.run_job(tmp_path / "job", "nan", ranks=2, timeout=150, seed=2)

    assert result.exit_codes == (0, 0), result.log
    first = []
    for rank in range(2):
        text = (result.directory / f"tensor_rank_{rank}.jsonl").read_text()
        sick = [line for line in map(json.loads, text.splitlines()) if not line["finite"] and line["group"] == "0"]
        first.append((sick[0]["seq"], sick[0]["side"]))
    number = first[0][0]
    assert first == [(number, "in" if rank == result.truth.rank else "out") for rank in range(2)]


@needs_torch
def test_a_seed_chooses_the_same_rank_and_step_again_and_seeds_choose_all_ranks() -> None:
    drawn = [live._draw("stuck", 4, live.random.Random(seed)) for seed in range(40)]

    assert drawn == [live._draw("stuck", 4, live.random.Random(seed)) for seed in range(40)]
    assert {truth.rank for truth in drawn} == {0, 1, 2, 3}


@needs_torch
def test_what_cannot_be_run_is_refused_before_a_process_starts(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()

    with pytest.raises(ConfigError, match="not empty"):
        live.run_job(tmp_path, "stuck")
    with pytest.raises(ConfigError, match="gremlins: fault of the live job: not known; known are none, stuck"):
        live.run_job(tmp_path / "job", "gremlins")
    with pytest.raises(ConfigError, match="at least 2"):
        live.run_job(tmp_path / "job", "stuck", ranks=1)


@needs_torch
def test_at_the_time_limit_every_process_is_ended(tmp_path: Path) -> None:
    result = live.run_job(tmp_path / "job", "none", timeout=0.5)

    assert result.exit_codes == (-9, -9, -9, -9)
    assert result.seconds < 60
