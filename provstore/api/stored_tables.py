"""Tables beside the records of an attempt, as far as they can be read: one that cannot is named, and ends no answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from provstore.analysis.rank_lists import ranks_text
from provstore.errors import EXIT_NO, EXIT_STORE, EXIT_UNDECIDED, InputError, StoreError
from provstore.evidence.epoch_bundles import ANCHORS, CHECKPOINTS, STATISTICS, STEPS
from provstore.ingest.recording import StoredBundle, rows_of
from provstore.journal import Journal
from provstore.journal.kept import KeptBytes
from provstore.model.finding import Undecided
from provstore.model.lost import ALTERED, CUT_OFF, MISSING
from provstore.model.lost import UNREADABLE as NOT_READ
from provstore.model.suspicion import UNREADABLE

_SHOWN_DIGITS = 12
_NEXT = "provstore verify names what is damaged; bring the file back from a copy of the journal"
_WORDS = {
    STATISTICS: ("statistics", "whose values there are far from those of the others is not judged"),
    STEPS: ("losses", "whose loss was not finite first is not judged from there on"),
    ANCHORS: ("anchors", "whether ranks went on holding equal parameters is not judged from there on"),
    CHECKPOINTS: ("checkpoints", "whether ranks went on saving equal states is not judged from there on"),
}


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A table, a piece of one, or other bytes that a bundle names, which cannot be read."""

    bundle: StoredBundle
    role: str
    sha256: str
    reason: str
    """In words without their subject."""
    fault: str = NOT_READ
    """``missing``, ``cut off``, ``altered`` or ``unreadable``."""

    @property
    def state(self) -> str:
        """Whether the bytes are ``missing``, ``damaged`` (others than were stored) or ``unreadable``."""
        return "damaged" if self.fault in {CUT_OFF, ALTERED} else self.fault

    @property
    def exit_code(self) -> int:
        """What it does to an answer that asked for these bytes: what is gone contradicts nothing, other bytes do."""
        return {MISSING: EXIT_UNDECIDED, NOT_READ: EXIT_STORE}.get(self.fault, EXIT_NO)

    @property
    def text(self) -> str:
        """What it is and what is wrong with it."""
        return f"{self.role} of epoch {self.epoch} ({self._said()}"

    @property
    def words(self) -> str:
        """What is wrong with its bytes, in short: which, and how."""
        said = "" if self.fault == MISSING else f" {self.reason}"
        return f"bytes {self.state}: blob {self.sha256[:_SHOWN_DIGITS]}…{said}"

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "run": self.bundle.run,
            "epoch": self.epoch,
            "role": self.role,
            "sha256": self.sha256,
            "state": self.state,
            "reason": self.reason,
        }

    @property
    def epoch(self) -> int:
        """Training epoch."""
        return self.bundle.epoch

    def undecided(self) -> Undecided:
        """Return that what is judged from it stays open."""
        name, effect = _WORDS[self.role]
        what = f"{name} of epoch {self.epoch}: not readable, because the table ({self._said()}: {effect}"
        return Undecided(UNREADABLE, what, _NEXT)

    def of_batches(self, ranks: Sequence[int]) -> Undecided:
        """Return that the batches of some ranks are not told, beside an answer that stands."""
        who = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks_text(ranks)}"
        what = (
            f"batches of {who} in epoch {self.epoch}: not readable, because the table of its {self.role} "
            f"({self._said()}"
        )
        return Undecided(UNREADABLE, what, _NEXT, tuple(ranks), blocks_answer=False)

    def _said(self) -> str:
        return f"blob {self.sha256[:_SHOWN_DIGITS]}…) {self.reason}"


