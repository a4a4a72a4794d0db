#!/usr/bin/env python3
"""Recording a data-parallel training loop on gloo: processor time and step time, beside the same loop unrecorded.

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


class Loop:
    """One rank's training loop, whose recorder can be silenced between blocks."""

    def __init__(self, options: argparse.Namespace, folder: Path, *, gradients: bool) -> None:
        torch.manual_seed(1)
        width = options.width
        layers = [layer for _ in range(options.layers) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())]
        self.model = DistributedDataParallel(torch.nn.Sequential(*layers))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.batch = torch.randn(options.batch, width)
        self.recorder = provstore.capture.evidence("bench", folder)
        if gradients:
            self.recorder.gradients(self.model)
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
            self.optimizer.zero_grad()
            loss = self.model(self.batch).square().mean()
            loss.backward()
            self.optimizer.step()
            self.recorder.step(self.step, loss=loss)
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
        name: measure(options, folder / name, gradients=name == "calls and gradients")
        for name in (DEFAULT, "calls and gradients")
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


def coverage(folder: Path) -> str:
    """Return how many calls were recorded, and how many of them with all that was demanded."""
    calls = [
        line
        for path in folder.glob("capture-rank*.jsonl")
        for line in map(json.loads, path.read_text(encoding="utf-8").splitlines())
        if line["t"] == "call"
    ]
    whole = sum(line["mode"] == line["policy"]["mode"] for line in calls)
    flags = sum("finite_out" in line for line in calls)
    return f"{len(calls)} calls, {whole} as demanded, {flags} with finite flags"


def show(name: str, rounds: list[dict[str, list[float]]], folder: Path) -> bool:
    """Print a row and return whether the bar is held."""
    cpu, wall = figures(rounds, 0), figures(rounds, 1)
    print(f"{name}: step {1000 * wall['plain']:.0f} ms, {1000 * cpu['plain']:.0f} CPU ms; {coverage(folder)}")
    bar = f"  bar {BAR}" if name == DEFAULT else ""
    for what, found in (("CPU", cpu), ("wall", wall)):
        band = f"A/A {found['low']:.3f} to {found['high']:.3f}"
        print(f"  {what:<5}on / off {found['ratio']:.3f}  ({band}){bar}")
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
