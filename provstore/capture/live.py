"""A real job to look at: gloo processes on this machine, one fault, the dumps they leave (``demo --live``)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from provstore.capture.torch_library import load_torch
from provstore.errors import ConfigError

TRAINING_SCRIPT = Path(__file__).with_name("live_train.py")
STALL_SECONDS = 2.5
GROUP_TIMEOUT_SECONDS = 20
RECORDED = frozenset({"corrupt"})
"""Faults that only the content of tensors tells: the job is recorded."""
CAPTURE = "capture"
"""Folder beside the dumps that takes the recording."""
_COMPUTE_SECONDS = 0.1
_SETTLE_SECONDS = 1.0
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault the live job can have."""

    name: str
    says: str
    """What the faulty rank does, in one line."""
    op: str | None
    """The collective in which it shows, at the faulty rank's step."""
    group: str | None
    """Description of that collective's group."""
    ends: bool
    """Whether the job runs to its end in spite of the fault."""


FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("none", "nothing: a healthy job", None, None, True),
        Fault("stuck", "stays on the CPU before its all_reduce", "all_reduce", "default_pg", False),
        Fault("skip", "leaves out one all_reduce", "all_reduce", "default_pg", False),
        Fault("mismatch-op", "calls broadcast where the others call all_reduce", "all_reduce", "default_pg", False),
        Fault("mismatch-size", "passes twice as many elements to all_reduce", "all_reduce", "default_pg", False),
        Fault("order-deadlock", "calls two groups in the other order", "all_reduce", "pair", False),
        Fault("slow", "is late at every step", "all_reduce", "default_pg", True),
        Fault("nan", "puts a NaN into its gradient", "all_reduce", "default_pg", True),
        Fault("corrupt", "puts a gradient a million times too large in", "all_reduce", "default_pg", True),
        Fault("dead", "is killed before its all_reduce, without a dump", "all_reduce", "default_pg", False),
    )
}


@dataclass(frozen=True, slots=True)
class Truth:
    """What was built in, to hold a diagnosis against."""

    fault: Fault
    rank: int | None
    """The faulty rank; ``None`` in a healthy job."""
    step: int | None
    """The training step of the fault, counted from 0; ``None`` when it is at every step or there is none."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """What one live job left behind."""

    directory: Path
    ranks: int
    truth: Truth
    seconds: float
    exit_codes: tuple[int, ...]
    """By rank; negative is the signal that ended the process, −9 also for those ended by us after their dump."""
    log: str
    """What the processes printed, each line led by its rank."""
    capture: Path | None = None
    """What was recorded of it; ``None`` where it was not."""


def run_job(
    directory: Path,
    fault: str,
    ranks: int = 4,
    timeout: float = 60.0,
    *,
    seed: int | None = None,
    launcher: Sequence[str] | None = None,
) -> JobResult:
    """Run a small training job with a fault and return when its dumps are there; no process outlives the call.

    Args:
        directory: Empty or new; the dumps go there.
        fault: A key of ``FAULTS``.
        ranks: How many processes.
        timeout: Seconds after which every process is ended, whatever it left.
        seed: Chooses the faulty rank and the step; ``None`` draws them.
        launcher: Command that runs the training script, to which each process' plan is added as last argument.

    Raises:
        ConfigError: torch is not installed, the fault is unknown, there are fewer than two ranks, or the directory is
            not empty.
    """
    load_torch()
    truth = _draw(fault, ranks, random.Random(seed))  # noqa: S311  a choice of rank, no secret
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise ConfigError(f"{directory}: not empty: the live job needs a new directory")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="provstore-live-") as scratch:
        plans = [_plan(rank, ranks, truth, directory, Path(scratch)) for rank in range(ranks)]
        processes = _launch(plans, launcher or (sys.executable, "-P", str(TRAINING_SCRIPT)), Path(scratch))
        try:
            _wait(processes, truth, directory, began + timeout)
        finally:
            codes = _end(processes)
        log = _log_of(Path(scratch), ranks)
    capture = directory / CAPTURE if fault in RECORDED else None
    return JobResult(directory, ranks, truth, time.monotonic() - began, codes, log, capture)


def _draw(fault: str, ranks: int, chance: random.Random) -> Truth:
    if fault not in FAULTS:
        raise ConfigError(f"{fault}: fault of the live job: not known; known are {', '.join(FAULTS)}")
    if ranks < 2:
        raise ConfigError(f"{ranks}: ranks of the live job: at least 2 are needed")
    rank, step = chance.randrange(ranks), chance.randrange(2, 6)
    if fault == "none":
        return Truth(FAULTS[fault], None, None)
    return Truth(FAULTS[fault], rank, None if fault == "slow" else step)


def _plan(rank: int, ranks: int, truth: Truth, directory: Path, scratch: Path) -> dict[str, object]:
    """Return what one process is told; ``live_train.py`` reads it."""
    return {
        "rank": rank,
        "ranks": ranks,
        "fault": truth.fault.name,
        "faulty_rank": truth.rank,
        "fault_step": truth.step,
        "steps": 14 if truth.fault.name == "slow" else 8,
        "slow_seconds": 0.12,
        "tensors": truth.fault.name == "nan",
        "capture": str(directory.absolute() / CAPTURE) if truth.fault.name in RECORDED else None,
        "compute_seconds": _COMPUTE_SECONDS if truth.fault.name in RECORDED else 0.0,
        "directory": str(directory.absolute()),
        "store": str(scratch / "store"),
        "stall_seconds": STALL_SECONDS,
        "group_timeout_seconds": GROUP_TIMEOUT_SECONDS,
        "run": f"live-{truth.fault.name}",
    }


def _launch(
    plans: Sequence[Mapping[str, object]], launcher: Sequence[str], scratch: Path
) -> list[subprocess.Popen[bytes]]:
    package_parent = str(Path(__file__).parents[2])
    inherited = os.environ.get("PYTHONPATH")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("TORCH_", "TORCHELASTIC_"))
    }
    environment |= {
        "PYTHONPATH": os.pathsep.join(filter(None, (package_parent, inherited))),
        "TORCH_FR_BUFFER_SIZE": "2000",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    processes = []
    for rank, plan in enumerate(plans):
        with (scratch / f"log_{rank}").open("wb") as log:
            command = [*launcher, json.dumps(plan)]
            processes.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    cwd=scratch,
                )
            )
    return processes


def _wait(processes: Sequence[subprocess.Popen[bytes]], truth: Truth, directory: Path, deadline: float) -> None:
    """Wait until all processes ended or, when the fault stops the job, until those that can have dumped."""
    while time.monotonic() < deadline:
        running = [rank for rank, process in enumerate(processes) if process.poll() is None]
        if not running:
            return
        if not truth.fault.ends and _have_settled(directory, running):
            return
        time.sleep(_LOOK_SECONDS)


def _have_settled(directory: Path, ranks: Sequence[int]) -> bool:
    """Whether each rank's sidecar, which it writes last, is there and has not changed for a moment."""
    try:
        written = [(directory / f"fr_meta_rank_{rank}.json").stat().st_mtime for rank in ranks]
    except FileNotFoundError:
        return False
    return time.time() - max(written) >= _SETTLE_SECONDS


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> tuple[int, ...]:
    for process in processes:
        if process.poll() is None:
            process.kill()
    return tuple(process.wait() for process in processes)


def _log_of(scratch: Path, ranks: int) -> str:
    lines = []
    for rank in range(ranks):
        text = (scratch / f"log_{rank}").read_text("utf-8", "replace")
        lines += [f"rank {rank}: {line}" for line in text.splitlines()]
    return "\n".join(lines)
