"""Escalations that were ordered from outside a job, as one rank carries them out at its step boundaries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from provstore.evidence.recording.orders import Order
from provstore.model.recording import Escalation

LATE_BY = "late-by:"
"""What the evidence of an escalation that began late starts with; the number of steps stands behind it."""


class Ordered:
    """What orders keep open on this rank.

    An order holds from the step it names, on all ranks alike; a rank that reads it later opens it late, which its
    ``opened_step`` and its evidence show. What was ordered before a rank looked for the first time is not late. An
    order that was given before any step begins with the first step of this process.
    """

    def __init__(self) -> None:
        self._orders: dict[int, Order] = {}
        self._over: set[int] = set()
        self.open: dict[int, Escalation] = {}
        """Number of the order → the escalation, with the reason of its beginning."""
        self._first: int | None = None
        """Step at whose end it was looked first."""
        self._looked_at: int | None = None
        """Step at whose end it was looked last."""
        self._told: dict[int, int] = {}
        """Number of the order → how many of its reasons were told."""

    def take(self, orders: Iterable[Order]) -> None:
        """Take in what the control file says now; an order that is no longer in it stays as it was."""
        self._orders.update((one.number, one) for one in orders)

    def step(self, step: int, at_ns: int) -> list[Escalation]:
        """Return what opens, is made to last longer, or closes at this step."""
        news: list[Escalation] = []
        self._first = step if self._first is None else self._first
        for number, order in self._orders.items():
            current = self.open.get(number)
            begin = self._first if order.before_steps else order.from_step
            reason = _end(order, begin, step)
            if current is None and reason is None and step >= begin and number not in self._over:
                is_late = self._looked_at is not None and self._looked_at >= begin
                late = step - begin if is_late else 0
                self.open[number] = _opened(order, step, at_ns, late)
                news.append(self.open[number])
            elif current is not None and reason is not None:
                news.append(self._closed(number, step, at_ns, reason))
            news += self._extensions(order)
        self._looked_at = step
        return news

    def _extensions(self, order: Order) -> list[Escalation]:
        """Return a state with its own reason for each time an open one was made to last longer."""
        one, told = self.open.get(order.number), self._told.get(order.number, 1)
        if one is None or len(order.reasons) <= told:
            return []
        self._told[order.number] = len(order.reasons)
        self.open[order.number] = one = replace(one, evidence=(*one.evidence, f"extended-by:{order.trigger}"))
        return [replace(one, reason=text, event="extended") for text in order.reasons[told:]]

    def end_epoch(self, step: int, at_ns: int) -> list[Escalation]:
        """End the orders for one epoch; they do not open again in the next."""
        ending = [number for number, one in self.open.items() if one.scope == "epoch"]
        self._over.update(ending)
        return [self._closed(number, step, at_ns, "end-of-epoch") for number in ending]

    def end(self, step: int, at_ns: int) -> list[Escalation]:
        """End everything with the attempt."""
        return [self._closed(number, step, at_ns, "end-of-attempt") for number in list(self.open)]

    def _closed(self, number: int, step: int, at_ns: int, reason: str) -> Escalation:
        one = self.open.pop(number)
        return replace(one, closed_ns=at_ns, closed_step=step, close_reason=reason, event="closed")


def _end(order: Order, begin: int, step: int) -> str | None:
    if order.is_closed:
        return "deescalated" if order.trigger == "manual" else "clear"
    return "steps-over" if order.steps is not None and step >= begin + order.steps else None


def _opened(order: Order, step: int, at_ns: int, late: int) -> Escalation:
    return Escalation(
        order.number, order.trigger, order.source, order.scope, order.rule, at_ns, step, order.value, order.threshold,
        reason=order.reasons[0], evidence=(f"{LATE_BY}{late}",) if late else (),
    )  # fmt: skip
