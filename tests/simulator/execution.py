"""Runs a job: hosts enqueue, streams execute in order, collectives and transfers meet their peers or wait for ever.

The semantics are those of NCCL streams and gloo threads. NCCL: a call returns at once; one stream a communicator, un-
batched transfers on a stream a pair; a kernel waits for its stream and for the compute stream, then for its peers.
gloo: a blocking call holds the host; up to two asynchronous calls of a group run at a time; a root that only gives
does not wait. Everything is a data-flow network, so the order in which ranks are looked at has no influence.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from .program import Group, Job, Op, numel

T0 = 1_760_000_000_000_000_000
GLOO_THREADS = 2


@dataclass(slots=True, eq=False)
class Kernel:
    """One piece of device work (or of a gloo thread's)."""

    rank: int
    op: Op
    created: int
    missing: int = 0
    ready: int = 0
    started: int | None = None
    ended: int | None = None
    dependents: list[Kernel] = field(default_factory=list)
    host_waits: bool = False
    open_parts: int = 0
    failed: bool = False


@dataclass(slots=True)
class Call:
    """One call as its rank's host made it."""

    index: int
    """Position in the rank's program."""
    op: Op
    created: int
    kernel: Kernel


@dataclass(slots=True)
class Execution:
    """What happened: every rank's calls, and where each host stands."""

    calls: list[list[Call]]
    halted: dict[int, str]
    """Rank → ``cpu`` or ``dead``, for hosts that met a fault."""
    waiting: dict[int, int]
    """Rank → program index at which its host waits for work that never ended."""
    quiet_ns: int
    """When the last thing happened."""
    halted_ns: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Instance:
    group: Group
    kernels: dict[int, Kernel] = field(default_factory=dict)
    closed: bool = False


@dataclass(slots=True)
class _Channel:
    sends: list[tuple[Kernel, Op]] = field(default_factory=list)
    recvs: list[tuple[Kernel, Op]] = field(default_factory=list)
    sends_ready: dict[int, Kernel] = field(default_factory=dict)
    recvs_ready: dict[int, Kernel] = field(default_factory=dict)


@dataclass(slots=True)
class _Pool:
    """The threads of one gloo group on one rank."""

    begun: list[Kernel] = field(default_factory=list)
    queue: deque[Kernel] = field(default_factory=deque)
    last_ended_ns: int = 0


class Machine:
    """Executes one job."""

    def __init__(self, job: Job, seed: int, jitter_ns: int = 60_000) -> None:
        """Prepare the hosts of ``job``; ``jitter_ns`` is the noise of host time before each call."""
        self._job = job
        self._luck = random.Random(seed)
        self._jitter = jitter_ns
        world = job.world
        self._at = [0] * world
        self._host = [T0 + self._luck.randrange(2_000_000) for _ in range(world)]
        self._compute: list[Kernel | None] = [None] * world
        self._streams: dict[tuple[int, int, int], Kernel] = {}
        self._order: dict[tuple[int, int], int] = {}
        self._instances: dict[tuple[int, int], _Instance] = {}
        self._place: dict[int, tuple[int, int]] = {}
        self._channels: dict[tuple[int, int, int, bool], _Channel] = {}
        self._slots: dict[int, list[tuple[_Channel, int, bool]]] = {}
        self._pools: dict[tuple[int, int], _Pool] = {}
        self._blocked: dict[int, Kernel] = {}
        self._events: deque[Callable[[], None]] = deque()
        self._latest = T0
        self._halted: dict[int, str] = {}
        self._halted_ns: dict[int, int] = {}
        self._calls: list[list[Call]] = [[] for _ in range(world)]

    def run(self) -> Execution:
        """Run until nothing can happen any more."""
        for rank in range(self._job.world):
            self._events.append(lambda rank=rank: self._advance(rank))  # type: ignore[misc]
        while self._events:
            self._events.popleft()()
        waiting = {rank: self._at[rank] for rank in self._blocked}
        return Execution(self._calls, self._halted, waiting, self._latest, self._halted_ns)

    # host

    def _advance(self, rank: int) -> None:
        program = self._job.programs[rank]
        while self._at[rank] < len(program):
            op = program[self._at[rank]]
            if op.kind == "stop":
                self._halted[rank] = op.op
                self._halted_ns[rank] = self._host[rank]
                return
            wait_for = self._perform(rank, op)
            if wait_for is not None and wait_for.ended is None:
                wait_for.host_waits = True
                self._blocked[rank] = wait_for
                return
            if wait_for is not None and wait_for.ended is not None:
                self._host[rank] = max(self._host[rank], wait_for.ended)
            self._at[rank] += 1

    def _perform(self, rank: int, op: Op) -> Kernel | None:
        """Do one operation on the host; return the kernel it has to wait for."""
        if op.kind == "cpu":
            self._host[rank] += op.ns
            return None
        if op.kind == "gpu":
            if self._is_host_only:
                self._host[rank] += op.ns
                return None
            self._compute[rank] = self._enqueue(rank, op, [self._compute[rank]])
            return None
        if op.kind == "join":
            assert op.group is not None
            if op.group.backend == "gloo":
                return self._join_threads(rank, self._pool(rank, op.group))
            last = self._streams.get((rank, op.group.key, -1))
            self._compute[rank] = self._enqueue(rank, Op("gpu"), [self._compute[rank], last])
            return None
        if op.kind == "sync":
            return self._compute[rank]
        return self._call(rank, op)

    @property
    def _is_host_only(self) -> bool:
        return self._job.groups[0].backend == "gloo"

    def _call(self, rank: int, op: Op) -> Kernel | None:
        assert op.group is not None
        self._host[rank] += 20_000 + self._luck.randrange(self._jitter)
        created = self._host[rank]
        gloo = op.group.backend == "gloo"
        stream = (rank, op.group.key, op.peer if op.kind in ("send", "recv") else -1)
        waits = [] if gloo else [self._streams.get(stream), self._compute[rank]]
        kernel = self._enqueue(rank, op, waits)
        self._calls[rank].append(Call(self._at[rank], op, created, kernel))
        self._streams[stream] = kernel
        if not op.blocking:
            return None
        if gloo:
            return kernel
        self._compute[rank] = kernel
        return None

    # device

    def _enqueue(self, rank: int, op: Op, waits: list[Kernel | None]) -> Kernel:
        kernel = Kernel(rank, op, self._host[rank], ready=self._host[rank] + 5_000)
        self._latest = max(self._latest, kernel.created)
        self._register(kernel)
        for other in {id(wait): wait for wait in waits if wait is not None}.values():
            if other.ended is None:
                other.dependents.append(kernel)
                kernel.missing += 1
            else:
                kernel.ready = max(kernel.ready, other.ended)
        if op.kind == "collective" and op.group is not None and op.group.backend == "gloo":
            self._to_thread(kernel, op.group)
        elif not kernel.missing:
            self._start(kernel)
        return kernel

    def _join_threads(self, rank: int, pool: _Pool) -> Kernel | None:
        """Return a call that the host must wait for; without one, the host has waited until the last one ended."""
        running = next((call for call in pool.begun if call.ended is None), None)
        if running is None:
            self._host[rank] = max(self._host[rank], pool.last_ended_ns)
        return running

    def _pool(self, rank: int, group: Group) -> _Pool:
        return self._pools.setdefault((rank, group.key), _Pool())

    def _to_thread(self, kernel: Kernel, group: Group) -> None:
        """Start the call when a thread of its group's pool is free, in the order in which the host made the calls."""
        pool = self._pool(kernel.rank, group)
        pool.begun = [call for call in pool.begun if call.ended is None] + [kernel]
        if len(pool.begun) <= GLOO_THREADS:
            self._start(kernel)
        else:
            pool.queue.append(kernel)

    def _thread_is_free(self, kernel: Kernel, at_ns: int) -> None:
        group = kernel.op.group
        if kernel.op.kind != "collective" or group is None or group.backend != "gloo":
            return
        pool = self._pool(kernel.rank, group)
        pool.last_ended_ns = max(pool.last_ended_ns, at_ns)
        if pool.queue:
            following = pool.queue.popleft()
            following.ready = max(following.ready, at_ns)
            self._events.append(lambda: self._start(following))

    def _register(self, kernel: Kernel) -> None:
        """Give the call its place among those of its communicator, in the order in which the host makes them."""
        op = kernel.op
        if op.kind in ("collective", "coalesced"):
            assert op.group is not None
            place = self._order.get((kernel.rank, op.group.key), 0)
            self._order[kernel.rank, op.group.key] = place + 1
            self._place[id(kernel)] = (op.group.key, place)
        elif op.kind in ("send", "recv"):
            self._slots[id(kernel)] = [self._slot(kernel, op, False)]
            kernel.open_parts = 1
        elif op.kind == "batch":
            self._slots[id(kernel)] = [self._slot(kernel, part, True) for part in op.parts]
            kernel.open_parts = len(op.parts)

    def _slot(self, kernel: Kernel, op: Op, batched: bool) -> tuple[_Channel, int, bool]:
        assert op.group is not None
        sends = op.kind == "send"
        ends = (kernel.rank, op.peer) if sends else (op.peer, kernel.rank)
        channel = self._channels.setdefault((op.group.key, *ends, batched), _Channel())
        side = channel.sends if sends else channel.recvs
        side.append((kernel, op))
        return channel, len(side) - 1, sends

    def _start(self, kernel: Kernel) -> None:
        if kernel.op.never == "starts":
            return
        kernel.started = kernel.ready
        kind = kernel.op.kind
        if kind == "gpu":
            self._end(kernel, kernel.started + kernel.op.ns)
        elif kind in ("collective", "coalesced"):
            self._meet(kernel)
        else:
            for channel, at, sends in self._slots[id(kernel)]:
                self._transfer(channel, at, kernel, sends)

    def _meet(self, kernel: Kernel) -> None:
        group = kernel.op.group
        assert group is not None
        instance = self._instances.setdefault(self._place[id(kernel)], _Instance(group))
        instance.kernels[kernel.rank] = kernel
        if group.backend == "gloo" and kernel.op.root >= 0:
            self._meet_rooted(instance)
        elif len(instance.kernels) == len(group.ranks):
            self._finish(instance)

    def _meet_rooted(self, instance: _Instance) -> None:
        """A gloo broadcast: the root gives and leaves, the others wait for the root only."""
        root = next(iter(instance.kernels.values())).op.root
        giver = instance.kernels.get(root)
        if giver is None or giver.op.root != root or giver.started is None:
            return
        for member in instance.kernels.values():
            fits = fitting(member.op, giver.op)
            if member.ended is None and member.started is not None and fits and member.op.never != "ends":
                self._end(member, max(member.started, giver.started) + member.op.ns // 2)

    def _finish(self, instance: _Instance) -> None:
        kernels = list(instance.kernels.values())
        if instance.closed or not all(fitting(kernels[0].op, other.op) for other in kernels[1:]):
            return
        instance.closed = True
        start = max(kernel.started or 0 for kernel in kernels)
        if any(self._killed(kernel.rank, start) for kernel in kernels):
            return
        for kernel in kernels:
            if kernel.op.never != "ends" and kernel.ended is None:
                self._end(kernel, start + kernel.op.ns + self._luck.randrange(20_000))

    def _transfer(self, channel: _Channel, at: int, kernel: Kernel, sends: bool) -> None:
        (channel.sends_ready if sends else channel.recvs_ready)[at] = kernel
        other = (channel.recvs_ready if sends else channel.sends_ready).get(at)
        if other is None:
            return
        if numel(channel.sends[at][1].ins) != numel(channel.recvs[at][1].outs):
            return
        start = max(kernel.started or 0, other.started or 0)
        if self._killed(kernel.rank, start) or self._killed(other.rank, start):
            return
        for end in (kernel, other):
            end.open_parts -= 1
            end.ready = max(end.ready, start)
            if not end.open_parts and end.op.never != "ends":
                self._end(end, end.ready + end.op.ns)

    def _killed(self, rank: int, at_ns: int) -> bool:
        return self._halted.get(rank) == "dead" and at_ns > self._halted_ns[rank]

    def _end(self, kernel: Kernel, at_ns: int) -> None:
        if self._killed(kernel.rank, at_ns):
            return
        kernel.ended = at_ns
        self._latest = max(self._latest, at_ns)
        self._thread_is_free(kernel, at_ns)
        for other in kernel.dependents:
            other.missing -= 1
            other.ready = max(other.ready, at_ns)
            if not other.missing:
                self._events.append(lambda other=other: self._start(other))  # type: ignore[misc]
        if kernel.host_waits:
            self._events.append(lambda: self._resume(kernel.rank, kernel))

    def _resume(self, rank: int, kernel: Kernel) -> None:
        if self._blocked.get(rank) is not kernel or kernel.ended is None:
            return
        del self._blocked[rank]
        self._host[rank] = max(self._host[rank], kernel.ended) + 10_000
        if self._job.programs[rank][self._at[rank]].kind != "join":
            # a join looks again, for the next call that has not ended
            self._at[rank] += 1
        self._advance(rank)


def fitting(one: Op, other: Op) -> bool:
    """Whether two members' calls can meet: same operation, element type and amount of data."""
    if (one.op, one.dtype, one.root) != (other.op, other.dtype, other.root):
        return False
    if one.op.startswith("all_to_all") or "barrier" in one.op:
        return True
    if one.kind == "coalesced":
        return [(part.op, numel(part.ins)) for part in one.parts] == [
            (part.op, numel(part.ins)) for part in other.parts
        ]
    return numel(one.ins) == numel(other.ins)


def execute(job: Job, seed: int, jitter_ns: int = 60_000) -> Execution:
    """Run ``job`` to its end or until it hangs."""
    return Machine(job, seed, jitter_ns).run()
