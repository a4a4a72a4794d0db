"""A rank that was launched by an agent: one directory for each file of its records."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import provstore.capture

rank, ranks, store, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
dist.init_process_group("gloo", store=dist.HashStore(), rank=rank, world_size=ranks)
for name in sys.argv[5:]:
    with provstore.capture.evidence(
        "job", out / name, parent_action="agent/submit", launched_by=out.parent / f"{name}.jsonl"
    ) as recorder:
        dist.all_reduce(torch.ones(2))
        dist.barrier()
        recorder.step(0)
        recorder.checkpoint("s3://bucket/x", action="load")
os.environ["PROVSTORE_LAUNCH_RECORD"] = str(out.parent / "denied.jsonl")
os.environ["PROVSTORE_PARENT_ACTION"] = "agent/submit"
with provstore.capture.evidence("job", out / "environment") as recorder:
    dist.all_reduce(torch.ones(2))
    recorder.step(0)
dist.destroy_process_group()
