"""A DDP model of equal parameters, each with a constant gradient of its own: what a bucket holds tells whose it is."""

import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import provstore.capture
from provstore.capture.content.limits import Limits

warnings.simplefilter("ignore")
rank, ranks, store, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
OPTIONS: dict[str, dict[str, Any]] = {
    "view": {"gradient_as_bucket_view": True},
    "static": {"static_graph": True},
    "unused": {"find_unused_parameters": True},
}
COUNT, STEPS = 10, 6


class Net(torch.nn.Module):
    """Uses its parameters in an order that is not the one in which it has them."""

    def __init__(self, order: list[int]) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(10)) for _ in range(COUNT)])
        self.order = order

    def forward(self, scale: float) -> torch.Tensor:
        total = torch.zeros(())
        for at in self.order:
            total = total + (self.weights[at] * (at + 1.0)).sum() * scale
        return total


def passed(model: Any, step: int) -> None:
    model(step + 1.0).backward()


def backward(model: Any, step: int, *, accumulates: bool) -> None:
    if accumulates:
        with model.no_sync():
            passed(model, step)
    passed(model, step)


def run(way: str) -> None:
    # Rank 0 decides in which order the new buckets are; the other has its gradients ready in another one.
    order = [3, 7, 0, 9, 1, 8, 4, 2, 6, 5] if rank == 0 else [2, 9, 5, 3, 1, 0, 7, 8, 6, 4]
    models = [
        DistributedDataParallel(Net(order), bucket_cap_mb=0.0001, **OPTIONS.get(way, {}))
        for _ in range(2 if way == "twins" else 1)
    ]
    limits = Limits(steady_share=1e6, escalated_share=1e6, reserve_bytes=0, reserve_share=0.0)
    if way in {"late", "between"}:
        passed(models[0], 0)
    total = models[0](1.0) if way == "between" else None
    with provstore.capture.evidence("job", out / way, mode_floor="full", limits=limits) as recorder:
        for model in models:
            recorder.gradients(model)
        for step in range(STEPS):
            for model in models:
                model.zero_grad()
            if way == "plain":
                # As long as an announcement of buckets, and none.
                dist.broadcast(torch.full((COUNT + 1,), 3, dtype=torch.int32), 0)
            if total is not None and step == 0:
                total.backward()
            else:
                for model in models:
                    backward(model, step, accumulates=way == "accumulated")
            recorder.step(step)


dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
for name in sys.argv[5:]:
    run(name)
dist.destroy_process_group()
