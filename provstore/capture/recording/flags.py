"""Finite flags of actions: found at once on the host, asked for on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from provstore.capture.content.budget import FLAG, Budget
from provstore.capture.content.devices import Devices
from provstore.capture.content.shortfall import ShortfallError
from provstore.capture.recording import contents
from provstore.capture.recording.contents import Content, Side
from provstore.capture.recording.guard import Guard
from provstore.capture.stream_order import is_on_device
from provstore.model.recording import CAPTURE_FAULT, NO_TENSOR_ACCESS


class Flags:
    """Tests whether values are finite, within the budgets of one rank.

    Args:
        torch: The module.
        guard: Tells whether content is recorded at all.
        budget: What may be spent.
        devices: The accelerators of this process.
    """

    def __init__(self, torch: Any, guard: Guard, budget: Budget, devices: Devices) -> None:
        self._torch = torch
        self._guard = guard
        self._budget = budget
        self._devices = devices

    def test(self, content: Content, side: Side | None, tensors: Sequence[Any], work: str = FLAG) -> bool:
        """Test whether the values of a side are finite; return whether its tensors can be read at all.

        On a device the answer is not known yet when this returns.

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
        try:
            if is_on_device(tensors):
                return self._test_on_device(content, side, tensors, work)
            if self._budget.takes_at_once(side.bytes_held):
                side.is_finite = contents.is_finite(self._torch, tensors)
                return True
            grant = self._budget.ask(work, side.bytes_held)
            if grant.reason is not None:
                content.shortfall.add(grant.reason)
                return True
            with self._budget.working(grant):
                side.is_finite = contents.is_finite(self._torch, tensors)
        except (ShortfallError, NotImplementedError) as error:
            content.fail(error)
            return False
        return True

    def _test_on_device(self, content: Content, side: Side, tensors: Sequence[Any], work: str) -> bool:
        device = self._devices.of(tensors)
        if device is None:
            content.shortfall.add(NO_TENSOR_ACCESS)
            return False
        grant = self._budget.ask(work, 0)
        if grant.reason is not None:
            content.shortfall.add(grant.reason)
            return True
        with self._budget.working(grant):
            contents.find_flag_on(device, self._torch, side, tensors)
        return True
