"""The tensor record: its lines, and that its numbers are those of the dump."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import needs_hooks

pytestmark = needs_hooks


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

    recorded = [(line["group"], line["seq"]) for line in lines(watched.out, rank) if line["side"] == "in"]

    assert entries[-1]["op_id"] == entries[-1]["collective_seq_id"] + 4, "the job has four sends and receives"
    assert recorded == dumped


def test_a_buffer_that_waits_for_data_is_no_input_and_what_is_left_in_one_is_no_output(watched: Any) -> None:
    """The job broadcasts and reduces to rank 0 with a NaN in the buffers in which rank 1 gives or gets nothing."""
    last = {
        (rank, entry["profiling_name"]): entry["collective_seq_id"]
        for rank in (0, 1)
        for entry in pickle.loads((watched.out / f"fr_gloo_rank_{rank}").read_bytes())["entries"]
        if entry["process_group"][1] == "buffers"
    }
    found = {
        (rank, name, line["side"]): line["finite"]
        for (rank, name), seq in last.items()
        for line in lines(watched.out, rank)
        if (line["group"], line["seq"]) == ("2", seq)
    }

    assert found == {
        (0, "gloo:broadcast", "in"): True,
        (0, "gloo:broadcast", "out"): True,
        (1, "gloo:broadcast", "in"): True,
        (1, "gloo:broadcast", "out"): True,
        (0, "gloo:reduce", "in"): True,
        (0, "gloo:reduce", "out"): False,
        (1, "gloo:reduce", "in"): False,
        (1, "gloo:reduce", "out"): True,
    }


def test_non_finite_values_are_counted_on_the_rank_that_puts_them_in_and_on_all_that_get_them(watched: Any) -> None:
    found = {
        (rank, line["seq"], line["side"]): (line["nan_count"], line["inf_count"])
        for rank in (0, 1)
        for line in lines(watched.out, rank)
        if not line["finite"] and line["group"] == "1"
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


def test_outputs_that_could_not_be_read_are_counted_and_named(watched: Any) -> None:
    """An asynchronous reduce_scatter_tensor of gloo has no future that would tell when it is done."""
    for text in watched.texts:
        assert "out of REDUCE_SCATTER_BASE: gloo does not tell when it is done: 1" in text


def test_the_output_of_a_reduce_scatter_of_a_list_is_read(watched: Any) -> None:
    entries = pickle.loads((watched.out / "fr_gloo_rank_0").read_bytes())["entries"]
    # gloo makes a call of each of the two inputs, and its recorder names them as all_reduce.
    (first,) = [
        one["collective_seq_id"]
        for one, after in pairwise(entries)
        if (one["input_sizes"], after["input_sizes"]) == ([[2]], [[2]])
        and {one["profiling_name"], after["profiling_name"]} == {"gloo:all_reduce"}
    ]

    out = {
        line["seq"]: line["finite"] for line in lines(watched.out, 0) if (line["group"], line["side"]) == ("0", "out")
    }

    assert out[first] is True
    assert "REDUCE_SCATTER:" not in watched.texts[0]


def test_outputs_of_a_call_without_a_future_are_read_when_whoever_issued_it_waits_for_it(watched: Any) -> None:
    entries = pickle.loads((watched.out / "fr_gloo_rank_0").read_bytes())["entries"]
    # The job's last but one call is a reduce_scatter_tensor, whose output has half the input's four elements.
    last_but_one = entries[-2]

    found = [line for line in lines(watched.out, 0) if line["group"] == "0" and line["side"] == "out"]

    assert (last_but_one["input_sizes"], last_but_one["process_group"][0]) == ([[4]], "0")
    assert last_but_one["collective_seq_id"] in {line["seq"] for line in found}


def test_outside_a_job_the_recorder_says_so_and_stops(watched: Any) -> None:
    assert "recorded again tensor record: RuntimeError: no process group" in watched.texts[0]
    assert not (watched.out / "none").exists()
