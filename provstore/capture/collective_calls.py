"""Calls of torch.distributed as this rank issues them, under the numbers that Flight Recorder dumps give them."""

from __future__ import annotations

import atexit
import functools
import itertools
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from provstore.capture import stream_order
from provstore.capture.asked_futures import AskedFutures
from provstore.capture.call_numbers import (
    GLOO,
    chosen_backend,
    give_numbers,
    recorded_calls,
    sends_and_receives_before,
)
from provstore.capture.fail_open import tried
from provstore.capture.live_calls import LiveCall, LiveGroup, versions
from provstore.capture.torch_library import distributed_world, group_count, last_collective, live_groups
from provstore.capture.wrapping import Wrapping

OVERWRITTEN = "its outputs were overwritten before they could be read"
_IN_PLACE = frozenset({"ALLREDUCE", "ALLREDUCE_COALESCED", "BROADCAST", "REDUCE"})
_TO_ROOT = frozenset({"REDUCE", "GATHER"})
_FIRST_HOOK_NUMBER = 0x50525653

_hook_numbers = itertools.count(_FIRST_HOOK_NUMBER)


class Listener(Protocol):
    """What is told of calls, in the order in which they happen; an exception in it goes to the guard of the hooks."""

    def before(self, call: LiveCall) -> None:
        """A call is about to be issued; its inputs are intact, its numbers are not known."""

    def issued(self, call: LiveCall) -> None:
        """It was issued and has its numbers."""

    def done(self, call: LiveCall) -> None:
        """Its outputs can be read; ``call.is_overwritten`` tells, after reading, that somebody wrote to them."""

    def lost(self, call: LiveCall, reason: str) -> None:
        """Its outputs, or its numbers (``seq`` is ``None`` then), cannot be told."""

    def unseen(self, group: LiveGroup, first: int, count: int) -> None:
        """Calls that did not pass through Python, in a torch without hooks, got the numbers from ``first`` on."""

    def skipped(self, group: str, reason: str) -> None:
        """A group whose calls cannot be seen or numbered."""


