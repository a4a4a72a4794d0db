"""Which batches a rank trained on in a step, from what was recorded of its data; none where that cannot be told; pure.

A batch is written with its step when that ends soon. Of one that was written before, the anchors tell: each says how
many batches of the epoch its rank had noted when the step ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from provstore.model.action import Action
from provstore.model.finding import TrainingBatch
from provstore.model.suspicion import SuspiciousAction

Row = Mapping[str, Any]
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MOST_IN_WORDS = 3
_DIGITS_IN_WORDS = 12


@dataclass(frozen=True, slots=True)
class RankData:
    """What one rank noted of its data in one training epoch."""

    epoch: int
    batches: Sequence[Row]
    """With ``batch``, ``count``, ``ids_digest``, ``skipped``, and ``step`` where it was known."""
    anchors: Sequence[Row] | None
    """With ``step`` and ``cursor``; ``None`` where those that were recorded cannot be read."""
    actions: Mapping[str, int | None]
    """``action_id`` → step of the rank's actions in this epoch, in program order."""

    def of_action(self, action_id: str) -> tuple[TrainingBatch, ...]:
        """Return the batches of the step that an action belongs to; see the methods below for when there are none."""
        step = self.actions[action_id]
        if step is not None:
            return self.of_step(step)
        steps = [*self.actions.values()][[*self.actions].index(action_id) :]
        return self.after_last_step() if all(one is None for one in steps) else ()

    def of_step(self, step: int) -> tuple[TrainingBatch, ...]:
        """Return the batches that the rank trained on in a step, in their order.

        Nothing is returned where none was noted, where one may belong to the step or not, and where one is missing.
        """
        cursors = _cursors(self.anchors or ())
        certain = None if cursors is None else self._of_cursors(cursors, step)
        found: list[Row] = []
        for row in self.batches:
            number, own = row.get("batch"), row.get("step")
            if type(number) is not int or number < 0 or (own is not None and type(own) is not int):
                return ()
            if own is None and (certain is None or number not in certain):
                if cursors is None or _may_be_of(cursors, step, number):
                    return ()
            elif own is None or own == step:
                found.append(row)
        numbers = {row["batch"] for row in found}
        if certain is not None and not (len(numbers) == len(certain) and all(one in certain for one in numbers)):
            return ()
        return self._told(found)

    def after_last_step(self) -> tuple[TrainingBatch, ...]:
        """Return the batches that the rank noted after the last step that it ended: those of a step that never did.

        Nothing is returned where that step is not known to have counted its batches, where one is missing, and where
        the anchors cannot be read.
        """
        if self.anchors is None:
            return ()
        cursors = _cursors(self.anchors) if self.anchors else {}
        if cursors is None or max(self._steps(), default=-1) > max(cursors, default=-1):
            return ()
        first = max(cursors.values(), default=0)
        # A row that was recorded twice is equal in all its members; after a restart another one has the number.
        rows = {repr(sorted(row.items())): row for row in self.batches}.values()
        numbers = [row.get("batch") for row in rows]
        if any(type(one) is not int for one in numbers) or len(set(numbers)) != len(numbers):
            return ()
        found = [row for row in rows if row["batch"] >= first and row.get("step") is None]
        if {row["batch"] for row in found} != {*range(first, first + len(found))}:
            return ()
        return self._told(found)

    def _of_cursors(self, cursors: Mapping[int, int], step: int) -> range | None:
        """Return the numbers of the batches that were noted in a step; ``None`` if they may be of one before."""
        if step not in cursors:
            return None
        before = max((one for one in cursors if one < step), default=-1)
        if any(before < one < step for one in self._steps()):
            return None
        return range(cursors.get(before, 0), cursors[step])

    def _steps(self) -> set[int]:
        return {one for one in self.actions.values() if one is not None}

    def _told(self, rows: Sequence[Row]) -> tuple[TrainingBatch, ...]:
        """Return those of these batches that were trained on, each once, in their order."""
        told = {self._batch(row): None for row in rows if not row.get("skipped")}
        return tuple(sorted(told, key=lambda one: one.batch))

    def _batch(self, row: Row) -> TrainingBatch:
        samples, digest = row.get("count"), row.get("ids_digest")
        return TrainingBatch(
            self.epoch,
            row["batch"],
            samples if type(samples) is int else None,
            digest if isinstance(digest, str) and _DIGEST.fullmatch(digest) else None,
        )


def with_batches(one: SuspiciousAction, batches: Sequence[TrainingBatch]) -> SuspiciousAction:
    """Return a suspicious action whose finding also says which batches its rank had then: a fact, and no cause."""
    if not batches:
        return one
    summary = f"{one.finding.summary} {_sentence(one.action, batches)}"
    return replace(one, finding=replace(one.finding, summary=summary, batches=tuple(batches)))


def _sentence(action: Action, batches: Sequence[TrainingBatch]) -> str:
    is_ended = action.step is not None
    who = f"Rank {action.rank} {'trained on' if is_ended else 'had'}"
    when = f"of epoch {batches[0].epoch} {'in this step' if is_ended else 'after the last step that it ended'}"
    if len(batches) == 1:
        return f"{who} batch {batches[0].batch} {when}{_facts(batches[0])}."
    named = ", ".join(f"batch {one.batch}{_facts(one)}" for one in batches[:_MOST_IN_WORDS])
    more = f" and {len(batches) - _MOST_IN_WORDS} more" if len(batches) > _MOST_IN_WORDS else ""
    return f"{who} {len(batches)} batches {when}; which of them it had here is not recorded, one of: {named}{more}."


def _facts(one: TrainingBatch) -> str:
    facts = [] if one.samples is None else ["1 sample" if one.samples == 1 else f"{one.samples} samples"]
    if one.ids_digest is not None:
        facts.append(f"ids {one.ids_digest[: len('sha256:') + _DIGITS_IN_WORDS]}…")
    return f" ({', '.join(facts)})" if facts else ""


def _cursors(anchors: Sequence[Row]) -> dict[int, int] | None:
    """Return how many batches were noted by the end of each step; ``None`` where a restart began to count anew."""
    found: dict[int, int] = {}
    for step, cursor in _counted(anchors):
        if found.setdefault(step, cursor) != cursor:
            return None
    counts = [found[step] for step in sorted(found)]
    return found if counts and counts == sorted(counts) else None


def _counted(anchors: Sequence[Row]) -> Iterator[tuple[int, int]]:
    for row in anchors:
        step, cursor = row.get("step"), row.get("cursor")
        if type(step) is int and type(cursor) is int:
            yield step, cursor


def _may_be_of(cursors: Mapping[int, int], step: int, number: int) -> bool:
    """Return whether a batch of unknown step can have been noted in this one."""
    was_before = any(one < step and number < cursor for one, cursor in cursors.items())
    return not was_before and not any(one >= step and cursor <= number for one, cursor in cursors.items())
