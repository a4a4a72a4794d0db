"""Real jobs for the capture tests: started once a session, each in processes of its own, because torch loads slowly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.torch_jobs import needs_hooks, torch_release

__all__ = ["needs_hooks", "torch_release"]

JOBS = Path(__file__).with_name("jobs")
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Finished:
    """What one job left: its folder and, by rank, exit code and output."""

    out: Path
    codes: list[int]
    texts: list[str]


WAYS = {
    "asked": "a test asked",
    "stall": "nothing moved for 0.",
    "trigger": "trigger file",
    "exit": "exit",
    "block": "exception: LookupError: left the block",
    "twice": "thread ",
    "uncaught": "exception: ArithmeticError: nobody catches this",
}
"""Folder of a way to a dump → how the reason in the sidecar begins."""
RECORDER_OFF = {"TORCH_FR_BUFFER_SIZE": "0", "TORCH_INCLUDE_STACK_TRACE": "0"}


def run_job(
    name: str, out: Path, *arguments: str, ranks: int = 2, settings: Mapping[str, str] | None = None
) -> Finished:
    if torch_release() == (0, 0):
        pytest.skip("torch is not installed: pip install 'provstore[capture]'")
    out.mkdir(parents=True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TORCH")}
    environment |= {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "TORCH_FR_BUFFER_SIZE": "2000",
        **(settings or {}),
    }
    command = [sys.executable, "-P", str(JOBS / f"{name}.py")]
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(ranks), str(out.parent / f"{out.name}_store"), str(out), *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        texts = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return Finished(out, [process.returncode for process in processes], texts)


def captured(folder: Path, rank: int) -> list[dict[str, Any]]:
    """Return the lines of a rank's file; one that was written before its step ended has it from the step's own line."""
    lines = [json.loads(line) for line in (folder / f"capture-rank{rank}.jsonl").read_text().splitlines()]
    ends = [(line["ordinals"], line["step"]) for line in lines if line["t"] == "step" and "ordinals" in line]
    for line in lines:
        if "ordinal" in line and "step" not in line:
            line["step"] = next((step for (first, last), step in ends if first <= line["ordinal"] <= last), None)
    return lines


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_job("scenes", tmp_path_factory.mktemp("capture") / "scenes")


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_job("training", tmp_path_factory.mktemp("capture") / "watched", "watched")


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_job("training", tmp_path_factory.mktemp("capture") / "bare", "bare")


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Finished]:
    """Run one process in the named scene."""

    def run(scene: str) -> Finished:
        settings = RECORDER_OFF if scene == "off" else {}
        return run_job("alone", tmp_path_factory.mktemp("capture") / scene, scene, ranks=1, settings=settings)

    return run
