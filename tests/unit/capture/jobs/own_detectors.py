"""One rank whose loss, gradient norm and own detectors say what a test wants; each in a directory of its own."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

import provstore.capture

rank, ranks, store, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
dist.init_process_group("gloo", store=dist.HashStore(), rank=rank, world_size=ranks)
QUIET = [2.0 + 0.01 * (step % 7) for step in range(40)]


def run(name: str, losses: list[float], norms: list[float | None], scores: dict[int, dict[str, float]]) -> None:
    with provstore.capture.evidence("job", out / name) as recorder:
        recorder.begin_epoch(0)
        for step, (loss, norm) in enumerate(zip(losses, norms, strict=True)):
            dist.all_reduce(torch.ones(4))
            for detector, score in scores.get(step, {}).items():
                recorder.detector(detector, score)
            dist.all_reduce(torch.ones(4))
            recorder.step(step, loss=torch.tensor(loss), grad_norm=norm, norm_is_local=True)
        recorder.detector("late", 0.9, step=3)


spike = [*QUIET, 9.0, *QUIET, *QUIET]
run("loss", spike, [None] * len(spike), {})
run("norm", [*QUIET, 2.0], [*(1.0 + 0.01 * loss for loss in QUIET), 1000.0], {})
run("vanished", [2.0] * 3, [1.0, 0.0, 1.0], {})
limits = {3: {"mine": 0.8}, 5: {"mine": float("nan")}, 6: {"mine": 0.8000001, "other": 0.1}}
calm = {step: {"mine": 0.6 if step < 40 else 0.49, "other": 0.1} for step in range(7, 90)}
run("score", [2.0] * 90, [None] * 90, limits | calm)
dist.destroy_process_group()
