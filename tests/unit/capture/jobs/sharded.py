"""Two ranks hold a model under FSDP2: its parameters, and their gradients, are DTensors of which each has a shard."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import provstore.capture

rank, ranks, store, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
dist.init_process_group("gloo", store=dist.FileStore(store, ranks), rank=rank, world_size=ranks)
torch.manual_seed(1)
model = torch.nn.Linear(6, 4)
fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
with provstore.capture.evidence("job", out, mode_floor="full") as recorder:
    recorder.gradients(model)
    recorder.begin_epoch(0)
    for step in range(2):
        model(torch.ones(2, 6)).square().mean().backward()
        model.zero_grad()
        recorder.step(step)
dist.destroy_process_group()
