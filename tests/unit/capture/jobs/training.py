"""A training loop that prints its parameters at the end; with ``watched`` as last argument, under the helper's eye."""

import contextlib
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import provstore.capture
from provstore.capture import tensors

rank, ranks, store, out, mode = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]), sys.argv[5]
torch.set_num_threads(1)
torch.manual_seed(7)
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
is_watched = mode == "watched"
with provstore.capture.watch(out, seconds=60) if is_watched else contextlib.nullcontext() as watcher:
    recorder = tensors.record(out) if is_watched else None
    model = DistributedDataParallel(torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(rank)
    for _ in range(5):
        if watcher:
            watcher.beat()
        optimizer.zero_grad()
        batch = torch.randn(8, 16, generator=data)
        model(batch).square().mean().backward()
        optimizer.step()
    late = dist.new_group(list(range(ranks)), group_desc="late")
    buffers = dist.new_group(list(range(ranks)), group_desc="buffers")
    dist.barrier()
    waiting = torch.tensor([1.0, float("nan") if rank == 1 else 2.0])
    dist.broadcast(waiting, 0, group=buffers)
    dist.reduce(torch.tensor([1.0, float("nan") if rank == 1 else 2.0]), 0, group=buffers)
    poisoned = torch.tensor([1.0, float("nan") if rank == 1 else 2.0, float("inf")])
    dist.all_reduce(poisoned, group=late)
    for source in (0, None):
        if rank == 0:
            dist.send(torch.ones(3), 1)
        else:
            dist.recv(torch.ones(3), source)
    both_ways = [dist.P2POp(call, torch.ones(2), 1 - rank) for call in (dist.isend, dist.irecv)]
    for work in dist.batch_isend_irecv(both_ways):
        work.wait()
    dist.monitored_barrier()
    dist.all_gather_object([None] * ranks, {"rank": rank})
    dist.reduce(torch.ones(2), 0)
    dist.gather(torch.ones(2), [torch.ones(2)] * ranks if rank == 0 else None, 0)
    dist.scatter(torch.ones(2), [torch.ones(2)] * ranks if rank == 0 else None, 0)
    dist.all_to_all_single(torch.ones(ranks), torch.ones(ranks))
    dist.reduce_scatter(torch.empty(2), [torch.ones(2)] * ranks)
    dist.reduce_scatter_tensor(torch.empty(3), torch.ones(3 * ranks), async_op=True).wait()
    gathered = [torch.empty(3) for _ in range(ranks)]
    dist.all_gather(gathered, poisoned, group=late)
    dist.reduce_scatter_tensor(torch.empty(2), torch.ones(2 * ranks))
    unawaited = dist.all_reduce(torch.ones(4), async_op=True)
    dist.destroy_process_group()
    if recorder:
        recorder.close()
    print("recorded again", tensors.record(out / "none").problem) if recorder else None
print("parameters", [parameter.flatten().tolist() for parameter in model.parameters()])
