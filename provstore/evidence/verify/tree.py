"""The second pass: every record once, and what the tree, epoch files and rank chains are at each size that matters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from provstore.errors import ProvstoreError
from provstore.evidence import merkle
from provstore.evidence.recorded_modes import WeakestMode
from provstore.evidence.statement import Policy, effective, ranks_digest
from provstore.evidence.verify.bundles import Signed, heads_digest
from provstore.evidence.verify.content import Content
from provstore.evidence.verify.findings import TREE, Notes
from provstore.model.evidence import EvidenceLog, RankHead
from provstore.model.lost import DAMAGED, Lost

CHUNK = 512
MOST_OPEN_EPOCHS = 64
"""Epochs that overlap; honest ones do not, and each costs a hash over its records."""
MOST_KEPT_HEADS = 200_000
"""Rank heads that are kept to say which rank does not fit."""

MOST_LOST = 1_000_000
"""Records that one damaged place can have taken away; the numbers that say so are not signed."""
_LOST_LEAF = bytes(32)

Range = tuple[int, int]


class _Hasher(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


@dataclass(frozen=True, slots=True)
class EpochFile:
    """What the records of one epoch are in this place."""

    sha256: str
    policy: Policy
    """What its bundle must state."""
    closes: bool
    """Its last record closes the run."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Where the chains of all ranks are at one size."""

    digest: bytes
    sha256: str | None
    """Digest of the canonical list, where a bundle states one."""
    listed: tuple[tuple[int, int, str], ...] | None
    """Rank, count and head; kept only where a bundle states something else."""


@dataclass(slots=True)
class Tree:
    """What the records of a place give."""

    held: int = 0
    """Index behind the last record."""
    is_whole: bool = True
    """False when reading stopped before the end."""
    roots: dict[int, bytes] = field(default_factory=dict)
    """Size → root."""
    epochs: dict[Range, EpochFile] = field(default_factory=dict)
    heads: dict[int, Heads] = field(default_factory=dict)
    lost: tuple[Range, ...] = ()
    """Records that damage has taken away, in order: first, and the first behind them."""

    @property
    def here(self) -> int:
        """Records that are in the place, lost ones not counted."""
        return self.held - sum(end - first for first, end in self.lost)

    def lacks(self, size: int) -> bool:
        """Return whether the tree of a size cannot be built, because a record of it is lost."""
        return any(first < size for first, _ in self.lost)


def gaps(lost: Lost, bundles: Sequence[Signed]) -> tuple[Range, ...]:
    """Return the records that damage has taken away, where not more are gone than it can explain."""
    found = [*lost.records]
    if lost.tail is not None:
        first, position = lost.tail
        signed = max((one.size for one in bundles if one.position >= position and not one.is_foreign), default=0)
        found += [(first, signed)] if signed > first else []
    kept: list[Range] = []
    for first, end in found:
        if end - first <= MOST_LOST and first >= (kept[-1][1] if kept else 0):
            kept.append((first, end))
    return tuple(kept)


class TreeWalk:
    """Reads the records of a place once.

    Args:
        bundles: What is signed about them.
        sizes: More sizes at which the root matters: those of anchors.
        content: Takes every record.
        notes: Where findings go.
        lost: Records that damage has taken away; see :func:`gaps`.
    """

    def __init__(
        self,
        bundles: Sequence[Signed],
        sizes: Iterable[int],
        content: Content,
        notes: Notes,
        lost: tuple[Range, ...] = (),
    ) -> None:
        self._content, self._notes = content, notes
        self._tree = Tree(lost=lost)
        self._frontier = merkle.Frontier()
        self._ranges: dict[int, list[int]] = {}
        for first, size in sorted({(one.first, one.size) for one in bundles if not one.is_foreign}):
            self._ranges.setdefault(first, []).append(size)
        self._stated: dict[int, list[Signed]] = {}
        for one in bundles:
            if not one.is_foreign:
                self._stated.setdefault(one.size, []).append(one)
        self._stops = sorted({*self._ranges, *(one.size for one in bundles), *sizes})
        self._open: dict[Range, _Hasher] = {}
        self._kept = 0

    def walk(self, log: EvidenceLog) -> Tree:
        """Return what the records give; reading may stop early, and then the tree is not whole."""
        try:
            self._read(log)
        except (ProvstoreError, OSError) as error:
            self._tree.is_whole = False
            self._notes.add("check-unfinished", f"reading its records stopped: {error}", axis=TREE)
        self._tree.held = self._frontier.size
        for first, end in self._tree.lost:
            text = f"the records from here to {end - 1} are not here: the journal lost them to damage."
            self._notes.add("rows-missing", text, seq=first, where="the journal", cause=DAMAGED)
        self._content.finish()
        return self._tree

    def _read(self, log: EvidenceLog) -> None:
        records = iter(log.records())
        stops = iter((*self._stops, None))
        stop = next(stops)
        gaps = iter((*self._tree.lost, None))
        gap = next(gaps)
        while True:
            while stop is not None and stop == self._frontier.size:
                self._stop_at(stop)
                stop = next(stops)
            size = self._frontier.size
            gap = next(gaps) if gap is not None and gap[1] == size else gap
            wanted = CHUNK if stop is None else min(CHUNK, stop - size)
            if gap is not None and gap[0] <= size:
                self._skip(min(wanted, gap[1] - size))
                continue
            wanted = wanted if gap is None else min(wanted, gap[0] - size)
            chunk = list(islice(records, wanted))
            if not chunk:
                return
            lines = [record.line for record in chunk]
            leaves = merkle.leaf_hashes(lines)
            if self._open:
                text = b"\n".join(lines) + b"\n"
                for hasher in self._open.values():
                    hasher.update(text)
            self._content.take(chunk, leaves, self._frontier.size)
            self._frontier.extend(leaves)

    def _skip(self, count: int) -> None:
        """Go on behind records that are lost; from here on no root is kept."""
        self._frontier.extend([_LOST_LEAF] * count)
        self._content.skip(count)

    def _stop_at(self, size: int) -> None:
        lacks = self._tree.lacks(size)
        if not lacks:
            self._tree.roots[size] = self._frontier.root()
        for known in [known for known in self._open if known[1] == size]:
            file = self._epoch_file(known)
            if not any(first < known[1] and known[0] < end for first, end in self._tree.lost):
                self._tree.epochs[known] = file
        stated = self._stated.get(size)
        if stated and not lacks:
            self._tree.heads[size] = self._heads(stated)
        for end in self._ranges.get(size, ()):
            if len(self._open) >= MOST_OPEN_EPOCHS:
                self._notes.add("cap-exceeded", "more epochs overlap than are compared at once.", seq=size, axis=TREE)
                break
            self._open[size, end] = hashlib.sha256()
            self._content.modes[size, end] = WeakestMode()

    def _epoch_file(self, known: Range) -> EpochFile:
        stated, weakest = self._content.policy, self._content.modes.pop(known).weakest()
        policy = effective(stated, weakest)
        return EpochFile(self._open.pop(known).hexdigest(), policy, self._content.last_closes)

    def _heads(self, stated: Sequence[Signed]) -> Heads:
        listed = self._content.heads()
        digest = heads_digest(listed)
        outside = None
        if any(one.heads_sha256 is not None for one in stated):
            outside = ranks_digest([RankHead(rank, count, head) for rank, count, head in listed])
        differs = any(one.heads_sha256 is None and one.heads != digest for one in stated)
        keep = differs and self._kept + len(listed) <= MOST_KEPT_HEADS
        self._kept += len(listed) if keep else 0
        return Heads(digest, outside, tuple(listed) if keep else None)
