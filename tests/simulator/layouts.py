"""Parallel layouts as programs: data, sharded, hybrid, tensor/pipeline, expert and context parallel, and wait rings."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .program import Group, Job, Op, Shapes

MS = 1_000_000
Ops = list[Op]


@dataclass(frozen=True, slots=True)
class Shape3D:
    """How big a job is."""

    world: int
    steps: int = 4
    layers: int = 2
    micro: int = 4
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    shard: int = 1
    backend: str = "nccl"
    batched: bool = False
    """Pipeline sends and receives go through one batch."""
    naming: str = "counter"
    """``counter``, ``hash`` or ``shared`` (one name for every group of a dimension, as ``split_group`` can do)."""
    uniform: bool = False
    """All layers and buckets have the same sizes."""
    sync_p2p: bool = False
    """The host waits for the device after each pipeline transfer."""
    dp_before_pp: bool = False
    """Data-parallel neighbours are numbered before pipeline stages."""
    warm: bool = True
    """The job starts with a broadcast of the parameters."""


class Builder:
    """Makes groups with names as c10d gives them and collects programs."""

    def __init__(self, layout: str, size: Shape3D) -> None:
        """Start a job whose first group is the world."""
        self.size = size
        self.job = Job(
            layout, size.world, programs=[[] for _ in range(size.world)], steps=[[] for _ in range(size.world)]
        )
        self._counter = 0
        self.world = self.group("default_pg", range(size.world), name="0")

    def group(self, desc: str, ranks: Sequence[int], *, name: str | None = None, backend: str | None = None) -> Group:
        """Create a group; every call takes the next name, as every rank of a job makes every group."""
        members = tuple(ranks)
        if name is None:
            self._counter += 1
            naming = self.size.naming
            digest = hashlib.sha1(repr((desc, members)).encode()).hexdigest()
            name = {"hash": digest, "shared": f"0:split:{desc}"}.get(naming, str(self._counter))
        made = Group(len(self.job.groups), name, desc, members, backend or self.size.backend)
        self.job.groups.append(made)
        return made

    def partition(self, desc: str, sets: Sequence[Sequence[int]]) -> dict[int, Group]:
        """Create one group a rank set and return rank → its group."""
        return {rank: group for ranks in sets for group in [self.group(desc, ranks)] for rank in ranks}

    def run(self, init: Callable[[int], Ops], step: Callable[[int, int], Ops]) -> Job:
        """Fill in every rank's program: its start, then its steps."""
        for rank in range(self.size.world):
            program = self.job.programs[rank]
            if self.size.warm:
                program.extend(init(rank))
            for number in range(self.size.steps):
                self.job.steps[rank].append(len(program))
                program.append(Op("cpu", op="step", ns=2 * MS))
                program.extend(step(rank, number))
            program.append(Op("sync"))
        return self.job


