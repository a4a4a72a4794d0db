"""Recording real jobs: training is not disturbed, and what is written is what happened."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.torch_jobs import needs_hooks, run_script

ROOT = Path(__file__).parents[2]
JOB = Path(__file__).with_name("recorded_training.py")
WORLD = 4

pytestmark = needs_hooks


def launch(scene: str, folder: Path, world: int = WORLD, **environment: str) -> str:
    settings = {"PYTHONPATH": f"{ROOT}{os.pathsep}{JOB.parent}", "TORCH_FR_BUFFER_SIZE": "20000", **environment}
    done = run_script(JOB, scene, world, folder, seconds=400, **settings)
    return done.stdout + done.stderr


def results(folder: Path, scene: str, world: int = WORLD) -> list[dict[str, Any]]:
    return [json.loads((folder / f"{scene}-result{rank}.json").read_text()) for rank in range(world)]


def lines(folder: Path, name: str, rank: int, part: str = "") -> list[dict[str, Any]]:
    """Every line of a rank's file but a torn last one."""
    whole = (folder / name / f"capture-rank{rank}{part}.jsonl").read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in whole]


def of(kind: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in found if line["t"] == kind]


def digest(dtype: str, shape: list[int], data: bytes) -> str:
    """The tensor digest for less than 1 MiB, written down from its definition: one chunk, so its leaf is the root."""
    header = json.dumps(
        {"byteorder": "little", "dtype": dtype, "nbytes": len(data), "order": "C", "shape": shape, "v": 1},
        separators=(",", ":"), sort_keys=True,
    )  # fmt: skip
    root = hashlib.sha256(b"\0" + data).digest()
    whole = b"provstore-tensor-v1\n" + header.encode() + b"\n" + root
    return f"sha256:{hashlib.sha256(whole).hexdigest()}"


@pytest.fixture(scope="module")
def modes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("recorded")
    said = launch(
        "modes", folder, TRACEPARENT="00-463ac35c9f6413ad48485a3953bb6124-00f067aa0ba902b7-01",
        PROVSTORE_TRACE_ID="another", PROVSTORE_PARENT_ACTION="agent-run-7/action-2",
    )  # fmt: skip
    assert "codes [0, 0, 0, 0]" in said, said
    return folder, results(folder, "modes")


MODES = ("default", "delta", "full", "escalated", "nothing", "small")


def test_parameters_and_random_numbers_are_the_same_bits_with_and_without_recording_in_every_mode(modes: Any) -> None:
    for result in modes[1]:
        assert set(result["digests"]) == {"bare", *MODES, "bare again"}
        assert set(result["digests"].values()) == {result["digests"]["bare"]}


@pytest.mark.parametrize("mode", MODES)
def test_every_collective_of_the_dump_is_recorded_under_its_numbers_in_the_order_of_the_program(
    modes: Any, mode: str
) -> None:
    for rank in range(WORLD):
        dump = json.loads((modes[0] / f"{mode}-dump{rank}.json").read_text())
        calls = [line for line in of("call", lines(modes[0], mode, rank)) if line["channel"] == "collective"]

        recorded = [[line["group"].split("@")[0], line["seq"], line["op_id"]] for line in calls]

        assert recorded[: len(dump)] == [one[:3] for one in dump]
        assert [line["ordinal"] for line in calls] == sorted(line["ordinal"] for line in calls)


def test_a_healthy_job_is_demanded_delta_and_validation_only(modes: Any) -> None:
    calls = [line for rank in range(WORLD) for line in of("call", lines(modes[0], "default", rank))]

    assert {line["policy"]["mode"] for line in calls} == {"delta", "validation"}
    assert {line["op"] for line in calls if line["policy"]["mode"] == "validation"} == {"send", "broadcast"}


def test_digests_are_those_of_the_bytes_that_the_program_gave_and_got(modes: Any) -> None:
    for rank, result in enumerate(modes[1]):
        known = result["known"]
        last = of("call", lines(modes[0], "delta", rank))[-1]

        assert last["reduce_op"] == "sum"
        assert last["in"] == digest(known["dtype"], known["shape"], bytes.fromhex(known["in"]))
        assert last["out"] == digest(known["dtype"], known["shape"], bytes.fromhex(known["out"]))
        mean = sum(struct.unpack("<5d", bytes.fromhex(known["out"]))) / 5
        assert f'"mean":"f64:{mean.hex()}"' in last["stats_out"]


