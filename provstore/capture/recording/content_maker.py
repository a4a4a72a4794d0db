"""Makes the content of actions within the budgets: flags at once, copies in time, all else beside training."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from provstore.capture.content.budget import CLONE, DEVICE_CLONE, DIGEST, RING_CLONE, STATISTICS, Budget, Grant
from provstore.capture.content.devices import Devices
from provstore.capture.content.shortfall import ShortfallError
from provstore.capture.recording import contents
from provstore.capture.recording.arrivals import Arrival, Arrivals
from provstore.capture.recording.contents import Content, Side
from provstore.capture.recording.flags import Flags
from provstore.capture.recording.guard import Guard
from provstore.capture.recording.judging import Judged
from provstore.capture.recording.ring import Held, Ring, covers
from provstore.capture.recording.snapshots import Place, Snapshots
from provstore.capture.recording.wish import Wish
from provstore.capture.recording.worker import Job, Worker
from provstore.capture.stream_order import is_on_device
from provstore.evidence.content.selection import is_selected
from provstore.model.recording import CAPTURE_FAULT, FULL, NO_TENSOR_ACCESS, TIME_BUDGET, VALIDATION


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
        self._devices = Devices(torch)
        self.test = Flags(torch, guard, budget, self._devices).test
        self._arrivals = Arrivals()

    def warm_up(self) -> None:
        """Do each piece of work once: what the first one takes would be taken for what all take."""
        contents.warm_up(self._torch)
        self._devices.warm_up()

    def spent(self, nanoseconds: int, *, is_chosen: bool = False) -> None:
        """Count what a hook took beside the work that was granted in it; never raises."""
        self._guard.run("ContentMaker.spent", self._budget.took_here, nanoseconds, is_chosen)

    @contextmanager
    def charged(self, *, is_chosen: bool = False) -> Iterator[None]:
        """Count what is done here as own time of recording."""
        began = time.thread_time_ns()
        try:
            yield
        finally:
            self.spent(time.thread_time_ns() - began, is_chosen=is_chosen)

    def wish(self, content: Content, judged: Judged, group: str, number: int, *, can_be_late: bool = True) -> Wish:
        """Return what is to be found in an action, as far as the budgets allow it.

        Args:
            content: Of the action.
            judged: What is demanded of it.
            group: Where it stands, for the selection.
            number: The same.
            can_be_late: What the budgets leave out may be written when something escalates.
        """
        mode = judged.policy.mode
        sides = content.named_sides()
        if not sides or (content.shortfall and content.shortfall & {CAPTURE_FAULT, NO_TENSOR_ACCESS}):
            return Wish()
        if self._budget.is_out_of_time():
            size = max(side.bytes_held for side in sides.values())
            return self._refused(content, mode, TIME_BUDGET, can_be_late=can_be_late and self._budget.can_hold(size))
        if mode == VALIDATION:
            # Digests of outputs alone, and a sample by definition: what is left out is no shortfall.
            sides = {name: side for name, side in sides.items() if name == "out"}
        works = (DIGEST,) if mode == VALIDATION else (DIGEST, STATISTICS)
        pieces = [(name, work, side.bytes_held) for work in works for name, side in sides.items()]
        refused = self._budget.never([(work, size) for _, work, size in pieces])
        is_sampled = content.is_finite is not False and (k := self._budget.k) > 0
        if is_sampled and not is_selected(self._run, self._attempt, group, number, k):
            refused = refused or self._budget.reason_unselected or TIME_BUDGET
        wish = Wish(bool(sides), mode == FULL)
        for name, work, size in pieces if refused is None else ():
            grant = self._budget.ask(work, size)
            refused = refused or grant.reason
            if grant.reason is None:
                wish.grants[name, work] = grant
        if refused is None:
            return wish
        self.drop(wish)
        return self._refused(content, mode, refused, can_be_late=can_be_late)

    def copy(self, content: Content, side: Side | None, tensors: Sequence[Any], wish: Wish) -> None:
        """Copy the tensors of a side where they are, if that is wanted and fits."""
        if side is None or not wish.needs_copies:
            return
        device = None
        if is_on_device(tensors):
            device = self._devices.of(tensors)
            if device is None:
                return
        if wish.in_ring and self._budget.take_ring(side.bytes_held) is not None:
            return
        # The ring has a limit of its own, on the host: on its way there a copy takes what any other takes.
        work = DEVICE_CLONE if device is not None else RING_CLONE if wish.in_ring else CLONE
        grant = self._budget.ask(work, side.bytes_held)
        if grant.reason is not None:
            if wish.in_ring:
                self._budget.release_ring(side.bytes_held)
            else:
                content.shortfall.add(grant.reason)
            return
        side.is_in_ring = wish.in_ring
        try:
            with self._budget.working(grant):
                if device is None:
                    side.copies = contents.copied(self._torch, tensors)
                else:
                    contents.copy_on(device, self._torch, side, tensors)
        except BaseException as error:
            self._release(side, is_on_device=device is not None)
            if device is None or not isinstance(error, ShortfallError):
                raise
            content.fail(error)

    def make(
        self,
        content: Content,
        wish: Wish,
        done: Callable[[], None],
        late: Callable[[], None] | None,
        place: Place,
        found: Callable[[], None] | None = None,
    ) -> None:
        """Have the content found in the copies; ``done`` is called in any case, and then the copies are dropped.

        What is on a device is made when it has come, at the end of this step or of a later one.

        Args:
            content: With copies where that was possible.
            wish: What was wanted.
            done: Writes the line.
            late: Writes what the ring held, when something escalates.
            place: Where the action stands.
            found: Told when flags are known that were not when this was called.
        """
        if content.is_away:
            self._fetch(content, wish, done, late, place, found)
            return
        if wish.in_ring and late is not None:
            self._guard.hook(done)
            self._hold(content, wish, late, place.group)
            return
        if all(side.copies is None for side in content.sides()):
            self.drop(wish)
            self._guard.hook(done)
            return
        try:
            self._worker.do(self._job(content, wish, done, place))
        except Exception as error:
            content.fail(error)
            self.drop(wish)
            self.let_go(content)
            self._guard.hook(done)
            raise

    def drop(self, wish: Wish) -> None:
        """Give back what was granted and is not done."""
        if wish.grants:
            for grant in wish.grants.values():
                self._guard.run("ContentMaker.drop", self._budget.drop, grant)
            wish.grants.clear()

    def let_go(self, content: Content) -> None:
        """Drop the copies."""
        for side in content.sides():
            self._let_go(side)

    def forget(self, content: Content, side: Side | None) -> None:
        """Drop what was read of a side: it may not be what the action gave."""
        if side is not None:
            self._let_go(side)
            side.is_finite = None
            content.shortfall.add(NO_TENSOR_ACCESS)

    def arrive(self) -> None:
        """Take in what has come from devices since this was last called; nothing here waits."""
        come = self._arrivals.come()
        for arrival, fault in come:
            if fault is not None:
                self._guard.note("ContentMaker.arrive", fault)
            else:
                self._guard.run("ContentMaker.land", self._land, arrival)
            if arrival.content.is_away:
                self._give_up(arrival, CAPTURE_FAULT)
            else:
                self._guard.run("ContentMaker.landed", arrival.landed, arrival)
        # What they open takes from the ring what has just come into it.
        for arrival, _ in come:
            if arrival.found is not None:
                self._guard.hook(arrival.found)

    def await_devices(self, seconds: float) -> None:
        """Wait for what is under way, for so long at most, and let the rest go."""
        self._arrivals.wait(seconds, self.arrive)
        for arrival in self._arrivals.left():
            self._give_up(arrival, NO_TENSOR_ACCESS)

    def end_step(self, *, is_escalated: bool) -> None:
        """Judge what the step cost, and drop what is too old."""
        self._ring.end_step()
        self._budget.step()
        self._budget.escalate(is_escalated)

    def deepen(self, scope: str) -> None:
        """Spend more from now on, and write what the ring holds of a scope that was just escalated."""
        self._budget.escalate(True)
        self._arrivals.deepen(scope)
        for held in self._ring.take(scope):
            self._worker.do(self._late_job(held))

    def cost_of_epoch(self) -> str | None:
        """Return what is to be said of what recording took in the epoch that ends; ``None`` where it was little."""
        return self._budget.cost.end_epoch()

    def begin_epoch(self) -> None:
        """Fill what is counted for an epoch."""
        self._budget.begin_epoch()

    def drop_held(self) -> None:
        """Empty the ring."""
        self._ring.clear()

    def close(self) -> None:
        """End the files of snapshots."""
        self._snapshots.close()

    def _fetch(
        self,
        content: Content,
        wish: Wish,
        done: Callable[[], None],
        late: Callable[[], None] | None,
        place: Place,
        found: Callable[[], None] | None,
    ) -> None:
        def landed(arrival: Arrival) -> None:
            wish.is_deepened = any(covers(scope, place.group) for scope in arrival.scopes)
            self.make(content, wish, done, late, place)

        # A job that tells of no steps is asked here.
        self._guard.run("ContentMaker.arrive", self.arrive)
        try:
            with self.charged(is_chosen=True):
                self._arrivals.fetch(content, landed, found)
        except Exception as error:
            content.fail(error)
            self.drop(wish)
            self.let_go(content)
            self._guard.hook(done)
            if not isinstance(error, ShortfallError):
                raise

    def _land(self, arrival: Arrival) -> None:
        for side in arrival.content.sides():
            if side.is_in_ring and side.away is not None and side.has_copies:
                self._budget.release_clone(side.bytes_held)
        arrival.land()

    def _give_up(self, arrival: Arrival, reason: str) -> None:
        arrival.content.shortfall.add(reason)
        self._guard.run("ContentMaker.give_up", arrival.give_up)
        self.let_go(arrival.content)
        self._guard.run("ContentMaker.landed", arrival.landed, arrival)

    def _hold(self, content: Content, wish: Wish, late: Callable[[], None], group: str) -> None:
        if not any(side.copies is not None for side in content.sides()):
            return
        held = Held(content, late, group, lambda: self.let_go(content))
        if wish.is_deepened:
            self._worker.do(self._late_job(held))
        else:
            self._ring.put(held)

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
                self.drop(wish)
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

    def _refused(self, content: Content, mode: str, reason: str, *, can_be_late: bool) -> Wish:
        """Return what is still wanted where the budgets have no room for what is demanded."""
        if mode == VALIDATION:
            return Wish()
        content.shortfall.add(reason)
        return Wish(in_ring=can_be_late and self._budget.can_be_late)

    def _let_go(self, side: Side) -> None:
        if side.has_copies:
            self._release(side, is_on_device=side.away is not None)
        side.let_go()

    def _release(self, side: Side, *, is_on_device: bool) -> None:
        if side.is_in_ring:
            self._budget.release_ring(side.bytes_held)
        if is_on_device or not side.is_in_ring:
            self._budget.release_clone(side.bytes_held)
