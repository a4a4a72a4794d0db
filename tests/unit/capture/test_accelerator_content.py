"""Content of tensors on an accelerator: read in the order of streams, never waited for.

The accelerator stands in for a real one: its tensors are torch's, and what it is told to do is done only when a stream
is let go on, so that what is read too early or too late has another digest.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from conftest import run_job, torch_release

pytestmark = pytest.mark.skipif(
    torch_release() < (2, 15), reason="torch older than 2.15 makes no backend in Python that stands in for a device"
)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    done = run_job("accelerator", tmp_path_factory.mktemp("accelerator") / "out", ranks=1)
    assert done.codes == [0], done.texts
    said: dict[str, Any] = {}
    for line in done.texts[0].splitlines():
        if line.startswith("{"):
            said |= json.loads(line)
    return done.out, said


def lines(job: Any, scene: str, *kinds: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (job[0] / scene / "capture-rank0.jsonl").read_text().splitlines()]
    return [line for line in found if line["t"] in kinds]


def digest(values: list[float]) -> str:
    """The digest of float32 values, written down from its definition: one chunk, so its leaf is the root."""
    data = struct.pack(f"<{len(values)}f", *values)
    header = (
        f'{{"byteorder":"little","dtype":"float32","nbytes":{len(data)},"order":"C","shape":[{len(values)}],"v":1}}'
    )
    root = hashlib.sha256(b"\0" + data).digest()
    whole = hashlib.sha256(b"provstore-tensor-v1\n" + header.encode() + b"\n" + root)
    return f"sha256:{whole.hexdigest()}"


def test_what_is_recorded_of_a_tensor_is_the_same_on_the_device_and_on_the_host(job: Any) -> None:
    host, device = (lines(job, f"kinds-{place}", "call") for place in ("host", "device"))

    for name, one, other in zip(job[1]["kinds"]["names"], host, device, strict=True):
        members = [key for key in one if key.partition("_")[0] in {"in", "out", "stats", "finite", "shapes", "dtypes"}]
        assert {"in", "out", "finite_in", "finite_out", "stats_in", "stats_out"} <= set(members), name
        assert {key: one[key] for key in members} == {key: other.get(key) for key in members}, name
        assert (other["mode"], other["shortfall"]) == ("full", []), name
    not_finite = [name for name, line in zip(job[1]["kinds"]["names"], device, strict=True) if not line["finite_in"]]
    assert not_finite == ["nan", "infinite", "nan8"]


def test_the_host_never_waits_for_the_device(job: Any) -> None:
    assert job[1]["kinds"]["waits"] == {"host": 0, "device": 0}
    assert job[1]["late"]["waits"] == 0


@pytest.mark.parametrize("first", ["training", "backend", "copies", "nobody"])
def test_whichever_stream_runs_ahead_inputs_are_those_before_and_outputs_those_after_the_call(
    job: Any, first: str
) -> None:
    values = [float(at) for at in range(6)]

    for line in lines(job, f"order-{first}", "call"):
        assert line["in"] == digest(values)
        assert line["out"] == digest([2 * value for value in values])
        assert (line["mode"], line["shortfall"]) == ("full", [])
        values = [2 * value + 1 for value in values]

    assert job[1]["order"][first] == values


def test_what_has_not_come_at_the_end_of_a_step_is_read_at_the_end_of_a_later_one_and_stands_in_its_place(
    job: Any,
) -> None:
    assert job[1]["late"]["seen"] == [[0, 0], [0, 0], [2, 1], [2, 1]]
    found = lines(job, "late", "call", "step")
    assert [(line["t"], line["step"]) for line in found] == [
        ("call", 0), ("step", 0), ("step", 1), ("call", 2), ("step", 2), ("step", 3),
    ]  # fmt: skip
    assert found[0]["out"] != found[3]["out"]
    assert [line.get("finite_out") for line in found if line["t"] == "call"] == [False, True]


def test_what_waits_for_the_device_keeps_no_tensor_of_training_alive(job: Any) -> None:
    assert job[1]["late"]["is_kept"] is False


def test_a_flag_that_comes_late_escalates_the_group_when_it_comes(job: Any) -> None:
    opened, closed = lines(job, "late", "escalation")

    assert (opened["event"], opened["trigger"], opened["scope"]) == ("opened", "non-finite", "group:0@0")
    assert (opened["opened_step"], closed["event"]) == (2, "closed")


def test_what_the_ring_holds_of_a_device_is_written_when_its_group_escalates(job: Any) -> None:
    first, second, *late = lines(job, "ring", "call")

    assert [line["shortfall"] for line in (first, second)] == [["byte-budget"], ["byte-budget"]]
    assert [line["late"] for line in late] == [True, True]
    assert (late[0]["in"], late[0]["out"]) == (digest([1.0, 2.0]), digest([2.0, 4.0]))
    assert job[1]["ring"] == {"clones": 0, "ring": 0}


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        pytest.param(0, "clone-budget", id="more than the clones may have"),
        pytest.param(1, "clone-budget", id="more than the device has left"),
        pytest.param(2, "no-tensor-access", id="part of a graph"),
        pytest.param(3, "no-tensor-access", id="outputs of a call that is not waited for"),
        pytest.param(4, "no-tensor-access", id="received, may be launched later with others"),
    ],
)
def test_what_cannot_be_read_for_certain_is_a_shortfall_and_no_fault(job: Any, at: int, reason: str) -> None:
    line = lines(job, "limits", "call")[at]

    assert (line["mode"], line["shortfall"]) == ("validation", [reason])
    assert "out" not in line
    assert lines(job, "limits", "fault") == []
    assert job[1]["limits"]["clones"] == 0


def test_the_input_of_a_call_that_is_not_waited_for_is_read_all_the_same(job: Any) -> None:
    line = lines(job, "limits", "call")[3]

    assert (line["in"], line["finite_in"]) == (digest([1.0, 1.0]), True)
    assert "finite_out" not in line


def test_at_the_end_a_copy_that_never_comes_is_let_go_with_a_shortfall(job: Any) -> None:
    (line,) = lines(job, "end", "call")

    assert (line["mode"], line["shortfall"]) == ("validation", ["no-tensor-access"])
    assert job[1]["end"]["clones"] == 0


def test_what_a_bucket_of_ddp_got_is_read_when_the_backward_pass_ends(job: Any) -> None:
    line, overwritten = lines(job, "backward", "call")

    assert job[1]["backward"]["seen"] == [0, 2]
    assert (line["in"], line["out"]) == (digest([0.0, 1.0, 2.0, 3.0]), digest([0.0, 2.0, 4.0, 6.0]))
    assert line["shortfall"] == []
    assert overwritten["in"] == line["in"]
    assert "out" not in overwritten
    assert overwritten["shortfall"] == ["no-tensor-access"]


def test_whatever_fails_on_the_device_training_computes_the_same_and_the_gap_has_its_reason(job: Any) -> None:
    at_rest = {
        "Device.abandon", "Devices.warm_up", "Devices._find", "devices._accelerator", "Arrivals.deepen",
        "Arrivals.left", "Arrival.give_up",
    }  # fmt: skip
    not_waited_for = {"Arrivals.come", "stream_order.is_on_device", "stream_order.is_capturing"}

    assert at_rest | not_waited_for < set(job[1]["faults"])
    for name, found in job[1]["faults"].items():
        assert found["values"] == [0.0, 4.0, 8.0], name
        reason = "no-tensor-access" if name in not_waited_for else "capture-fault"
        for mode, shortfall in found["lines"]:
            assert (mode == "full") == (shortfall == []) == (name in at_rest), name
            assert name in at_rest or reason in shortfall, name
        assert len(found["lines"]) == 2, name


def test_a_job_that_tells_of_no_steps_gets_the_memory_of_its_clones_back(job: Any) -> None:
    modes = job[1]["stepless"]["modes"]

    assert len(modes) == 5
    assert modes.count("full") >= 2


def test_the_states_of_the_generators_of_the_device_are_kept_and_restored(job: Any) -> None:
    assert job[1]["generators"] == {"names": ["numpy", "python", "standin:0", "torch"], "seed": 7}


def test_groups_that_gather_calls_are_seen_as_long_as_they_do(job: Any) -> None:
    assert job[1]["coalesced"] == {"covered": [False, True, False], "is_restored": True}