@pytest.mark.parametrize(("mode", "recorded"), [("delta", "delta"), ("full", "full")])
def test_where_the_budgets_allow_it_everything_is_recorded_as_demanded(modes: Any, mode: str, recorded: str) -> None:
    actions = [line for line in lines(modes[0], mode, 1) if line["t"] in {"call", "tensor"}]
    # A receive over gloo does not tell when it is done: its output was never seen.
    unseen = [line for line in actions if line["mode"] != recorded]

    assert {line["op"] for line in unseen} == {"recv"}
    assert {reason for line in unseen for reason in line["shortfall"]} == {"no-tensor-access"}
    assert len(actions) > 60


def test_a_snapshot_holds_the_bytes_that_its_digest_was_made_from(modes: Any) -> None:
    folder = modes[0] / "full"
    found = lines(modes[0], "full", 3)
    calls = {line["ordinal"]: line for line in of("call", found)}
    for snap in of("snap", found):
        if snap["ordinal"] in calls and len(calls[snap["ordinal"]][f"shapes_{snap['side']}"]) == 1:
            call, side = calls[snap["ordinal"]], snap["side"]
            data = (folder / snap["file"]).read_bytes()[snap["offset"] : snap["offset"] + snap["bytes"]]
            assert call[side] == digest(call[f"dtypes_{side}"][0], call[f"shapes_{side}"][0], data)


def test_with_no_budget_at_all_nothing_is_claimed_and_the_limits_are_named(modes: Any) -> None:
    actions = of("call", lines(modes[0], "nothing", 2))

    assert {line["mode"] for line in actions} == {"validation"}
    assert not [line for line in actions if "in" in line or "out" in line or "finite_in" in line]
    assert {reason for line in actions for reason in line["shortfall"]} <= {
        "time-budget",
        "byte-budget",
        "no-tensor-access",
    }
    assert not list((modes[0] / "nothing").glob("snap-*"))


def test_a_small_budget_of_snapshots_is_kept_in_every_step(modes: Any) -> None:
    found = lines(modes[0], "small", 0)
    ends = {line["ordinals"][1]: line["step"] for line in of("step", found)}
    stored: Counter[int] = Counter()
    for snap in of("snap", found):
        stored[next(step for last, step in sorted(ends.items()) if snap["ordinal"] <= last)] += snap["bytes"]

    calls = [line for line in found if line["t"] in {"call", "tensor"}]
    assert stored
    assert max(stored.values()) <= 2 * 64, "what waits for its step to end may be written in the next"
    assert {line["mode"] for line in calls} == {"full", "delta"}
    assert {tuple(line["shortfall"]) for line in calls if line["mode"] == "delta"} == {("byte-budget",)}


def test_an_order_is_carried_out_by_all_ranks_in_its_steps(modes: Any) -> None:
    for rank in range(WORLD):
        found = lines(modes[0], "escalated", rank)
        events = [(line["event"], line["source"], line.get("close_reason")) for line in of("escalation", found)]
        full = {line["step"] for line in of("call", found) if line["policy"]["rule"] == "P1"}

        assert events == [("opened", "operator", None), ("closed", "operator", "steps-over")]
        # It holds from the end of step 0, where the order was read, to the end of step 3.
        assert full == {1, 2, 3}


def test_a_gradient_names_the_call_that_carries_it_and_only_that(modes: Any) -> None:
    found = lines(modes[0], "delta", 0)
    calls = {
        f"gloo/{line['group']}/{line['seq']}/0": line for line in of("call", found) if line["channel"] == "collective"
    }
    carried = [line for line in of("tensor", found) if "carried_by" in line]

    for line in carried:
        (action,) = line["carried_by"]
        assert calls[action]["op"] == "all_reduce"
        assert calls[action]["step"] == line["step"]
        assert calls[action]["ordinal"] > line["ordinal"]
    elements: Counter[str] = Counter()
    for line in carried:
        elements[line["carried_by"][0]] += math.prod(line["shape"])
    assert elements
    assert all(calls[action]["shapes_in"] == [[count]] for action, count in elements.items())


