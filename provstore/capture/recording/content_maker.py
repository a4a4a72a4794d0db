"""Makes the content of actions within the budgets: flags at once, copies in time, all else beside training."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from provstore.capture.content.budget import CLONE, DIGEST, FLAG, STATISTICS, Budget, Grant
from provstore.capture.content.shortfall import ShortfallError
from provstore.capture.recording import contents
from provstore.capture.recording.contents import Content, Side
from provstore.capture.recording.guard import Guard
from provstore.capture.recording.judging import Judged
from provstore.capture.recording.ring import Held, Ring
from provstore.capture.recording.snapshots import Place, Snapshots
from provstore.capture.recording.worker import Job, Worker
from provstore.evidence.content.selection import is_selected
from provstore.model.recording import CAPTURE_FAULT, FULL, NO_TENSOR_ACCESS, TIME_BUDGET, VALIDATION


@dataclass(slots=True)
class Wish:
    """What is to be found in an action beyond its flags, and what was granted for it."""

    is_wanted: bool = False
    with_snapshot: bool = False
    in_ring: bool = False
    """Its copies are only held, for the case that something escalates within the next steps."""
    grants: dict[tuple[str, str], Grant] = field(default_factory=dict)
    """By side and kind of work."""

    @property
    def needs_copies(self) -> bool:
        """Whether copies are to be made."""
        return self.is_wanted or self.in_ring


class ContentMaker:
    """The content of the actions of one rank.

    Args:
        torch: The module.
        name: Run and attempt.
        guard: Runs what must not fail.
        budget: What may be spent.
        worker: Does what takes time.
        ring: Holds what the budgets left out.
        snapshots: Keeps bytes.
    """

    def __init__(
        self,
        torch: Any,
        name: tuple[str, int],
        *,
        guard: Guard,
        budget: Budget,
        worker: Worker,
        ring: Ring,
        snapshots: Snapshots,
    ) -> None:
        self._torch = torch
        self._run, self._attempt = name
        self._guard = guard
        self._budget = budget
        self._worker = worker
        self._ring = ring
        self._snapshots = snapshots

    def spent(self, nanoseconds: int, *, is_chosen: bool = False) -> None:
        """Count what a hook took beside the work that was granted in it; never raises."""
        beside = max(0, nanoseconds - self._budget.settled_here())
        self._guard.run("ContentMaker.spent", partial(self._budget.own_time, beside, is_chosen=is_chosen))

    @contextmanager
    def charged(self, *, is_chosen: bool = False) -> Iterator[None]:
        """Count what is done here as own time of recording."""
        began = time.thread_time_ns()
        try:
            yield
        finally:
            self.spent(time.thread_time_ns() - began, is_chosen=is_chosen)

    def test(self, content: Content, side: Side | None, tensors: Sequence[Any], work: str = FLAG) -> bool:
        """Test whether the values of a side are finite; return whether its tensors can be read at all.

        Args:
            content: Of the action.
            side: One side of it.
            tensors: Of that side.
            work: ``CALL_FLAG`` for a call: those have their time before others.
        """
        if side is None:
            return True
        if self._guard.identity_only:
            content.shortfall.add(CAPTURE_FAULT)
            return False
        if not _are_here(tensors):
            content.shortfall.add(NO_TENSOR_ACCESS)
            return False
        grant = self._budget.ask(work, side.bytes_held)
        if grant.reason is not None:
            content.shortfall.add(grant.reason)
            return True
        try:
            with self._budget.working(grant):
                side.is_finite = contents.is_finite(self._torch, tensors)
        except (ShortfallError, NotImplementedError) as error:
            content.fail(error)
            return False
        return True

    def wish(self, content: Content, judged: Judged, group: str, number: int) -> Wish:
        """Return what is to be found in an action, as far as the budgets allow it."""
        mode = judged.policy.mode
        sides = content.named_sides()
        if not sides or content.shortfall & {CAPTURE_FAULT, NO_TENSOR_ACCESS}:
            return Wish()
        if mode == VALIDATION:
            # Digests of outputs alone, and a sample by definition: what is left out is no shortfall.
            sides = {name: side for name, side in sides.items() if name == "out"}
        refused = None
        if content.is_finite is not False and not is_selected(self._run, self._attempt, group, number, self._budget.k):
            refused = self._budget.reason_unselected or TIME_BUDGET
        wish = Wish(bool(sides), mode == FULL)
        for work in (DIGEST,) if mode == VALIDATION else (DIGEST, STATISTICS):
            for name, side in sides.items() if refused is None else ():
                grant = self._budget.ask(work, side.bytes_held)
                refused = refused or grant.reason
                if grant.reason is None:
                    wish.grants[name, work] = grant
        if refused is None:
            return wish
        self._drop(wish)
        if mode == VALIDATION:
            return Wish()
        content.shortfall.add(refused)
        return Wish(in_ring=True)

    def copy(self, content: Content, side: Side | None, tensors: Sequence[Any], wish: Wish) -> None:
        """Copy the tensors of a side, if that is wanted and fits."""
        if side is None or not wish.needs_copies or not _are_here(tensors):
            return
        if wish.in_ring:
            reason = self._budget.take_ring(side.bytes_held)
            if reason is not None:
                return
        grant = self._budget.ask(CLONE, 0 if wish.in_ring else side.bytes_held)
        if grant.reason is not None:
            if wish.in_ring:
                self._budget.release_ring(side.bytes_held)
            else:
                content.shortfall.add(grant.reason)
            return
        side.is_in_ring = wish.in_ring
        try:
            with self._budget.working(grant):
                side.copies = contents.copied(self._torch, tensors)
        except BaseException:
            self._release(side)
            raise

    def make(
        self,
        content: Content,
        wish: Wish,
        done: Callable[[], None],
        late: Callable[[], None] | None,
        place: Place,
    ) -> None:
        """Have the content found in the copies; ``done`` is called in any case, and then the copies are dropped.

        Args:
            content: With copies where that was possible.
            wish: What was wanted.
            done: Writes the line.
            late: Writes what the ring held, when something escalates.
            place: Where the action stands.
        """
        if wish.in_ring and late is not None:
            self._guard.hook(done)
            self._hold(content, late, place.group)
            return
        if all(side.copies is None for side in content.sides()):
            self._drop(wish)
            self._guard.hook(done)
            return
        try:
            self._worker.do(self._job(content, wish, done, place))
        except Exception as error:
            content.fail(error)
            self._drop(wish)
            self.let_go(content)
            self._guard.hook(done)
            raise

    def let_go(self, content: Content) -> None:
        """Drop the copies."""
        for side in content.sides():
            if side.copies is not None:
                self._release(side)
                side.let_go()

    def end_step(self, *, is_escalated: bool) -> None:
        """Judge what the step cost, and drop what is too old."""
        self._ring.end_step()
        self._budget.step()
        self._budget.escalate(is_escalated)

    def deepen(self, scope: str) -> None:
        """Spend more from now on, and write what the ring holds of a scope that was just escalated."""
        self._budget.escalate(is_escalated=True)
        for held in self._ring.take(scope):
            self._worker.do(self._late_job(held))

    def begin_epoch(self) -> None:
        """Fill what is counted for an epoch."""
        self._budget.begin_epoch()

    def drop_held(self) -> None:
        """Empty the ring."""
        self._ring.clear()

    def close(self) -> None:
        """End the files of snapshots."""
        self._snapshots.close()

    def _hold(self, content: Content, late: Callable[[], None], group: str) -> None:
        if any(side.copies is not None for side in content.sides()):
            self._ring.put(Held(content, late, group, lambda: self.let_go(content)))

    def _job(self, content: Content, wish: Wish, done: Callable[[], None], place: Place) -> Job:
        def work() -> None:
            try:
                self._find(content, wish)
                if wish.with_snapshot:
                    self._snapshots.keep(self._torch, content, place)
            except Exception as error:
                content.fail(error)
                if not isinstance(error, ShortfallError):
                    raise
            finally:
                self._drop(wish)
                self._guard.hook(done)
                self.let_go(content)

        def job() -> None:
            with self.charged(is_chosen=True):
                work()

        return job

    def _find(self, content: Content, wish: Wish) -> None:
        for name, side in content.named_sides().items():
            digest, figures = wish.grants.pop((name, DIGEST), None), wish.grants.pop((name, STATISTICS), None)
            if digest is not None:
                self._do(digest, side, contents.find_digest)
            if figures is not None:
                before = content.inputs if name == "out" else None
                self._do(figures, side, partial(contents.find_statistics, before=before))

    def _do(self, grant: Grant, side: Side, work: Callable[[Any, Side], None]) -> None:
        if side.copies is None:
            self._budget.drop(grant)
            return
        with self._budget.working(grant):
            work(self._torch, side)

    def _late_job(self, held: Held) -> Job:
        def job() -> None:
            try:
                for side in held.content.sides():
                    contents.find_digest(self._torch, side)
                    before = held.content.inputs if side is held.content.outputs else None
                    contents.find_statistics(self._torch, side, before)
                held.late()
            finally:
                self.let_go(held.content)

        return job

    def _drop(self, wish: Wish) -> None:
        for grant in wish.grants.values():
            self._guard.run("ContentMaker.drop", self._budget.drop, grant)
        wish.grants.clear()

    def _release(self, side: Side) -> None:
        if side.is_in_ring:
            self._budget.release_ring(side.bytes_held)
        else:
            self._budget.release_clone(side.bytes_held)


def _are_here(tensors: Sequence[Any]) -> bool:
    """Whether tensors can be read without waiting for a device."""
    return all(tensor.device.type == "cpu" for tensor in tensors)
