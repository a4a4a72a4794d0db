"""What each rank's Flight Recorder holds at the moment of its dump: entries, group table, status table, in order.

Entries here are neutral and complete; ``files`` writes them in the words of one format version.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .execution import Call, Execution, Kernel
from .program import Group, Job, Op, Shapes

POLL_NS = 100_000_000
"""How often the watchdog of NCCL looks."""

GLOO_NAMES = {"_all_gather_base": "all_gather", "_reduce_scatter_base": "all_reduce", "all_reduce_barrier": "barrier"}
SIZELESS = frozenset({"barrier", "all_reduce_barrier"})


@dataclass(frozen=True, slots=True)
class Moment:
    """When and how a rank's recorder is dumped."""

    dumped_ns: int
    offset_ns: int = 0
    """Added to all times of the rank: its wrong clock."""
    timing: bool = False
    first_seq: int = 1
    buffer: int = 0
    """Entries kept; 0 keeps all."""
    active_only: bool = False
    hook: bool = False
    """A hook outside the library records: every call looks retired at once, none ever completed."""
    late_retired: bool = False
    """gloo: the last finished call is not retired yet."""


@dataclass(slots=True)
class Entry:
    """One entry of the ring."""

    record_id: int
    pg_id: int
    group: Group
    seq: int
    p2p_seq: int
    op_id: int
    is_p2p: bool
    name: str
    created_ns: int
    ins: Shapes
    outs: Shapes
    dtype: str
    state: str
    started_ns: int | None
    completed_ns: int | None
    duration_ms: float | None
    retired: bool
    site: int
    single_seq: int
    """The one counter of formats below 2.1."""


@dataclass(slots=True)
class GroupStatus:
    """A row of ``pg_status``."""

    pg_id: int
    group: Group
    enqueued: int = -1
    started: int = -1
    completed: int = -1


@dataclass(slots=True)
class Recording:
    """One recorder of one rank."""

    rank: int
    backend: str
    entries: list[Entry] = field(default_factory=list)
    statuses: list[GroupStatus] = field(default_factory=list)
    dumped_ns: int = 0
    has_subgroups: bool = False
    """The rank is in more than one group of this backend."""


@dataclass(slots=True)
class _Counters:
    seq: int = 0
    p2p: int = 0
    op: int = 0
    single: int = 0


