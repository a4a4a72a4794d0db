"""Content of tensors on an NVIDIA GPU with NCCL, where there is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import needs_hooks, run_job

pytestmark = [
    needs_hooks,
    pytest.mark.skipif(
        not Path("/dev/nvidiactl").exists(), reason="no NVIDIA GPU on this machine: content on CUDA cannot be tested"
    ),
]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    done = run_job(
        "gpu_content", tmp_path_factory.mktemp("cuda") / "out", ranks=1, settings={"CUDA_VISIBLE_DEVICES": "0"}
    )
    assert done.codes == [0], done.texts
    return done.out


def lines(folder: Path, kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (folder / "recorded" / "capture-rank0.jsonl").read_text().splitlines()]
    return [line for line in found if line["t"] == kind]


def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return found


def test_on_a_gpu_parameters_and_generators_are_the_same_bits_with_and_without_recording(job: Path) -> None:
    found = result(job)

    assert {*found["bare"], found["recorded"]} == {found["bare"][0]}


def test_on_a_gpu_digests_are_those_of_the_same_values_on_the_host_before_and_after_the_call(job: Path) -> None:
    calls = [line for line in lines(job, "call") if line.get("shapes_in") == [[6]]]

    assert [line["in"] for line in calls] == result(job)["expected"]
    assert [line["out"] for line in calls] == result(job)["expected"], "one rank alone adds nothing"
    assert {(line["mode"], line["finite_in"], line["finite_out"]) for line in calls} == {("full", True, True)}


def test_on_a_gpu_what_the_buckets_of_ddp_got_is_read_and_nothing_fails(job: Path) -> None:
    buckets = [line for line in lines(job, "call") if line.get("carries") or line["op"] == "all_reduce"]

    assert any("out" in line for line in buckets if line.get("shapes_in") != [[6]])
    assert lines(job, "fault") == []


def test_on_a_gpu_each_gradient_has_its_digest(job: Path) -> None:
    gradients = lines(job, "tensor")

    assert gradients
    assert all("digest" in line and line["finite"] for line in gradients)
