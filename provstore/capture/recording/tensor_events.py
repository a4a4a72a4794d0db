"""Tensor events: gradients as they are accumulated and, when asked, what goes into and comes out of modules."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from provstore.capture.content.digest import local_of
from provstore.capture.fail_open import tried
from provstore.capture.recording import contents
from provstore.capture.recording.carriers import Carriers
from provstore.capture.recording.content_maker import ContentMaker
from provstore.capture.recording.contents import Content
from provstore.capture.recording.guard import Guard
from provstore.capture.recording.judging import Judge, Judged
from provstore.capture.recording.outbox import Entry, Outbox
from provstore.capture.recording.snapshots import Place
from provstore.capture.recording.taint import Taint
from provstore.capture.recording.wish import Wish
from provstore.model.action import ACTIVATION, GRADIENT
from provstore.model.recording import NO_TENSOR_ACCESS, VALIDATION

INPUT = "tensor.input"


@dataclass(slots=True, eq=False)
class _Event:
    """One event on its way to its line: it waits for its content and, a gradient, for the call that carries it."""

    op: str
    name: str
    at_ns: int
    judged: Judged
    content: Content
    ordinal: int
    epoch: int | None
    entry: Entry | None = None
    carried_by: list[str] = field(default_factory=list)
    uncarried: str | None = None
    """Why no call carries it, where DDP should."""
    has_content: bool = False
    is_settled: bool = False


class TensorEvents:
    """The hooks on the parameters and modules of a job."""

    def __init__(
        self,
        torch: Any,
        *,
        guard: Guard,
        judge: Judge,
        maker: ContentMaker,
        outbox: Outbox,
        carriers: Carriers,
        taint: Taint,
    ) -> None:
        self._torch = torch
        self._guard = guard
        self._judge = judge
        self._maker = maker
        self._outbox = outbox
        self._carriers = carriers
        self._taint = taint
        self._handles: list[Any] = []
        self._open: dict[tuple[str, str], _Event] = {}
        self._seen: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def gradients(self, model: Any) -> None:
        """See the gradient of each parameter of a model, under its name without DDP's prefix."""
        inner = model.module if hasattr(model, "_get_ddp_logging_data") else model
        names = {id(parameter): name for name, parameter in inner.named_parameters() if parameter.requires_grad}
        self._carriers.watch(model, names)
        for name, parameter in inner.named_parameters():
            if parameter.requires_grad:
                self._handles.append(parameter.register_post_accumulate_grad_hook(self._gradient_hook(name)))

    def modules(self, model: Any, *, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """See what goes into, and comes out of, the named modules.

        Raises:
            LookupError: The model has no module of that name.
        """
        known = dict(model.named_modules())
        for names, op in ((inputs, INPUT), (outputs, ACTIVATION)):
            for name in names:
                if name not in known:
                    raise LookupError(f"modules: {name!r}: the model has no such module")
                self._handles.append(known[name].register_forward_hook(self._module_hook(op, name)))

    def carried(self, name: str, action_id: str) -> None:
        """Take note of the call that carries a gradient."""
        with self._lock:
            event = self._open.get((GRADIENT, name))
        if event is not None:
            event.carried_by.append(action_id)
            self._settle(event)

    def end_step(self) -> None:
        """Let the events of the step be written: what carried nothing until now, carries nothing."""
        with self._lock:
            events, self._open = self._open, {}
            self._seen.clear()
        reasons = self._carriers.why_not()
        for (_, name), event in events.items():
            event.uncarried = None if event.carried_by else reasons.get(name)
            self._settle(event)
        self._carriers.end_step()

    def detach(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            tried(handle.remove)
        self._handles.clear()

    def _gradient_hook(self, name: str) -> Callable[[Any], None]:
        def hook(parameter: Any) -> None:
            self._guard.run("TensorEvents.gradient", self._gradient, name, parameter)

        return hook

    def _module_hook(self, op: str, name: str) -> Callable[[Any, Any, Any], None]:
        def hook(_module: Any, given: Any, result: Any) -> None:
            self._guard.run("TensorEvents.module", self._module, op, name, given if op == INPUT else result)

        return hook

    def _gradient(self, name: str, parameter: Any) -> None:
        if parameter.grad is not None:
            self._carriers.is_ready(name, parameter)
            self._see(GRADIENT, name, [parameter.grad])

    def _module(self, op: str, name: str, value: Any) -> None:
        self._see(op, name, _tensors(value))

    def _see(self, op: str, name: str, given: Sequence[Any]) -> None:
        if not given:
            return
        began = time.thread_time_ns()
        with self._torch.no_grad():
            # Digest, statistics and bytes are those of what the rank holds, so shape and size are too.
            tensors = [local_of(tensor) for tensor in given]
        with self._lock:
            self._seen[op, name] += 1
            count = self._seen[op, name]
        # A second use of a module, or a gradient that is accumulated further, is another action.
        shown = name if count == 1 else f"{name}#{count}"
        judged = self._judge.event(op)
        content = Content(None, contents.side_of(tensors))
        event = _Event(op, shown, time.time_ns(), judged, content, self._outbox.ordinal(), self._outbox.epoch)
        event.entry = Entry(None, needs_step=True, ordinal=event.ordinal, unfinished=lambda: self._unfinished(event))
        event.is_settled = op != GRADIENT
        self._outbox.add(event.entry)
        if op == GRADIENT:
            self._replace(name, event)
        wish = Wish()
        try:
            self._maker.test(content, content.outputs, tensors)
            if content.is_finite is False:
                self._guard.run("taint", self._taint.found, tensors, name if op == GRADIENT else None)
            wish = self._maker.wish(content, judged, f"{op}:{name}", count, can_be_late=False)
            self._maker.copy(content, content.outputs, tensors, wish)
        except Exception as error:
            content.fail(error)
            raise
        finally:
            self._maker.spent(time.thread_time_ns() - began)
            place = Place(group=f"{op}:{name}", number=count, op=op, ordinal=event.ordinal, epoch=event.epoch)
            self._maker.make(content, wish, lambda: self._has_content(event), None, place)

    def _replace(self, name: str, event: _Event) -> None:
        with self._lock:
            earlier = self._open.get((GRADIENT, name))
            self._open[GRADIENT, name] = event
        if earlier is not None:
            self._settle(earlier)

    def _has_content(self, event: _Event) -> None:
        event.has_content = True
        self._complete(event)

    def _settle(self, event: _Event) -> None:
        event.is_settled = True
        self._complete(event)

    def _complete(self, event: _Event) -> None:
        if event.has_content and event.is_settled and event.entry is not None and event.entry.line is None:
            event.entry.finish(_line(event, event.content, event.content.mode(event.judged.policy.mode)))

    def _unfinished(self, event: _Event) -> dict[str, Any]:
        side = event.content.outputs
        bare = None if side is None else contents.Side(side.shapes, side.dtypes, side.bytes_held, side.is_finite)
        return _line(event, Content(None, bare, {*event.content.shortfall, NO_TENSOR_ACCESS}), VALIDATION)


def _line(event: _Event, content: Content, mode: str) -> dict[str, Any]:
    side, policy = content.outputs, event.judged.policy
    has_flag = side is not None and side.is_finite is not None
    said: dict[str, Any] = {
        "t": "tensor",
        "ordinal": event.ordinal,
        "epoch": event.epoch,
        "at_ns": event.at_ns,
        "op": event.op,
        "name": event.name,
        "mode": mode,
        "shortfall": sorted(content.shortfall) if mode != policy.mode or not has_flag else [],
        **event.judged.members(),
    }
    if side is not None:
        said |= {"shape": side.shapes[0], "dtype": side.dtypes[0]}
        found = {"finite": side.is_finite, "digest": side.digest, "kind": side.kind, "stats": side.statistics}
        said |= {name: value for name, value in found.items() if value is not None}
        if side.snapshot is not None:
            said["snap"] = side.snapshot
    carrier = {"carried_by": list(event.carried_by) or None, "uncarried": event.uncarried}
    return said | {name: value for name, value in carrier.items() if value is not None}


def _tensors(value: Any) -> list[Any]:
    """Return the first tensor among what a module was given or gave."""
    if hasattr(value, "untyped_storage"):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    for part in value if isinstance(value, list | tuple) else ():
        found = _tensors(part)
        if found:
            return found
    return []
