"""A deterministic training of forked gloo ranks that is recorded; it can begin at an epoch from a checkpoint.

Usage: replay_job.py FOLDER RUN [--from EPOCH CHECKPOINT RNG0 RNG1 …] [--skip EPOCH:BATCH] [--floor MODE] [--seed N]
Several runs, one after the other, are told apart by ``+``.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from pathlib import Path

import torch
import torch.distributed as dist

from provstore import capture
from provstore.capture.content.limits import Limits
from provstore.capture.recording.rng_states import restore_rng

WORLD, EPOCHS, BATCHES, SIZE = 2, 3, 4, 8


class Order:
    """How the samples of an epoch are ordered, stated as samplers of torch state it."""

    def __init__(self, epoch: int, rank: int) -> None:
        self.seed, self.epoch, self.num_replicas, self.rank = 100, epoch, WORLD, rank
        self.shuffle, self.batch_size = True, SIZE


def batch_ids(epoch: int, batch: int, rank: int) -> list[int]:
    """Return the ids of the samples of one batch: a permutation by epoch, split by rank."""
    order = torch.randperm(BATCHES * SIZE * WORLD, generator=torch.Generator().manual_seed(100 + epoch)).tolist()
    mine = order[rank::WORLD]
    return mine[batch * SIZE : (batch + 1) * SIZE]


def samples(ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and targets that depend on nothing but the ids."""
    grid = torch.tensor(ids, dtype=torch.float32)[:, None]
    x = torch.cat([torch.sin(grid * k) for k in range(1, 7)], dim=1)
    return x, torch.cos(grid)


def train(given: argparse.Namespace, rank: int) -> None:
    """Train and record one rank."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    store = given.folder / f"{given.run}.store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    torch.manual_seed(given.seed + rank)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Dropout(0.25), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    start, limits = 0, Limits(steady_share=1e6, escalated_share=1e6)
    with capture.evidence(given.run, given.folder / given.run, mode_floor=given.floor, limits=limits) as recorder:
        if given.start:
            start = int(given.start[0])
            model.load_state_dict(torch.load(given.start[1], weights_only=True))
        else:
            for parameter in model.parameters():
                dist.broadcast(parameter.data, 0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if given.start:
            restore_rng(Path(given.start[2 + rank]).read_bytes(), torch)
        for epoch in range(start, EPOCHS):
            recorder.begin_epoch(epoch)
            one_epoch(given, rank, epoch, model, optimizer, recorder)
    dist.barrier()
    dist.destroy_process_group()


def one_epoch(given, rank, epoch, model, optimizer, recorder) -> None:
    """Run one epoch and save a checkpoint at its end."""
    recorder.sampler(Order(epoch, rank), dataset="sines@1")
    for batch in range(BATCHES):
        step, ids = epoch * BATCHES + batch, batch_ids(epoch, batch, rank)
        if f"{epoch}:{batch}" in given.skip:
            recorder.data(ids, skipped="asked for")
            continue
        recorder.data(ids)
        x, y = samples(ids)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= WORLD
        optimizer.step()
        recorder.step(step, loss=loss.detach(), parameters=model)
    path = given.folder / f"{given.run}-{epoch}.pt"
    if rank == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()
    recorder.checkpoint(path, model.state_dict())


def arguments(words: list[str]) -> argparse.Namespace:
    """Return what is asked of one run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("run")
    parser.add_argument("--from", dest="start", nargs="+")
    parser.add_argument("--skip", action="append", default=[])
    parser.add_argument("--floor", default="validation")
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args(words)


def launch(given: argparse.Namespace) -> int:
    """Fork the ranks of one run: torch is loaded once for all."""
    children = []
    for rank in range(WORLD):
        child = os.fork()
        if child == 0:
            try:
                train(given, rank)
                os._exit(0)
            except BaseException:  # noqa: BLE001 - a forked rank must not go on as its parent
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


def main() -> int:
    """Run all runs."""
    runs: list[list[str]] = [[]]
    for word in sys.argv[1:]:
        if word == "+":
            runs.append([])
        else:
            runs[-1].append(word)
    return max(launch(arguments(words)) for words in runs)


if __name__ == "__main__":
    sys.exit(main())
