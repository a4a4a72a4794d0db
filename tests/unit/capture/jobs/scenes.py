"""A job that goes through every way to a dump, one folder each, and at last dies of an exception."""

import resource
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import provstore.capture

rank, ranks, store, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
dist.init_process_group(
    "gloo", init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=timedelta(seconds=60)
)
alone = [dist.new_group([member], group_desc="alone") for member in range(ranks)]
value = torch.ones(8)
dist.all_reduce(value)
dist.broadcast(value, src=0)
dist.all_reduce(value[:2], group=alone[rank])

provstore.capture.dump(out / "asked", "a test asked")


def wait_for(folder: Path) -> None:
    """Give the watch thread time; training sleeps, and the sidecar is what the thread writes last."""
    for _ in range(400):
        if (folder / f"fr_meta_rank_{rank}.json").exists():
            return
        time.sleep(0.05)


with provstore.capture.watch(out / "stall", seconds=0.4, on_exit=False):
    wait_for(out / "stall")

with provstore.capture.watch(out / "kept", seconds=0.4):
    wait_for(out / "kept")

with provstore.capture.watch(out / "moved", seconds=0.4) as watcher:
    wait_for(out / "moved")
    watcher.beat()

with provstore.capture.watch(out / "never", seconds=2.0, on_exit=False):
    for _ in range(25):
        dist.all_reduce(value)
        time.sleep(0.1)

trigger = out / "triggers" / f"now_{rank}"
with provstore.capture.watch(out / "trigger", seconds=60, trigger_file=trigger, on_exit=False):
    trigger.touch()
    wait_for(out / "trigger")

with provstore.capture.watch(out / "exit", seconds=60):
    dist.all_reduce(value)

try:
    with provstore.capture.watch(out / "block", seconds=60):
        raise LookupError("left the block")
except LookupError:
    pass

threads = [threading.Thread(target=provstore.capture.dump, args=(out / "twice", f"thread {n}")) for n in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

(out / "a_file").touch()
report = provstore.capture.dump(out / "a_file" / "below", "cannot be made")
print("unwritable", len(report.files), len(report.errors))

soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
report = provstore.capture.dump(out / "full", "disk full")
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
print("full", sorted(path.name for path in report.files), report.errors)

provstore.capture.watch(out / "uncaught", seconds=60, run="a-run", attempt=3)
dist.barrier()
dist.destroy_process_group()
raise ArithmeticError("nobody catches this")
