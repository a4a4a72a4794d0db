"""A recording from its first line to its last: the parts of one rank, and what they do at the boundaries of a step."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provstore.capture.collective_calls import CallHooks
from provstore.capture.content.budget import Budget
from provstore.capture.content.limits import Limits
from provstore.capture.content.snapshot import SnapshotFile
from provstore.capture.live_calls import LiveCall
from provstore.capture.recording import job_header
from provstore.capture.recording.alarms import Alarms, escalation_members
from provstore.capture.recording.anchors import DataCursor, OrderAnchor
from provstore.capture.recording.call_recorder import CallRecorder
from provstore.capture.recording.capture_file import SCHEMA, CaptureFile
from provstore.capture.recording.carriers import Carriers
from provstore.capture.recording.content_maker import ContentMaker
from provstore.capture.recording.group_methods import GroupMethods
from provstore.capture.recording.guard import Guard
from provstore.capture.recording.judging import Judge, Rules
from provstore.capture.recording.launch import Launch
from provstore.capture.recording.outbox import Outbox
from provstore.capture.recording.ring import Ring
from provstore.capture.recording.rng_states import RngAnchor, digest_of, rng_blob
from provstore.capture.recording.samplers import sampler_facts
from provstore.capture.recording.snapshots import Snapshots, stored_bytes
from provstore.capture.recording.state_digests import ids_digest, state_digest
from provstore.capture.recording.taint import Taint
from provstore.capture.recording.tensor_events import TensorEvents
from provstore.capture.recording.worker import Worker
from provstore.evidence import whole_files
from provstore.model.action import TraceContext
from provstore.model.canonical import tag_double
from provstore.model.recording import FULL, NO_FILE_ACCESS, Escalation

AUTO_EPOCH_STEPS = 1000
_CLOSE_SECONDS = 30.0
_CALLS_SECONDS = 2.0
_DEVICE_SECONDS = 5.0
_BACKENDS = frozenset({"gloo", "nccl"})
_BLOBS = "blobs"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a caller wants recorded, and how."""

    run: str
    attempt: int
    directory: Path
    rules: Rules = field(default_factory=Rules)
    limits: Limits = field(default_factory=Limits)
    trace: TraceContext = field(default_factory=TraceContext)
    launch: Launch | None = None