class StoredTables:
    """Reads tables of one attempt, and remembers which could not be read.

    Args:
        journal: Where they are kept.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal, self._kept = journal, KeptBytes(journal.directory)
        self._unreadable: dict[tuple[str, int, int, str], Unreadable] = {}

    def lines(self, bundle: StoredBundle, role: str) -> Iterator[tuple[str, list[bytes]]]:
        """Yield the digest and the lines of each piece of a table that can be read."""
        for blob in bundle.blobs(role):
            try:
                yield blob["sha256"], self._journal.kept(blob["sha256"], blob["bytes"]).splitlines()
            except StoreError:
                self.lose(bundle, role, blob["sha256"], *self.fault_of(blob["sha256"], blob["bytes"]))

    def rows(self, bundle: StoredBundle, role: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table, as far as it can be read."""
        for sha256, lines in self.lines(bundle, role):
            try:
                yield from list(rows_of(lines))
            except InputError as error:
                self.lose(bundle, role, sha256, ALTERED, f"is no table: {error}")

    def fault_of(self, sha256: str, size_bytes: int) -> tuple[str, str]:
        """Return what is wrong with bytes that could not be read, as one word and in words without their subject."""
        return self._kept.fault(sha256, size_bytes) or (NOT_READ, "could not be read")

    def lose(self, bundle: StoredBundle, role: str, sha256: str, fault: str, reason: str) -> Unreadable:
        """Remember that a piece of a table, or other bytes, cannot be read."""
        key = (role, bundle.epoch, bundle.part, sha256)
        return self._unreadable.setdefault(key, Unreadable(bundle, role, sha256, reason, fault))

    @property
    def lost(self) -> list[Unreadable]:
        """What could not be read so far, damaged bytes first."""
        return sorted(
            self._unreadable.values(), key=lambda one: (one.fault == MISSING, one.epoch, one.role, one.sha256)
        )

    def unreadable(self, *roles: str, epochs: Iterable[int] | None = None) -> list[Unreadable]:
        """Return what could not be read so far of tables of some roles, by epoch."""
        wanted = None if epochs is None else set(epochs)
        found = (one for one in self._unreadable.values() if one.role in roles)
        return sorted(
            (one for one in found if wanted is None or one.epoch in wanted),
            key=lambda one: (one.epoch, roles.index(one.role), one.bundle.part, one.sha256),
        )

    def until_unreadable(
        self, bundles: Iterable[StoredBundle], role: str, before: int | None = None
    ) -> Iterator[tuple[str, list[bytes]]]:
        """Yield what :meth:`lines` does of the epochs before the first one of which a table cannot be read.

        What is judged by what came before says nothing, or something wrong, behind a gap.

        Args:
            bundles: In the order of epochs.
            role: Of the tables.
            before: Only epochs before this one.
        """
        for epoch, own in groupby(bundles, key=lambda one: one.epoch):
            if before is not None and epoch >= before:
                return
            found = [piece for bundle in own for piece in self.lines(bundle, role)]
            if self.unreadable(role, epochs=(epoch,)):
                return
            yield from found

    def rows_until_unreadable(self, bundles: Iterable[StoredBundle], role: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of the epochs before the first one of which a table cannot be read."""
        for _, own in groupby(bundles, key=lambda one: one.epoch):
            found = [(bundle, [*self.rows(bundle, role)]) for bundle in own]
            if any(self.unreadable(role, epochs=(bundle.epoch,)) for bundle, _ in found):
                return
            for _, rows in found:
                yield from rows

    def gap(self, role: str) -> int | None:
        """Return the first epoch of which a table could not be read so far."""
        return min((one.epoch for one in self.unreadable(role)), default=None)


def notes(found: Iterable[Unreadable]) -> tuple[Undecided, ...]:
    """Return what stays open, once for each table."""
    return tuple({(one.role, one.epoch): one.undecided() for one in reversed([*found])}.values())[::-1]


def ranks_without(unreadable: Iterable[Unreadable], ranks: Iterable[int]) -> dict[int, Unreadable]:
    """Return the ranks whose rows may stand in a table that cannot be read, with the first such table."""
    found: dict[int, Unreadable] = {}
    for one in unreadable:
        listed = one.bundle.record["ranks"]
        inside = None if listed is None else {row["rank"] for row in listed}
        for rank in ranks:
            if inside is None or rank in inside:
                found.setdefault(rank, one)
    return found
