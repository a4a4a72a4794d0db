"""Escalations of a live job: from its own loss, gradient norm and non-finite values, and from the control file."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import orjson

from provstore.errors import InputError
from provstore.evidence.recording import orders
from provstore.evidence.recording.detectors import GradNorm, LossSpike
from provstore.evidence.recording.escalation import Escalator
from provstore.evidence.recording.signals import CLEAR_LIMIT, LIMIT
from provstore.model.canonical import tag_double, tagged_double
from provstore.model.recording import AnomalySignal, Escalation

NON_FINITE, DETECTOR = "non-finite", "detector"
_MOST_DETECTORS, _MOST_CHARACTERS = 1_000, 100
_RUN = "run"
_FLOATS = ("value", "threshold")


class Alarms:
    """What is escalated on this rank.

    Args:
        directory: Where the control file is.
        rank: This rank.
        before: The file of the process before this one, whose open escalations are in force again.
        opened: Told of each escalation that begins, at once, in the thread that saw it.
    """

    def __init__(self, directory: Path, rank: int, before: Path | None, opened: Callable[[Escalation], None]) -> None:
        left_open, first = left_behind(before)
        self._directory = directory
        self._own = f"rank:{rank}"
        """Scope of what this rank alone does."""
        self._opened = opened
        self._escalator = Escalator(rank=rank, open=left_open, first_number=first)
        self._loss, self._norm = LossSpike(), GradNorm()
        self._step = 0
        self._called: set[str] = set()
        self._non_finite: set[str] = set()
        self._scores: dict[str, float] = {}
        """Latest score of each detector of the program's own."""
        self._has_scores = False
        """Whether one of them said anything in this step."""
        self._control_seen: tuple[int, int] | None = None
        self._lock = threading.RLock()
        self.is_escalated = bool(self._escalator.open)
        """Whether anything is open; asked of every call, so it is kept and not found."""

    def in_force(self, scopes: Iterable[str]) -> tuple[Escalation | None, tuple[str, ...]]:
        """Return the escalation that decides for an action in some scopes, and the ids of all that cover it."""
        with self._lock:
            found = self._escalator.all_in_force(scopes)
            deciding = self._escalator.in_force(scopes) if found else None
        return deciding, tuple(sorted(f"{one.source}/{one.name}" for one in found))

    def saw_call(self, group: str, is_finite: bool | None) -> None:
        """Take note of what one side of a call of a group held; what is not finite escalates the group at once."""
        if is_finite is None:
            return
        scope = f"group:{group}"
        self._called.add(scope)
        if not is_finite:
            with self._changing():
                self._fire(scope, None)

    def saw_score(self, name: str, score: float, step: int | None) -> None:
        """Take what a detector of the program's own says; a score above the limit escalates this rank at once.

        Raises:
            ConfigError: The score is not a number from 0 to 1.
            ValueError: The name or the step is none, or there are too many names.
        """
        if not isinstance(name, str) or not 0 < len(name) <= _MOST_CHARACTERS or not name.isprintable():
            raise ValueError(f"detector: {name!r:.120}: is no name of 1 to {_MOST_CHARACTERS} characters")
        if step is not None and (type(step) is not int or step < 0):
            raise ValueError(f"detector: {name}: step: {step!r:.80} is not a number from 0")
        signal = AnomalySignal(name, score if isinstance(score, bool) else float(score))
        with self._changing():
            if name not in self._scores and len(self._scores) >= _MOST_DETECTORS:
                raise ValueError(f"detector: {name}: is one name more than {_MOST_DETECTORS}")
            self._scores[name], self._has_scores = signal.score, True
            was_open = self._scopes()
            found = self._escalator.fire(
                DETECTOR, self._own, self._step, time.time_ns(), value=signal.score, threshold=LIMIT, signal=signal,
                detector=name, reason=None if step is None else f"score of step {step}",
            )  # fmt: skip
            if found is not None and self._own not in was_open:
                self._opened(found)

    def end_step(
        self, step: int, loss: float | None, grad_norm: float | None, *, norm_is_local: bool
    ) -> list[Escalation]:
        """Judge the step that ends here and return what was opened, extended or closed; then look for orders."""
        with self._changing():
            now = time.time_ns()
            self._step = step
            self._judge_numbers(loss, grad_norm, self._own if norm_is_local else _RUN, now)
            self._judge_scores(step)
            called, self._called = self._called, set()
            for scope in called - self._non_finite:
                self._escalator.calm(NON_FINITE, scope, step)
            for one in self._escalator.open:
                if one.scope.startswith("group:") and one.scope not in called:
                    self._escalator.silent(NON_FINITE, one.scope, step)
            self._non_finite.clear()
            self._look_for_orders()
            news = list(self._escalator.step(step, now))
            self._step = step + 1
        for one in news:
            if one.event == "opened" and not self._escalator.is_own(one):
                self._opened(one)
        return news

    def begin_epoch(self) -> list[Escalation]:
        """Fill the budgets again; return what ends."""
        with self._changing():
            return list(self._escalator.begin_epoch(time.time_ns()))

    def end(self) -> list[Escalation]:
        """End everything with the attempt; return what that closes."""
        with self._changing():
            return list(self._escalator.end(self._step, time.time_ns()))

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock, and take note of whether anything is open afterwards."""
        with self._lock:
            try:
                yield
            finally:
                self.is_escalated = bool(self._escalator.open)

    def _judge_numbers(self, loss: float | None, grad_norm: float | None, norm_scope: str, now: int) -> None:
        is_wrong = [value is not None and not math.isfinite(value) for value in (loss, grad_norm)]
        if any(is_wrong):
            self._fire(_RUN, loss if is_wrong[0] else grad_norm)
        elif loss is None and grad_norm is None:
            self._escalator.silent(NON_FINITE, _RUN, self._step)
        else:
            self._escalator.calm(NON_FINITE, _RUN, self._step)
        seen = None if loss is None else self._loss.update(loss)
        self._heed(seen, self._loss.trigger, _RUN, now)
        norm = None if grad_norm is None else self._norm.update(abs(grad_norm), loss)
        self._heed(norm, self._norm.trigger, norm_scope, now)

    def _judge_scores(self, step: int) -> None:
        """Count a calm step when every detector was calm at its latest; none when none said anything."""
        if not self._has_scores:
            self._escalator.silent(DETECTOR, self._own, step)
        elif max(self._scores.values()) < CLEAR_LIMIT:
            self._escalator.calm(DETECTOR, self._own, step)
        self._has_scores = False

    def _scopes(self) -> set[str]:
        return {one.scope for one in self._escalator.open}

    def _heed(self, reading: Any, trigger: str, scope: str, now: int) -> None:
        was_open = self._scopes()
        found = self._escalator.heed(reading, trigger, scope, self._step, now)
        if found is not None and scope not in was_open:
            self._opened(found)

    def _fire(self, scope: str, value: float | None) -> None:
        was_open = self._scopes()
        self._non_finite.add(scope)
        found = self._escalator.fire(
            NON_FINITE, scope, self._step, time.time_ns(), value=value, signal=AnomalySignal(NON_FINITE, 1.0)
        )
        if found is not None and scope not in was_open:
            self._opened(found)

    def _look_for_orders(self) -> None:
        """Read the control file where it changed; one that cannot be read orders nothing new.

        Raises:
            InputError: It is there and is no control file.
        """
        try:
            found = os.stat(self._directory / orders.FILE)  # noqa: PTH116  one call a step, without a Path's detours
        except OSError:
            return
        seen = (found.st_mtime_ns, found.st_ino)
        if seen != self._control_seen:
            self._control_seen = seen
            self._escalator.obey(orders.read(self._directory))


def escalation_members(one: Escalation) -> dict[str, Any]:
    """Return an escalation as its line states it, without what is absent."""
    said = {name: value for name, value in asdict(one).items() if value is not None}
    for name in _FLOATS:
        if name in said:
            said[name] = tag_double(float(said[name]))
    return said | {"evidence": list(one.evidence)}


def left_behind(path: Path | None) -> tuple[list[Escalation], int]:
    """Return the escalations that a file leaves open, and the number after the last of its own."""
    found: dict[tuple[str, int], Escalation] = {}
    first = 0
    if path is None or not path.exists():
        return [], first
    with path.open("rb") as lines:
        for line in lines:
            if b'"t":"escalation"' not in line:
                continue
            one = _escalation(line)
            if one is not None:
                found[one.source, one.number] = one
                first = max(first, one.number + 1)
    return [one for one in found.values() if one.closed_ns is None], first


def _escalation(line: bytes) -> Escalation | None:
    try:
        line_members = orjson.loads(line)
        said = {one.name: line_members[one.name] for one in fields(Escalation) if one.name in line_members}
        for name in _FLOATS:
            if name in said:
                said[name] = tagged_double(said[name])
        return Escalation(**{**said, "evidence": tuple(said.get("evidence", ()))})
    except (InputError, KeyError, TypeError, ValueError):
        return None
