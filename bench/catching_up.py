#!/usr/bin/env python3
"""The graph catches up with a recorded capture of 8 ranks × 20,000 calls with content; assistants ask about such runs.

Captures are written by the helper of the tests: every call with digests and statistics, equal results on all ranks. The
same number of calls is recorded from dumps, too: of these only what each call was is known.
Commands run in fresh processes and are measured whole. Memory is told twice: all that was resident, pages of the graph
file that the kernel may drop included, and the memory of the process alone (anonymous), by looking every 10 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT))

import record as record_bench  # noqa: E402

RANKS, CALLS, FEW_CALLS = 8, 20_000, 2_000
TOLERANCE = 1.3


@dataclass(frozen=True, slots=True)
class Cost:
    """What one command took."""

    user: float
    peak_mb: float
    own_mb: float
    """Anonymous memory at most."""


def main() -> int:
    """Measure every command and print the table; 1 when a bar is missed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=CALLS, help="calls of each of the 8 ranks")
    given = options.parse_args()
    place = Path(tempfile.mkdtemp(prefix="bench-catching-up-"))
    try:
        return int(sum([_show(*row) for row in measured(place, given.calls)]) > 0)
    finally:
        shutil.rmtree(place)


def measured(place: Path, calls: int) -> list[tuple[str, float, float | None, str]]:
    """Return name, value, bar and unit of each line."""
    rows: list[tuple[str, float, float | None, str]] = [
        ("--version: user", command("--version").user, 0.2, "s"),
    ]
    record_bench.write(place, calls)
    sides: list[tuple[str, int, list[str]]] = [
        ("few", min(FEW_CALLS, calls), []),
        ("all", calls, []),
        ("dumps", calls, ["--run", "job", "--epoch", "0"]),
    ]
    for name, count, named in sides:
        if name != "dumps":
            write(place / name / "capture", count)
        store = f"embedded:{place / name / 'store'}"
        took = command("record", str(place / "dumps" if named else place / name / "capture"), *named, "--store", store)
        caught = command("store", "info", "--store", store)
        actions = f"{RANKS * count:,} actions" + (" of dumps" if named else ", content")
        if name == "all":
            rows.append((f"record {actions}: user", took.user, None, "s"))
            rows.append((f"record {actions}: memory of the process", took.own_mb, None, "MB"))
            rows.append((f"catching up with {actions}, lineage: user", caught.user, 12, "s"))
            rows.append(("the same: memory of the process", caught.own_mb, 500, "MB"))
            rows.append(("the same: resident, mapped file included", caught.peak_mb, None, "MB"))
        tools: dict[str, dict[str, object]] = {
            "summarize_epoch": {"run": "job", "epoch": 0},
            "list_suspicious_actions": {"run": "job"},
            "trace_tensor": {"entity_id": f"tensor:7:{count - 1}:out"},
        }
        for tool, arguments in tools.items():
            asked = command("agent-query", "--tool", tool, "--args", json.dumps(arguments), "--store", store)
            rows.append((f"{tool}, {actions}: user", asked.user, 0.5, "s"))
    return rows


def write(place: Path, calls: int) -> None:
    """Write the capture directory of one epoch with ``calls`` all_reduce calls on each rank."""
    from captures import RankCapture, tensor_digest

    from provstore.evidence.content.statistics_line import Statistics, line

    def statistics(size: float) -> str:
        return line(
            Statistics(2, min=-size, max=size, abs_max=size, l2=size, percentiles=(size,) * 7, sample_n=2)
        ).decode()

    results = [tensor_digest("float32", [2], struct.pack("<2f", -1.0, at)) for at in range(calls)]
    for rank in range(RANKS):
        capture = RankCapture(place, rank, RANKS)
        capture.begin(0)
        for at in range(calls):
            said = capture.call(0, struct.pack("<2f", rank, at), step=at)
            said["out"] = results[at]
            said["stats_in"], said["stats_out"] = statistics(1 + rank / 9 + at / 7), statistics(1 + at / 3)
        capture.end(0)
        capture.write()


def command(*arguments: str) -> Cost:
    """Run a command in its own process and return what it took."""
    child = subprocess.Popen([sys.executable, "-m", "provstore", *arguments], stdout=subprocess.DEVNULL, cwd=ROOT)
    own, ended = 0.0, 0
    while not ended:
        own = max(own, _anonymous_mb(child.pid))
        time.sleep(0.01)
        ended, status, used = os.wait4(child.pid, os.WNOHANG)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: ended with {child.returncode}")
    return Cost(used.ru_utime, used.ru_maxrss / 1024, own)


def _anonymous_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon:")), 0.0)


def _show(name: str, value: float, bar: float | None, unit: str) -> bool:
    """Print one line; return whether it misses its bar by more than the tolerance."""
    missed = bar is not None and value > bar * TOLERANCE
    met = "" if bar is None else "MISSED" if missed else "met" if value <= bar else "met within 30 %"
    print(f"{name:<62} {value:8.2f} {unit:<2}  {'' if bar is None else f'bar ≤ {bar:g}: '}{met}", flush=True)
    return missed


if __name__ == "__main__":
    raise SystemExit(main())