class CallHooks:
    """Hooks on the groups of this process that tell a listener of every call."""

    def __init__(
        self,
        torch: Any,
        listener: Listener,
        guard: Callable[..., None],
        backends: frozenset[str] = frozenset({GLOO}),
        known: frozenset[str] = frozenset({GLOO}),
        called: Callable[..., None] | None = None,
    ) -> None:
        """Prepare.

        Args:
            torch: The module.
            listener: Who is told.
            guard: Called as ``guard(action, *arguments)``: torch passes a hook's exception on to training.
            backends: Groups without one of these are skipped; of several backends of a group one is seen.
            known: Backends that are known to count as their recorder does; of others it is asked at a group's first
                call, and the group is skipped when it says something else.
            called: Guards, in the same way, what torch calls by itself, and all that it leads to; default is ``guard``.
        """
        self._torch = torch
        self._listener = listener
        self._guard = guard
        self._called = called or guard
        self._backends, self._known = backends, known
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._groups: weakref.WeakKeyDictionary[Any, LiveGroup] = weakref.WeakKeyDictionary()
        self._coalescing = stream_order.Coalescing(torch)
        self._futures = AskedFutures(torch)
        self._worlds = 0
        self._made = Wrapping(torch.distributed.distributed_c10d, {"_register_process_group": self._around_made})
        self.has_hooks = hasattr(torch.distributed.ProcessGroup, "register_pre_hook")

    def attach(self) -> None:
        """See the groups that there are, and those that will be made."""
        self._coalescing.wrap()
        self._futures.methods.wrap()
        if self.has_hooks and not self._made.is_on:
            self._made.wrap()
            # Torch frees groups after Python has ended, and with them hooks, which are Python's: that crashes.
            atexit.register(self.detach)
        for group, name in live_groups(self._torch):
            self._worlds = max(self._worlds, 1)
            if group not in self._numbers:
                self._attach(group, name)

    def detach(self) -> None:
        """Take the hooks off."""
        self._coalescing.unwrap()
        self._futures.methods.unwrap()
        self._made.unwrap()
        atexit.unregister(self.detach)
        if self.has_hooks:
            for group, number in list(self._numbers.items()):
                tried(group.unregister_pre_hook, number)
                tried(group.unregister_post_hook, number)
        self._numbers.clear()
        self._groups.clear()

    def group_of(self, group: Any) -> LiveGroup | None:
        """Return what is known of a process group, ``None`` when it is not seen."""
        return self._groups.get(group)

    def groups(self) -> list[LiveGroup]:
        """Return the groups that are seen."""
        return list(self._groups.values())

    def look_for_unseen(self) -> None:
        """Tell of calls that were made since the latest that was seen."""
        for group in self.groups():
            self._look_for_unseen(group)

    def before(self, group: LiveGroup, args: Any) -> None:
        """Take note of a call that is about to be issued; ``args`` are those of torch's hook."""
        if not self.has_hooks:
            self._look_for_unseen(group)
        call = _call(group, args)
        if group.is_elsewhere(call):
            return
        if call.is_async:
            call.versions = versions(call.outputs)
            call.is_in_backward = stream_order.is_in_backward(self._torch)
        group.under_way[args.op_id] = call
        self._listener.before(call)

    def after(self, group: LiveGroup, args: Any) -> None:
        """Give the call its numbers, and have its listener told when it is done."""
        if group_count(self._torch) != len(self._numbers):
            self.attach()
        call = group.under_way.pop(args.op_id, None)
        if call is None or (group.device is not None and group.counter() == call.counted_before):
            return  # it went through another backend of the group
        if not give_numbers(call):
            self._guard(self._listener.lost, call, f"{call.name}: {group.backend} counts it as another number of calls")
            return
        if not group.is_confirmed and not self._confirm(call):
            call.seq = None
            self._guard(self._listener.lost, call, f"{group.backend}: its recorder numbers the call otherwise")
            return
        self._guard(self._listener.issued, call)
        self._await(call, args)

    def _look_for_unseen(self, group: LiveGroup) -> None:
        if self.has_hooks:
            return
        counter, latest = group.counter(), group.latest
        group.latest = counter
        if counter > latest:
            first = latest + 1 - (group.sends_and_receives if group.backend == GLOO else 0)
            self._guard(self._listener.unseen, group, first, counter - latest)

    def _around_made(self, register: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(register)
        def registered(name: str, group: Any, *arguments: Any, **options: Any) -> Any:
            found = register(name, group, *arguments, **options)
            if self._made.is_on:
                self._guard(self._meet, group, name)
            return found

        return registered

    def _meet(self, group: Any, name: str) -> None:
        """Put the hooks on a group that is being made: what it is, torch knows at its first call."""
        # Until its first group is there, torch says that it is not initialized.
        self._worlds += not self._torch.distributed.is_initialized()
        if group not in self._numbers:
            made: list[LiveGroup | None] = []
            reference, world = weakref.ref(group), self._worlds - 1

            def before(args: Any) -> None:
                if not made:
                    made.append(self._live(reference(), name, world))
                if made[0] is not None:
                    self.before(made[0], args)

            def after(args: Any) -> None:
                if made and made[0] is not None:
                    self.after(made[0], args)

            self._hook(group, before, after)

    def _attach(self, group: Any, name: str) -> None:
        """Put the hooks on one group, if the numbers of its calls can be told."""
        live = self._live(group, name, self._worlds - 1)
        if live is None or not self.has_hooks:
            self._numbers[group] = next(_hook_numbers)
        else:
            self._hook(group, partial(self.before, live), partial(self.after, live))

    def _hook(self, group: Any, before: Callable[[Any], None], after: Callable[[Any], None]) -> None:
        number = self._numbers[group] = next(_hook_numbers)
        group.register_pre_hook(number, lambda args: self._called(before, args))
        group.register_post_hook(number, lambda args: self._called(after, args))

    def _live(self, group: Any, name: str, world: int) -> LiveGroup | None:
        """Return one group as it is seen; ``None``, which is told, if the numbers of its calls cannot be."""
        config = str(distributed_world(self._torch).pg_backend_config.get(group, ""))
        chosen = chosen_backend(config, self._backends)
        if chosen is None:
            self._skip(name, f"not on {' or '.join(sorted(self._backends))}: the numbers of its calls")
            return None
        backend, kind = chosen
        device = None if kind is None else self._torch.device(kind)
        before, _ = tried(sends_and_receives_before, self._torch, group, name, backend, device)
        if before is None:
            self._skip(name, "was used before it was recorded: the numbers of its calls")
            return None
        live = LiveGroup(
            name,
            backend,
            tuple(self._torch.distributed.get_process_group_ranks(group)),
            str(getattr(group, "group_desc", "")),
            weakref.ref(group),
            before,
            last_collective(group, device),
            backend in self._known,
            device=device,
            world=world,
        )
        if kind is not None:
            self._guard(self._listener.skipped, f"{name} ({config})", f"calls that are not on {kind} are not recorded")
        self._groups[group] = live
        return live

    def _confirm(self, call: LiveCall) -> bool:
        """Return whether the recorder's last call of the group has the number that was found; then all have."""
        group = call.group
        recorded = [] if call.is_point_to_point else recorded_calls(self._torch, group.backend, group.name)
        group.is_confirmed = bool(recorded) and recorded[-1][0] == call.seq
        if group.is_confirmed:
            group.backend = recorded[-1][1]
        return group.is_confirmed

    def _skip(self, name: str, reason: str) -> None:
        self._guard(self._listener.skipped, name, f"{reason} cannot be told")

    def _await(self, call: LiveCall, args: Any) -> None:
        if not call.outputs:
            self._guard(self._listener.done, call)
            return
        if stream_order.is_on_device(call.outputs):
            self._await_in_order(call, args.work)
            return
        if args.work is None:
            self._guard(self._listener.lost, call, f"{call.group.backend} does not tell when it is done")
            return
        if not call.is_async:
            # Whoever issued it waits for it next, so waiting here takes no longer.
            self._guard(self._when_done, call, args.work.wait)
            return
        read = partial(self._called, self._when_done, call, args.work.wait)
        # The reducer waits for futures, which lets it go on, and the next pass overwrite its buckets, at the very time
        # at which they tell others that they are done. Until the pass ends nobody has gone on.
        if not (call.may_be_of_reducer and stream_order.at_end_of_backward(self._torch, read)):
            self._await_future(call, args.work)

    def _await_future(self, call: LiveCall, work: Any) -> None:
        """Have outputs read by the thread of the backend: before whoever waits for the work, not for the future."""
        future = self._futures.future_of(work, call)
        if future is None:
            self._guard(self._listener.lost, call, f"{call.group.backend} does not tell when it is done")
            return
        # It holds the work until then, by which whoever asks for the future is known.
        # One that is done already is read here and now, by what torch has called.
        run = self._guard if future.done() else self._called
        future.then(partial(self._read_future, run, call, work))

    def _read_future(self, run: Callable[..., None], call: LiveCall, work: Any, done: Any) -> None:
        del work
        run(self._when_done, call, done.value)

    def _await_in_order(self, call: LiveCall, work: Any) -> None:
        """Have outputs on a device read where the order of a stream makes them what the call gave, or not at all."""
        # A wait for a call on a device is one of the current stream; whoever issues a call that is not asynchronous
        # does the same next. A call without work is in the order of that stream already.
        wait = (lambda: None) if work is None else work.wait
        read = partial(self._called, self._when_done, call, wait)
        if call.is_point_to_point or self._coalescing.covers(call.group.reference()):
            reason = "it may be launched later, together with others"
        elif stream_order.is_capturing(self._torch, call.outputs):
            reason = "it becomes part of a graph"
        elif not call.is_async:
            self._guard(self._when_done, call, wait)
            return
        elif work is not None and call.is_kept and stream_order.at_end_of_backward(self._torch, read):
            return
        else:
            reason = "it is not known who reads and who overwrites its outputs"
        self._guard(self._listener.lost, call, f"{call.group.backend}: {call.name}: on a device: {reason}")

    def _when_done(self, call: LiveCall, finish: Callable[[], object]) -> None:
        _, fault = tried(finish)
        if fault is not None:
            self._listener.lost(call, "a call that failed")
        else:
            self._listener.done(call)


def _call(group: LiveGroup, args: Any) -> LiveCall:
    name, root = args.name.name, int(args.root)
    is_root = root >= 0 and root == group.own_position()
    # Each reading of the hook's lists makes them anew.
    given = tuple(args.input_tensors)
    inputs, outputs = _sides(name, given, args, is_root=is_root)
    return LiveCall(
        group=group,
        name=name,
        inputs=inputs,
        outputs=outputs,
        overwrites_inputs=name in _IN_PLACE and bool(given),
        position=root,
        is_async=bool(args.async_op),
        at_ns=time.time_ns(),
        counted_before=group.counter(),
        is_root=is_root,
    )


def _sides(name: str, given: tuple[Any, ...], args: Any, *, is_root: bool) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return what this rank puts in, and what will hold what it gets.

    A buffer that only waits for data is no input; who puts in or gets nothing has no value that is not finite.
    """
    inputs = () if name == "BROADCAST" and not is_root else given
    if name in _TO_ROOT and not is_root:
        return inputs, ()
    return inputs, tuple(args.output_tensors) or (given if name in _IN_PLACE else ())
