"""Sorting of more lines than fit into memory: sorted runs in temporary files, merged."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO

RUN_LINES = 200_000


def sorted_lines(lines: Iterable[bytes], run_lines: int = RUN_LINES) -> Iterator[bytes]:
    """Yield ``lines`` in ascending order, holding at most ``run_lines`` of them at a time.

    A line holds no line feed (JSON writes it as an escape).
    """
    runs: list[IO[bytes]] = []
    held: list[bytes] = []
    try:
        for line in lines:
            held.append(line)
            if len(held) == run_lines:
                runs.append(_spill(held))
                held = []
        held.sort()
        yield from heapq.merge(held, *map(_read, runs)) if runs else held
    finally:
        for run in runs:
            run.close()


def _spill(lines: list[bytes]) -> IO[bytes]:
    lines.sort()
    run = tempfile.TemporaryFile(prefix="provstore-")  # noqa: SIM115 - closed by sorted_lines, which outlives it
    run.writelines(line + b"\n" for line in lines)
    run.seek(0)
    return run


def _read(run: IO[bytes]) -> Iterator[bytes]:
    for line in run:
        yield line[:-1]
