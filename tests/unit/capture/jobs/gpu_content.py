"""One process, one GPU, NCCL: a small model trained with and without recording, and calls on tensors of the GPU."""

import hashlib
import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import provstore.capture
from provstore.capture.content.digest import tensor_digest
from provstore.capture.content.limits import Limits

OUT = Path(sys.argv[4])
LIMITS = Limits(steady_share=1e6, escalated_share=1e6, reserve_bytes=0, reserve_share=0.0)

torch.cuda.set_device(0)
dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda", 0))
dist.all_reduce(torch.ones(4, device="cuda"))
torch.cuda.synchronize()


def trained(recorder: provstore.capture.Recorder) -> str:
    """Train a few steps without any wait for the device in them; return a digest of parameters and generators."""
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.2), torch.nn.Linear(64, 8)).cuda()
    model = DistributedDataParallel(net, bucket_cap_mb=0.01)
    recorder.gradients(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    recorder.begin_epoch(0)
    for step in range(6):
        # The first steps load kernels and take memory, which may wait.
        torch.cuda.set_sync_debug_mode("error" if step > 2 else "default")
        optimizer.zero_grad()
        model(torch.randn(16, 64, device="cuda")).square().mean().backward()
        optimizer.step()
        reduced = torch.arange(6.0, device="cuda") * (step + 1)
        dist.all_reduce(reduced)
        reduced.add_(1)
        torch.cuda.set_sync_debug_mode("default")
        recorder.step(step, loss=1.0)
    recorder.close()
    found = hashlib.sha256(torch.cuda.get_rng_state().numpy().tobytes())
    for parameter in model.parameters():
        found.update(tensor_digest(torch, parameter).encode())
    return found.hexdigest()


bare = [trained(provstore.capture.evidence("bare", enabled=False)) for _ in range(2)]
recorded = trained(provstore.capture.evidence("run", OUT / "recorded", mode_floor="full", limits=LIMITS))
expected = [tensor_digest(torch, torch.arange(6.0) * (step + 1)) for step in range(6)]
OUT.mkdir(exist_ok=True)
(OUT / "result.json").write_text(json.dumps({"bare": bare, "recorded": recorded, "expected": expected}))
dist.destroy_process_group()
