"""One process, one GPU, one all_reduce through NCCL."""

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import provstore.capture

torch.cuda.set_device(0)
dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(4, device="cuda"))
torch.cuda.synchronize()
time.sleep(2)
provstore.capture.dump(Path(sys.argv[4]))
dist.destroy_process_group()
