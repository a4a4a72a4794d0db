#!/usr/bin/env python3
"""Reading and diagnosing Flight Recorder dumps: CPU, wall time, memory and false accusations, beside torch's analyzer.

Every input is a healthy job, so each accusation is false. Both sides read the same files in the same run, each in a
fresh process. Figures leave out the start of interpreters and imports; whole-process figures are given beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GENERATOR = ROOT.parent / "shared" / "tools" / "gen_fr.py"
UNLIMITED = "1000000000"
BARS = {"256x2000": 1 / 8, "8x20000": 1 / 20}
"""Our CPU over torch's, at most; every other case: not slower."""


@dataclass(frozen=True, slots=True)
class Case:
    """One healthy set of dumps."""

    name: str
    ranks: int
    entries: int
    tensor: int
    stages: int
    wrapped: bool = False


CASES = (
    Case("8x2000", 8, 2_000, 2, 2),
    Case("64x2000", 64, 2_000, 4, 4),
    Case("64x2000 wrapped", 64, 2_000, 4, 4, wrapped=True),
    Case("256x2000", 256, 2_000, 4, 4),
    Case("8x20000", 8, 20_000, 2, 2),
)


def main() -> int:
    """Measure the chosen cases and print the table; 1 when a bar is missed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--generator", type=Path, default=GENERATOR, help="generator of synthetic dumps")
    options.add_argument("--cases", nargs="*", default=[case.name for case in CASES], help="names of the table's rows")
    options.add_argument("--folder", type=Path, help="keep the generated dumps here and use them again")
    options.add_argument("--no-torch", action="store_true", help="measure our side only")
    options.add_argument("--json", type=Path, help="write all figures there")
    options.add_argument("--measure", nargs=3, metavar=("SIDE", "FOLDER", "REPORT"), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.measure:
        side, folder, report = given.measure
        if side == "simulate":
            _simulate(next(case for case in CASES if case.name == report), Path(folder))
            return 0
        figures = {"ours": _measure_ours, "torch": _measure_torch}[side](Path(folder))
        Path(report).write_text(json.dumps(figures))
        return 0
    if not given.generator.exists():
        print(f"{given.generator.name}: no such file: the simulator of tests/ makes the dumps instead")
    place = given.folder or Path(tempfile.mkdtemp(prefix="bench-diagnosis-"))
    try:
        chosen = [case for case in CASES if case.name in given.cases]
        rows = [_compare(case, _dumps(case, place, given.generator), not given.no_torch) for case in chosen]
    finally:
        if given.folder is None:
            shutil.rmtree(place)
    misses = _print(rows)
    if given.json:
        given.json.write_text(json.dumps({"rows": rows, "misses": misses}, indent=1))
    return int(bool(misses))


def _dumps(case: Case, place: Path, generator: Path) -> Path:
    folder = place / case.name.replace(" ", "_")
    if folder.exists():
        return folder
    print(f"making {case.name} ...", file=sys.stderr)
    if not generator.exists():
        # in a process of its own: the kernel counts the memory of a parent into the peak of what it starts
        command = [sys.executable, str(Path(__file__).resolve()), "--measure", "simulate", str(folder), case.name]
        subprocess.run(command, check=True)
        return folder
    command = [sys.executable, str(generator), str(folder), "--ranks", str(case.ranks), "--tp", str(case.tensor)]
    command += ["--pp", str(case.stages), "--entries", str(case.entries)]
    subprocess.run(command if case.wrapped else [*command, "--from-start"], check=True, stdout=subprocess.DEVNULL)
    (folder / "truth.json").unlink(missing_ok=True)
    return folder


def _simulate(case: Case, folder: Path) -> None:
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]
    from simulator import Scenario, Shape3D, simulate

    size = Shape3D(case.ranks, tp=case.tensor, pp=case.stages, steps=2)
    longest = max(len(row.entries) for row in simulate(Scenario("megatron", size)).recordings)
    steps = max(2, case.entries * 2 // longest + (2 if case.wrapped else 0))
    size = Shape3D(case.ranks, tp=case.tensor, pp=case.stages, steps=steps)
    simulate(Scenario("megatron", size, buffer=case.entries)).write(folder)


def _compare(case: Case, folder: Path, with_torch: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"case": case.name, "megabytes": sum(f.stat().st_size for f in folder.iterdir()) / 1e6}
    row["ours"] = _in_child("ours", folder)
    row["ours"]["process"] = _whole([sys.executable, "-m", "provstore", "diagnose", str(folder), "--json"])
    if with_torch:
        row["torch"] = _in_child("torch", folder)
        row["torch"]["process"] = row["torch"].pop("whole")
        row["ratio"] = row["ours"]["cpu_seconds"] / row["torch"]["cpu_seconds"]
        row["process_ratio"] = row["ours"]["process"]["cpu_seconds"] / row["torch"]["process"]["cpu_seconds"]
    return row


def _in_child(side: str, folder: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.json"
        whole = _whole([sys.executable, str(Path(__file__).resolve()), "--measure", side, str(folder), str(report)])
        if not report.exists():
            raise SystemExit(f"{side}: {folder}: the measured process failed (exit status {whole['status']})")
        return {**json.loads(report.read_text()), "whole": whole}


def _whole(command: list[str]) -> dict[str, float]:
    """Run a command and return the cost of its whole process tree (its largest process, for memory)."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "wall_seconds": time.perf_counter() - started,
        "rss_megabytes": usage.ru_maxrss / 1024,
        "status": process.returncode,
    }


