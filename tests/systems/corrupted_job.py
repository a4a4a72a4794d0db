"""Jobs of four forked gloo ranks with five all_reduces each, one after the other, recorded and dumped.

Usage: corrupted_job.py FOLDER. Each job leaves FOLDER/<fault>/capture and FOLDER/<fault>/dumps.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import provstore.capture

WORLD, STEPS = 4, 5
FAULTS = ("none", "corrupt", "nan")
BAD_RANK, BAD_STEP = 2, 3


def run_rank(rank: int, fault: str, folder: Path) -> None:
    """Take part in one job."""
    init = f"file://{folder / fault}.store"
    dist.init_process_group("gloo", init, rank=rank, world_size=WORLD, timeout=timedelta(seconds=120))
    generator = torch.Generator().manual_seed(rank)
    with provstore.capture.evidence(fault, folder / fault / "capture", attempt=0, mode_floor="full") as recorder:
        recorder.begin_epoch(0)
        for step in range(STEPS):
            recorder.data([1000 * rank + step, 1000 * rank + step + 500])
            gradient = torch.randn(1000, generator=generator)
            if (rank, step) == (BAD_RANK, BAD_STEP):
                if fault == "corrupt":
                    gradient *= 1e6
                elif fault == "nan":
                    gradient[7] = float("nan")
            time.sleep(0.1)
            dist.all_reduce(gradient)
            recorder.step(step)
    provstore.capture.dump(folder / fault / "dumps", run=fault, attempt=0)
    dist.destroy_process_group()


def main() -> None:
    """Run each job and fail if a rank of it fails."""
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    for fault in FAULTS:
        children = []
        for rank in range(WORLD):
            child = os.fork()
            if not child:
                run_rank(rank, fault, folder)
                os._exit(0)
            children.append(child)
        if any(os.waitpid(child, 0)[1] for child in children):
            sys.exit(f"{fault}: a rank failed")


if __name__ == "__main__":
    main()
