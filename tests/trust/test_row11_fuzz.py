"""Coverage-guided fuzzing of all that parses untrusted bytes: no crash, hang or exhaustion (matrix row 11)."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from fuzz_targets import TARGETS
from scale import LONG, seed, times

from tests.fresh import fresh

RUNS = times("FUZZ_RUNS", 100_000, 500_000)
SECONDS = times("FUZZ_SECONDS", 0, 60) if LONG else 0
"""The long run goes on for so long, however many inputs that are; every other one for its number of inputs."""
SLOW = {"journal": 20, "dump-reader": 10}
"""Targets that open files do so many times fewer inputs in the same time."""
HANG_SECONDS = 1 if LONG else 5
"""Beside other tests a whole process may stand still for a second."""
MEMORY_MB = 512


@pytest.mark.skipif(sys.platform != "linux", reason="atheris runs on Linux")
@pytest.mark.parametrize("target", TARGETS)
def test_no_input_makes_a_parser_fail_hang_or_grow(tmp_path: Path, target: str) -> None:
    pytest.importorskip("atheris", reason="atheris has no build for this Python")
    runs, corpus = RUNS // SLOW.get(target, 1), tmp_path / "corpus"
    corpus.mkdir()
    command = [sys.executable, str(Path(__file__).with_name("fuzz_one.py")), target, str(corpus)]
    extent = f"-max_total_time={SECONDS}" if SECONDS else f"-runs={runs}"
    options = [extent, f"-seed={seed(target)}", f"-timeout={HANG_SECONDS}", f"-rss_limit_mb={MEMORY_MB}"]
    options += ["-max_len=8192", "-print_final_stats=1", f"-artifact_prefix={tmp_path}/left-"]
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="provstore-fuzz-", dir=memory if memory.is_dir() else None) as place:
        done = subprocess.run(
            fresh([*command, *options]),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env={**os.environ, "TMPDIR": place},
        )
    left = {path.name: base64.b64encode(path.read_bytes()).decode() for path in tmp_path.glob("left-*")}
    assert done.returncode == 0, (left, done.stdout[-3000:], done.stderr[-3000:])
    executed = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    assert executed is not None
    print(f"{target}: {executed[1]} inputs")
    assert int(executed[1]) >= runs
