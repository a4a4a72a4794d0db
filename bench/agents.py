#!/usr/bin/env python3
"""Signing and judging 160,000 actions in chained agent records, beside json and PyNaCl doing the same bare work.

CPU seconds of a process of its own for each row, and its peak memory.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

ACTIONS, PER_RECORD = 160_000, 180
SECONDS_BAR, MIB_BAR, SLACK = 2.0, 200.0, 1.3


def record(number: int, before: str | None) -> dict[str, Any]:
    actions = [
        {
            "action_id": f"gloo/default_pg@0-7/{place}/{place % 8}",
            "tool_name": "gloo:all_reduce",
            "state_changing": True,
            "side_effect_class": "mutate-local",
            "recording_mode": "validation",
            "timestamp_ms": 1796031812000 + place,
            "causal_chain_id": f"gloo/default_pg@0-7/{place}",
            "training": {"attempt": 0, "group": "default_pg@0-7", "rank": place % 8, "seq": place},
        }
        for place in range(number, min(number + PER_RECORD, ACTIONS))
    ]
    head = {"schema_version": "aep/v0.5", "run_id": "job", "created_at_ms": 1796031812000}
    return {**head, "prev_record_hash": before, "actions": actions}


def sign(path: Path) -> None:
    from provstore.evidence.aep import emit
    from provstore.evidence.keys import PrivateKey

    key, before = PrivateKey.generate(), None
    path.with_suffix(".key").write_text(key.public_key.hex())
    with path.open("wb") as file:
        for number in range(0, ACTIONS, PER_RECORD):
            one = record(number, before)
            before = emit.link(emit.canonical_record(one))
            file.write(emit.sign_record(one, key, keyid="k") + b"\n")


def judge_it(path: Path) -> None:
    from provstore.evidence.aep import judge
    from provstore.sources import aep

    verdict = judge(aep.read(path), {"k": bytes.fromhex(path.with_suffix(".key").read_text())})
    assert verdict.chain.status == "intact"
    assert {one.axes["authenticity"].status for one in verdict.records} == {"valid"}
    assert {one.axes["structural"].status for one in verdict.records} == {"pass"}


def bare(path: Path) -> None:
    """Do what cannot be avoided: parse, write again sorted, hash, check the signature."""
    from nacl.bindings import crypto_sign_open

    public = bytes.fromhex(path.with_suffix(".key").read_text())
    with path.open("rb") as file:
        for line in file:
            one = json.loads(line)
            envelope = one.pop("dsse_envelope")
            del one["signature"]
            text = json.dumps(one, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
            hashlib.sha256(text).hexdigest()
            body = base64.b64decode(envelope["payload"])
            kind = envelope["payloadType"].encode()
            signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(body), body)
            crypto_sign_open(base64.b64decode(envelope["signatures"][0]["sig"]) + signed, public)


ROWS = {"sign": sign, "judge": judge_it, "bare": bare}


def measured(row: str, path: Path) -> tuple[float, float]:
    """Return (CPU seconds, MiB at most) of one row in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--row", row, str(path)], capture_output=True, check=True)
    seconds, mebibytes = json.loads(done.stdout)
    return seconds, mebibytes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", choices=ROWS, help=argparse.SUPPRESS)
    parser.add_argument("path", nargs="?", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.row:
        began = time.process_time()
        ROWS[asked.row](asked.path)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps([time.process_time() - began, peak]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.jsonl"
        figures = {row: measured(row, path) for row in ROWS}
        size = path.stat().st_size / 1e6
    for row, (seconds, mebibytes) in figures.items():
        print(f"{row:<6} {seconds:6.2f} CPU s  {mebibytes:6.0f} MiB   {ACTIONS:,} actions, {size:.0f} MB")
    seconds, mebibytes = figures["judge"]
    missed = seconds > SECONDS_BAR * SLACK or mebibytes > MIB_BAR * SLACK
    print(f"bar: judge ≤ {SECONDS_BAR:g} CPU s and ≤ {MIB_BAR:g} MiB: {'MISSED' if missed else 'met'}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
