"""Which all_reduce of DDP carries which gradient: held against what the bucket's bytes say by themselves."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from conftest import captured, needs_hooks, run_job

pytestmark = needs_hooks
RANKS, COUNT, STEPS, SIZE = 2, 10, 6, 10
WAYS = ("plain", "view", "static", "unused", "late")
NOT_KNOWN = "which gradients the buckets of DDP hold is not known"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ways = (*WAYS, "accumulated", "between", "twins")
    job = run_job("ddp_buckets", tmp_path_factory.mktemp("ddp") / "capture", *ways, ranks=RANKS)
    assert job.codes == [0] * RANKS, job.texts
    return job.out


def lines(folder: Path, rank: int, kind: str) -> list[dict[str, Any]]:
    return [line for line in captured(folder, rank) if line["t"] == kind]


def held(folder: Path, rank: int, scale: int = 1) -> dict[str, set[str]]:
    """Action of each bucket → the parameters in it, by the constants in its bytes: n + 1 times the step, over 2."""
    calls = {line["ordinal"]: line for line in lines(folder, rank, "call")}
    found = {}
    for snap in lines(folder, rank, "snap"):
        call = calls.get(snap["ordinal"])
        if call is None or call["op"] != "all_reduce" or snap["side"] != "in" or call["dtypes_in"] != ["float32"]:
            continue
        data = (folder / snap["file"]).read_bytes()[snap["offset"] : snap["offset"] + snap["bytes"]]
        values = struct.unpack(f"<{len(data) // 4}f", data)
        constants = [values[at] for at in range(0, len(values), SIZE)]
        names = {f"weights.{round(value * RANKS / (scale * (call['step'] + 1))) - 1}" for value in constants}
        found[f"gloo/{call['group']}/{call['seq']}/{rank}"] = names
    return found


def said(folder: Path, rank: int) -> tuple[dict[str, set[str]], dict[int, set[str]]]:
    """What the record says: action → the gradients that it carries; and step → reasons where none does."""
    carried: dict[str, set[str]] = {}
    unknown: dict[int, set[str]] = {}
    for line in lines(folder, rank, "tensor"):
        for action in line.get("carried_by", ()):
            carried.setdefault(action, set()).add(line["name"].partition("#")[0])
        if "uncarried" in line:
            unknown.setdefault(line["step"], set()).add(line["uncarried"])
    return carried, unknown


@pytest.mark.parametrize("way", WAYS)
def test_every_gradient_names_the_bucket_that_really_held_it_in_every_step(recorded: Path, way: str) -> None:
    folder = recorded / way

    for rank in range(RANKS):
        carried, unknown = said(folder, rank)
        assert carried == held(folder, rank)
        assert sum(map(len, carried.values())) == COUNT * STEPS
        assert unknown == {}


@pytest.mark.parametrize("way", WAYS)
def test_the_two_calls_in_which_ddp_tells_its_buckets_are_marked_and_no_other(recorded: Path, way: str) -> None:
    # DDP has no second buckets where it looks for unused parameters. In the way "plain" the program broadcasts, too, a
    # tensor of that type and size.
    for rank in range(RANKS):
        marked = [line for line in lines(recorded / way, rank, "call") if "setup" in line]
        assert [line["setup"] for line in marked] == ([] if way == "unused" else ["ddp-buckets"] * 2)
        assert [line["shapes_out"] for line in marked[:1]] == [[[COUNT + 1]]] * len(marked[:1])
        assert len({line["step"] for line in marked}) <= 1


def test_the_order_of_calls_is_equal_whether_ddp_tells_its_buckets_now_or_later(recorded: Path) -> None:
    # "late" was trained for a step before it was recorded, so that DDP tells its buckets in the first step that is.
    found = {way: [line["order"] for line in lines(recorded / way, 0, "anchor")] for way in ("view", "late")}
    steps = {
        way: {line["step"] for line in lines(recorded / way, 0, "call") if "setup" in line} for way in ("view", "late")
    }

    assert steps == {"view": {1}, "late": {0}}
    assert len(found["view"]) == STEPS
    assert found["view"] == found["late"]


def test_gradients_that_are_accumulated_first_are_carried_by_the_pass_that_reduces_them(recorded: Path) -> None:
    folder = recorded / "accumulated"

    for rank in range(RANKS):
        carried, _ = said(folder, rank)
        assert carried == held(folder, rank, scale=2)
        assert sum(map(len, carried.values())) == COUNT * STEPS


def test_where_the_new_buckets_were_told_before_anybody_listened_nothing_is_said_until_the_model_says_it(
    recorded: Path,
) -> None:
    folder = recorded / "between"

    for rank in range(RANKS):
        carried, unknown = said(folder, rank)
        true = held(folder, rank)
        assert unknown == {0: {NOT_KNOWN}, 1: {NOT_KNOWN}}
        assert carried == {action: true[action] for action in carried}
        assert sum(map(len, carried.values())) == COUNT * (STEPS - 2)


def test_of_two_models_with_as_many_parameters_nothing_is_said_while_it_may_be_either(recorded: Path) -> None:
    folder = recorded / "twins"

    for rank in range(RANKS):
        carried, unknown = said(folder, rank)
        true = held(folder, rank)
        assert carried == {action: true[action] for action in carried}
        assert set(unknown) == {1, 2}
        assert NOT_KNOWN in unknown[1]
