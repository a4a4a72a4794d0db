"""The code in docs/howto/dump-a-live-job.md does what the page says."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from conftest import ROOT, needs_hooks

PAGE = ROOT / "docs" / "howto" / "dump-a-live-job.md"
CODE = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@needs_hooks
def test_the_code_of_the_page_leaves_a_dump_a_sidecar_and_a_tensor_record(tmp_path: Path) -> None:
    watching, recording = CODE.findall(PAGE.read_text(encoding="utf-8"))
    again = f"\nimport os; os.environ['MASTER_PORT'] = '{free_port()}'\ndist.init_process_group('gloo')\n"
    program = watching + again + recording + "\ndist.all_reduce(torch.ones(4))\nprint(recorder.problem)"
    job = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, **job, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr
    assert sorted(path.name for path in (tmp_path / "dumps").iterdir()) == [
        "fr_gloo_rank_0",
        "fr_meta_rank_0.json",
        "tensor_rank_0.jsonl",
    ]
    assert len((tmp_path / "dumps" / "tensor_rank_0.jsonl").read_text().splitlines()) == 2
