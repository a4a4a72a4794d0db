"""A job of forked gloo ranks that keeps what goes into every collective and what comes out, byte for byte.

Usage: gloo_collectives.py WORLD FOLDER. Each rank leaves rank<r>.bin and rank<r>.jsonl, whose lines name the shape,
offset and length of each tensor; all of it is recorded in full in FOLDER/capture, too.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist

from provstore import capture
from provstore.capture.content.limits import Limits

DTYPES = ("float32", "bfloat16", "float16", "int32")
Case = tuple[str, str, int, "str | None", "int | None"]


def cases(world: int) -> Iterator[Case]:
    """Yield operation, dtype, elements, operator and root."""
    for dtype in DTYPES:
        for count in (1, 3, world + 1, 64 * world + 5, 5000):
            for op in ("all_reduce", "reduce_scatter", "reduce_scatter_tensor"):
                yield op, dtype, count, "sum", None
        for op in ("product", "min", "max", "band", "bxor") if dtype == "int32" else ("avg", "product", "min", "max"):
            yield "all_reduce", dtype, 2 * world + 1, op, None
        yield "all_reduce_coalesced", dtype, 37, "sum", None
        yield "reduce", dtype, world + 1, "sum", world - 1
        yield "broadcast", dtype, 7, None, world - 1
        for op in ("gather", "scatter"):
            yield op, dtype, 5, None, 0
        for op in ("all_gather", "all_gather_into_tensor", "all_to_all", "all_to_all_single"):
            yield op, dtype, 5, None, None
    for dtype in ("float64", "int64", "uint8", "int8"):
        yield "all_reduce", dtype, 131, "sum", None
    for count in (300_001, 1_000_003):
        yield "all_reduce", "float32", count, "sum", None
    yield "reduce_scatter", "bfloat16", 600_001, "sum", None


def values(dtype: str, count: int, seed: int) -> torch.Tensor:
    """Return numbers over several decades, or over all of a whole type."""
    draw, kind = torch.Generator().manual_seed(seed), getattr(torch, dtype)
    if not kind.is_floating_point:
        info = torch.iinfo(kind)
        return torch.randint(info.min, info.max, (count,), generator=draw, dtype=torch.int64).to(kind)
    decades = 1.5 if dtype == "float16" else 3.5
    spread = (torch.rand(count, generator=draw, dtype=torch.float64) * 2 - 1) * decades
    return (torch.randn(count, generator=draw, dtype=torch.float64) * 10**spread).to(kind)


Sides = tuple[list[torch.Tensor], list[torch.Tensor]]


def call(case: Case, rank: int, world: int, seed: int) -> Sides:
    """Run one collective and return what went in and what came out of this rank."""
    op, dtype, count, operator, root = case
    uneven = op.endswith("coalesced")
    mine = [values(dtype, count + at * uneven, 1000 * seed + 10 * rank + at) for at in range(world)]
    if operator:
        return reduced(op, mine, getattr(dist.ReduceOp, operator.upper()), rank == root, root)
    return copied(op, mine, rank == root, root)


def reduced(op: str, mine: list[torch.Tensor], operator: dist.ReduceOp, is_root: bool, root: int | None) -> Sides:
    """Run a collective that combines the ranks."""
    given, result, wide = [one.clone() for one in mine], torch.zeros_like(mine[0]), torch.cat(mine)
    if op == "all_reduce":
        dist.all_reduce(mine[0], operator)
        return given[:1], mine[:1]
    if op == "all_reduce_coalesced":
        dist.all_reduce_coalesced(mine, operator)
        return given, mine
    if op == "reduce":
        dist.reduce(mine[0], root, operator)
        return given[:1], mine[:1] if is_root else []
    if op == "reduce_scatter":
        dist.reduce_scatter(result, mine, operator)
        return given, [result]
    dist.reduce_scatter_tensor(result, wide, operator)
    return [torch.cat(given)], [result]


def copied(op: str, mine: list[torch.Tensor], is_root: bool, root: int | None) -> Sides:
    """Run a collective that only moves bytes."""
    given, empty, wide = [one.clone() for one in mine], [torch.zeros_like(one) for one in mine], torch.cat(mine)
    result = torch.zeros_like(wide)
    match op:
        case "broadcast":
            dist.broadcast(mine[0], root)
            sides = given[:1] if is_root else [], mine[:1]
        case "all_gather":
            dist.all_gather(empty, mine[0])
            sides = given[:1], empty
        case "all_gather_into_tensor":
            dist.all_gather_into_tensor(result, mine[0])
            sides = given[:1], [result]
        case "gather":
            dist.gather(mine[0], empty if is_root else None, root)
            sides = given[:1], empty if is_root else []
        case "scatter":
            dist.scatter(empty[0], mine if is_root else None, root)
            sides = given if is_root else [], empty[:1]
        case "all_to_all":
            dist.all_to_all(empty, mine)
            sides = given, empty
        case "all_to_all_single":
            dist.all_to_all_single(result, wide)
            sides = [torch.cat(given)], [result]
    return sides


def run(rank: int, world: int, folder: Path) -> None:
    """Run all collectives on one rank."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    limits = Limits(steady_share=1e6, escalated_share=1e6, snapshot_bytes_tensor=2 << 20)
    with capture.evidence("job", folder / "capture", mode_floor="full", limits=limits) as recorder:
        recorder.begin_epoch(0)
        keep(rank, world, folder, recorder)
    dist.barrier()
    dist.destroy_process_group()


def keep(rank: int, world: int, folder: Path, recorder: capture.Recorder) -> None:
    """Run all collectives and keep their sides."""
    with (folder / f"rank{rank}.bin").open("wb") as data, (folder / f"rank{rank}.jsonl").open("w") as index:
        for seed, case in enumerate(cases(world)):
            line: dict[str, object] = dict(zip(("op", "dtype", "count", "reduce_op", "root"), case, strict=True))
            for side, tensors in zip(("in", "out"), call(case, rank, world, seed), strict=True):
                places = []
                for tensor in tensors:
                    content = tensor.contiguous().view(torch.uint8).numpy().tobytes()
                    places.append([list(tensor.shape), data.tell(), len(content)])
                    data.write(content)
                line[side] = places
            index.write(json.dumps(line) + "\n")
            recorder.step(seed)


def main() -> int:
    """Fork the ranks: torch is loaded once for all."""
    world, folder = int(sys.argv[1]), Path(sys.argv[2])
    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            try:
                run(rank, world, folder)
                os._exit(0)
            except BaseException:  # noqa: BLE001 - a forked rank must not go on as its parent
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main())
