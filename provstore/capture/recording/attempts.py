"""Which incarnation of a run begins: a start that is told none takes the first that no earlier start has left files of.

All ranks must agree, and no call is added to the job: whoever is first lays his answer into the store of the default
group, which each rank talked to when the group was made, and the others take it from there. No rank writes a file
before, so what the first one finds is left by earlier starts alone.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from provstore.capture.fail_open import tried

_MOST_FILES = 100
"""Of other ranks, whose headers are looked at."""
_MOST_BYTES = 1 << 20
_starts: Counter[str] = Counter()
"""Recordings of this process, by directory: a second one is another start."""


def next_attempt(torch: Any, run: str, directory: Path, rank: int, stated: int) -> int:
    """Return the attempt of a start that was told none, equal on all ranks where they can agree; never raises.

    Args:
        torch: The module.
        run: The run.
        directory: Where its files go.
        rank: This rank.
        stated: What the launcher says, or 0.
    """
    there, _ = tried(_taken, run, directory, rank)
    taken = there or set()
    own = max(taken) + 1 if stated in taken else stated
    place = str(directory)
    _starts[place] += 1
    agreed, _ = tried(_agreed, torch, f"provstore/{place}/{run}/{_starts[place]}", own)
    return own if agreed is None else agreed


def _agreed(torch: Any, key: str, own: int) -> int:
    store = torch.distributed.distributed_c10d._get_default_store()  # noqa: SLF001  torch has no public name for it
    return int(store.compare_set(key, "", str(own)))


def _taken(run: str, directory: Path, rank: int) -> set[int]:
    """Return the attempts of a run that files of earlier starts name."""
    return {attempt for path in _files(directory, rank) for attempt in _attempt_of(path, run)}


def _files(directory: Path, rank: int) -> Iterator[Path]:
    own = sorted(directory.glob(f"capture-rank{rank}*.jsonl"))
    others = itertools.islice(
        (one for one in os.scandir(directory) if one.name.startswith("capture-rank")), _MOST_FILES
    )
    yield from dict.fromkeys((*own, *(directory / one.name for one in others)))


def _attempt_of(path: Path, run: str) -> Iterator[int]:
    with path.open("rb") as file:
        header, _ = tried(orjson.loads, file.readline(_MOST_BYTES))
    if isinstance(header, dict) and header.get("run") == run and type(header.get("attempt")) is int:
        yield header["attempt"]
