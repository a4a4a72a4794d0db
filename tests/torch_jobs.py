"""Jobs of torch that tests start in processes of their own: whether torch can do it, and what they are started with."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def torch_release() -> tuple[int, ...]:
    """Return (major, minor) of the installed torch without importing it; (0, 0) when there is none."""
    if importlib.util.find_spec("torch") is None:
        return 0, 0
    return tuple(int(part) for part in importlib.metadata.version("torch").split(".")[:2])


needs_hooks = pytest.mark.skipif(torch_release() < (2, 15), reason="torch older than 2.15 has no hooks on collectives")


def run_script(
    script: Path, *arguments: object, seconds: float = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script that starts a job on this host's CPUs; settings of the caller's own jobs do not reach it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TORCH", "PROVSTORE", "TRACE"))}
    settings = {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "TORCH_FR_BUFFER_SIZE": "2000",
    }
    return subprocess.run(
        [sys.executable, "-P", str(script), *map(str, arguments)],
        env=kept | settings | environment, capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip
