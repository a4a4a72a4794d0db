"""The tensor record: its lines, and that its numbers are those of the dump."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

LIST_FORM = [("0", 20), ("0", 21)]
"""The job's reduce_scatter of a list: gloo records it as one call a rank, so it is one of the recorder's gaps."""


def lines(folder: Path, rank: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"tensor_rank_{rank}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("rank", [0, 1])
def test_every_call_with_data_of_the_dump_is_recorded_under_its_number_sends_and_receives_in_between(
    watched: Any, rank: int
) -> None:
    entries = pickle.loads((watched.out / f"fr_gloo_rank_{rank}").read_bytes())["entries"]
    dumped = [
        (entry["process_group"][0], entry["collective_seq_id"])
        for entry in entries
        if entry["profiling_name"] != "gloo:barrier"
    ]

    recorded = {(line["group"], line["seq"]) for line in lines(watched.out, rank)}

    assert entries[-1]["op_id"] == entries[-1]["collective_seq_id"] + 4, "the job has four sends and receives"
    assert recorded == set(dumped) - set(LIST_FORM)
    assert "REDUCE_SCATTER: its backend counts it as 2 calls: 1" in watched.texts[rank]


def test_a_buffer_that_waits_for_data_is_no_input_and_a_rank_that_only_gives_has_no_output(watched: Any) -> None:
    by_call = {
        rank: {
            entry["profiling_name"]: {
                line["side"]
                for line in lines(watched.out, rank)
                if (line["group"], line["seq"]) == (entry["process_group"][0], entry["collective_seq_id"])
            }
            for entry in pickle.loads((watched.out / f"fr_gloo_rank_{rank}").read_bytes())["entries"]
        }
        for rank in (0, 1)
    }
    both = {"in", "out"}

    names = [f"gloo:{op}" for op in ("broadcast", "reduce", "gather", "scatter", "all_to_all", "barrier")]
    assert [by_call[0][name] for name in names] == [both, both, both, both, both, set()]
    assert [by_call[1][name] for name in names] == [{"out"}, {"in"}, {"in"}, {"out"}, both, set()]


def test_non_finite_values_are_counted_on_the_rank_that_puts_them_in_and_on_all_that_get_them(watched: Any) -> None:
    found = {
        (rank, line["seq"], line["side"]): (line["nan_count"], line["inf_count"])
        for rank in (0, 1)
        for line in lines(watched.out, rank)
        if not line["finite"]
    }

    # The group "late" sums [1, 2, inf] of rank 0 and [1, nan, inf] of rank 1 in its call 1 and gathers the sum in 2:
    # each rank gives one NaN and one infinity there, and gets two of each.
    assert found == {
        (0, 1, "in"): (0, 1),
        (1, 1, "in"): (1, 1),
        (0, 1, "out"): (1, 1),
        (1, 1, "out"): (1, 1),
        (0, 2, "in"): (1, 1),
        (1, 2, "in"): (1, 1),
        (0, 2, "out"): (2, 2),
        (1, 2, "out"): (2, 2),
    }


def test_outputs_of_a_call_whose_end_gloo_does_not_tell_are_a_gap(watched: Any) -> None:
    assert "out of REDUCE_SCATTER_BASE: its backend does not tell when it is done: 1" in watched.texts[0]


def test_outside_a_job_the_recorder_says_so_and_stops(watched: Any) -> None:
    assert "recorded again tensor record: RuntimeError: no process group" in watched.texts[0]
    assert not (watched.out / "none").exists()
