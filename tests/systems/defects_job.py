"""A short job of forked gloo ranks, recorded as any job would be: the captures that the tests of known defects read.

Usage: defects_job.py FOLDER. Leaves one capture directory for each run, plain, again, flipped, deep and spiky, and the
dumps of torch's own recorder.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as bindings

import provstore.capture
from provstore.capture.content.limits import Limits

warnings.simplefilter("ignore")
WORLD, STEPS, STEPS_OF_EPOCH = 4, 6, 3
ELEMENTS, CHANGED_AT = 5_000, 2_000
CHANGED_STEP, WHOLE_STEP, CHANGED_RANK = 3, 5, 2
SPIKY_STEPS, LOSS_STEP, NORM_STEP = 90, 40, 70
GENEROUS = Limits(steady_share=1e6, escalated_share=1e6, reserve_bytes=0, reserve_share=0.0)


def recorder(folder: Path, run: str, **options: Any) -> provstore.capture.Recorder:
    return provstore.capture.evidence(run, folder / run, attempt=0, limits=GENEROUS, **options)


def train(recorded: Any, rank: int, half: Any, *, is_flipped: bool = False) -> None:
    """Reduce a gradient and a whole number, step by step; ranks 0 and 1 also share a group of their own."""
    for step in range(STEPS):
        if step % STEPS_OF_EPOCH == 0:
            recorded.begin_epoch(step // STEPS_OF_EPOCH)
        recorded.data([step, rank])
        draw = torch.Generator().manual_seed(100 * step + rank)
        gradient = torch.randn(ELEMENTS, generator=draw)
        whole = torch.tensor([16_777_216, 1])
        if is_flipped and rank == CHANGED_RANK:
            if step == CHANGED_STEP:
                gradient[CHANGED_AT] += 0.5
            if step == WHOLE_STEP:
                whole[0] += 1
        dist.all_reduce(gradient)
        dist.all_reduce(whole)
        if rank < 2:
            dist.all_reduce(torch.ones(8), group=half)
        dist.barrier()
        recorded.step(step, loss=1.0 / (step + 1), grad_norm=1.0)


def deep(recorded: Any, rank: int) -> None:
    """Record everything in full; one rank puts a gradient in that is far too large, once."""
    recorded.begin_epoch(0)
    for step in range(5):
        draw = torch.Generator().manual_seed(100 * step + rank)
        gradient = torch.randn(64, generator=draw)
        if step == CHANGED_STEP and rank == CHANGED_RANK:
            gradient *= 1e9
        dist.all_reduce(gradient)
        recorded.step(step)


def spiky(recorded: Any) -> None:
    """State losses and norms of gradients that stay alike, but for one of each."""
    recorded.begin_epoch(0)
    for step in range(SPIKY_STEPS):
        dist.all_reduce(torch.ones(4))
        noise = 0.01 * ((step * 7) % 11 - 5)
        recorded.step(
            step,
            loss=50.0 if step == LOSS_STEP else 2.0 + noise,
            grad_norm=1e6 if step == NORM_STEP else 1.0 + noise,
        )


def job(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD, timeout=timedelta(seconds=120)
    )
    half = dist.new_group([0, 1], group_desc="half")
    for run in ("plain", "again", "flipped"):
        with recorder(folder, run) as recorded:
            train(recorded, rank, half, is_flipped=run == "flipped")
    with recorder(folder, "deep", mode_floor="full") as recorded:
        deep(recorded, rank)
    with recorder(folder, "spiky") as recorded:
        spiky(recorded)
    (folder / "dumps").mkdir(exist_ok=True)
    (folder / "dumps" / f"nccl_trace_rank_{rank}").write_bytes(bindings._dump_fr_trace(True, True, False))
    dist.destroy_process_group()


def main() -> None:
    children = []
    for rank in range(WORLD):
        child = os.fork()
        if not child:
            code = 1
            try:
                job(rank, Path(sys.argv[1]))
                code = 0
            except Exception:  # noqa: BLE001  a child tells and ends by itself
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        children.append(child)
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0 for child in children))


if __name__ == "__main__":
    main()
