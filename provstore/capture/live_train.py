"""A small data-parallel training loop on gloo with one fault built in: what ``demo --live`` runs in each process.

Run as a script, so that its lines stand in the dumps as a user's would. Arguments: one JSON object (``live.py``).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore, PrefixStore

import provstore.capture
from provstore.capture import tensors


def main() -> None:
    """Train, with the fault of the job's plan, and leave the dumps to the watcher."""
    plan = json.loads(sys.argv[1])
    rank, world_size = plan["rank"], plan["ranks"]
    torch.set_num_threads(1)
    store = PrefixStore("job", FileStore(plan["store"], world_size))
    wait_for_all(store, "loaded", rank, world_size)
    timeout = timedelta(seconds=plan["group_timeout_seconds"])
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=timeout)
    pair = make_pair(rank, world_size, timeout)
    with provstore.capture.watch(plan["directory"], plan["stall_seconds"], run=plan["run"], attempt=0) as watcher:
        wait_for_all(store, "watching", rank, world_size)
        if plan["tensors"]:
            tensors.record(plan["directory"])
        with provstore.capture.evidence(
            plan["run"], plan["capture"], attempt=0, mode_floor="full", enabled=plan["capture"] is not None
        ) as recorder:
            recorder.begin_epoch(0)
            train(plan, watcher, recorder, pair)
    dist.destroy_process_group()


def wait_for_all(store: Any, what: str, rank: int, world_size: int) -> None:
    """Return when every process is as far as this one: loading torch takes longer than a group's call may wait."""
    store.set(f"{what}/{rank}", "1")
    others = [f"{what}/{other}" for other in range(world_size)]
    store.wait(others, timedelta(seconds=120))


def make_pair(rank: int, world_size: int, timeout: timedelta) -> Any:
    """Return the group of this rank and its neighbour; all ranks make all groups, as torch asks."""
    firsts = range(0, world_size - 1, 2)
    groups = [dist.new_group([first, first + 1], timeout, group_desc="pair") for first in firsts]
    return groups[min(rank // 2, len(groups) - 1)]


def train(plan: dict[str, Any], watcher: provstore.capture.Watcher, recorder: Any, pair: Any) -> None:
    """Take the plan's steps; every rank draws other data and keeps equal parameters."""
    rank, fault = plan["rank"], plan["fault"]
    generator = torch.Generator().manual_seed(plan["rank"])
    weight = torch.zeros(64)
    dist.broadcast(weight, src=0)
    for step in range(plan["steps"]):
        watcher.beat()
        is_faulty = rank == plan["faulty_rank"] and step == plan["fault_step"]
        batch = torch.randn(16, 64, generator=generator)
        time.sleep(plan["compute_seconds"])
        if fault == "slow" and rank == plan["faulty_rank"]:
            time.sleep(plan["slow_seconds"])
        if is_faulty and fault == "stuck":
            read_a_file_that_never_comes()
        if is_faulty and fault == "dead":
            os.kill(os.getpid(), signal.SIGKILL)
        gradient = batch.mean(0) + 0.1 * weight
        if is_faulty and fault == "nan":
            gradient[3] = float("nan")
        if is_faulty and fault == "corrupt":
            gradient *= 1e6
        largest = gradient.max().reshape(1)
        if not (is_faulty and fault == "skip"):
            average(gradient, fault if is_faulty else "none")
        if is_faulty and fault == "order-deadlock":
            share_largest(largest, pair)
        gather_norms(gradient)
        if not (is_faulty and fault == "order-deadlock"):
            share_largest(largest, pair)
        weight -= 0.1 * gradient
        recorder.step(step)
    dist.barrier()


def average(gradient: torch.Tensor, fault: str) -> None:
    """Average a gradient over the ranks, or do what a wrong program would do in its place."""
    if fault == "mismatch-op":
        dist.broadcast(gradient, src=0)
    elif fault == "mismatch-size":
        dist.all_reduce(gradient.repeat(2))
    else:
        dist.all_reduce(gradient)
    gradient /= dist.get_world_size()


def share_largest(largest: torch.Tensor, pair: Any) -> None:
    """Let two neighbours know the larger of their largest entries."""
    dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=pair)


def gather_norms(gradient: torch.Tensor) -> None:
    """Show every rank the length of every rank's gradient."""
    norms = torch.empty(dist.get_world_size())
    dist.all_gather_into_tensor(norms, gradient.norm().reshape(1))


def read_a_file_that_never_comes() -> None:
    """Stay on the CPU, as a data loader with a dead disk does."""
    while True:
        time.sleep(1.0)


if __name__ == "__main__":
    main()