class Session:
    """The recording of one rank. Its methods may raise: who calls them guards.

    Raises:
        OSError: The directory cannot be written.
    """

    def __init__(self, torch: Any, plan: Plan) -> None:
        self._torch = torch
        self._plan = plan
        self.pid = os.getpid()
        self.process = job_header.process_facts(torch)
        self.rank = int(self.process["rank"])
        self.file = CaptureFile(plan.directory, self.rank)
        self.outbox = Outbox(self.file)
        self.guard = Guard(self._write_fault)
        self._epoch_is_automatic = True
        self._steps_in_epoch = 0
        self._last_step = -1
        self._order, self._cursor, self._rng = OrderAnchor(), DataCursor(), RngAnchor(torch)
        self.alarms = Alarms(plan.directory, self.rank, self.file.before(), self._opened)
        self._worker = Worker(self.guard, self._flush)
        budget = Budget(plan.limits, plan.directory, snapshot_bytes=stored_bytes(plan.directory, self.rank))
        self._maker = ContentMaker(
            torch,
            (plan.run, plan.attempt),
            guard=self.guard,
            budget=budget,
            worker=self._worker,
            ring=Ring(),
            snapshots=Snapshots(SnapshotFile(plan.directory, self.rank), plan.run, budget, self.outbox),
        )
        self.guard.took = budget.took_here
        # Who asks for everything himself has what an escalation would give.
        budget.escalate(plan.rules.mode_floor == FULL)
        self._judge = judge = Judge(
            plan.rules, self.rank, self.process["host"], range(self.process["world_size"]), self.alarms
        )
        carriers, self._taint = Carriers(), Taint(torch, plan.rules.taint_window_steps)
        self.events = TensorEvents(
            torch,
            guard=self.guard,
            judge=judge,
            maker=self._maker,
            outbox=self.outbox,
            carriers=carriers,
            taint=self._taint,
        )
        self._calls = CallRecorder(
            rank=self.rank,
            guard=self.guard,
            judge=judge,
            alarms=self.alarms,
            maker=self._maker,
            outbox=self.outbox,
            carriers=carriers,
            taint=self._taint,
            order=self._order,
            carried=self.events.carried,
            group_seen=self._group_seen,
        )
        self.hooks = CallHooks(torch, self._calls, self.guard.hook, _BACKENDS, called=self.guard.called)
        self.methods = GroupMethods(torch, self.hooks, self.guard.hook)

    def start(self) -> None:
        """Write the header and begin to listen."""
        self.guard.run("hooks", self.hooks.attach)
        self.guard.run("methods", self.methods.wrap)
        self.guard.run("warm-up", self._maker.warm_up)
        self.outbox.put_first(self._header())
        if self._plan.launch is not None and self._plan.launch.fault is not None:
            self.guard.note("launch record", self._plan.launch.fault, is_own=False)
        self.outbox.flush()
        self._worker.start()

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch, and end the one before."""
        if type(epoch) is not int or epoch < 0:
            raise ValueError(f"epoch: {epoch!r} is not a number from 0")
        self._epoch_is_automatic = False
        self._open_epoch(epoch)

    def end_step(self, step: int, loss: Any, grad_norm: Any, *, norm_is_local: bool, parameters: Any) -> None:
        """End a step: its number is known now."""
        if type(step) is not int or step < 0:
            raise ValueError(f"step: {step!r} is not a number from 0")
        if self.outbox.epoch is None or (self._epoch_is_automatic and self._steps_in_epoch >= AUTO_EPOCH_STEPS):
            self._open_epoch(0 if self.outbox.epoch is None else self.outbox.epoch + 1)
        self._steps_in_epoch += 1
        self._last_step = step
        # Hashing a model takes what it takes: who asks for it spends no budget of calls.
        params = self.guard.run("state digest", state_digest, self._torch, parameters)
        with self._maker.charged():
            self._describe_step(step, _number(loss), _number(grad_norm), norm_is_local, params)
        self.guard.run("budgets", self._end_budgets)
        with self._maker.charged():
            self.guard.run("flush", self.outbox.flush_at_times)

    def data(self, batch_ids: Any, skipped: str | None) -> None:
        """Take note of the samples of a batch."""
        digest, count = ids_digest(batch_ids)
        line = {
            "t": "data",
            "epoch": self.outbox.epoch,
            "at_ns": time.time_ns(),
            "batch": self._cursor.batches,
            "ids_digest": digest,
            "count": count,
            "skipped": skipped,
        }
        self._cursor.batches += 1
        self._put(line, needs_step=True)

    def sampler(self, loader: Any, dataset: str | None) -> None:
        """Take note of how the samples of the epoch are ordered."""
        self._put(
            {"t": "sampler", "epoch": self.outbox.epoch, "at_ns": time.time_ns(), **sampler_facts(loader, dataset)}
        )

    def rng(self, where: str) -> None:
        """Keep the states of the random number generators."""
        blob, names = rng_blob(self._torch)
        digest = digest_of(blob)
        name = digest.removeprefix("sha256:")
        folder = self._plan.directory / _BLOBS
        folder.mkdir(exist_ok=True)
        if not (folder / name).exists():
            whole_files.write(folder / name, blob, None)
        self._put(
            {
                "t": "rng",
                "epoch": self.outbox.epoch,
                "step": self._last_step + 1 if where == "epoch" else max(self._last_step, 0),
                "at_ns": time.time_ns(),
                "where": where,
                "digest": digest,
                "blob": digest,
                "states": names,
            }
        )

    def checkpoint(self, uri: str, state: Any, files: Sequence[Path], action: str) -> None:
        """Take note of a checkpoint, of its state and of its files."""
        if action not in {"save", "load"}:
            raise ValueError(f"checkpoint: action: {action!r} is neither save nor load")
        self.guard.run("rng at checkpoint", self.rng, "checkpoint")
        local = [Path(uri)] if not files and "://" not in uri and Path(uri).exists() else list(files)
        facts = self.guard.run("files of a checkpoint", job_header.file_facts, local) or None
        self._put(
            {
                "t": "checkpoint",
                "epoch": self.outbox.epoch,
                "step": max(self._last_step, 0),
                "at_ns": time.time_ns(),
                "uri": job_header.without_userinfo(uri),
                "state_digest": self.guard.run("state digest", state_digest, self._torch, state),
                "files": facts,
                # Elsewhere, or not there yet; what could not be read although it is there is a fault of its own.
                "shortfall": [NO_FILE_ACCESS] if facts is None and not local else None,
                "action": action,
                **self._demanded(f"checkpoint.{action}"),
            }
        )
        if self._epoch_is_automatic and action == "save" and self.outbox.epoch is not None:
            self._open_epoch(self.outbox.epoch + 1)

    def close(self, reason: str, *, is_clean: bool) -> None:
        """Write what is left and stop listening."""
        if is_clean:
            self.guard.run("calls", self._calls.await_done, _CALLS_SECONDS)
        self.guard.run("methods", self.methods.unwrap)
        self.guard.run("hooks", self.hooks.detach)
        self.guard.run("events", self.events.end_step)
        self.guard.run("events", self.events.detach)
        self.guard.run("devices", self._maker.await_devices, _DEVICE_SECONDS)
        self.guard.run("ring", self._maker.drop_held)
        self.guard.run("worker", self._worker.close, _CLOSE_SECONDS)
        if is_clean:
            for one in self.guard.run("alarms", self.alarms.end) or ():
                self._put_escalation(one)
        if self.outbox.epoch is not None:
            self._end_epoch(closed=is_clean, reason=reason)
        if self.file.lost:
            self.guard.note("file", f"{self.file.lost} lines were lost: the disk was full")
        self._put({"t": "end", "epoch": self.outbox.epoch, "at_ns": time.time_ns(), "reason": reason})
        self.guard.run("flush", lambda: self.outbox.flush(is_last=True))
        self.guard.run("snapshots", self._maker.close)
        self.file.close()

    def _header(self) -> dict[str, Any]:
        plan, settings = self._plan, self.guard.run("determinism", job_header.determinism, self._torch) or {}
        trace = job_header.trace_members(plan.trace)
        said: dict[str, Any] = {
            "t": "header",
            "schema": SCHEMA,
            "run": plan.run,
            "attempt": plan.attempt,
            **self.process,
            "policy": plan.rules.header(),
            "trace": trace or None,
            "launch": None if plan.launch is None else self.guard.run("launch record", plan.launch.header),
            "groups": [job_header.group_members(group) for group in self.hooks.groups()],
            "settings": plan.limits.to_dict(),
            "determinism": settings,
            "env_digest": self.guard.run("env", job_header.environment_digest, self.process, settings),
        }
        return {name: value for name, value in said.items() if value is not None}

    def _open_epoch(self, epoch: int) -> None:
        now = time.time_ns()
        before = self.outbox.epoch
        line = {"t": "epoch", "epoch": epoch, "step": self._last_step + 1, "at_ns": now}
        if before is None:
            self.outbox.epoch = epoch
            self.outbox.put_first(line)
        else:
            self.outbox.end_epoch()
            self.guard.run("alarms", self._begin_epoch_of_alarms)
            self._end_epoch(closed=True, reason="next-epoch")
            self.outbox.epoch = epoch
            self._put(line)
        self._steps_in_epoch = 0
        self._cursor.begin_epoch()
        self._order.begin_epoch()
        self.guard.begin_epoch()
        self.guard.run("budgets", self._maker.begin_epoch)
        self.guard.run("rng", self.rng, "epoch")
        self.guard.run("flush", self.outbox.flush)

    def _begin_epoch_of_alarms(self) -> None:
        for one in self.alarms.begin_epoch():
            self._put_escalation(one)

    def _flush(self) -> None:
        with self._maker.charged():
            self.outbox.flush()

    def _end_epoch(self, *, closed: bool, reason: str) -> None:
        if (cost := self.guard.run("cost", self._maker.cost_of_epoch)) is not None:
            self.guard.note("cost", cost, is_own=False)
        line = {"t": "epoch-end", "epoch": self.outbox.epoch, "step": max(self._last_step, 0)}
        self._put({**line, "at_ns": time.time_ns(), "closed": closed, "reason": reason})

    def _describe_step(
        self, step: int, loss: float | None, grad_norm: float | None, norm_is_local: bool, params: str | None
    ) -> None:
        self.guard.run("devices", self._maker.arrive)
        self.guard.run("unseen calls", self.hooks.look_for_unseen)
        self.guard.run("tensor events", self.events.end_step)
        self.guard.run("taint", self._taint.end_step)
        ordinals = self.outbox.end_step(step)
        line = {
            "t": "step",
            "epoch": self.outbox.epoch,
            "step": step,
            "at_ns": time.time_ns(),
            "loss": None if loss is None else tag_double(loss),
            "grad_norm": None if grad_norm is None else tag_double(grad_norm),
            "norm_is_local": norm_is_local if grad_norm is not None else None,
            "ordinals": ordinals or None,
        }
        self._put(line)
        self.guard.run("anchor", self._anchor, step, params)
        self.guard.run("alarms", self._judge_step, step, loss, grad_norm, norm_is_local)

    def _anchor(self, step: int, params: str | None) -> None:
        said = {
            "t": "anchor",
            "epoch": self.outbox.epoch,
            "step": step,
            "rng": self._rng.digest(),
            "order": self._order.digest(),
            "cursor": self._cursor.batches,
            "params": params,
        }
        self._put(said)

    def _judge_step(self, step: int, loss: float | None, grad_norm: float | None, norm_is_local: bool) -> None:
        for one in self.alarms.end_step(step, loss, grad_norm, norm_is_local=norm_is_local):
            self._put_escalation(one)

    def _end_budgets(self) -> None:
        self._maker.end_step(is_escalated=self.alarms.is_escalated or self._plan.rules.mode_floor == FULL)

    def _opened(self, one: Escalation) -> None:
        self.guard.run("ring", self._maker.deepen, one.scope)

    def _demanded(self, op: str) -> dict[str, Any]:
        judged = self.guard.run("judge", self._judge.event, op)
        return {} if judged is None else judged.members()

    def _put_escalation(self, one: Escalation) -> None:
        self._put({"t": "escalation", "epoch": self.outbox.epoch, "at_ns": time.time_ns(), **escalation_members(one)})

    def _group_seen(self, call: LiveCall) -> None:
        self._put({"t": "group", **job_header.group_members(call.group)})

    def _write_fault(self, where: str, error: str, count: int) -> None:
        line = {"t": "fault", "epoch": self.outbox.epoch, "where": where[:200], "error": error, "count": count}
        self._put({**line, "at_ns": time.time_ns()})

    def _put(self, line: Mapping[str, Any], *, needs_step: bool = False) -> None:
        said = {name: value for name, value in line.items() if value is not None or name == "epoch"}
        self.outbox.put(said, needs_step=needs_step)


def _number(value: Any) -> float | None:
    """Return a loss or norm; of a tensor this waits for its device, at a step boundary."""
    detach = getattr(value, "detach", None)
    return None if value is None else float(value if detach is None else detach())
