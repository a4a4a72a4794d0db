"""Numbers of calls on a backend of which it is not known that it counts as its recorder does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, needs_hooks

from provstore.capture.call_numbers import chosen_backend

LOST = '["lost", null, "gloo: its recorder numbers the call otherwise"]'
JOB = """
import json, sys, torch, torch.distributed as dist
from types import SimpleNamespace
from provstore.capture.collective_calls import CallHooks

class Listener:
    def __init__(self): self.said = []
    def before(self, call): pass
    def issued(self, call): self.said.append(["issued", call.seq, call.group.backend])
    def done(self, call): pass
    def lost(self, call, reason): self.said.append(["lost", call.seq, reason])
    def unseen(self, group, first, count): pass
    def skipped(self, group, reason): self.said.append(["skipped", group, reason])

def call(action, *arguments): action(*arguments)

if sys.argv[1] == "mixed":
    import torch.testing._internal.distributed.fake_pg  # the backend "fake" does nothing
backends = "cpu:gloo,cuda:fake" if sys.argv[1] == "mixed" else "gloo"
dist.init_process_group(backends, store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(2))
listener = Listener()
hooks = CallHooks(torch, listener, call, known=frozenset())
hooks.attach()
if sys.argv[1] == "otherwise":
    import provstore.capture.live_calls as calls
    counted = calls.last_collective
    calls.last_collective = lambda group, device: counted(group, device) + 5
for _ in range(2):
    dist.all_reduce(torch.ones(2))
if sys.argv[1] == "mixed":
    group = dist.group.WORLD
    elsewhere = torch.ones(2, device="meta")
    on_device = SimpleNamespace(
        name=SimpleNamespace(name="ALLREDUCE"), op_id=7, root=-1, async_op=False, work=None,
        input_tensors=[elsewhere], output_tensors=[],
    )
    hooks.before(hooks.group_of(group), on_device)
    hooks.after(hooks.group_of(group), on_device)
    dist.barrier()
print(json.dumps(listener.said))
"""


def said(way: str, tmp_path: Path, **settings: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "TORCH_FR_BUFFER_SIZE": "100"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", JOB, way], env=environment | settings, cwd=tmp_path,
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return done.stdout.strip()


@needs_hooks
@pytest.mark.parametrize(
    ("way", "buffer", "expected"),
    [
        ("alike", "100", '[["issued", 2, "gloo"], ["issued", 3, "gloo"]]'),
        (
            "otherwise",
            "100",
            f"[{LOST}, {LOST}]",
        ),
        (
            "alike",
            "0",
            '[["skipped", "0", "was used before it was recorded: the numbers of its calls cannot be told"]]',
        ),
    ],
)
def test_a_call_has_a_number_only_where_the_recorder_confirms_it(
    way: str, buffer: str, expected: str, tmp_path: Path
) -> None:
    assert said(way, tmp_path, TORCH_FR_BUFFER_SIZE=buffer) == expected


@needs_hooks
def test_of_a_group_with_several_backends_the_calls_of_one_are_seen_under_its_own_numbers(tmp_path: Path) -> None:
    seen = '["skipped", "0 (cpu:gloo,cuda:fake)", "calls that are not on cpu are not recorded"]'

    assert said("mixed", tmp_path, TORCH_FR_BUFFER_SIZE="100") == (
        f'[{seen}, ["issued", 2, "gloo"], ["issued", 3, "gloo"], ["issued", 4, "gloo"]]'
    )


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("cuda:nccl", ("nccl", None)),
        ("cpu:gloo", ("gloo", None)),
        ("cpu:gloo,cuda:gloo", ("gloo", None)),
        ("cpu:gloo,cuda:nccl", ("nccl", "cuda")),
        ("cuda:nccl,cpu:gloo", ("nccl", "cuda")),
        ("cpu:gloo,xpu:xccl", ("gloo", "cpu")),
        ("cpu:mpi,cuda:ucc", None),
        ("", None),
    ],
)
def test_an_accelerator_comes_before_the_host(config: str, expected: tuple[str, str | None] | None) -> None:
    assert chosen_backend(config, {"gloo", "nccl"}) == expected
