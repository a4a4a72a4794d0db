#!/usr/bin/env python3
"""Recording a training loop on gloo: processor time and step time, beside the same loop unrecorded.

``--job ddp`` is a data-parallel loop; ``--job small`` makes many calls of 4 KiB in short steps: all_reduce, and the
gathering and scattering of sharded training; ``--job parameters`` records the gradients of 200 small parameters.

Each rank is a forked process with one thread. Blocks of steps take turns: off, on, off. The two unrecorded blocks of a
round give the A/A band, the noise of this host; the recorded one is held against their mean. Processor time is that of
the whole process, the recorder's own thread included. The bar is for the defaults; gradients are recorded when asked.

What recording may take is a share of the time of a step: on a host whose processors are busy with other things a step
takes longer than its processor time, and so may recording. Run it on an idle host.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import provstore.capture  # noqa: E402  found beside this script

BAR = 1.05
LEAST_STEP_SECONDS = 0.1
WARM_UP_STEPS = 3
DEFAULT = "calls"
SMALL_ELEMENTS = 1024
MANY = "many small ones"
WAYS = {"ddp": (DEFAULT, "calls and gradients"), "small": (MANY,), "parameters": ("calls and gradients",)}


class Ddp:
    """A model wrapped by DDP."""

    def __init__(self, options: argparse.Namespace, layers: list[torch.nn.Module], width: int) -> None:
        self.model = DistributedDataParallel(torch.nn.Sequential(*layers))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.batch = torch.randn(options.batch, width)

    def step(self) -> torch.Tensor:
        """Take a step; return its loss."""
        self.optimizer.zero_grad()
        loss = self.model(self.batch).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss


class SmallCalls:
    """Work of some length, and as many small calls as are asked for."""

    model = None

    def __init__(self, options: argparse.Namespace) -> None:
        ranks = dist.get_world_size()
        self.factor = torch.randn(512, 512) / 512**0.5
        self.products = options.products
        self.parts = [torch.randn(SMALL_ELEMENTS) for _ in range(options.calls // 3)]
        self.wholes = [torch.zeros(SMALL_ELEMENTS * ranks) for _ in self.parts]

    def step(self) -> torch.Tensor:
        """Take a step; return something like a loss."""
        found = self.factor
        for _ in range(self.products):
            found = found @ self.factor
        for part, whole in zip(self.parts, self.wholes):
            dist.all_reduce(part, dist.ReduceOp.MAX)
            dist.all_gather_into_tensor(whole, part)
            dist.reduce_scatter_tensor(part, whole, dist.ReduceOp.MAX)
        return found.mean()


def job_of(options: argparse.Namespace) -> Ddp | SmallCalls:
    """Return what one rank trains."""
    torch.manual_seed(1)
    width = options.width
    if options.job == "small":
        return SmallCalls(options)
    if options.job == "parameters":
        # Small layers, and a wide batch to give their steps a length.
        return Ddp(options, [torch.nn.Linear(64, 64) for _ in range(100)], 64)
    return Ddp(
        options,
        [layer for _ in range(options.layers) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())],
        width,
    )


class Loop:
    """One rank's training loop, whose recorder can be silenced between blocks."""

    def __init__(self, options: argparse.Namespace, folder: Path, *, gradients: bool) -> None:
        self.job = job_of(options)
        self.recorder = provstore.capture.evidence("bench", folder)
        if gradients:
            self.recorder.gradients(self.job.model)
        self.recorder.begin_epoch(0)
        self.step = 0

    def silence(self, is_silent: bool) -> None:
        """Let hooks and calls of the recorder do nothing, as in a forked child."""
        self.recorder._session.guard.is_off = is_silent  # noqa: SLF001  users have no reason to do this

    def block(self, steps: int, *, is_on: bool) -> tuple[float, float]:
        """Take steps; return (processor seconds a step, median seconds of a step) without the first of them."""
        self.silence(not is_on)
        seconds, began_cpu = [], 0.0
        for at in range(steps + WARM_UP_STEPS):
            if at == WARM_UP_STEPS:
                began_cpu = time.process_time()
            began = time.perf_counter()
            self.recorder.step(self.step, loss=self.job.step())
            self.step += is_on
            seconds.append(time.perf_counter() - began)
        return (time.process_time() - began_cpu) / steps, statistics.median(seconds[WARM_UP_STEPS:])