class Recorder:
    """Turns one rank's calls into the entries of one backend's recorder."""

    def __init__(self, job: Job, rank: int, backend: str, moment: Moment) -> None:
        """Look at ``rank``'s calls through ``backend``."""
        self._job, self._rank, self._backend, self._moment = job, rank, backend, moment
        mine = [group for group in job.groups if rank in group.ranks and group.backend == backend]
        # a job with two backends has one c10d number for a group that both serve
        names = list(dict.fromkeys((group.name, group.ranks) for group in job.groups if rank in group.ranks))
        self._pg_id = {group.key: names.index((group.name, group.ranks)) for group in mine}
        self._counters = {group.key: _Counters(seq=moment.first_seq - 1) for group in mine}
        self._statuses: dict[int, GroupStatus] = {}
        self.recording = Recording(
            rank, backend, dumped_ns=moment.dumped_ns + moment.offset_ns, has_subgroups=len(mine) > 1
        )
        self.numbers: dict[int, int] = {}
        """Program index → sequence number (p2p: the p2p counter's value)."""

    def record(self, calls: list[Call]) -> Recording:
        """Take in the calls made before the dump, oldest first."""
        for call in calls:
            group = call.op.group
            if group is None or group.backend != self._backend or call.created > self._moment.dumped_ns:
                continue
            if self._backend == "gloo":
                self._gloo(call)
            elif self._moment.hook:
                self._hooked(call)
            else:
                self._nccl(call)
        self._close()
        return self.recording

    def _nccl(self, call: Call) -> None:
        op, kernel = call.op, call.kernel
        assert op.group is not None
        counters = self._counters[op.group.key]
        if op.kind in ("send", "recv"):
            counters.p2p += 1
            counters.op += 1
            counters.single += 1
            self._entry(call, op, kernel, f"nccl:{_route(op, self._rank)}", is_p2p=True)
            self._note(op.group, counters.p2p, kernel)
            self.numbers[call.index] = counters.p2p
            return
        counters.seq += 1
        counters.single += 1
        self.numbers[call.index] = counters.seq
        if op.kind == "collective":
            counters.op += 1
            self._entry(call, op, kernel, f"nccl:{op.op}")
        else:
            p2p = op.kind == "batch"
            for part in op.parts:
                counters.op += 1
                name = _route(part, self._rank) if p2p else part.op
                self._entry(call, part, None, f"nccl:{name}", is_p2p=p2p)
            self._entry(call, Op("closing", op.group, site=op.site), kernel, f"nccl:{op.op}", is_p2p=p2p)
        self._note(op.group, counters.seq, kernel)

    def _hooked(self, call: Call) -> None:
        op = call.op
        assert op.group is not None
        counters = self._counters[op.group.key]
        moves = op.parts if op.kind in ("batch", "coalesced") else (op,)
        for move in moves:
            p2p = move.kind in ("send", "recv")
            counters.p2p += p2p
            counters.seq += not p2p
            counters.op += 1
            counters.single += 1
            self._entry(call, move, call.kernel, f"fake:{_route(move, self._rank) if p2p else move.op}", is_p2p=p2p)
            self._statuses.setdefault(
                op.group.key, GroupStatus(self._pg_id[op.group.key], op.group)
            ).enqueued = counters.op

    def _gloo(self, call: Call) -> None:
        op, kernel = call.op, call.kernel
        assert op.group is not None
        counters = self._counters[op.group.key]
        if op.kind == "collective":
            counters.seq += 1
            counters.op += 1
            counters.single += 1
            self.numbers[call.index] = counters.seq
            self._entry(call, op, kernel, f"gloo:{GLOO_NAMES.get(op.op, op.op)}")
        else:
            counters.op += max(1, len(op.parts))
        self._note(op.group, counters.op, kernel)

    def _entry(self, call: Call, op: Op, kernel: Kernel | None, name: str, is_p2p: bool = False) -> None:
        assert op.group is not None
        counters, moment = self._counters[op.group.key], self._moment
        state, started, completed, duration, retired = self._progress(kernel)
        shown = GLOO_NAMES.get(op.op, op.op) if self._backend == "gloo" else op.op
        ins, outs = ((), ()) if shown in SIZELESS else (op.ins, op.outs)
        if self._backend == "gloo" and op.op == "_reduce_scatter_base":
            outs = ins
        if self._backend == "gloo" and shown == "all_gather" and len(outs) == 1 and len(ins) == 1:
            outs = ((len(op.group.ranks), *ins[0]),)
        self.recording.entries.append(
            Entry(
                len(self.recording.entries), self._pg_id[op.group.key], op.group, max(0, counters.seq), counters.p2p,
                counters.op, is_p2p, name, call.created + moment.offset_ns, ins, outs, op.dtype, state, started,
                completed, duration, retired, op.site, counters.single,
            )
        )  # fmt: skip

    def _progress(self, kernel: Kernel | None) -> tuple[str, int | None, int | None, float | None, bool]:
        if kernel is None:
            return "scheduled", None, None, None, False
        moment = self._moment
        if moment.hook:
            return "scheduled", None, None, None, True
        done = kernel.ended is not None and kernel.ended <= moment.dumped_ns
        if self._backend == "gloo":
            return "scheduled", None, None, None, done or kernel.failed
        began = kernel.started is not None and kernel.started <= moment.dumped_ns and moment.timing
        started = self._noticed(kernel.started) if began else None
        if done:
            assert kernel.ended is not None
            assert kernel.started is not None
            duration = (kernel.ended - kernel.started) / 1e6 if moment.timing else None
            return "completed", started, self._noticed(kernel.ended), duration, True
        return ("started" if began else "scheduled"), started, None, None, False

    def _noticed(self, at_ns: int | None) -> int | None:
        if at_ns is None:
            return None
        phase = (self._rank * 7_919_333) % POLL_NS
        poll = at_ns + (phase - at_ns) % POLL_NS
        return min(poll, self._moment.dumped_ns) + self._moment.offset_ns

    def _note(self, group: Group, number: int, kernel: Kernel) -> None:
        status = self._statuses.setdefault(group.key, GroupStatus(self._pg_id[group.key], group))
        status.enqueued = number
        done = kernel.ended is not None and kernel.ended <= self._moment.dumped_ns
        if done or kernel.failed:
            status.completed = number
        if self._backend != "gloo" and self._moment.timing and kernel.started is not None:
            status.started = number

    def _close(self) -> None:
        recording, moment = self.recording, self._moment
        recording.statuses = sorted(self._statuses.values(), key=lambda status: status.pg_id)
        if moment.late_retired:
            done = [entry for entry in recording.entries if entry.retired]
            if done:
                done[-1].retired = False
        if moment.buffer:
            recording.entries = recording.entries[-moment.buffer :]
        if moment.active_only:
            recording.entries = [entry for entry in recording.entries if entry.state != "completed"]


def _route(op: Op, rank: int) -> str:
    assert op.group is not None
    here, there = op.group.local(rank), op.group.local(op.peer)
    return f"send {here}->{there}" if op.kind == "send" else f"recv {here}<-{there}"


def record_all(
    job: Job, run: Execution, moments: dict[int, Moment]
) -> tuple[list[Recording], dict[tuple[int, int], int]]:
    """Return every rank's recordings, and (rank, program index) → sequence number."""
    recordings: list[Recording] = []
    numbers: dict[tuple[int, int], int] = {}
    for rank, moment in moments.items():
        used = {group.backend: None for group in job.groups if rank in group.ranks}
        for backend in used:
            recorder = Recorder(job, rank, backend, moment)
            recordings.append(recorder.record(run.calls[rank]))
            numbers.update({(rank, at): number for at, number in recorder.numbers.items()})
    return recordings, numbers
