"""A scenario from its description to dump files, and the truth about it, which is kept apart from the files."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .execution import Call, Execution, execute
from .faults import MISMATCHES, Fault, Injected, inject
from .files import Style, write
from .layouts import LAYOUTS, Shape3D, ring_of_pairs
from .program import Job
from .recorder import Moment, Recording, record_all
from .truth import Evidence, Truth, establish

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Scenario:
    """A job, what goes wrong in it, and how its recorders are dumped."""

    layout: str = "ddp"
    size: Shape3D = field(default_factory=lambda: Shape3D(world=4))
    faults: tuple[Fault, ...] = ()
    seed: int = 0
    style: Style = field(default_factory=Style)
    buffer: int = 0
    active_only: bool = False
    timing: bool = False
    in_flight: float | None = None
    """Dump a running job at this share of its life instead of after the end or the hang."""
    lost: tuple[int, ...] = ()
    """Ranks whose file is missing although they live."""
    truncated: tuple[int, ...] = ()
    """Ranks whose file is cut in the middle."""
    offsets_ms: Mapping[int, float] = field(default_factory=dict)
    """Rank → error of its clock."""
    first_seq: int = 1
    cycle: int = 0
    """Members of a ring of pair groups with the order reversed (layout ``ring_of_pairs``)."""
    hook: bool = False
    """The recorder is a hook of another backend, which never tells that a call ended."""
    resets: bool = False
    """gloo: a dead process closes its connections, so that its peers fail at once instead of waiting."""

    def describe(self) -> str:
        """Return everything that is not a default, on one line."""
        size = ",".join(f"{name}={value}" for name, value in _changed(self.size, Shape3D(world=0)).items())
        rest = {
            name: value
            for name, value in _changed(self, Scenario()).items()
            if name not in ("layout", "size", "faults", "style")
        }
        style = _changed(self.style, Style())
        faults = ";".join(
            f"{fault.kind}@{fault.rank}/{fault.at:.2f}{'/first' if fault.first else ''}" for fault in self.faults
        )
        return f"{self.layout}({size}) faults[{faults}] {rest} {style}"


def _changed(value: object, default: object) -> dict[str, object]:
    names = value.__dataclass_fields__  # type: ignore[attr-defined]
    return {name: getattr(value, name) for name in names if getattr(value, name) != getattr(default, name)}


@dataclass(slots=True)
class Outcome:
    """A scenario that has run."""

    scenario: Scenario
    job: Job
    run: Execution
    recordings: list[Recording]
    truth: Truth

    def write(self, folder: Path) -> list[Path]:
        """Write the dump files that this run leaves behind; return them."""
        scenario = self.scenario
        paths = write(folder, self.recordings, self.job.groups, scenario.style)
        for rank in scenario.truncated:
            for path in paths:
                if path.stem.endswith(f"_{rank}") or path.name.endswith(f"_{rank}"):
                    content = path.read_bytes()
                    path.write_bytes(content[: len(content) * 2 // 3])
        return paths


def build(scenario: Scenario) -> Job:
    """Return the scenario's job without its faults."""
    if scenario.layout == "ring_of_pairs":
        return ring_of_pairs(scenario.size, scenario.cycle or 2, bool(scenario.cycle))
    return LAYOUTS[scenario.layout](scenario.size)


def simulate(scenario: Scenario) -> Outcome:
    """Run a scenario; the outcome can be written to files and knows the truth."""
    job = build(scenario)
    injected = [made for fault in scenario.faults for made in [inject(job, fault)] if made is not None]
    run = execute(job, scenario.seed)
    luck = random.Random(scenario.seed * 7 + 1)
    dead = {rank for rank, why in run.halted.items() if why == "dead"}
    aborted = _gloo_aborts(run, injected, luck)
    if scenario.resets and scenario.size.backend == "gloo":
        _fail_neighbours(run, dead | aborted)
    elif aborted:
        _fail_neighbours(run, aborted)
    moments = _moments(job, run, scenario, dead | aborted, luck)
    recordings, numbers = record_all(job, run, moments)
    lost = {*scenario.lost, *scenario.truncated}
    recordings = [recording for recording in recordings if recording.rank not in scenario.lost]
    evidence = Evidence(job, run, moments, numbers, frozenset(dead | aborted | lost), _information(scenario, job))
    truth = establish(evidence, injected, scenario.in_flight is not None, scenario.cycle)
    return Outcome(scenario, job, run, recordings, truth)