def collective(group: Group, op: str, ins: Shapes, outs: Shapes | None = None, **more: object) -> Op:
    """Return one collective call; its outputs equal its inputs unless given."""
    values: dict[str, object] = {"ns": MS // 2, "outs": ins if outs is None else outs}
    return Op("collective", group, op, ins, **{**values, **more})  # type: ignore[arg-type]


def gather(group: Group, rows: int, hidden: int, site: int, **more: object) -> Op:
    """Return an all-gather of one shard a member."""
    return collective(
        group, "_all_gather_base", ((rows, hidden),), ((rows * len(group.ranks), hidden),), site=site, **more
    )


def scatter_sum(group: Group, rows: int, hidden: int, site: int, **more: object) -> Op:
    """Return a reduce-scatter to one shard a member."""
    return collective(
        group, "_reduce_scatter_base", ((rows * len(group.ranks), hidden),), ((rows, hidden),), site=site, **more
    )


def start(group: Group) -> Ops:
    """Return a broadcast of the parameters and a barrier."""
    return [
        collective(group, "broadcast", ((4096,),), site=12, dtype="Float", root=group.ranks[0]),
        collective(
            group, "all_reduce" if group.backend == "gloo" else "all_reduce_barrier", ((1,),), site=14, dtype="Float"
        ),
        Op("sync"),
    ]


def norm(group: Group) -> Ops:
    """Return the scalar all-reduce that ends a step, and the host's wait for it."""
    return [collective(group, "all_reduce", ((1,),), site=90, dtype="Float", ns=MS // 5), Op("sync")]


def _width(size: Shape3D, layer: int) -> int:
    return 512 if size.uniform else 256 * (layer + 2)


def ddp(size: Shape3D) -> Job:
    """Data parallel only: overlapped bucket all-reduces, then the loss."""
    build = Builder("ddp", size)

    def step(_rank: int, _number: int) -> Ops:
        ops = [Op("gpu", ns=3 * MS)]
        for layer in range(size.layers):
            ops.append(Op("gpu", ns=MS))
            width = _width(size, layer)
            ops.append(collective(build.world, "all_reduce", ((width, 64),), site=40, dtype="Float", blocking=False))
        return [*ops, Op("join", build.world), *norm(build.world)]

    return build.run(lambda _rank: start(build.world), step)


def fsdp(size: Shape3D) -> Job:
    """Fully sharded on one group, parameters gathered one layer ahead."""
    build = Builder("fsdp", size)
    return build.run(
        lambda _rank: start(build.world), lambda _rank, _number: _sharded(build.world, None, size) + norm(build.world)
    )


def hsdp(size: Shape3D) -> Job:
    """Sharded inside a node, replicated between nodes."""
    build = Builder("hsdp", size)
    nodes = [range(at, at + size.shard) for at in range(0, size.world, size.shard)]
    shard = build.partition("mesh_shard", nodes)
    replicate = build.partition("mesh_replicate", [range(at, size.world, size.shard) for at in range(size.shard)])

    def step(rank: int, _number: int) -> Ops:
        return _sharded(shard[rank], replicate[rank], size) + norm(build.world)

    return build.run(lambda _rank: start(build.world), step)


def _sharded(shard: Group, replicate: Group | None, size: Shape3D) -> Ops:
    ops: Ops = [gather(shard, _width(size, 0), 64, 30, blocking=False)]
    for layer in range(size.layers):
        ops.append(Op("join", shard))
        if layer + 1 < size.layers:
            ops.append(gather(shard, _width(size, layer + 1), 64, 30, blocking=False))
        ops.append(Op("gpu", ns=2 * MS))
    for layer in reversed(range(size.layers)):
        ops.append(gather(shard, _width(size, layer), 64, 33))
        ops.append(Op("gpu", ns=3 * MS))
        ops.append(scatter_sum(shard, _width(size, layer), 64, 36, dtype="Float", blocking=replicate is not None))
        if replicate is not None:
            ops.append(
                collective(
                    replicate, "all_reduce", ((_width(size, layer), 64),), site=38, dtype="Float", blocking=False
                )
            )
    ops.append(Op("join", shard))
    return ops if replicate is None else [*ops, Op("join", replicate)]


def megatron(size: Shape3D) -> Job:
    """Tensor × pipeline × data parallel, one-forward-one-backward."""
    build = Builder("megatron", size)
    tp, pp = size.tp, size.pp
    dp = size.world // (tp * pp)

    def at(d: int, p: int, t: int) -> int:
        return (p * dp + d) * tp + t if size.dp_before_pp else (d * pp + p) * tp + t

    cells = [(d, p, t) for d in range(dp) for p in range(pp) for t in range(tp)]
    place = {at(*cell): cell for cell in cells}
    tps = build.partition(
        "TENSOR_MODEL_PARALLEL_GROUP", [[at(d, p, t) for t in range(tp)] for d in range(dp) for p in range(pp)]
    )
    pps = build.partition(
        "PIPELINE_MODEL_PARALLEL_GROUP", [[at(d, p, t) for p in range(pp)] for d in range(dp) for t in range(tp)]
    )
    dps = build.partition(
        "DATA_PARALLEL_GROUP", [[at(d, p, t) for d in range(dp)] for p in range(pp) for t in range(tp)]
    )

    def step(rank: int, _number: int) -> Ops:
        d, p, t = place[rank]
        ends = (at(d, p - 1, t) if p else -1, at(d, p + 1, t) if p + 1 < pp else -1)
        pipe = _Pipe(size, pps[rank], ends, tps[rank] if tp > 1 else None)
        ops = pipe.schedule(p)
        if dp > 1:
            ops.append(scatter_sum(dps[rank], 1024, 8, 80, dtype="Float"))
        ops += norm(build.world)
        return [*ops, gather(dps[rank], 1024, 8, 84)] if dp > 1 else ops

    return build.run(lambda _rank: start(build.world), step)


@dataclass(frozen=True, slots=True)
class _Pipe:
    size: Shape3D
    group: Group
    ends: tuple[int, int]
    tensor: Group | None

    def schedule(self, stage: int) -> Ops:
        micro = self.size.micro
        warm = min(self.size.pp - stage - 1, micro)
        ops: Ops = []
        for _ in range(warm):
            ops += self.move([("recv", 0)]) + self.forward() + self.move([("send", 1)])
        steady = micro - warm
        if steady:
            ops += self.move([("recv", 0)])
        for at in range(steady):
            ops += self.forward() + self.move([("send", 1), ("recv", 1)]) + self.backward()
            ops += self.move([("send", 0)] if at == steady - 1 else [("recv", 0), ("send", 0)])
        for _ in range(warm):
            ops += self.move([("recv", 1)]) + self.backward() + self.move([("send", 0)])
        return ops

    def forward(self) -> Ops:
        return self._layers(50, MS)

    def backward(self) -> Ops:
        return self._layers(60, 2 * MS)

    def _layers(self, site: int, ns: int) -> Ops:
        ops: Ops = []
        for layer in range(self.size.layers):
            rows = 64 if self.size.uniform else 64 * (layer + 1)
            if self.tensor is None:
                ops.append(Op("gpu", ns=ns))
                continue
            ops.append(gather(self.tensor, rows, 256, site))
            ops.append(Op("gpu", ns=ns))
            ops.append(scatter_sum(self.tensor, rows, 256, site + 3))
        return ops

    def move(self, wanted: Sequence[tuple[str, int]]) -> Ops:
        moves = [
            Op(
                kind,
                self.group,
                kind,
                ((64, 1, 256),),
                ((64, 1, 256),),
                peer=self.ends[end],
                site=70 + end + 2 * (kind == "recv"),
                ns=MS // 4,
            )
            for kind, end in wanted
            if self.ends[end] >= 0
        ]
        if moves and self.size.batched:
            sends_first = tuple(sorted(moves, key=lambda op: op.kind, reverse=True))
            moves = [Op("batch", self.group, "coalesced", parts=sends_first, site=76, ns=MS // 4)]
        return [*moves, Op("sync")] if moves and self.size.sync_p2p else moves


def expert(size: Shape3D) -> Job:
    """Expert parallel: unequal all_to_all inside expert groups, gradients over the data-parallel groups."""
    build = Builder("expert", size)
    width = size.ep
    eps = build.partition("EXPERT_MODEL_PARALLEL_GROUP", [range(at, at + width) for at in range(0, size.world, width)])
    edps = build.partition("EXPERT_DATA_PARALLEL_GROUP", [range(at, size.world, width) for at in range(width)])

    def step(rank: int, number: int) -> Ops:
        group = eps[rank]
        me = group.local(rank)
        ops: Ops = []
        for layer in range(size.layers):
            luck = random.Random(f"{group.key}/{number}/{layer}")
            table = [[luck.randrange(1, 50) for _ in range(width)] for _ in range(width)]
            sent, got = sum(table[me]), sum(row[me] for row in table)
            ops.append(collective(group, "_all_gather_base", ((width,),), ((width * width,),), site=52, dtype="Long"))
            ops.append(Op("sync"))
            ops.append(collective(group, "all_to_all", ((sent, 128),), ((got, 128),), site=55))
            ops.append(Op("gpu", ns=2 * MS))
            ops.append(collective(group, "all_to_all", ((got, 128),), ((sent, 128),), site=58))
        ops.append(collective(edps[rank], "all_reduce", ((2048, 16),), site=70, dtype="Float", blocking=False))
        ops.append(collective(build.world, "all_reduce", ((1024, 16),), site=72, dtype="Float"))
        return [*ops, Op("join", edps[rank]), *norm(build.world)]

    return build.run(lambda _rank: start(build.world), step)


def context(size: Shape3D) -> Job:
    """Context parallel: rings of batched sends and receives, then a gradient all-reduce."""
    build = Builder("context", size)
    cps = build.partition("CONTEXT_PARALLEL_GROUP", [range(at, at + size.cp) for at in range(0, size.world, size.cp)])

    def step(rank: int, _number: int) -> Ops:
        group, here = cps[rank], cps[rank].local(rank)
        right, left = group.ranks[(here + 1) % size.cp], group.ranks[(here - 1) % size.cp]
        ops: Ops = []
        for layer in range(size.layers):
            for _ in range(size.cp - 1):
                block = ((32 * (layer + 1), 64),)
                parts = (
                    Op("send", group, "send", block, block, peer=right, site=54),
                    Op("recv", group, "recv", block, block, peer=left, site=54),
                )
                ops.append(Op("batch", group, "coalesced", parts=parts, site=56, ns=MS // 4))
                ops.append(Op("gpu", ns=MS))
            ops.append(
                collective(
                    build.world, "all_reduce", ((_width(size, layer), 32),), site=66, dtype="Float", blocking=False
                )
            )
        return [*ops, Op("join", build.world), *norm(build.world)]

    return build.run(lambda _rank: start(build.world), step)


def two_backends(size: Shape3D) -> Job:
    """Tensor parallel on the device, bookkeeping of the host through a second backend."""
    build = Builder("two_backends", size)
    host = build.group("default_pg", range(size.world), name="0", backend="gloo")
    tps = build.partition("mesh_tp", [range(at, at + size.tp) for at in range(0, size.world, size.tp)])

    def step(rank: int, _number: int) -> Ops:
        ops: Ops = []
        for layer in range(size.layers):
            ops.append(Op("gpu", ns=MS))
            ops.append(collective(tps[rank], "all_reduce", ((_width(size, layer), 8),), site=50))
        ops += norm(build.world)
        ops.append(collective(host, "all_gather", ((4,),), ((size.world, 4),), site=95, dtype="Long"))
        return ops

    return build.run(lambda _rank: start(build.world), step)


def coalesced(size: Shape3D) -> Job:
    """Sharded with the gathers of several tensors started together."""
    build = Builder("coalesced", size)
    members = len(build.world.ranks)

    def step(_rank: int, _number: int) -> Ops:
        ops: Ops = []
        for layer in range(size.layers):
            parts = tuple(
                Op(
                    "collective",
                    build.world,
                    "_all_gather_base",
                    ((_width(size, layer), width),),
                    ((_width(size, layer) * members, width),),
                    site=30,
                )
                for width in (8, 16, 24)
            )
            ops.append(Op("coalesced", build.world, "ALLGATHER_coalesced", parts=parts, site=31, ns=MS))
            ops.append(Op("gpu", ns=2 * MS))
            ops.append(scatter_sum(build.world, _width(size, layer), 8, 36))
        return ops + norm(build.world)

    return build.run(lambda _rank: start(build.world), step)


def ring_of_pairs(size: Shape3D, cycle: int, reversed_order: bool) -> Job:
    """A job whose first ``cycle`` ranks share a ring of pair groups; with the order reversed they wait in a circle."""
    build = Builder("ring_of_pairs", size)
    pairs = [build.group(f"pair_{at}", sorted((at, (at + 1) % cycle))) for at in range(cycle)]

    def step(rank: int, number: int) -> Ops:
        ops: Ops = [Op("gpu", ns=2 * MS), collective(build.world, "all_reduce", ((512, 8),), site=40, dtype="Float")]
        if rank < cycle:
            order = [pairs[(rank - 1) % cycle], pairs[rank]]
            wrong = reversed_order and number == size.steps - 1
            if rank == 0 and not wrong:
                order.reverse()
            ops += [collective(group, "all_reduce", ((256, 4),), site=48 + at) for at, group in enumerate(order)]
        return ops + norm(build.world)

    return build.run(lambda _rank: start(build.world), step)


LAYOUTS: dict[str, Callable[[Shape3D], Job]] = {
    "ddp": ddp,
    "fsdp": fsdp,
    "hsdp": hsdp,
    "megatron": megatron,
    "expert": expert,
    "context": context,
    "two_backends": two_backends,
    "coalesced": coalesced,
}
