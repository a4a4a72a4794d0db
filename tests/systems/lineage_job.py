"""A job of forked gloo ranks that makes collectives of every kind, recorded live and dumped at its end.

Usage: lineage_job.py WORLD FOLDER. The recording is in FOLDER/capture, the dumps are in FOLDER/dumps; the parent prints
the exit codes.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import provstore.capture
from provstore.capture.content.limits import Limits

warnings.simplefilter("ignore")
LIMITS = Limits(steady_share=1e6, escalated_share=1e6, reserve_bytes=0, reserve_share=0.0)
SICK_RANK, STEPS = 2, 4


def run(rank: int, world: int, folder: Path) -> None:
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world, timeout=timedelta(seconds=120)
    )
    pairs = [dist.new_group([first, first + 1], group_desc="pair") for first in range(0, world, 2)]
    with provstore.capture.evidence("job", folder / "capture", attempt=0, limits=LIMITS) as recorder:
        torch.manual_seed(3)
        model = DistributedDataParallel(torch.nn.Linear(6, 4))
        recorder.gradients(model)
        for step in range(STEPS):
            if step % 2 == 0:
                recorder.begin_epoch(step // 2)
            loss = model(torch.ones(2, 6)).square().mean()
            if step == STEPS - 1 and rank == SICK_RANK:
                loss = loss * float("nan")
            loss.backward()
            collectives(rank, world, pairs[rank // 2])
            recorder.step(step)
        dist.barrier()
    provstore.capture.dump(folder / "dumps", run="job", attempt=0)
    dist.destroy_process_group()


def collectives(rank: int, world: int, pair: dist.ProcessGroup) -> None:
    """Make one of each: with a root, in a sub-group, asynchronous, of several tensors, without tensors."""
    value = torch.full((3,), float(rank))
    dist.all_reduce(value, dist.ReduceOp.MAX, group=pair)
    dist.broadcast(value, 1)
    dist.reduce(value.clone(), 3)
    pending = dist.all_reduce(value.clone(), async_op=True)
    dist.all_gather_into_tensor(torch.empty(3 * world), value)
    assert pending is not None
    pending.wait()
    dist.barrier(group=pair)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.all_reduce_coalesced([torch.ones(3), torch.ones(5)])
    dist.gather(value, [torch.empty(3) for _ in range(world)] if rank == 0 else None, dst=0)
    dist.scatter(torch.empty(3), [value] * world if rank == 1 else None, src=1)
    dist.reduce_scatter_tensor(torch.empty(3), torch.ones(3 * world))


def main() -> None:
    world, folder = int(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    children = []
    for rank in range(world):
        child = os.fork()
        if not child:
            code = 1
            try:
                run(rank, world, folder)
                code = 0
            except BaseException:  # noqa: BLE001  a child of a fork ends here, whatever happened
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        children.append(child)
    print("codes", [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])


if __name__ == "__main__":
    main()