def _gloo_aborts(run: Execution, injected: list[Injected], luck: random.Random) -> set[int]:
    """gloo aborts one process of a group whose members disagree on the amount of data, not always the guilty one."""
    aborted: set[int] = set()
    for made in injected:
        group = made.op.group
        if group is None or group.backend != "gloo" or made.fault.kind not in MISMATCHES[1:]:
            continue
        waiting = [rank for rank in group.ranks if rank in run.waiting]
        if made.fault.rank in waiting:
            aborted.add(luck.choice([made.fault.rank, *waiting]))
    return aborted


def _fail_neighbours(run: Execution, gone: set[int]) -> None:
    """gloo: whoever waits in a group with a process that is gone fails, leaves too, and takes others along."""
    left = set(gone)
    while True:
        falling = {rank for rank in run.waiting if rank not in left and _waits_with(run.calls[rank], left)}
        if not falling:
            return
        for rank in falling:
            for call in run.calls[rank]:
                if call.kernel.ended is None:
                    call.kernel.failed = True
        left |= falling


def _waits_with(calls: list[Call], left: set[int]) -> bool:
    return any(
        call.kernel.ended is None and call.op.group is not None and left & set(call.op.group.ranks) for call in calls
    )


def _moments(job: Job, run: Execution, scenario: Scenario, gone: set[int], luck: random.Random) -> dict[int, Moment]:
    start = min(calls[0].created for calls in run.calls if calls)
    hangs = any(call.kernel.ended is None for calls in run.calls for call in calls)
    if scenario.in_flight is not None:
        base = start + int((run.quiet_ns - start) * scenario.in_flight)
    else:
        base = run.quiet_ns + (int(scenario.style.timeout_ms * 1.1e6) if hangs else SECOND)
    moments = {}
    late = luck.randrange(2 * job.world)
    for rank in range(job.world):
        if rank in gone:
            continue
        moments[rank] = Moment(
            dumped_ns=base + luck.randrange(5_000_000),
            offset_ns=int(scenario.offsets_ms.get(rank, 0.0) * 1e6),
            timing=scenario.timing,
            first_seq=1 if job.groups[0].backend == "gloo" else scenario.first_seq,
            buffer=scenario.buffer,
            active_only=scenario.active_only,
            hook=scenario.hook,
            late_retired=scenario.size.backend == "gloo" and not hangs and rank == late,
        )
    return moments


def _information(scenario: Scenario, job: Job) -> frozenset[str]:
    """Return what the dumps do not hold."""
    lacks = set()
    number = scenario.style.number
    if number < (2, 1):
        lacks.add("comparable_numbers")
    if number == (0, 0):
        lacks.add("members")
    if number < (2, 3):
        lacks.add("status")
    if scenario.buffer:
        lacks.add("whole_ring")
    if scenario.active_only:
        lacks.add("finished_calls")
    gloo = scenario.size.backend == "gloo"
    several = sum(group.backend == "gloo" for group in job.groups) > 1
    if gloo and several and scenario.style.sidecar == "none":
        lacks.add("members")
    if gloo and job.has_p2p:
        lacks.add("transfers")
    if scenario.offsets_ms:
        lacks.add("clock")
    if scenario.style.sidecar != "meta":
        lacks.add("dump_time")
    if scenario.size.naming == "shared":
        lacks.add("own_names")
    return frozenset(lacks)
