"""Escalations of one rank: when a scope is recorded more deeply, for how long, and when it stops.

Time is counted in steps that were announced, not in step numbers: a restart from a checkpoint may count down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from provstore.evidence.recording.detectors import Reading
from provstore.evidence.recording.ordered import Ordered
from provstore.evidence.recording.orders import Order
from provstore.evidence.recording.signals import LIMIT
from provstore.evidence.recording.triggers import (
    ATTEMPT,
    BUDGET,
    CLEAR,
    DEESCALATED,
    DEFAULTS,
    END_OF_ATTEMPT,
    END_OF_EPOCH,
    HOLD,
    STEPS,
    STEPS_OVER,
    TRIGGERS,
    EscalationSettings,
    chosen,
    require_scope,
)
from provstore.model.recording import AnomalySignal, Escalation

_ALWAYS = ("run", "epoch")


@dataclass(slots=True)
class _Cause:
    """One trigger of an open escalation."""

    ends: str
    is_capped: bool
    fired: int
    """When it last fired, as a count of steps."""
    steps: int = 0
    calm: int = 0
    """Steps in a row below the clear threshold."""


@dataclass(slots=True)
class _Scope:
    """What one scope went through."""

    open: Escalation | None = None
    opened: int = 0
    causes: dict[str, _Cause] = field(default_factory=dict)
    cycles: deque[int] = field(default_factory=deque)
    """When a firing came after the scope had been normal."""
    spent: int = 0
    """Escalated steps of this epoch."""


class Escalator:
    """The escalations of one rank: opened by its own triggers at once, or by orders from outside.

    Args:
        settings: How long they last.
        rank: Whose they are.
        open: Escalations that a process before this one left open; they are in force again and hold anew.
        first_number: Number of the next escalation, where earlier ones of this rank are known.
    """

    def __init__(
        self,
        settings: EscalationSettings = DEFAULTS,
        *,
        rank: int,
        open: Iterable[Escalation] = (),  # noqa: A002 - the word for it
        first_number: int = 0,
    ) -> None:
        self._settings, self._source = settings, f"rank:{rank}"
        self._scopes: dict[str, _Scope] = {}
        self._ordered = Ordered()
        self._now, self._step, self._judged = 0, -1, -1
        self._at_ns = 0
        self._calm: set[tuple[str, str]] = set()
        self._silent: set[tuple[str, str]] = set()
        self._news: list[Escalation] = []
        self.refused = 0
        """Firings that opened nothing because the epoch's budget of their scope is used up."""
        self._number = first_number
        for one in open:
            self._rearm(one)

    def fire(
        self,
        trigger: str,
        scope: str,
        step: int,
        at_ns: int,
        *,
        value: float | None = None,
        threshold: float | None = None,
        signal: AnomalySignal | None = None,
        ends: str | None = None,
        steps: int | None = None,
        detector: str | None = None,
        reason: str | None = None,
        evidence: Sequence[str] = (),
    ) -> Escalation | None:
        """Open an escalation of a scope, or extend the one that is open; it is in force from now on.

        Args:
            trigger: One of :data:`TRIGGERS`.
            scope: What is to be recorded more deeply.
            step: Training step in which it fired.
            at_ns: Wall clock, nanoseconds since 1970.
            value: What was seen.
            threshold: What it was held against.
            signal: How unusual it is; a score that does not escalate opens nothing.
            ends: How it ends, where that is not the trigger's way: ``hold`` for an XID of an application.
            steps: How long a manual one lasts.
            detector: Name of a detector of the program's own; it stands behind this rank in the source.
            reason: What an operator or a log says.
            evidence: What it rests on.

        Returns:
            The escalation that is in force for the scope; None when there is none after all.

        Raises:
            ConfigError: There is no such trigger, scope or end, or a manual one without its number of steps.
        """
        kind = chosen(trigger, ends, steps)
        require_scope(scope)
        if signal is not None and not signal.score > LIMIT:
            return self._open_in(scope)
        self._advance(step, at_ns)
        state = self._scopes.setdefault(scope, _Scope())
        if kind.is_capped and state.spent >= self._settings.max_steps:
            self.refused += 1
            return state.open
        before = state.causes.get(trigger)
        is_cycle = state.open is None or (before is not None and before.calm >= self._settings.clear_steps)
        if state.open is None:
            source = self._source if detector is None else f"{self._source}/{detector}"
            opened = Escalation(self._number, trigger, source, scope, kind.rule, at_ns, step, value, threshold)
            self._open(state, replace(opened, reason=reason, evidence=tuple(evidence)))
        elif before is None:
            self._extend(state, trigger if detector is None else f"{trigger}/{detector}", kind.rule)
        if is_cycle and kind.is_capped:
            self._count_cycle(state)
        state.causes[trigger] = _Cause(kind.ends, kind.is_capped, self._now, steps or 0)
        self._calm.discard((trigger, scope))
        return state.open

    def calm(self, trigger: str, scope: str, step: int) -> None:
        """Say that a trigger is below its clear threshold in this step."""
        self._advance(step, self._at_ns)
        self._calm.add((trigger, scope))

    def silent(self, trigger: str, scope: str, step: int) -> None:
        """Say that a trigger has no value in this step: the count of its calm steps stays as it is."""
        self._advance(step, self._at_ns)
        self._silent.add((trigger, scope))

    def heed(self, reading: Reading | None, trigger: str, scope: str, step: int, at_ns: int) -> Escalation | None:
        """Do with a detector's reading what it asks for: fire, count a calm step, or neither."""
        if reading is None:
            self.silent(trigger, scope, step)
        elif reading.is_firing:
            return self.fire(
                trigger, scope, step, at_ns, value=reading.z, threshold=reading.threshold, signal=reading.signal
            )
        elif reading.is_calm:
            self.calm(trigger, scope, step)
        return self._open_in(scope)

    def obey(self, orders: Iterable[Order]) -> None:
        """Take in the orders of a control file; they take effect at the next step boundary."""
        self._ordered.take(orders)

    def step(self, step: int, at_ns: int) -> tuple[Escalation, ...]:
        """Judge the step that ends here, and return what was opened, extended or closed since the last call."""
        self._advance(step, at_ns)
        if self._judged != self._now:
            self._judged = self._now
            for scope, state in self._scopes.items():
                self._judge(scope, state)
            self._calm.clear()
            self._silent.clear()
        self._news += self._ordered.step(step, at_ns)
        return self._drain()

    def begin_epoch(self, at_ns: int | None = None) -> tuple[Escalation, ...]:
        """Begin another epoch: budgets are full again, and what was latched, or open for the epoch alone, ends."""
        self._at_ns = self._at_ns if at_ns is None else at_ns
        for scope, state in self._scopes.items():
            state.spent = 0
            state.cycles.clear()
            if state.open is not None and (state.open.latched or scope == "epoch"):
                self._close(state, END_OF_EPOCH)
        self._news += self._ordered.end_epoch(self._step, self._at_ns)
        return self._drain()

    def deescalate(self, scope: str, step: int, at_ns: int) -> tuple[Escalation, ...]:
        """End what is open for a scope, whatever opened it."""
        self._advance(step, at_ns)
        state = self._scopes.get(scope)
        if state is not None and state.open is not None:
            self._close(state, DEESCALATED)
        return self._drain()

    def end(self, step: int, at_ns: int) -> tuple[Escalation, ...]:
        """End everything with the attempt."""
        self._advance(step, at_ns)
        for state in self._scopes.values():
            if state.open is not None:
                self._close(state, END_OF_ATTEMPT)
        self._news += self._ordered.end(step, at_ns)
        return self._drain()

    def in_force(self, scopes: Iterable[str] = ()) -> Escalation | None:
        """Return the escalation that decides for an action in some scopes, beside the run and the epoch; None without.

        One from outside the statistics (``P1``) comes before one that they opened.
        """
        found = self.all_in_force(scopes)
        return min(found, key=lambda one: one.rule) if found else None

    def all_in_force(self, scopes: Iterable[str] = ()) -> tuple[Escalation, ...]:
        """Return every escalation that covers an action in some scopes, beside the run and the epoch."""
        if not self._scopes and not self._ordered.open:
            return ()
        wanted = dict.fromkeys((*_ALWAYS, *scopes))
        own = [one for scope in wanted if (one := self._open_in(scope)) is not None]
        return (*own, *(one for one in self._ordered.open.values() if one.scope in wanted))

    @property
    def open(self) -> tuple[Escalation, ...]:
        """Everything that is open."""
        own = (state.open for state in self._scopes.values())
        return (*(one for one in own if one is not None), *self._ordered.open.values())

    def is_own(self, one: Escalation) -> bool:
        """Return whether this rank opened an escalation by itself."""
        return one.source == self._source or one.source.startswith(f"{self._source}/")

    def _open_in(self, scope: str) -> Escalation | None:
        state = self._scopes.get(scope)
        return None if state is None else state.open

    def _advance(self, step: int, at_ns: int) -> None:
        if step != self._step or not self._now:
            self._now += 1
            self._step = step
        self._at_ns = at_ns

    def _drain(self) -> tuple[Escalation, ...]:
        news, self._news = tuple(self._news), []
        return news

    def _rearm(self, one: Escalation) -> None:
        self._number = max(self._number, one.number + 1)
        kind = TRIGGERS.get(one.trigger)
        if kind is None or not self.is_own(one):
            return
        state = self._scopes.setdefault(one.scope, _Scope())
        state.open, state.opened = replace(one, event="extended"), 1
        self._news.append(state.open)
        # Whether an order's steps are over, or an XID was an application's, is not in it: it holds anew.
        ends = HOLD if kind.ends == STEPS else kind.ends
        state.causes[one.trigger] = _Cause(ends, kind.is_capped, 1)

    def _open(self, state: _Scope, one: Escalation) -> None:
        self._number += 1
        state.open, state.opened = one, self._now
        self._news.append(one)

    def _extend(self, state: _Scope, by: str, rule: str) -> None:
        if state.open is None:
            return
        state.open = replace(
            state.open,
            rule=min(state.open.rule, rule),
            evidence=(*state.open.evidence, f"extended-by:{by}"),
            event="extended",
        )
        self._news.append(state.open)

    def _count_cycle(self, state: _Scope) -> None:
        state.cycles.append(self._now)
        while state.cycles[0] <= self._now - self._settings.cycle_window:
            state.cycles.popleft()
        if len(state.cycles) > self._settings.most_cycles and state.open is not None and not state.open.latched:
            state.open = replace(state.open, latched=True, event="extended")
            self._news.append(state.open)

    def _judge(self, scope: str, state: _Scope) -> None:
        if state.open is None:
            return
        for trigger, cause in state.causes.items():
            if (trigger, scope) in self._calm:
                cause.calm += 1
            elif (trigger, scope) not in self._silent:
                cause.calm = 0
        if any(cause.is_capped for cause in state.causes.values()):
            state.spent += 1
            if state.spent >= self._settings.max_steps:
                self._exhaust(state)
                return
        is_old = self._now - state.opened >= self._settings.min_steps
        if is_old and not state.open.latched and all(self._is_over(cause) for cause in state.causes.values()):
            by_steps = all(cause.ends == STEPS for cause in state.causes.values())
            self._close(state, STEPS_OVER if by_steps else CLEAR)

    def _is_over(self, cause: _Cause) -> bool:
        since = self._now - cause.fired
        if cause.ends == STEPS:
            return since >= cause.steps
        held = cause.ends != ATTEMPT and since >= self._settings.hold_steps
        return held and (cause.ends == HOLD or cause.calm >= self._settings.clear_steps)

    def _exhaust(self, state: _Scope) -> None:
        """End what the budget limits; what it does not limit stays."""
        state.causes = {name: cause for name, cause in state.causes.items() if not cause.is_capped}
        if not state.causes:
            self._close(state, BUDGET)
        elif state.open is not None and state.open.latched:
            state.open = replace(state.open, latched=False, event="extended")
            self._news.append(state.open)

    def _close(self, state: _Scope, reason: str) -> None:
        if state.open is not None:
            self._news.append(
                replace(state.open, closed_ns=self._at_ns, closed_step=self._step, close_reason=reason, event="closed")
            )
        state.open = None
        state.causes.clear()
