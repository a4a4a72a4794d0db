"""Groups that are made while a recorder runs: the first of all, another, and those of a second world."""

import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist

import provstore.capture

warnings.simplefilter("ignore")
rank, ranks, store, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(ranks)}


def begin(world: int) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}{world}", rank=rank, world_size=ranks)


def call(count: int, group: dist.ProcessGroup | None = None) -> None:
    for _ in range(count):
        dist.all_reduce(torch.ones(4), group=group)


with provstore.capture.evidence("before", out / "before") as recorder:
    begin(0)
    call(2)
    recorder.step(0)
with provstore.capture.evidence("made", out / "made") as recorder:
    call(3, dist.new_group(list(range(ranks))))
    recorder.step(0)
    dist.all_gather([torch.empty(1) for _ in range(ranks)], torch.ones(1), group=dist.new_group(list(range(ranks))))
    recorder.step(1)
with provstore.capture.evidence("again", out / "again") as recorder:
    call(1)
    recorder.step(0)
    dist.destroy_process_group()
    begin(1)
    call(2)
    call(1, dist.new_group(list(range(ranks))))
    recorder.step(1)
call(1)
dist.destroy_process_group()
