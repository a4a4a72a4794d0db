"""The checkpoint to begin from, and a copy of it compared with what was recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from provstore.evidence.replay.epoch import MISMATCH, MISSING, PRESENT, EpochFacts, Row
from provstore.evidence.replay.items import Item
from provstore.model import canonical

NAME = "checkpoint"
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Given:
    """A copy of the checkpoint, as the caller names it: paths that evidence names are not followed."""

    path: Path


def nearest(facts: EpochFacts) -> Row | None:
    """Return the last checkpoint at or before the first step of the epoch, the one of the lowest rank."""
    if facts.steps is None:
        return None
    first = facts.steps[0]
    begun = _begun(facts, first)
    found = [row for row in facts.checkpoints if row.get("step") is not None and _is_before(row, first, begun)]
    return max(found, key=lambda row: (row["step"], row["action"] == "save", -row["rank"]), default=None)


def _is_before(row: Row, first: int, begun: Mapping[int, int]) -> bool:
    """A checkpoint holds the state after its step; one that was loaded is what its step began with.

    Before any step there is none to name, so that one saved there carries the number of the step to come: it is told
    by its time, on the clock of its own rank.
    """
    step: int = row["step"]
    if step < first or (row.get("action") == "load" and step <= first):
        return True
    at = _ns(row)
    return step == first and at is not None and at < begun.get(row["rank"], at)


def _begun(facts: EpochFacts, first: int) -> dict[int, int]:
    """Return when each rank took the first batch of the epoch, or, where no batch of it is known, began the epoch."""
    found: dict[int, int] = {}
    batches = (row for row in facts.data if row.get("step") == first)
    for row in (*batches, *(row for row in facts.rng if row.get("where") == "epoch")):
        at = _ns(row)
        if at is not None:
            found.setdefault(row["rank"], at)
    return found


def _ns(row: Row) -> int | None:
    at = row.get("at")
    return canonical.tagged_integer(at) if isinstance(at, str) else None


def checkpoint_item(row: Row | None, facts: EpochFacts, given: Given | None) -> Item:
    """Return the checkpoint as an item of the plan."""
    if row is None:
        why = "the run begins here; it has no checkpoint before" if facts.is_first else "none is recorded before it"
        return Item(NAME, MISSING, None, "checkpoints", why)
    digests = {
        str(one["rank"]): one["state_digest"]
        for one in facts.checkpoints
        if one["uri"] == row["uri"] and one.get("step") == row["step"] and one.get("state_digest")
    }
    digest = row.get("state_digest") or _of_files(row)
    is_ahead = facts.steps is not None and row["step"] == facts.steps[0]
    source, detail = str(row["uri"]), f"{'before ' if is_ahead else ''}step {row['step']}"
    if given is None:
        return Item(NAME, PRESENT, digest, source, detail, digests, checked=False)
    fault = _fault(row, given.path)
    if fault is None:
        return Item(NAME, PRESENT, digest, source, f"{detail}; {given.path} is that checkpoint", digests, checked=True)
    state = MISSING if "is not there" in fault else MISMATCH
    return Item(NAME, state, digest, source, f"{detail}; {fault}", digests, checked=True)


def _of_files(row: Row) -> str | None:
    files = [one["sha256"] for one in row.get("files") or ()]
    return "sha256:" + hashlib.sha256("\n".join(files).encode()).hexdigest() if files else None


def _fault(row: Row, path: Path) -> str | None:
    """Return how a copy differs from the recorded files; ``None`` when it does not."""
    files = list(row.get("files") or ())
    if not files:
        return "no digest of its files was recorded, so that a copy cannot be compared"
    for said, place in _places(files, path):
        if place is None:
            return f"{said['path']!a}: is no name inside a folder"
        if not place.is_file():
            return f"{place} is not there"
        if _sha256(place) != said["sha256"]:
            return f"{place} has another SHA-256 than was recorded"
    return None


def _places(files: list[dict[str, Any]], path: Path) -> Iterator[tuple[dict[str, Any], Path | None]]:
    if len(files) == 1 and not path.is_dir():
        yield files[0], path
        return
    for said in files:
        name = PurePosixPath(said["path"])
        yield said, None if name.is_absolute() or ".." in name.parts else path / name


def _sha256(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            found.update(piece)
    return found.hexdigest()
