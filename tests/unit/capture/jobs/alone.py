"""One process that has something else wrong with its recorder, by name: off, missing, unknown_backend, no_job."""

import logging
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as bindings

import provstore.capture
from provstore.capture import tensors

scene, out = sys.argv[5], Path(sys.argv[4])
logging.basicConfig(format="log: %(message)s", stream=sys.stdout)

if scene in {"off", "missing"}:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    if scene == "missing":
        for name in ("_dump_fr_trace", "_dump_nccl_trace", "FlightRecorderHook"):
            bindings.__dict__.pop(name, None)
        if hasattr(dist.ProcessGroup, "register_pre_hook"):
            del dist.ProcessGroup.register_pre_hook
        del dist.distributed_c10d._get_all_pg_configs
    with provstore.capture.watch(out, seconds=60), provstore.capture.watch(out, seconds=60):
        recorder = tensors.record(out)
        dist.all_reduce(torch.ones(2))
    print("problem", recorder.problem)
elif scene == "unknown_backend":
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    with provstore.capture.watch(out, seconds=60) as watcher:
        dist.all_reduce(torch.ones(2))
        group = dist.new_group([0, 2], group_desc="later")
        watcher.attach()
        watcher.attach()
        dist.all_reduce(torch.ones(2), group=group)
        dist.all_reduce(torch.ones(2))
else:
    print("no job", provstore.capture.dump(out))
print("went on")
