"""Every form of a collective that takes lists, or several tensors at once, recorded with its bytes."""

import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist

import provstore.capture
from provstore.capture.content.limits import Limits

warnings.simplefilter("ignore")
rank, ranks, store, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
if sys.argv[5:] == ["wrapped"]:
    # As in a torch that has no hooks on collectives.
    del dist.ProcessGroup.register_pre_hook
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
limits = Limits(steady_share=1e6, escalated_share=1e6, reserve_bytes=0, reserve_share=0.0)


def parts(first: float = 0.0) -> list[torch.Tensor]:
    """Of each rank to each rank another number, and one element more."""
    return [torch.full((2 + to,), first + 10.0 * rank + to) for to in range(ranks)]


def gathered(size: int) -> list[torch.Tensor]:
    return [torch.empty(size) for _ in range(ranks)]


with provstore.capture.evidence("job", out, mode_floor="full", limits=limits) as recorder:
    dist.reduce_scatter(torch.empty(2 + rank), parts())
    dist.all_gather(gathered(3), torch.full((3,), 1.0 + rank))
    dist.all_to_all(gathered(2), [one[:2] for one in parts(100.0)])
    dist.scatter(torch.empty(2), [torch.full((2,), 7.0 + to) for to in range(ranks)] if rank == 0 else None, 0)
    dist.gather(torch.full((2,), 20.0 + rank), gathered(2) if rank == 0 else None, 0)
    dist.all_reduce_coalesced([torch.full((3,), 1.0 + rank), torch.full((2,), 5.0 + rank)])
    lists = [[torch.empty(1), torch.empty(2)] for _ in range(ranks)]
    dist.all_gather_coalesced(lists, [torch.full((1,), 30.0 + rank), torch.full((2,), 40.0 + rank)])
    with dist._coalescing_manager():
        dist.all_gather_into_tensor(torch.empty(ranks), torch.full((1,), 50.0 + rank))
        dist.all_gather_into_tensor(torch.empty(2 * ranks), torch.full((2,), 60.0 + rank))
    with dist._coalescing_manager():
        dist.reduce_scatter_tensor(torch.empty(1), torch.arange(float(ranks)))
        dist.reduce_scatter_tensor(torch.empty(2), torch.arange(2.0 * ranks))
    recorder.step(0)
    (out / f"open{rank}").write_text(str(len(recorder._session._calls._under_way)))
dist.destroy_process_group()
