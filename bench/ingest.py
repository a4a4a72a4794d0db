#!/usr/bin/env python3
"""Ingest into journal and embedded graph, and traces of what was stored: CPU, wall and memory against their bars.

The input is a healthy job of 8 ranks with 20,000 calls each (synthetic, made on the spot). Every command runs in a new
process; CPU counts the process and its workers. The large closure is measured on a ladder of 500,000 nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GENERATOR = ROOT.parent / "shared" / "tools" / "gen_fr.py"
LADDER_STEPS, LADDER_RANKS = 29_412, 8
TRACES = 20


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure and the most it may be."""

    name: str
    value: float
    bar: float
    unit: str

    @property
    def holds(self) -> bool:
        return self.value <= self.bar


def main() -> int:
    """Measure everything and print the table; 1 when a bar is missed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--generator", type=Path, default=GENERATOR, help="generator of synthetic dumps")
    options.add_argument("--entries", type=int, default=20_000, help="calls a rank")
    options.add_argument("--json", type=Path, help="write all figures there")
    options.add_argument("--ladder", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.ladder:
        print(json.dumps(_ladder()))
        return 0
    place = Path(tempfile.mkdtemp(prefix="bench-ingest-"))
    try:
        dumps = _dumps(place, given.generator, given.entries)
        figures = [*_ingest(dumps, place / "store"), *_traces(place / "store"), *_closure()]
    finally:
        shutil.rmtree(place)
    for figure in figures:
        verdict = "ok" if figure.holds else "MISSED"
        print(f"{figure.name:<58} {figure.value:>10.3f} {figure.unit:<5} bar {figure.bar:>8.3f}  {verdict}")
    if given.json:
        given.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=1))
    return int(not all(figure.holds for figure in figures))


def _dumps(place: Path, generator: Path, entries: int) -> Path:
    dumps = place / "dumps"
    shape = ["--ranks", "8", "--tp", "2", "--pp", "2", "--entries", str(entries)]
    subprocess.run([sys.executable, str(generator), str(dumps), *shape], check=True, stdout=subprocess.DEVNULL)
    return dumps


def _command(*arguments: str) -> tuple[float, float, float]:
    """Run provstore in a process of its own; return (CPU seconds, wall seconds, peak MB of its largest process)."""
    started = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-m", "provstore", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"provstore {' '.join(arguments)}: exit code {child.returncode}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - started, used.ru_maxrss / 1024


def _ingest(dumps: Path, store: Path) -> list[Figure]:
    cpu, wall, peak = _command("--store", f"embedded:{store}", "ingest", str(dumps), "--run", "bench")
    again, _, _ = _command("--store", f"embedded:{store}", "ingest", str(dumps), "--run", "bench")
    return [
        Figure("ingest of 160,000 calls, journal and graph: CPU", cpu, 10.0, "s"),
        Figure("  the same: wall", wall, 10.0, "s"),
        Figure("  the same: peak memory of the largest process", peak, 800.0, "MB"),
        Figure("  the same files again: CPU", again, 10.0, "s"),
    ]


def _traces(store: Path) -> list[Figure]:
    import provstore

    with provstore.open(f"embedded:{store}", read_only=True) as opened:
        rows = opened.cypher(
            "MATCH (c:Call {rank: 3}) WHERE c.seq IS NOT NULL RETURN c.iri AS iri ORDER BY c.created_ns DESC LIMIT 1"
        )
        target = str(rows.rows[0]["iri"])
        opened.trace(target, depth=12)
        times = []
        for _ in range(TRACES):
            started = time.perf_counter()
            opened.trace(target, depth=12)
            times.append(time.perf_counter() - started)
    walls = [_command("--store", f"embedded:{store}", "trace", target, "--depth", "12")[1] for _ in range(5)]
    return [
        Figure("stored trace of 12 hops, in process: median wall", statistics.median(times) * 1e3, 20.0, "ms"),
        Figure("provstore trace of 12 hops, whole command: median wall", statistics.median(walls), 1.0, "s"),
    ]


def _closure() -> list[Figure]:
    command = [sys.executable, str(Path(__file__).resolve()), "--ladder"]
    found = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    nodes, cpu = json.loads(found.stdout)
    return [Figure(f"all ancestors in a store of {nodes:,} nodes: CPU", cpu, 2.0, "s")]


def _ladder() -> tuple[int, float]:
    """Return (nodes, CPU seconds of the ancestors of the last one) of a ladder that all ranks climb together."""
    from provstore.cypher import query
    from provstore.model.block import Block, Nodes, Relations
    from provstore.stores import open_store

    steps, ranks = range(LADDER_STEPS), range(LADDER_RANKS)
    inputs = [f"i/{s}/{r}" for s in steps for r in ranks]
    outputs = [f"o/{s}/{r}" for s in steps for r in ranks]
    acts = [f"a/{s}" for s in steps]
    of_step = [f"a/{s}" for s in steps for _ in ranks]
    block = Block(
        "ladder",
        0,
        (Nodes(("Element", "Entity"), inputs + outputs), Nodes(("Element", "Activity"), acts)),
        (
            Relations("WAS_GENERATED_BY", outputs, of_step),
            Relations("USED", of_step, inputs),
            Relations("WAS_INFLUENCED_BY", inputs[LADDER_RANKS:], outputs[:-LADDER_RANKS]),
        ),
    )
    store = open_store("memory:", writable=True)
    store.write(block)
    started = time.process_time()
    found = sum(1 for _ in store.run(query("read/lineage/ancestors"), {"iri": outputs[-1]}))
    used = time.process_time() - started
    nodes = len(inputs) + len(outputs) + len(acts)
    expected = nodes - LADDER_RANKS
    if found not in (expected, expected + 1):
        raise SystemExit(f"ancestors of the last output: {found} of {expected} found")
    return nodes, used


if __name__ == "__main__":
    raise SystemExit(main())
