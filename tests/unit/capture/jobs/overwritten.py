"""Outputs that whoever waited for them overwrites at once, while other threads wait long for their turn.

The name of the run is the way to wait; in step s, rank r puts in SIZE times s + 1 + 10 r.
"""

import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import provstore.capture
from provstore.capture.content.limits import Limits

warnings.simplefilter("ignore")
rank, ranks, store, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
SIZE, STEPS, OTHER = 50_000, 12, 77.0


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(SIZE))

    def forward(self, slope: float) -> torch.Tensor:
        return (self.weight * slope).sum()


def run(way: str) -> None:
    model = DistributedDataParallel(Net(), gradient_as_bucket_view=way == "view") if way in {"ddp", "view"} else None
    limits = Limits(steady_share=1e6, escalated_share=1e6, reserve_bytes=0, reserve_share=0.0)
    with provstore.capture.evidence(way, out / way, limits=limits) as recorder:
        for step in range(STEPS):
            slope = step + 1.0 + 10 * rank
            given, got = torch.full((SIZE,), slope), torch.zeros(SIZE // ranks)
            if model is not None:
                model.zero_grad(set_to_none=way == "ddp")
                model(slope * ranks).backward()  # the reducer divides by the number of ranks
            elif way == "future":
                dist.all_reduce(given, async_op=True).get_future().wait()
                given.fill_(OTHER)
            elif way == "numpy":
                # A view of the same memory, whose writes no tensor counts.
                dist.all_reduce(given, async_op=True).get_future().wait()
                given.numpy().fill(OTHER)
            elif way == "work":
                dist.all_reduce(given, async_op=True).wait()
                given.fill_(OTHER)
            elif way == "scattered":
                dist.reduce_scatter_tensor(got, given, async_op=True).wait()
                got.fill_(OTHER)
            else:
                dist.all_reduce(given)
                given.fill_(OTHER)
            recorder.step(step)


sys.setswitchinterval(0.2)
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
for name in sys.argv[5:]:
    run(name)
dist.destroy_process_group()
