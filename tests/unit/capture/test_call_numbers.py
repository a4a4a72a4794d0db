"""Numbers of calls on a backend of which it is not known that it counts as its recorder does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, needs_hooks

LOST = '["lost", null, "gloo: its recorder numbers the call otherwise"]'
JOB = """
import json, sys, torch, torch.distributed as dist
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

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(2))
listener = Listener()
hooks = CallHooks(torch, listener, call, known=frozenset())
hooks.attach()
if sys.argv[1] == "otherwise":
    import provstore.capture.collective_calls as calls
    counted = calls.last_collective
    calls.last_collective = lambda group: counted(group) + 5
for _ in range(2):
    dist.all_reduce(torch.ones(2))
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
