"""Records each call of this rank: what is demanded of it, what could be kept, under its number."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from provstore.capture.content.budget import CALL_FLAG
from provstore.capture.live_calls import LiveCall, LiveGroup
from provstore.capture.recording import contents, names
from provstore.capture.recording.alarms import Alarms
from provstore.capture.recording.anchors import OrderAnchor
from provstore.capture.recording.carriers import Carriers, tells_buckets
from provstore.capture.recording.content_maker import ContentMaker
from provstore.capture.recording.contents import Content
from provstore.capture.recording.group_methods import reduce_op_under_way
from provstore.capture.recording.guard import Guard
from provstore.capture.recording.judging import Judge, Judged
from provstore.capture.recording.outbox import Entry, Outbox
from provstore.capture.recording.snapshots import Place
from provstore.capture.recording.taint import Taint
from provstore.capture.recording.wish import Wish
from provstore.model.recording import (
    CAPTURE_FAULT,
    DDP_BUCKETS,
    FULL,
    NO_TENSOR_ACCESS,
    UNKNOWN,
    VALIDATION,
    RecordingPolicy,
)

_DDP_REDUCES_BY = "sum"
_LOOK_SECONDS = 0.001
_UNJUDGED = Judged(UNKNOWN, RecordingPolicy(FULL, "unknown side-effect class", "4"))


@dataclass(slots=True, eq=False, weakref_slot=True)
class Recorded:
    """A call on its way to its line."""

    judged: Judged
    content: Content
    wish: Wish = field(default_factory=Wish)
    reduce_op: str | None = None
    carries: Sequence[str] = ()
    parts: Sequence[tuple[dict[str, Any], Entry]] = ()
    """Line and entry of each part: of several where the backend makes several calls of one."""
    is_setup: bool = False
    """DDP tells its buckets in it, once in each process."""
    is_done: bool = False


class CallRecorder:
    """Listens to the hooks of the groups, and puts one line a call into the outbox."""

    def __init__(
        self,
        *,
        rank: int,
        guard: Guard,
        judge: Judge,
        alarms: Alarms,
        maker: ContentMaker,
        outbox: Outbox,
        carriers: Carriers,
        taint: Taint,
        order: OrderAnchor,
        carried: Callable[[str, str], None],
        group_seen: Callable[[LiveCall], None],
    ) -> None:
        """Prepare; ``carried`` is told (name, action id) of gradients, ``group_seen`` the first call of each group."""
        self._rank = rank
        self._guard = guard
        self._judge = judge
        self._alarms = alarms
        self._maker = maker
        self._outbox = outbox
        self._carriers = carriers
        self._taint = taint
        self._order = order
        self._carried = carried
        self._group_seen = group_seen
        self._groups: set[int] = set()
        self._under_way: set[Recorded] = set()

    def before(self, call: LiveCall) -> None:
        """Judge a call, test its inputs, and copy what it may overwrite."""
        recorded = call.memo = Recorded(_UNJUDGED, contents.content_of(call.inputs, call.outputs))
        try:
            recorded.judged = self._judge.call(call)
            recorded.reduce_op = reduce_op_under_way()
            call.is_from_python = recorded.reduce_op is not None
            if self._carriers.has_models or self._carriers.has_ready:
                recorded.carries = self._carriers.carried(call)
            recorded.is_setup = tells_buckets(call)
            # No method of Python is under way: the reducer of DDP, which holds its buckets, issues the call.
            call.is_kept = bool(recorded.carries) and recorded.reduce_op is None and self._carriers.is_of_ddp(call)
            if recorded.reduce_op is None and (recorded.carries or self._is_of_reducer(call)):
                recorded.reduce_op = _DDP_REDUCES_BY
            if self._taint.is_active:
                length = self._guard.run("taint", self._taint.length, call.inputs, recorded.carries)
                recorded.judged = self._judge.call(call, length or 0)
            self._take_inputs(call, recorded)
        except Exception as error:
            recorded.content.fail(error)
            raise

    def issued(self, call: LiveCall) -> None:
        """Give the call its place in the file."""
        recorded = self._recorded(call)
        op, group = names.op_of(call.name), names.group_key(call)
        if id(call.group) not in self._groups:
            self._groups.add(id(call.group))
            self._guard.hook(self._group_seen, call)
        for part in range(call.parts):
            number = call.op_id if call.is_point_to_point else (call.seq or 0) + part
            if recorded.is_setup:
                self._order.leave_out(group, number)
            else:
                self._order.add(op, group, number, is_point_to_point=call.is_point_to_point)
            line = self._line(call, recorded, op, group, part)
            unfinished = partial(self._unfinished, line, recorded)
            entry = Entry(None, needs_step=True, ordinal=line["ordinal"], unfinished=unfinished)
            recorded.parts = (*recorded.parts, (line, entry))
            self._outbox.add(entry)
        for name in recorded.carries:
            self._carried(name, names.action_id(call, self._rank))
        self._under_way.add(recorded)

    def await_done(self, seconds: float) -> None:
        """Wait until the calls that were issued are done: who waits for a future goes on before others are told."""
        until = time.monotonic() + seconds
        while self._under_way and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)

    def done(self, call: LiveCall) -> None:
        """Test the outputs, copy them, and have the content of the call found."""
        recorded = self._recorded(call)
        self._guard.hook(self._carriers.saw_result, call)
        try:
            self._take_outputs(call, recorded)
        except Exception as error:
            recorded.content.fail(error)
            raise
        finally:
            self._finish(call, recorded)

    def lost(self, call: LiveCall, reason: str) -> None:
        """Finish a call whose outputs cannot be told; one without a number has no line, only a fault."""
        recorded = self._recorded(call)
        if call.seq is None:
            self._maker.let_go(recorded.content)
            self._guard.note(f"group {call.group.name}", reason, is_own=False)
            return
        if call.outputs:
            recorded.content.shortfall.add(NO_TENSOR_ACCESS)
        self._finish(call, recorded)

    def unseen(self, group: LiveGroup, first: int, count: int) -> None:
        """Write the numbers of calls of which nothing else is known."""
        key = group.key
        for seq in range(first, first + count):
            self._order.add(UNKNOWN, key, seq)
            line = {
                "t": "call",
                "ordinal": self._outbox.ordinal(),
                "epoch": self._outbox.epoch,
                "at_ns": time.time_ns(),
                "op": UNKNOWN,
                "backend": group.backend,
                "group": key,
                "seq": seq,
                "channel": "collective",
                "side": "call",
                "mode": VALIDATION,
                "shortfall": [NO_TENSOR_ACCESS],
            }
            self._outbox.put(line | _UNJUDGED.members(), needs_step=True)

    def skipped(self, group: str, reason: str) -> None:
        """Write down a group that is not recorded."""
        self._guard.note(f"group {group}", reason, is_own=False)

    def _recorded(self, call: LiveCall) -> Recorded:
        if call.memo is None:
            call.memo = Recorded(_UNJUDGED, contents.content_of(call.inputs, call.outputs))
            call.memo.content.shortfall.add(CAPTURE_FAULT)
        found: Recorded = call.memo
        return found

    def _is_of_reducer(self, call: LiveCall) -> bool:
        """Return whether nobody but the reducer of DDP can have issued a call: a bucket, within a backward pass."""
        if not (call.may_be_of_reducer and call.is_in_backward and self._carriers.is_of_ddp(call)):
            return False
        return self._carriers.has_ready and len(call.inputs) == 1 and call.inputs[0].dim() == 1

    def _take_inputs(self, call: LiveCall, recorded: Recorded) -> None:
        group, content = names.group_key(call), recorded.content
        given = content.inputs
        if self._maker.test(content, given, call.inputs, CALL_FLAG) and given is not None:
            self._alarms.saw_call(group, given.is_finite)
        if given is not None and given.is_finite is False:
            self._guard.run("taint", self._taint.found, call.inputs)
            recorded.judged = self._judge.call(call, 1)
        number = call.counted_before - call.group.sends_and_receives + 1
        recorded.wish = self._maker.wish(content, recorded.judged, group, number)
        # What an operation leaves as it is, is needed for statistics or as a snapshot alone.
        if recorded.wish.needs_copies and recorded.judged.policy.mode != VALIDATION:
            self._maker.copy(content, content.inputs, call.inputs, recorded.wish)

    def _take_outputs(self, call: LiveCall, recorded: Recorded) -> None:
        content = recorded.content
        is_readable = self._maker.test(content, content.outputs, call.outputs, CALL_FLAG)
        if is_readable and recorded.wish.needs_copies:
            self._maker.copy(content, content.outputs, call.outputs, recorded.wish)
        if call.is_overwritten():
            self._maker.forget(content, content.outputs)
            return
        is_finite = content.outputs.is_finite if content.outputs is not None else None
        if is_finite is False or self._taint.is_active:
            length = recorded.judged.taint_chain_length
            self._guard.run("taint", partial(self._taint.gave, call.outputs, length, is_finite=is_finite))
        if is_finite is not None:
            self._alarms.saw_call(names.group_key(call), is_finite)

    def _finish(self, call: LiveCall, recorded: Recorded) -> None:
        if recorded.is_done:
            return
        recorded.is_done = True
        try:
            if not recorded.content.is_held:
                # Nothing is left to be found, as in most calls of a loop of short steps.
                self._maker.drop(recorded.wish)
                self._guard.hook(self._complete, recorded)
                return
            # What is not finite has escalated its group already; what is on a device will do so when it is known.
            recorded.wish.is_deepened = recorded.content.is_finite is False
            self._maker.make(
                recorded.content,
                recorded.wish,
                lambda: self._complete(recorded),
                lambda: self._late(recorded),
                self._place(call, recorded),
                # The call itself would keep its tensors alive until then.
                partial(self._saw_late, names.group_key(call), recorded.content),
            )
        finally:
            self._under_way.discard(recorded)

    def _saw_late(self, group: str, content: Content) -> None:
        """Take note of flags that came from a device after the call."""
        for side in content.sides():
            self._alarms.saw_call(group, side.is_finite)

    def _place(self, call: LiveCall, recorded: Recorded) -> Place:
        group = call.group
        line = recorded.parts[0][0] if recorded.parts else {}
        return Place(
            group=names.group_key(call),
            number=call.op_id if call.is_point_to_point and call.op_id is not None else call.seq or 0,
            op=names.op_of(call.name),
            ordinal=line.get("ordinal", 0),
            epoch=line.get("epoch"),
            ranks=len(group.ranks),
            position=group.own_position(),
            is_root=call.is_root if call.position >= 0 and not call.is_point_to_point else None,
        )

    def _complete(self, recorded: Recorded) -> None:
        for line, entry in recorded.parts:
            entry.finish(self._finished(line, recorded))

    def _late(self, recorded: Recorded) -> None:
        """Write what the ring held of a call: its line again, labelled as before, with the content that was kept."""
        entry = recorded.parts[0][1] if recorded.parts else None
        said = None if entry is None else entry.members()
        if entry is None or said is None:
            return
        added = {name: value for name, value in recorded.content.members().items() if name not in said}
        if added:
            self._outbox.put_like(entry, {**said, **added, "late": True})

    def _line(self, call: LiveCall, recorded: Recorded, op: str, group: str, part: int) -> dict[str, Any]:
        said: dict[str, Any] = {
            "t": "call",
            "ordinal": self._outbox.ordinal(),
            "epoch": self._outbox.epoch,
            "at_ns": call.at_ns,
            "op": op,
            "backend": call.group.backend,
            "group": group,
            "channel": names.channel_of(call),
            "side": names.side_of(call),
        }
        if call.group.description:
            said["desc"] = call.group.description
        if call.seq is not None:
            said["seq"] = call.seq + part
        if call.op_id is not None:
            said["op_id"] = call.op_id
        if (other := call.group.global_rank(call.position)) is not None:
            said["peer" if call.is_point_to_point else "root"] = other
        if recorded.reduce_op is not None:
            said["reduce_op"] = recorded.reduce_op
        if recorded.is_setup:
            said["setup"] = DDP_BUCKETS
        if call.parts > 1:
            said["parts"] = call.parts
        if part and call.seq is not None:
            said["part_of"] = call.seq
        return said

    def _finished(self, line: dict[str, Any], recorded: Recorded) -> dict[str, Any]:
        content, policy = recorded.content, recorded.judged.policy
        mode = content.mode(policy.mode)
        shortfall = sorted(content.shortfall) if mode != policy.mode or _lacks_flag(content) else []
        said = line | recorded.judged.members()
        said["mode"], said["shortfall"] = mode, shortfall
        # The tensors of a call stand in the line of its first part.
        if "part_of" not in line:
            said |= content.members()
        return said

    def _unfinished(self, line: dict[str, Any], recorded: Recorded) -> dict[str, Any]:
        """Return the line of a call whose content never came: what is known without it."""
        known = recorded.content
        content = Content(_bare(known.inputs), _bare(known.outputs), set(known.shortfall))
        if content.sides():
            content.shortfall.add(NO_TENSOR_ACCESS)
        return self._finished(line, Recorded(recorded.judged, content))


def _bare(side: contents.Side | None) -> contents.Side | None:
    if side is None:
        return None
    return contents.Side(side.shapes, side.dtypes, side.bytes_held, side.is_finite)


def _lacks_flag(content: Content) -> bool:
    for side in content.sides():  # noqa: SIM110  asked of every call, and faster than any()
        if side.is_finite is None:
            return True
    return False
