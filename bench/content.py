#!/usr/bin/env python3
"""Digest, statistics and finite test of 64 MiB tensors, beside hashlib and torch's own functions in the same process.

One thread; CPU seconds of the thread, the smallest of some runs, ours and the peer's by turns. The budget is measured
too: what one question costs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from provstore.capture.content.budget import DIGEST, Budget
from provstore.capture.content.digest import tensor_bytes, tensor_digest
from provstore.capture.content.finite import non_finite
from provstore.capture.content.limits import Limits
from provstore.capture.content.snapshot import SnapshotFile
from provstore.capture.content.statistics import statistics

SIZE_MIB = 64
DIGEST_BAR_GB = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """Ours beside a peer."""

    name: str
    ours: float
    """CPU seconds."""
    peer_name: str
    peer: float
    most_ratio: float | None = None
    """Ours over the peer's, at most; ``None``: no bar."""
    most_seconds: float | None = None

    @property
    def is_missed(self) -> bool:
        ratio_missed = self.most_ratio is not None and self.ours > self.most_ratio * self.peer
        return ratio_missed or (self.most_seconds is not None and self.ours > self.most_seconds)

    def __str__(self) -> str:
        bars = [f"≤ {self.most_ratio:g} ×"] if self.most_ratio else []
        bars += [f"≤ {self.most_seconds * 1e3:.0f} ms"] if self.most_seconds else []
        bar = f"  bar {', '.join(bars)}: {'MISSED' if self.is_missed else 'met'}" if bars else ""
        ours, peer = (f"{seconds * 1e3:8.2f} ms" for seconds in (self.ours, self.peer))
        return f"{self.name:<34}{ours}  {self.peer_name:<38}{peer}  ratio {self.ours / self.peer:6.3f}{bar}"


def main() -> int:
    """Measure and print the table; 1 when a bar is missed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeat", type=int, default=7, help="runs of each side; the fastest counts")
    options.add_argument("--json", type=Path, help="write all figures there")
    given = options.parse_args()
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    rows = []
    print(f"{SIZE_MIB} MiB of each type, one thread, torch {torch.__version__}, the fastest of {given.repeat}")
    for row in _rows(torch, given.repeat):
        print(row, flush=True)
        rows.append(row)
    digest = rows[0].ours
    print(
        f"digest: {(SIZE_MIB << 20) / digest / 1e9:.2f} GB/s, sha256 {(SIZE_MIB << 20) / rows[0].peer / 1e9:.2f} GB/s"
    )
    if given.json:
        figures = {row.name: {"ours": row.ours, "peer": row.peer_name, "peers": row.peer} for row in rows}
        given.json.write_text(json.dumps(figures, indent=1))
    return int(any(row.is_missed for row in rows))


def _rows(torch: Any, repeat: int) -> Iterator[Row]:
    count = (SIZE_MIB << 20) // 4
    values = torch.randn(count, generator=torch.Generator().manual_seed(1))
    small = values[:256]
    view = tensor_bytes(torch, values).data

    def row(name: str, ours: Callable[[], Any], peer_name: str, peer: Callable[[], Any], **bars: Any) -> Row:
        found = _fastest(ours, peer, repeat)
        return Row(name, found[0], peer_name, found[1], **bars)

    bar_seconds = (SIZE_MIB << 20) / DIGEST_BAR_GB / 1e9
    yield row("digest float32", lambda: tensor_digest(torch, values), "hashlib.sha256 of the same bytes",
              lambda: hashlib.sha256(view).digest(), most_ratio=1.1, most_seconds=bar_seconds)  # fmt: skip
    yield row("1,000 digests of 1 KiB", lambda: [tensor_digest(torch, small) for _ in range(1000)], "1,000 sha256",
              lambda: [hashlib.sha256(view[:1024]).digest() for _ in range(1000)])  # fmt: skip
    yield row("statistics float32", lambda: statistics(torch, values), "torch.var_mean",
              lambda: torch.var_mean(values), most_ratio=1.0)  # fmt: skip
    yield row("  with difference to the input", lambda: statistics(torch, values, values), "and norm, amax of that",
              lambda: (torch.var_mean(values), (apart := values - values).norm(), apart.abs().amax()),
              most_ratio=1.0)  # fmt: skip
    yield row("finite float32", lambda: non_finite(torch, values), "isfinite().all()",
              lambda: torch.isfinite(values).all(), most_ratio=0.25)  # fmt: skip
    yield row("  the same", lambda: non_finite(torch, values), "aminmax", lambda: torch.aminmax(values), most_ratio=1.1)
    for name in ("bfloat16", "float16", "float8_e4m3fn"):
        narrow = values.repeat(2 if name.endswith("16") else 4).to(getattr(torch, name))
        yield row(f"finite {name}", lambda one=narrow: non_finite(torch, one), "isfinite().all() in float32",
                  lambda one=narrow: torch.isfinite(one.float()).all(), most_ratio=0.25)  # fmt: skip
    yield row("1,000 finite tests of 1 KiB", lambda: [non_finite(torch, small) for _ in range(1000)],
              "1,000 isfinite().all()", lambda: [bool(torch.isfinite(small).all()) for _ in range(1000)])  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        budget = Budget(Limits(), folder)
        yield row("1,000 questions to the budget", lambda: [budget.drop(budget.ask(DIGEST, 9)) for _ in range(1000)],
                  "1,000 sha256 of 1 KiB",
                  lambda: [hashlib.sha256(view[:1024]).digest() for _ in range(1000)])  # fmt: skip
        yield _snapshot_row(torch, values[: 4 << 20], Path(folder), repeat)


def _snapshot_row(torch: Any, tensor: Any, folder: Path, repeat: int) -> Row:
    content = tensor_bytes(torch, tensor)
    tree = content.tree()
    chunks = range(len(tree.leaves))

    def ours() -> None:
        snapshots = SnapshotFile(folder, 0)
        path = folder / snapshots.write(content, tree, chunks)[0].file
        snapshots.close()
        path.unlink()

    def peer() -> None:
        torch.save(tensor, folder / "saved")

    found = _fastest(ours, peer, repeat)
    return Row("snapshot of 16 MiB, durable", found[0], "torch.save of it, not durable", found[1])


def _fastest(ours: Callable[[], Any], peer: Callable[[], Any], repeat: int) -> tuple[float, float]:
    """Return the CPU seconds of the fastest run of each side, taken by turns."""
    best = [float("inf"), float("inf")]
    for _ in range(repeat):
        for side, action in enumerate((ours, peer)):
            began = time.thread_time()
            action()
            best[side] = min(best[side], time.thread_time() - began)
    return best[0], best[1]


if __name__ == "__main__":
    sys.exit(main())
