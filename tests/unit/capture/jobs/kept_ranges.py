"""Each collective twice: with whole inputs, and with inputs of which only what the kept outputs need is left."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from provstore.evidence.content import selection

ELEMENTS = 3 * (1 << 20) // 4 + 12
SOURCE = 1


def called(op: str, given: torch.Tensor) -> torch.Tensor:
    ranks = dist.get_world_size()
    if op == "all_reduce":
        got = given.clone()
        dist.all_reduce(got)
    elif op == "broadcast":
        got = given.clone()
        dist.broadcast(got, SOURCE)
    elif op == "all_gather_into_tensor":
        got = given.new_empty(given.numel() * ranks)
        dist.all_gather_into_tensor(got, given)
    elif op == "reduce_scatter_tensor":
        got = given.new_empty(given.numel() // ranks)
        dist.reduce_scatter_tensor(got, given)
    else:
        got = torch.empty_like(given)
        dist.all_to_all_single(got, given)
    return got


def differs(op: str, rank: int, ranks: int, true: torch.Tensor) -> dict[str, object]:
    """Say which kept elements change when all that is not needed is replaced, and how much was kept."""
    whole = called(op, true)
    sizes = [whole.numel() * 4]
    chunks = selection.kept_chunks("run", "default@0-2", 1, selection.chunks_of(sizes), 2)
    kept = selection.chunk_ranges(chunks, sizes)
    needed = selection.input_ranges(op, kept, ranks=ranks, place=rank, sizes=[true.numel() * 4], is_root=rank == SOURCE)
    left = torch.full_like(true, -99)
    for start, end in needed or ():
        left[start // 4 : end // 4] = true[start // 4 : end // 4]
    again = called(op, left)
    wrong = sum(int((again[a // 4 : b // 4] != whole[a // 4 : b // 4]).sum()) for a, b in kept)
    return {
        "wrong": wrong,
        "outside": int((again != whole).sum()) - wrong,
        "kept": sum(b - a for a, b in kept),
        "needed": sum(b - a for a, b in needed or ()),
    }


def main() -> None:
    rank, ranks, store, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    dist.init_process_group("gloo", store=dist.FileStore(store, ranks), rank=rank, world_size=ranks)
    true = torch.randn(ELEMENTS, generator=torch.Generator().manual_seed(rank))
    found = {op: differs(op, rank, ranks, true) for op in sys.argv[5:]}
    out.mkdir(exist_ok=True)
    (out / f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


main()
