"""Collectives that take lists: every tensor of them is in the record, with the bytes that were really there."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from conftest import captured, needs_hooks, run_job

from provstore.ingest import capture_lines

pytestmark = needs_hooks
RANKS = 2


@pytest.fixture(scope="module", params=["hooks", "wrapped"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With torch's hooks, and with its Python methods wrapped, as before it had hooks."""
    job = run_job("list_forms", tmp_path_factory.mktemp("lists") / "capture", request.param, ranks=RANKS)
    assert job.codes == [0] * RANKS, job.texts
    return job.out


def lines(folder: Path, rank: int, kind: str) -> list[dict[str, Any]]:
    return [line for line in captured(folder, rank) if line["t"] == kind]


def content(folder: Path, rank: int) -> dict[str, dict[str, list[list[float]]]]:
    """Operation → side → the numbers of each of its tensors, from the bytes that were kept."""
    calls = {line["ordinal"]: line for line in lines(folder, rank, "call")}
    found: dict[str, dict[str, list[list[float]]]] = {}
    for snap in lines(folder, rank, "snap"):
        data = (folder / snap["file"]).read_bytes()[snap["offset"] : snap["offset"] + snap["bytes"]]
        values = found.setdefault(calls[snap["ordinal"]]["op"], {}).setdefault(snap["side"], [])
        values.append(list(struct.unpack(f"<{len(data) // 4}f", data)))
    return found


EXPECTED: dict[str, list[dict[str, list[list[float]]]]] = {
    # Rank r gives 10r + i to rank i, which gets 2i + 10.
    "reduce_scatter": [
        {"in": [[0, 0], [1, 1, 1]], "out": [[10, 10]]},
        {"in": [[10, 10], [11, 11, 11]], "out": [[12, 12, 12]]},
    ],
    "all_gather": [{"in": [[1 + r] * 3], "out": [[1] * 3, [2] * 3]} for r in range(2)],
    "all_to_all": [
        {"in": [[100, 100], [101, 101]], "out": [[100, 100], [110, 110]]},
        {"in": [[110, 110], [111, 111]], "out": [[101, 101], [111, 111]]},
    ],
    "scatter": [{"in": [[7, 7], [8, 8]], "out": [[7, 7]]}, {"out": [[8, 8]]}],
    "gather": [{"in": [[20, 20]], "out": [[20, 20], [21, 21]]}, {"in": [[21, 21]]}],
    "all_reduce_coalesced": [{"in": [[1 + r] * 3, [5 + r] * 2], "out": [[3] * 3, [11] * 2]} for r in range(2)],
    "all_gather_coalesced": [
        {"in": [[30 + r], [40 + r] * 2], "out": [[30], [40, 40], [31], [41, 41]]} for r in range(2)
    ],
    "all_gather_into_tensor_coalesced": [
        {"in": [[50 + r], [60 + r] * 2], "out": [[50, 51], [60, 60, 61, 61]]} for r in range(2)
    ],
    "reduce_scatter_tensor_coalesced": [
        {"in": [[0, 1], [0, 1, 2, 3]], "out": [[2 * r], [4 * r, 4 * r + 2]]} for r in range(2)
    ],
}


@pytest.mark.parametrize("op", EXPECTED)
def test_a_form_with_lists_has_the_bytes_of_all_its_inputs_and_outputs(recorded: Path, op: str) -> None:
    for rank in range(RANKS):
        (call,) = [line for line in lines(recorded, rank, "call") if line["op"] == op and "part_of" not in line]

        assert content(recorded, rank)[op] == EXPECTED[op][rank]
        assert (call["mode"], call["shortfall"]) == ("full", [])


def test_what_gloo_makes_several_calls_of_has_its_tensors_in_the_first_and_a_reference_in_the_others(
    recorded: Path,
) -> None:
    for rank in range(RANKS):
        calls = lines(recorded, rank, "call")
        first = {line["seq"]: line for line in calls if line.get("parts", 1) > 1 and "part_of" not in line}
        others = [line for line in calls if "part_of" in line]

        assert {line["op"] for line in first.values()} == {"reduce_scatter", "reduce_scatter_tensor_coalesced"}
        assert len(others) == sum(line["parts"] - 1 for line in first.values())
        for line in others:
            whole = first[line["part_of"]]
            assert line["part_of"] < line["seq"] < line["part_of"] + whole["parts"]
            assert (line["op"], line["mode"], line["shortfall"]) == (whole["op"], whole["mode"], whole["shortfall"])
            assert not {"in", "out", "shapes_in", "shapes_out", "stats_in", "snap"} & set(line)


def test_a_stored_part_names_the_action_that_has_its_tensors(recorded: Path) -> None:
    other = next(line for line in lines(recorded, 1, "call") if "part_of" in line)

    stored = capture_lines.call(other, 1, 0, 0)

    assert stored["extra"] == {"part_of": f"gloo/0@0-1/{other['part_of']}/1"}
    assert stored["shapes_in"] is stored["digest_out"] is None


def test_a_call_that_was_waited_for_keeps_no_recording_from_ending(recorded: Path) -> None:
    assert [(recorded / f"open{rank}").read_text() for rank in range(RANKS)] == ["0"] * RANKS