def _cpu(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def _measure_ours(folder: Path) -> dict[str, Any]:
    from provstore.analysis import diagnose
    from provstore.graph.merge import merge
    from provstore.model.dump import DumpSet
    from provstore.sources.flight_recorder import ReadOptions, read_dumps

    start_of_workers = _cost_of_workers(lambda place: read_dumps([place], ReadOptions()))
    marks = [(time.perf_counter(), _cpu(resource.RUSAGE_SELF), _cpu(resource.RUSAGE_CHILDREN))]
    found = read_dumps([folder], ReadOptions())
    marks.append((time.perf_counter(), _cpu(resource.RUSAGE_SELF), _cpu(resource.RUSAGE_CHILDREN)))
    answer = diagnose(DumpSet(found.name, 0, merge(found.dumps).dumps, found.refusals, found.tensors))
    marks.append((time.perf_counter(), _cpu(resource.RUSAGE_SELF), _cpu(resource.RUSAGE_CHILDREN)))
    load = marks[1][1] - marks[0][1] + marks[1][2] - marks[0][2] - start_of_workers
    build = marks[2][1] - marks[1][1]
    return {
        "load_seconds": load,
        "build_seconds": build,
        "cpu_seconds": load + build,
        "start_of_workers_seconds": start_of_workers,
        "wall_seconds": marks[2][0] - marks[0][0],
        "rss_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "worker_rss_megabytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        "entries": sum(dump.entry_count for dump in found.dumps),
        "false": len(answer.findings),
        "status": answer.status,
        "refused": sum(not row.skipped for row in found.refusals),
    }


def _cost_of_workers(read: Callable[[Path], object]) -> float:
    """Return the CPU of starting the workers: what reading as many almost empty dumps costs in children."""
    # protocol 2 pickle of {"version": "2.10", "entries": [], "pg_config": {}, "pg_status": {}}
    import pickle

    empty = pickle.dumps({"version": "2.10", "entries": [], "pg_config": {}, "pg_status": {}}, protocol=2)
    with tempfile.TemporaryDirectory() as name:
        for rank in range(4 * (os.cpu_count() or 1)):
            (Path(name) / f"nccl_trace_rank_{rank}").write_bytes(empty)
        before = _cpu(resource.RUSAGE_CHILDREN)
        read(Path(name))
        return _cpu(resource.RUSAGE_CHILDREN) - before


def _measure_torch(folder: Path) -> dict[str, Any]:
    from torch.distributed.flight_recorder.components.builder import build_db
    from torch.distributed.flight_recorder.components.config_manager import JobConfig
    from torch.distributed.flight_recorder.components.loader import read_dir

    arguments = JobConfig().parse_args([str(folder), "--mismatch_cap", UNLIMITED])
    marks = [(time.perf_counter(), time.process_time())]
    details, version = read_dir(arguments)
    marks.append((time.perf_counter(), time.process_time()))
    found = build_db(details, arguments, version)
    marks.append((time.perf_counter(), time.process_time()))
    return {
        "load_seconds": marks[1][1] - marks[0][1],
        "build_seconds": marks[2][1] - marks[1][1],
        "cpu_seconds": marks[2][1] - marks[0][1],
        "wall_seconds": marks[2][0] - marks[0][0],
        "rss_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "entries": sum(len(dump["entries"]) for dump in details.values()),
        "false": sum(not collective.pass_check for collective in found.collectives),
        "collectives": len(found.collectives),
    }


def _print(rows: list[dict[str, Any]]) -> list[str]:
    """Print the table and return the bars that were missed."""
    head = f"{'case':16} {'side':6} {'entries':>8} {'load':>7} {'build':>7} {'CPU s':>7} {'wall s':>7} {'RSS MB':>7}"
    print(f"{head} {'false':>7} {'whole CPU':>10} {'whole RSS':>10}")
    misses = []
    for row in rows:
        for side in ("ours", "torch"):
            if side in row:
                print(f"{row['case'] if side == 'ours' else '':16} {_line(side, row[side])}")
        misses += _missed(row)
    for row in rows:
        if "ratio" in row:
            bar = BARS.get(row["case"], 1.0)
            print(
                f"{row['case']:16} CPU ratio 1/{1 / row['ratio']:.1f} (bar 1/{1 / bar:.0f}), "
                f"whole processes 1/{1 / row['process_ratio']:.1f}"
            )
    _print_linearity(rows)
    for miss in misses:
        print(f"MISSED {miss}")
    return misses


def _line(side: str, figures: dict[str, Any]) -> str:
    whole = figures["process"]
    return (
        f"{side:6} {figures['entries']:8,} {figures['load_seconds']:7.2f} {figures['build_seconds']:7.2f} "
        f"{figures['cpu_seconds']:7.2f} {figures['wall_seconds']:7.2f} {figures['rss_megabytes']:7.0f} "
        f"{figures['false']:7,} {whole['cpu_seconds']:10.2f} {whole['rss_megabytes']:10.0f}"
    )


def _missed(row: dict[str, Any]) -> list[str]:
    misses = []
    if row["ours"]["false"] or row["ours"]["status"] != "healthy":
        misses.append(
            f"{row['case']}: {row['ours']['false']} findings, status {row['ours']['status']}, on a healthy job"
        )
    if "torch" not in row:
        return misses
    if row["ratio"] > BARS.get(row["case"], 1.0):
        misses.append(f"{row['case']}: CPU ratio {row['ratio']:.3f} above {BARS.get(row['case'], 1.0):.3f}")
    if row["ours"]["rss_megabytes"] > row["torch"]["rss_megabytes"]:
        misses.append(f"{row['case']}: peak RSS above torch's")
    return misses


def _print_linearity(rows: list[dict[str, Any]]) -> None:
    by_name = {row["case"]: row for row in rows}
    if not {"8x2000", "8x20000"} <= set(by_name):
        return
    for side in ("ours", "torch"):
        if side in by_name["8x2000"]:
            short, long = (
                by_name[name][side]["cpu_seconds"] / by_name[name][side]["entries"] * 1e6
                for name in ("8x2000", "8x20000")
            )
            print(f"{side}: {short:.1f} µs an entry at 2,000 entries a rank, {long:.1f} µs at 20,000")


if __name__ == "__main__":
    sys.exit(main())
