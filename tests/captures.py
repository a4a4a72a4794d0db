"""Capture directories made by hand, line by line: a second way to write what a recorder writes, for tests.

Digests come from their definition; only the canonical encoding, which has tests of its own, is the package's.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provstore.model import canonical

START_NS = 1_796_000_000_000_000_000
CHUNK = 1 << 20
DELTA = {"mode": "delta", "reason": "local mutation, low risk", "rule": "6"}
FULL = {"mode": "full", "reason": "external escalation signal", "rule": "P1"}
READ = {"mode": "validation", "reason": "read-only, no anomaly", "rule": "7"}


def tensor_digest(dtype: str, shape: list[int], data: bytes) -> str:
    """Digest of a tensor of at most one chunk, as it is defined."""
    assert len(data) <= CHUNK
    header = json.dumps(
        {"byteorder": "little", "dtype": dtype, "nbytes": len(data), "order": "C", "shape": shape, "v": 1},
        separators=(",", ":"),
        sort_keys=True,
    ).encode()
    root = hashlib.sha256(b"\0" + data).digest() if data else hashlib.sha256(b"").digest()
    return "sha256:" + hashlib.sha256(b"provstore-tensor-v1\n" + header + b"\n" + root).hexdigest()


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def statistics(count: int, l2: float) -> str:
    """A line of statistics; what stands in it does not matter here."""
    return canonical.encode({"count": count, "l2": canonical.tag_double(l2)}).decode()


@dataclass(slots=True)
class RankCapture:
    """One rank's file."""

    directory: Path
    rank: int = 0
    world: int = 2
    run: str = "job"
    attempt: int = 0
    header: dict[str, Any] = field(default_factory=dict)
    lines: list[dict[str, Any]] = field(default_factory=list)
    snapshots: bytes = b""
    _ordinal: int = 0
    _seq: int = 0
    _clock: int = START_NS

    def now(self) -> int:
        self._clock += 1_000_000
        return self._clock

    def begin(self, epoch: int, step: int = 0) -> None:
        self.lines.append({"t": "epoch", "epoch": epoch, "step": step, "at_ns": self.now()})

    def end(self, epoch: int, *, closed: bool = True, reason: str | None = "finished") -> None:
        self.lines.append(
            {"t": "epoch-end", "epoch": epoch, "step": 0, "at_ns": self.now(), "closed": closed, "reason": reason}
        )

    def call(self, epoch: int, values: bytes | None = floats(1.0, 2.0), **more: Any) -> dict[str, Any]:
        """One all_reduce in place of float32, with digest and statistics of both sides."""
        said: dict[str, Any] = {
            "t": "call", "ordinal": self._ordinal, "epoch": epoch, "step": 0, "at_ns": self.now(), "op": "all_reduce",
            "backend": "gloo", "group": f"0@0-{self.world - 1}", "desc": "default_pg", "seq": self._seq,
            "channel": "collective", "side": "in", "class": "mutate-local", "policy": DELTA, "mode": "delta",
            "shortfall": [], "finite_in": True, "finite_out": True, "reduce_op": "sum",
        }  # fmt: skip
        if values is not None:
            shape = [len(values) // 4]
            digest = tensor_digest("float32", shape, values)
            line = statistics(shape[0], 1.0)
            said |= {f"shapes_{side}": [shape] for side in ("in", "out")}
            said |= {f"dtypes_{side}": ["float32"] for side in ("in", "out")}
            said |= {"in": digest, "out": digest, "kind": "provstore-tensor-v1", "stats_in": line, "stats_out": line}
        said |= more
        self.lines.append(said)
        self._ordinal += 1
        self._seq += 1
        return said

    def snapshot(self, said: dict[str, Any], side: str, values: bytes) -> dict[str, Any]:
        """Keep the bytes of a call's one tensor."""
        line = {
            "t": "snap", "ordinal": said["ordinal"], "epoch": said["epoch"], "side": side, "arg": 0,
            "file": f"snap-rank{self.rank}-0.bin", "offset": len(self.snapshots), "bytes": len(values), "chunk": 0,
            "chunks": 1, "tensor": said[side], "hash": hashlib.sha256(b"\0" + values).hexdigest(),
        }  # fmt: skip
        self.snapshots += values
        self.lines.append(line)
        return line

    def write(self, torn: bytes = b"") -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        header = {
            "t": "header", "schema": "provstore-capture/1", "run": self.run, "attempt": self.attempt,
            "rank": self.rank, "world_size": self.world, "host": "h", "started_ns": START_NS, "groups": [],
            "env_digest": "sha256:" + "e" * 64, **self.header,
        }  # fmt: skip
        data = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in (header, *self.lines))
        (self.directory / f"capture-rank{self.rank}.jsonl").write_bytes(data + torn)
        if self.snapshots:
            (self.directory / f"snap-rank{self.rank}-0.bin").write_bytes(self.snapshots)
        return self.directory


def healthy(directory: Path, *, epochs: int = 3, world: int = 2, calls: int = 2, **more: Any) -> Path:
    """Whole epochs of all ranks, each with the same few calls."""
    for rank in range(world):
        capture = RankCapture(directory, rank, world, **more)
        for epoch in range(epochs):
            capture.begin(epoch)
            for _ in range(calls):
                capture.call(epoch)
            capture.end(epoch)
        capture.write()
    return directory
