"""Faults: each one is an edit of some rank's program, made before the job runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .program import Job, Op

MS = 1_000_000
MISMATCHES = ("wrong_op", "wrong_size", "wrong_dtype")
HANGS = (
    "stuck", "dead", "skip", "extra", *MISMATCHES, "no_send", "no_recv", "device", "device_before", "network",
    "wrong_group",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, where."""

    kind: str
    rank: int = 0
    at: float = 0.5
    """Position among the rank's suitable calls after the sound steps, 0 to 1."""
    first: bool = False
    """Take the rank's first suitable call of all instead."""
    late_ms: float = 40.0
    """slow: host time lost at the start of each step."""
    after_step: int = 1
    """Steps that stay sound."""
    desc: str = ""
    """Only calls of groups with this desc are suitable; empty = any."""


@dataclass(frozen=True, slots=True)
class Injected:
    """Where a fault was put."""

    fault: Fault
    index: int
    """Program index of the faulty operation (of the one after it, for a skipped call)."""
    op: Op
    """The operation that should have been there."""


def inject(job: Job, fault: Fault) -> Injected | None:
    """Edit the job; return where, or ``None`` when the rank has no suitable call."""
    if fault.kind == "slow":
        return _slow(job, fault)
    suitable = _SUITABLE.get(fault.kind, _any_call)
    calls = [
        (at, op) for at, op in job.calls(fault.rank) if suitable(op) and (not fault.desc or _desc(op) == fault.desc)
    ]
    if not fault.first:
        after = job.steps[fault.rank][min(fault.after_step, len(job.steps[fault.rank]) - 1)]
        calls = [call for call in calls if call[0] >= after]
    if not calls:
        return None
    at, op = calls[0 if fault.first else min(len(calls) - 1, int(fault.at * len(calls)))]
    if fault.kind == "network":
        _break_everywhere(job, fault.rank, at, op)
    else:
        program = job.programs[fault.rank]
        program[at : at + 1] = _edited(job, fault, op)
    return Injected(fault, at, op)


def _desc(op: Op) -> str:
    return op.group.desc if op.group is not None else ""


def _any_call(op: Op) -> bool:
    return op.group is not None and len(op.group.ranks) > 1


def _sized(op: Op) -> bool:
    return op.kind == "collective" and _any_call(op) and "all_to_all" not in op.op and "barrier" not in op.op


def _collective(op: Op) -> bool:
    return op.kind in ("collective", "coalesced") and _any_call(op)


def _on_device(op: Op) -> bool:
    return op.group is not None and op.group.backend != "gloo"


def _moves(kind: str) -> Callable[[Op], bool]:
    return lambda op: op.kind == kind or (op.kind == "batch" and any(part.kind == kind for part in op.parts))


_SUITABLE: dict[str, Callable[[Op], bool]] = {
    **dict.fromkeys(MISMATCHES, _sized),
    **dict.fromkeys(("skip", "extra", "wrong_group", "network"), _collective),
    "device": lambda op: _collective(op) and _on_device(op),
    "device_before": lambda op: _any_call(op) and _on_device(op),
    "no_send": _moves("send"),
    "no_recv": _moves("recv"),
}


def _edited(job: Job, fault: Fault, op: Op) -> list[Op]:
    edits: dict[str, Callable[[], list[Op]]] = {
        "stuck": lambda: [Op("stop", op="cpu"), op],
        "dead": lambda: [Op("stop", op="dead"), op],
        "skip": list,
        "extra": lambda: [op, op],
        "no_send": lambda: _without(op, "send"),
        "no_recv": lambda: _without(op, "recv"),
        "device": lambda: [replace(op, never="ends")],
        "device_before": lambda: [replace(op, never="starts")],
        "wrong_op": lambda: [_other_op(op)],
        "wrong_size": lambda: [replace(op, ins=_longer(op.ins, op.ins), outs=_longer(op.outs, op.ins))],
        "wrong_dtype": lambda: [replace(op, dtype="Float" if op.dtype == "BFloat16" else "BFloat16")],
        "wrong_group": lambda: [_moved(job, fault.rank, op)],
    }
    return edits[fault.kind]()


def _moved(job: Job, rank: int, op: Op) -> Op:
    assert op.group is not None
    others = [group for group in job.groups if rank in group.ranks and group != op.group and len(group.ranks) > 1]
    fitting = [group for group in others if group.backend == op.group.backend]
    return replace(op, group=fitting[0]) if fitting else op


def _without(op: Op, kind: str) -> list[Op]:
    if op.kind == kind:
        return []
    parts = list(op.parts)
    parts.remove(next(part for part in parts if part.kind == kind))
    return [replace(op, parts=tuple(parts))] if parts else []


def _longer(shapes: tuple[tuple[int, ...], ...], ins: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Add a row to each input, and to each output as many rows as one more input row makes."""
    longer = []
    for shape, given in zip(shapes, ins, strict=True):
        times = max(1, shape[0] // given[0]) if given[0] else 1
        longer.append((shape[0] + times, *shape[1:]) if shape[0] >= given[0] else (shape[0] + 1, *shape[1:]))
    return tuple(longer)


def _other_op(op: Op) -> Op:
    assert op.group is not None
    if op.op == "_all_gather_base":
        return replace(op, op="_reduce_scatter_base", ins=op.outs, outs=op.ins)
    if op.op == "_reduce_scatter_base":
        return replace(op, op="_all_gather_base", ins=op.outs, outs=op.ins)
    if op.op == "broadcast":
        return replace(op, op="all_reduce", root=-1)
    if op.op == "all_gather":
        return replace(op, op="all_reduce", outs=op.ins)
    return replace(op, op="broadcast", root=op.group.ranks[0])


def _break_everywhere(job: Job, rank: int, at: int, op: Op) -> None:
    assert op.group is not None
    place = sum(1 for index, other in job.calls(rank) if index < at and other.group == op.group and _collective(other))
    for member in op.group.ranks:
        mine = [index for index, other in job.calls(member) if other.group == op.group and _collective(other)]
        index = mine[place]
        job.programs[member][index] = replace(job.programs[member][index], never="ends")


def _slow(job: Job, fault: Fault) -> Injected:
    program = job.programs[fault.rank]
    late = int(fault.late_ms * MS)
    for at in job.steps[fault.rank]:
        program[at] = replace(program[at], ns=program[at].ns + late)
    return Injected(fault, job.steps[fault.rank][0], program[job.steps[fault.rank][0]])