def measure(options: argparse.Namespace, folder: Path, *, gradients: bool) -> list[dict[str, tuple[float, float]]]:
    """Return the figures of each block of each round."""
    loop = Loop(options, folder, gradients=gradients)
    loop.block(options.steps, is_on=True)
    rounds = []
    for _ in range(options.rounds):
        names = {"off": False, "on": True, "again": False}
        rounds.append({name: loop.block(options.steps, is_on=is_on) for name, is_on in names.items()})
    loop.silence(False)
    loop.recorder.close()
    return rounds


def work(rank: int, options: argparse.Namespace, folder: Path) -> None:
    """Be one rank: measure each way and leave the figures."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=options.ranks,
        timeout=timedelta(seconds=600),
    )  # fmt: skip
    found = {
        name: measure(options, folder / name, gradients=name == "calls and gradients") for name in WAYS[options.job]
    }
    (folder / f"figures{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()


def figures(rounds: list[dict[str, list[float]]], which: int) -> dict[str, float]:
    """Return medians over the rounds of all ranks: on over the mean of off, and off over off."""
    plain = [(one["off"][which] + one["again"][which]) / 2 for one in rounds]
    band = sorted(one["again"][which] / one["off"][which] for one in rounds)
    return {
        "plain": statistics.median(plain),
        "ratio": statistics.median(one["on"][which] / mean for one, mean in zip(rounds, plain)),
        "low": band[len(band) // 10],
        "high": band[-1 - len(band) // 10],
    }


def recorded(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of all ranks."""
    paths = folder.glob("capture-rank*.jsonl")
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]


def coverage(lines: list[dict[str, Any]]) -> str:
    """Return how many actions were recorded, and how many of them with all that was demanded."""
    calls = [line for line in lines if line["t"] in ("call", "tensor")]
    whole = sum(line["mode"] == line["policy"]["mode"] for line in calls)
    flags = sum("finite_out" in line or "finite" in line for line in calls)
    return f"{len(calls)} calls and gradients, {whole} as demanded, {flags} with finite flags"


def show(name: str, rounds: list[dict[str, list[float]]], folder: Path) -> bool:
    """Print a row and return whether the bar is held."""
    cpu, wall = figures(rounds, 0), figures(rounds, 1)
    lines = recorded(folder)
    print(f"{name}: step {1000 * wall['plain']:.0f} ms, {1000 * cpu['plain']:.0f} CPU ms; {coverage(lines)}")
    said = sorted({line["error"] for line in lines if line["t"] == "fault"})
    for text in said:
        print(f"  said by the recording: {text}")
    bar = f"  bar {BAR}" if name == DEFAULT else ""
    for what, found in (("CPU", cpu), ("wall", wall)):
        band = f"A/A {found['low']:.3f} to {found['high']:.3f}"
        print(f"  {what:<5}on / off {found['ratio']:.3f}  ({band}){bar}")
    if name == MANY:
        # More calls than can be seen within the bar are allowed where the recording says what it cost.
        return cpu["ratio"] <= BAR or bool(said)
    if wall["plain"] < LEAST_STEP_SECONDS:
        print(f"  steps are shorter than {1000 * LEAST_STEP_SECONDS:.0f} ms: take a larger --width or --batch")
        return False
    if name != DEFAULT:
        return True
    # Noise between equal blocks is no cost of recording.
    return all(found["ratio"] <= max(BAR, found["high"]) for found in (cpu, wall)) and cpu["ratio"] <= BAR


def main() -> int:
    """Measure and print; 1 when the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", choices=list(WAYS), default="ddp")
    parser.add_argument("--calls", type=int, default=120, help="of one step of --job small")
    parser.add_argument("--products", type=int, default=12, help="matrix products of one step of --job small")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=12, help="of one block, after its warm-up")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--batch", type=int, default=192)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="provstore-bench-") as scratch:
        folder = Path(scratch)
        children = []
        for rank in range(options.ranks):
            child = os.fork()
            if not child:
                try:
                    work(rank, options, folder)
                finally:
                    os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        found = [json.loads((folder / f"figures{rank}.json").read_text()) for rank in range(options.ranks)]
        held = [show(name, [one for rank in found for one in rank[name]], folder / name) for name in found[0]]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
