"""A NaN of one rank, whose memory goes through calls of several groups; then one in a gradient of DDP."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import provstore.capture
from provstore.capture.content.limits import Limits

rank, ranks, store, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
first, *groups = (dist.new_group(list(range(ranks)), group_desc=name) for name in ("first", "g1", "g2", "g3", "g4"))
limits = Limits(steady_share=1e6, escalated_share=1e6, reserve_bytes=0, reserve_share=0.0)
value, gathered = torch.ones(4), torch.ones(2 * ranks)


def through_groups() -> None:
    part = value[2:]
    dist.all_reduce(part, group=groups[0])
    if rank == 0:
        dist.send(part, 1, group=groups[0])
    else:
        dist.recv(torch.empty(2), 0, group=groups[0])
    dist.all_gather_into_tensor(gathered, part, group=groups[1])
    dist.all_reduce(gathered, group=groups[2])
    dist.all_reduce(gathered, group=groups[3])


with provstore.capture.evidence("job", out, limits=limits) as recorder:
    if rank == 1:
        value[0] = float("nan")
    dist.all_reduce(value, group=first)
    through_groups()
    recorder.step(0)
    through_groups()
    recorder.step(1)
    model = DistributedDataParallel(torch.nn.Linear(3, 2))
    recorder.gradients(model)
    for step in (2, 3, 4):
        model.zero_grad()
        loss = model(torch.ones(2, 3)).sum()
        (loss * float("nan") if (rank, step) == (1, 3) else loss).backward()
        recorder.step(step)
dist.destroy_process_group()
