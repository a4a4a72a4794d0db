"""The code in docs/howto/record-training.md records a job, and the command below it stores that."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from tests.torch_jobs import needs_hooks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "howto" / "record-training.md").read_text(encoding="utf-8")
CODE = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"^\| `(\w+)\(", re.MULTILINE)


@needs_hooks
def test_the_code_of_the_page_leaves_a_recording_that_the_command_stores(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    job = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "CUDA_VISIBLE_DEVICES": ""}
    environment = {**os.environ, **job, "PYTHONPATH": str(ROOT)}
    (code,) = CODE.findall(PAGE)

    def run(*arguments):
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip

    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert "recording: " not in done.stderr
    lines = [json.loads(line) for line in (tmp_path / "capture" / "capture-rank0.jsonl").read_text().splitlines()]
    steps = [(line["epoch"], line["step"]) for line in lines if line["t"] == "step"]
    assert steps == [(0, 0), (0, 1), (1, 2), (1, 3)]
    assert {line["name"] for line in lines if line["t"] == "tensor"} == {"weight", "bias"}

    assert "provstore record capture\n" in PAGE
    stored = run("-m", "provstore", "record", "capture", "--json")
    assert stored.returncode == 0, stored.stdout + stored.stderr
    assert [one["epoch"] for one in json.loads(stored.stdout)["epochs"]] == [0, 1]


def test_the_page_names_every_call_of_a_recorder():
    from provstore.capture import Recorder

    calls = {name for name in vars(Recorder) if not name.startswith("_")} - {"close", "path"}

    assert set(NAMED.findall(PAGE)) == calls


def test_the_page_names_every_limit_with_its_default():
    from dataclasses import fields

    from provstore.capture.content.limits import Limits

    units = {"": 1, "MiB": 2**20, "GiB": 2**30}
    rows = re.findall(r"^\| `([a-z_]+)` \| ([0-9.]+) ?([MG]iB)? \|", PAGE, re.MULTILINE)

    assert {name: float(number) * units[unit] for name, number, unit in rows} == {
        one.name: one.default for one in fields(Limits)
    }
