#!/usr/bin/env python3
"""Writing facts durably into the journal and reading them back, beside plain Parquet and JSON lines of the same rows.

The input is the facts of 8 ranks with 20,000 calls each, as columns in memory: 320,000 nodes and 800,000 relationships.
Each side runs in a fresh process; the figures leave out interpreter start and the making of the facts, not the import
of pyarrow. Only the journal syncs, checks and gives back exactly what it took.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from provstore.journal import Journal
from provstore.model.block import Block, Nodes, Relations

RANKS, CALLS = 8, 20_000
CPU_BAR_SECONDS, CPU_AIM_SECONDS = 2.0, 1.5


def main() -> int:
    """Measure every side and print the table; 1 when the bar is missed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeat", type=int, default=3, help="runs of each side; the best CPU time counts")
    options.add_argument("--calls", type=int, default=CALLS, help="calls a rank")
    options.add_argument("--ranks", type=int, default=RANKS, help="batches")
    options.add_argument("--json", type=Path, help="write all figures there")
    options.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.side:
        print(json.dumps(_measure(SIDES[given.side], given.ranks, given.calls)))
        return 0
    found = {}
    for side in SIDES:
        command = [sys.executable, __file__, "--side", side, "--calls", str(given.calls), "--ranks", str(given.ranks)]
        runs = [
            json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(given.repeat)
        ]
        found[side] = min(runs, key=lambda run: float(run["cpu_seconds"]))
    ours = found["journal"]
    print(f"{given.ranks} batches of {given.calls} calls: CPU s, wall s, MB on disk, MB of memory added, CPU ratio")
    for side, run in found.items():
        ratio = run["cpu_seconds"] / ours["cpu_seconds"]
        print(
            f"{side:16} {run['cpu_seconds']:6.2f} {run['wall_seconds']:6.2f} {run['disk_mb']:7.1f} "
            f"{run['memory_mb']:6.0f} {ratio:6.2f}"
        )
    print(f"reading back     {ours['read_cpu_seconds']:6.2f} CPU s; check {ours['check_cpu_seconds']:.2f} CPU s")
    print(f"bar: journal ≤ {CPU_BAR_SECONDS} CPU s (aim {CPU_AIM_SECONDS}) for {RANKS} batches of {CALLS}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))
    return int(ours["cpu_seconds"] > CPU_BAR_SECONDS)


def facts(rank: int, calls: int) -> Block:
    """Return what one rank's dump states about ``calls`` collectives: two nodes and five relationships a call."""
    base, own = "https://w3id.org/provstore/id/run/0/nccl/1@0-7", range(calls)
    acts = [f"{base}/{at}" for at in own]
    inputs = [f"{base}/{at}/{rank}/in" for at in own]
    outputs = [f"{base}/{at}/{rank}/out" for at in own]
    start = 1_700_000_000_000_000_000 + rank * 12_345
    columns: dict[str, Any] = {
        "rank": array("q", [rank]) * calls,
        "seq": array("q", own),
        "record_id": array("q", own),
        "op_id": array("q", own),
        "signature": [f"{at % 7:064x}" for at in own],
        "stack": [f"{at % 11:064x}" for at in own],
        "created_ns": array("q", [start + at * 1_000_003 + at * at % 977 for at in own]),
        "completed_ns": [start + at * 1_000_003 + at * at % 9973 if at < calls - 4 else None for at in own],
        "is_completed": [True if at < calls - 4 else None for at in own],
    }
    nodes = (
        Nodes(("Element", "Entity", "Call"), inputs, columns),
        Nodes(("Element", "Entity", "Output"), outputs, {"rank": columns["rank"], "seq": columns["seq"]}),
    )
    agent = f"https://w3id.org/provstore/id/run/0/rank/{rank}"
    relations = (
        Relations("WAS_GENERATED_BY", outputs, acts),
        Relations("USED", acts, inputs),
        Relations("WAS_INFORMED_BY", acts[1:], acts[:-1]),
        Relations("WAS_ASSOCIATED_WITH", acts, [agent] * calls),
        Relations("WAS_INFLUENCED_BY", inputs[1:], outputs[:-1]),
    )
    return Block("run", 0, nodes, relations)


def _measure(side: Callable[[Path, list[Block]], dict[str, float]], ranks: int, calls: int) -> dict[str, float]:
    blocks = [facts(rank, calls) for rank in range(ranks)]
    place = Path(tempfile.mkdtemp(prefix="bench-journal-"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu, wall = time.process_time(), time.perf_counter()
    try:
        more = side(place, blocks)
        more.setdefault("cpu_seconds", time.process_time() - cpu)
        more.setdefault("wall_seconds", time.perf_counter() - wall)
        more.setdefault("memory_mb", (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
        files = (path for path in place.rglob("*") if path.is_file() and path.name != "reserve")
        return {**more, "disk_mb": sum(path.stat().st_size for path in files) / 1e6}
    finally:
        shutil.rmtree(place)


def _journal(place: Path, blocks: list[Block]) -> dict[str, float]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu, wall = time.process_time(), time.perf_counter()
    with Journal.open(place, writable=True) as journal:
        for block in blocks:
            journal.append(block)
    written, elapsed = time.process_time(), time.perf_counter() - wall
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    with Journal.open(place, writable=False) as journal:
        for (_, found), block in zip(journal.blocks(), blocks):
            assert len(found) == len(block)
        read = time.process_time()
        assert journal.check() == []
    return {
        "cpu_seconds": written - cpu,
        "wall_seconds": elapsed,
        "memory_mb": memory,
        "read_cpu_seconds": read - written,
        "check_cpu_seconds": time.process_time() - read,
    }


def _parquet(place: Path, blocks: list[Block]) -> dict[str, float]:
    """Write each part with pyarrow's defaults, as a user would."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for at, block in enumerate(blocks):
        for number, nodes in enumerate(block.nodes):
            pq.write_table(pa.table({"key": nodes.keys, **nodes.columns}), place / f"{at}-n{number}.parquet")
        for relation in block.relations:
            ends = {"from": relation.sources, "to": relation.targets}
            pq.write_table(pa.table(ends), place / f"{at}-{relation.type}.parquet")
    return {}


def _json_lines(place: Path, blocks: list[Block]) -> dict[str, float]:
    """Write one JSON object a fact, packed with zstd."""
    import orjson
    import pyarrow as pa

    def lines(block: Block) -> Iterator[bytes]:
        for fact in block.statements():
            row = {"key": fact.key, "type": fact.type, "target": fact.target, **fact.properties}
            yield orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)

    for at, block in enumerate(blocks):
        packed = pa.Codec("zstd").compress(b"".join(lines(block)), asbytes=True)
        (place / f"{at}.jsonl.zst").write_bytes(packed)
    return {}


SIDES: dict[str, Callable[[Path, list[Block]], dict[str, float]]] = {
    "journal": _journal,
    "plain Parquet": _parquet,
    "JSON lines, zstd": _json_lines,
}


if __name__ == "__main__":
    sys.exit(main())
