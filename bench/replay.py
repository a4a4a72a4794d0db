#!/usr/bin/env python3
"""Planning to run an epoch of 8 ranks × 20,000 calls again, with the first page of a rank; comparing two such runs.

The dumps are those of ``record.py``. Every command runs in a fresh process and is measured whole, start and imports
included. The figure of wasmagent-train-replay 0.1.0 was measured once, on 2 cores with Python 3.11, and stands here as
it was.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
CALLS = 20_000
TOLERANCE = 1.3
PLAN_BAR, VERIFY_BAR, PLAN_BAR_MB = 1.0, 2.0, 300
THEIRS = "15.1 s, 600 MB, 20,000 printed lines"


def main() -> int:
    """Measure every command and print the table; 1 when a bar is missed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=CALLS, help="calls of each of the 8 ranks")
    options.add_argument("--repeat", type=int, default=3, help="runs of each command; the least counts")
    given = options.parse_args()
    place = Path(tempfile.mkdtemp(prefix="bench-replay-"))
    try:
        return int(sum(_show(*row) for row in measured(place, given.calls, given.repeat)) > 0)
    finally:
        shutil.rmtree(place)


def measured(place: Path, calls: int, repeat: int) -> list[tuple[str, float, float | None, str, str]]:
    """Return name, value, bar, unit and the other's figure of each line."""
    from provstore.evidence.key_files import load

    writer = [sys.executable, str(ROOT / "bench" / "record.py"), "--side", "write", "--place", str(place)]
    subprocess.run([*writer, "--calls", str(calls)], check=True, capture_output=True)
    for run in ("job", "again"):
        _command(place, "record", str(place / "dumps"), "--run", run, "--epoch", "0", "--key", f"file:{place / 'key'}")
    public = place / "key.hex"
    public.write_text(load(place / "key", None).public_key.hex())
    asked = ["replay", "--run", "job", "--epoch", "0", "--rank", "7"]
    plain = [_command(place, *asked, codes=(3,)) for _ in range(repeat)]
    checked = [_command(place, *asked, "--public-key", str(public), codes=(3,)) for _ in range(repeat)]
    compared = _command(place, "diff", "job", "again", codes=(3,))
    return [
        ("replay --rank 7, plan and first page: user", min(plain)[0], PLAN_BAR, "s", THEIRS),
        ("the same: peak memory", min(plain)[1], PLAN_BAR_MB, "MB", ""),
        ("the same, signatures verified first: user", min(checked)[0], PLAN_BAR + VERIFY_BAR, "s", ""),
        ("diff of two runs without digests: user", compared[0], None, "s", ""),
        ("the same: peak memory", compared[1], None, "MB", ""),
    ]


def _show(name: str, value: float, bar: float | None, unit: str, theirs: str) -> bool:
    """Print one line; return whether it misses its bar by more than the tolerance."""
    missed = bar is not None and value > bar * TOLERANCE
    verdict = (
        ""
        if bar is None
        else f"bar ≤ {bar:g}: " + ("MISSED" if missed else "met" if value <= bar else "met within 30 %")
    )
    beside = f"   [the other: {theirs}]" if theirs else ""
    print(f"{name:<48} {value:8.2f} {unit:<2}  {verdict}{beside}")
    return missed


def _command(place: Path, *arguments: str, codes: tuple[int, ...] = (0,)) -> tuple[float, float]:
    """Run a command in its own process and return its user seconds and peak memory in MB."""
    environment = {**os.environ, "XDG_CONFIG_HOME": str(place / "config"), "XDG_STATE_HOME": str(place / "state")}
    environment.pop("PROVSTORE_TRUST", None)
    words = [sys.executable, "-m", "provstore", *arguments, "--store", f"embedded:{place / 'store'}"]
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, cwd=ROOT, env=environment)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in codes:
        raise SystemExit(f"{arguments[0]}: ended with {child.returncode}")
    return used.ru_utime, used.ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