def test_the_files_hold_epochs_steps_data_states_anchors_and_the_checkpoint(modes: Any) -> None:
    found = lines(modes[0], "delta", 1)
    header = found[0]

    assert [header[name] for name in ("t", "schema", "run", "attempt", "rank", "world_size")] == [
        "header", "provstore-capture/1", "job", 0, 1, WORLD,
    ]  # fmt: skip
    assert header["trace"] == {
        "trace_id": "another",
        "parent_action": "agent-run-7/action-2",
        "conflicts": ["00-463ac35c9f6413ad48485a3953bb6124-00f067aa0ba902b7-01"],
    }
    assert [(line["epoch"], line["step"]) for line in of("step", found)] == [(s // 3, s) for s in range(6)]
    assert [(line["epoch"], line["closed"]) for line in of("epoch-end", found)] == [(0, True), (1, True)]
    assert [line["batch"] for line in of("data", found)] == [0, 1, 2, 0, 1, 2]
    assert [line["cursor"] for line in of("anchor", found)] == [1, 2, 3, 1, 2, 3]
    assert len({line["params"] for line in of("anchor", found)}) == 6
    (saved,) = of("checkpoint", found)
    assert (saved["uri"], saved["action"]) == ("s3://bucket/last", "save")
    for state in of("rng", found):
        blob = (modes[0] / "delta" / "blobs" / state["blob"].removeprefix("sha256:")).read_bytes()
        assert state["digest"] == f"sha256:{hashlib.sha256(blob).hexdigest()}"


def test_anchors_are_equal_where_the_training_is_and_name_the_order_of_the_calls(modes: Any) -> None:
    for rank in range(WORLD):
        one, other = (of("anchor", lines(modes[0], mode, rank)) for mode in ("delta", "full"))
        same = [(line["rng"], line["cursor"], line["params"]) for line in one]
        assert same == [(line["rng"], line["cursor"], line["params"]) for line in other]
        order = hashlib.sha256()
        firsts: dict[tuple[str, bool], int] = {}
        for call in of("call", lines(modes[0], "full", rank)):
            if call["step"] == 3:
                is_collective = call["channel"] == "collective"
                number = call["seq"] if is_collective else call["op_id"]
                number -= firsts.setdefault((call["group"], is_collective), number)
                order.update(f"{call['op']}\0{call['group']}\0{number}\n".encode())
        # Step 3 begins an epoch; its calls are numbered from the first of each group and kind.
        assert other[3]["order"] == f"sha256:{order.hexdigest()}"
        assert [line["order"] for line in one] == [line["order"] for line in other]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    assert "codes [-9, -9, -9, -9]" in launch("nan", folder)
    return folder


def test_a_nan_in_one_gradient_escalates_the_group_on_all_ranks_in_that_step_and_names_the_rank(killed: Path) -> None:
    givers = set()
    for rank in range(WORLD):
        found = lines(killed, "nan", rank)
        (opened,) = of("escalation", found)
        assert (opened["trigger"], opened["scope"], opened["rule"]) == ("non-finite", "group:0@0-3", "P2")
        assert (opened["opened_step"], opened["source"]) == (11, f"rank:{rank}")
        calls = [line for line in of("call", found) if line.get("step") == 11 and line["group"] == "0@0-3"]
        givers |= {rank for line in calls if line.get("finite_in") is False}
        after = [line for line in calls if line["ordinal"] > next(x["ordinal"] for x in calls if not x["finite_out"])]
        assert after
        assert {line["policy"]["reason"] for line in after} == {"statistical anomaly detected"}
        assert {f"rank:{rank}/esc-0"} == {name for line in after for name in line["escalations"]}
    assert givers == {2}


def test_the_three_steps_before_an_escalation_are_written_from_the_ring(killed: Path) -> None:
    for rank in range(WORLD):
        late = [line for line in of("call", lines(killed, "nan", rank)) if line.get("late")]

        assert {8, 9, 10} <= {line["step"] for line in late} <= {8, 9, 10, 11}
        assert all("in" in line and "out" in line and "stats_out" in line for line in late)
        assert {line["group"] for line in late} == {"0@0-3"}
        first = {line["ordinal"]: line for line in of("call", lines(killed, "nan", rank)) if not line.get("late")}
        assert all(first[line["ordinal"]]["mode"] == line["mode"] for line in late)
        assert not any("in" in first[line["ordinal"]] for line in late)


def test_a_call_that_gave_what_is_not_finite_is_written_from_the_ring_where_its_inputs_were_healthy(
    killed: Path,
) -> None:
    for rank in {*range(WORLD)} - {2}:
        calls = of("call", lines(killed, "nan", rank))
        origin = next(line for line in calls if line["step"] == 11 and line.get("finite_out") is False)
        (late,) = (line for line in calls if line.get("late") and line["ordinal"] == origin["ordinal"])

        assert origin["finite_in"] is True
        assert {"in", "out", "stats_in", "stats_out"} <= late.keys()


def test_a_killed_job_leaves_files_that_can_be_read_and_a_restart_goes_on_escalated(killed: Path) -> None:
    before = {rank: lines(killed, "nan", rank) for rank in range(WORLD)}
    assert all(of("step", found)[-1]["step"] >= 12 for found in before.values())
    assert not any(of("end", found) for found in before.values())

    assert "codes [0, 0, 0, 0]" in launch("restarted", killed)

    for rank in range(WORLD):
        found = lines(killed, "nan", rank, ".1")
        events = [(line["event"], line["number"], line["opened_step"]) for line in of("escalation", found)]
        assert events[0] == ("extended", 0, 11)
        calls = [line for line in of("call", found) if line["group"] == "0@0-3"]
        assert {line["policy"]["rule"] for line in calls} == {"P2"}


def test_whatever_function_of_the_recorder_fails_training_gives_the_same_bits(tmp_path: Path) -> None:
    said = launch("faults", tmp_path, 2)

    assert "codes [0, 0]" in said, said[-2000:]
    for rank, result in enumerate(results(tmp_path, "faults", 2)):
        assert result["digests"]["failing"] == result["digests"]["bare"]
        rooms = Counter(name.rsplit(".", 1)[0] for name in result["hit"])
        assert sum(rooms.values()) > 120
        assert {
            "provstore.capture.content.budget.Budget",
            "provstore.capture.recording.session.Session",
            "provstore.capture.recording.call_recorder.CallRecorder",
            "provstore.capture.recording.outbox.Outbox",
            "provstore.capture.recording.worker.Worker",
            "provstore.capture.collective_calls.CallHooks",
        } <= set(rooms)
        faults = of("fault", lines(tmp_path, "steps", rank))
        assert len({line["error"] for line in faults}) > 60
    assert said.count("recording: ") < 2 * 5 * 200


def test_a_full_disk_a_missing_directory_and_a_fork_disturb_nothing(tmp_path: Path) -> None:
    said = launch("disk", tmp_path, 2)

    assert "codes [0, 0]" in said, said[-2000:]
    for rank, result in enumerate(results(tmp_path, "disk", 2)):
        assert len(set(result["digests"].values())) == 1
        assert result["child"] == 0
        found = lines(tmp_path, "full-disk", rank)
        assert found[0]["t"] == "header"
        assert found[-1]["t"] == "end", "when there is room again, it goes on"
        assert any("lines were lost" in line["error"] for line in of("fault", found))
        assert 77 not in {line["step"] for line in of("step", lines(tmp_path, "forked", rank))}
    assert "nothing is recorded: NotADirectoryError" in said


def test_without_hooks_calls_that_pass_through_python_are_recorded_and_the_others_are_marked(tmp_path: Path) -> None:
    said = launch("wrapped", tmp_path, 2)

    assert "codes [0, 0]" in said, said[-2000:]
    for rank, result in enumerate(results(tmp_path, "wrapped", 2)):
        assert len(set(result["digests"].values())) == 1
        names = {"gloo:all_reduce": "all_reduce", "gloo:all_gather": "all_gather_into_tensor"}
        dump = {(group, seq): names.get(name) for group, seq, _, name in result["dump"]}
        calls = [line for line in of("call", lines(tmp_path, "wrapped", rank)) if line["channel"] == "collective"]
        found = {(line["group"].split("@")[0], line["seq"]): line for line in calls}

        assert set(found) == set(dump)
        seen = {where: line for where, line in found.items() if line["op"] != "unknown"}
        assert {where: line["op"] for where, line in seen.items()} == {where: dump[where] for where in seen}
        assert {line["op"] for line in seen.values()} == {"all_reduce", "all_gather_into_tensor"}
        for where in set(found) - set(seen):
            assert (found[where]["mode"], found[where]["shortfall"]) == ("validation", ["no-tensor-access"])
