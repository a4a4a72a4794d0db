"""Calls on tensors of an accelerator that only stands in for one, recorded; each scene in a folder of its own.

Usage: accelerator.py RANK RANKS STORE OUT, like every job. What was seen is printed as one JSON object a scene.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import standin
import torch
import torch.distributed as dist
from standin import MODULE, on_device

import provstore.capture
from provstore.capture import stream_order
from provstore.capture.content import devices
from provstore.capture.content.limits import Limits
from provstore.capture.live_calls import LiveGroup
from provstore.capture.recording import arrivals, contents, session
from provstore.capture.recording.rng_states import restore_rng, rng_blob

OUT = Path(sys.argv[4])
GENEROUS = {"steady_share": 1e6, "escalated_share": 1e6, "reserve_bytes": 0, "reserve_share": 0.0}
SHORT_SECONDS = 0.1


class Group:
    """Where torch has a process group: it counts."""

    def __init__(self) -> None:
        self.count = 0

    def _get_sequence_number_for_group(self) -> int:
        return self.count

    def rank(self) -> int:
        return 0


class Args:
    """What a hook is given."""

    def __init__(self, name: str, inputs: Any, outputs: Any, number: int, *, is_async: bool) -> None:
        self.name = type("Name", (), {"name": name})
        self.input_tensors, self.output_tensors = inputs, outputs
        self.root, self.async_op, self.op_id, self.work = -1, is_async, number, None


class Work:
    """A call that goes on, on a stream of the backend's own."""

    def __init__(self, launch: Callable[[], object], stream: standin.Stream) -> None:
        begin, self._end = standin.Event(), standin.Event()
        begin.record()
        stream.wait_event(begin)
        with MODULE.stream(stream):
            launch()
            self._end.record()

    def wait(self) -> None:
        MODULE.current_stream().wait_event(self._end)


class Done:
    """A call on the host that is done when it was issued, and has no future."""

    def wait(self) -> None:
        pass

    def get_future(self) -> None:
        raise NotImplementedError


def twice(host: torch.Tensor) -> None:
    host.mul_(2)


class Job:
    """One recorder and one group whose backend is told what to do."""

    def __init__(self, scene: str, **options: Any) -> None:
        limits = Limits(**GENEROUS | options.pop("limits", {}))
        options = {"mode_floor": "full"} | options
        self.recorder = provstore.capture.evidence("run", OUT / scene, limits=limits, **options)
        self.session = self.recorder._session
        self.group = Group()
        self.stream = standin.Stream()
        self._group = LiveGroup("0", "nccl", (0,), "", weakref.ref(self.group))
        self._number = 0
        self.fault: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
        """What is wrong while the recorder works."""
        self.recorder.begin_epoch(0)

    def call(
        self,
        name: str,
        inputs: list[Any],
        outputs: list[Any],
        launch: Callable[[], object] | None,
        *,
        is_async: bool = False,
    ) -> Any:
        """Issue a call, as c10d does; one that is not asynchronous is waited for."""
        self._number += 1
        args = Args(name, inputs, outputs, self._number, is_async=is_async)
        guard, hooks = self.session.guard, self.session.hooks
        with self.fault():
            guard.hook(hooks.before, self._group, args)
        args.work = Work(launch, self.stream) if launch is not None else Done()
        self.group.count += 1
        with self.fault():
            guard.hook(hooks.after, self._group, args)
        if not is_async:
            args.work.wait()
        return args.work

    def doubled(self, tensor: Any, **options: Any) -> Work:
        """Call what doubles a tensor in place."""
        return self.call(
            "ALLREDUCE", [tensor], [], lambda: standin.launch(tensor, lambda host: host.mul_(2)), **options
        )

    def lines(self, kind: str) -> list[dict[str, Any]]:
        path = self.recorder.path or self.path
        return [line for line in map(json.loads, path.read_text().splitlines()) if line["t"] == kind]

    def written(self) -> list[dict[str, Any]]:
        """Return the lines of calls that were written until now."""
        self.session.outbox.flush()
        return self.lines("call")

    def close(self) -> None:
        self.path = self.recorder.path
        self.recorder.close()


def values() -> dict[str, torch.Tensor]:
    """Return tensors of many dtypes and forms."""
    random = torch.Generator().manual_seed(5)
    floats = torch.randn(40, 30, generator=random)
    return {
        "float32": floats.clone(),
        "bfloat16": floats.bfloat16(),
        "float16": floats.half(),
        "float64": floats.double(),
        "float8": floats.to(torch.float8_e4m3fn),
        "complex": torch.complex(floats, floats.flip(0)),
        "int64": torch.arange(-50, 50),
        "bool": floats > 0,
        "nan": torch.where(floats > 2, torch.nan, floats),
        "infinite": torch.where(floats < -2, -torch.inf, floats),
        "nan8": torch.where(floats > 2, torch.nan, floats).to(torch.float8_e5m2),
        "large": torch.full((70,), 6e4, dtype=torch.float16),
        "transposed": floats.t(),
        "scalar": torch.tensor(2.5),
        "empty": torch.empty(0, 3),
        "two chunks": torch.randn(300_000, generator=random),
    }


def kinds() -> dict[str, Any]:
    """Gather the same tensors on the host and on the device."""
    waits = {}
    for place in ("host", "device"):
        job = Job(f"kinds-{place}")
        before = MODULE.waits
        for value in values().values():
            given = value if place == "host" else standin.DeviceTensor(value)
            # Outputs of another shape and dtype than the inputs, and several of them.
            got = [value.clone(), value[:1].clone() if value.dim() else value.clone()]
            is_here = place == "host"
            got = got if is_here else [on_device(one) for one in got]
            job.call("ALLGATHER", [given], got, None if is_here else lambda: None)
        standin.go_on()
        waits[place] = MODULE.waits - before
        job.recorder.step(0)
        job.close()
    return {"waits": waits, "names": list(values())}


def order() -> dict[str, Any]:
    """Double a buffer and overwrite it at once; every stream in turn runs ahead of the others."""
    found = {}
    for first in ("training", "backend", "copies", "nobody"):
        job = Job(f"order-{first}")
        buffer = on_device(torch.arange(6.0))
        for step in range(3):
            job.doubled(buffer)
            # Training goes on: it overwrites what it got, and uses memory that is free.
            buffer.add_(1)
            copies = next(iter(job.session._maker._devices._known.values()))._side
            streams = {"training": MODULE.current_stream(), "backend": job.stream, "copies": copies}
            standin.go_on(streams.get(first))
            job.recorder.step(step)
        job.close()
        found[first] = buffer.host.tolist()
    return found


def late() -> dict[str, Any]:
    """End steps before the copies are there: they are read at the end of a later one."""
    job = Job("late")
    buffer = on_device(torch.tensor([1.0, float("nan")]))
    seen = []
    job.doubled(buffer)
    given = weakref.ref(buffer)
    del buffer
    copies = next(iter(job.session._maker._devices._known.values()))._side
    copies.is_stuck = True
    for step in range(4):
        if step == 2:
            copies.is_stuck = False
        standin.go_on()
        job.recorder.step(step, loss=1.0)
        idle(job)
        seen.append([len(job.written()), len(job.lines("escalation"))])
        if step == 1:
            job.doubled(on_device(torch.ones(2)))
        if step == 0:
            is_kept = given() is not None
    job.close()
    return {"seen": seen, "waits": MODULE.waits, "is_kept": is_kept}


def ring() -> dict[str, Any]:
    """Let a call that the budgets left out be followed by one that escalates, before its copies are there."""
    job = Job("ring", mode_floor="validation", limits={"digest_bytes_step": 1})
    for value in (1.0, float("nan")):
        job.doubled(on_device(torch.tensor([value, 2.0])))
    standin.go_on()
    for step in range(3):
        job.recorder.step(step, loss=1.0)
    job.close()
    return {"clones": job.session._maker._budget._bytes.clones, "ring": job.session._maker._budget._bytes.ring}


def limits() -> dict[str, Any]:
    """Take more than the clones may have, more than the device has, a dtype without digest, and a graph."""
    found: dict[str, Any] = {}
    job = Job("limits", limits={"clone_bytes": 48})
    job.doubled(on_device(torch.ones(8)))
    standin.go_on()
    job.recorder.step(0)
    MODULE.free_bytes = 30
    job.doubled(on_device(torch.ones(4)))
    MODULE.free_bytes = 1 << 40
    MODULE.is_capturing = True
    job.doubled(on_device(torch.ones(2)))
    job.recorder.step(1)
    MODULE.is_capturing = False
    standin.go_on()
    job.recorder.step(2)
    job.doubled(on_device(torch.ones(2)), is_async=True)
    job.call("RECV", [], [on_device(torch.ones(2))], lambda: None)
    standin.go_on()
    job.recorder.step(3)
    job.close()
    found["clones"] = job.session._maker._budget._bytes.clones
    return found


def end() -> dict[str, Any]:
    """Close while a copy never comes."""
    job = Job("end")
    job.doubled(on_device(torch.ones(3)))
    next(iter(job.session._maker._devices._known.values()))._side.is_stuck = True
    standin.go_on()
    session._DEVICE_SECONDS = session._CALLS_SECONDS = SHORT_SECONDS
    job.close()
    return {"clones": job.session._maker._budget._bytes.clones}


def backward() -> dict[str, Any]:
    """Issue calls of DDP inside a backward pass: what they gave is read at the end, unless somebody wrote to it."""
    job = Job("backward")
    buckets = [on_device(torch.arange(4.0)) for _ in range(2)]
    leaf = torch.ones(2, requires_grad=True)
    seen = []
    before = job.session._calls.before

    def of_ddp(call: Any) -> None:
        before(call)
        call.is_kept = True

    def issue(_gradient: Any) -> None:
        job.session._calls.before = of_ddp
        work.extend(job.doubled(bucket, is_async=True) for bucket in buckets)
        buckets[1].add_(1)
        seen.append(len(job.session._maker._arrivals))

    work: list[Any] = []
    leaf.register_hook(issue)
    leaf.sum().backward()
    seen.append(len(job.session._maker._arrivals))
    for one, bucket in zip(work, buckets, strict=True):
        one.wait()
        bucket.zero_()
    standin.go_on()
    job.recorder.step(0)
    job.close()
    return {"seen": seen}


def idle(job: Job) -> None:
    """Let the thread that hashes do what it has."""
    done = threading.Event()
    job.session._worker.do(done.set)
    done.wait(30)


def generators() -> dict[str, Any]:
    """Keep and restore the generators' states."""
    blob, names = rng_blob(torch)
    MODULE.seed = 9
    restore_rng(blob, torch)
    return {"names": names, "seed": MODULE.seed}


def coalesced() -> dict[str, Any]:
    """See groups that gather calls."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    held = vars(dist.ProcessGroup)["_start_coalescing"]
    seen = stream_order.Coalescing(torch)
    group, found = dist.group.WORLD, []
    seen.wrap()
    for method in (None, "_start_coalescing", "_end_coalescing"):
        if method is not None:
            with contextlib.suppress(RuntimeError):
                getattr(group, method)(torch.device("cpu"))
        found.append(seen.covers(group))
    seen.unwrap()
    dist.destroy_process_group()
    return {"covered": found, "is_restored": vars(dist.ProcessGroup)["_start_coalescing"] is held}


FAILING = (
    *((devices.Device, name) for name in ("is_capturing", "mark", "fetch", "abandon")),
    *((devices.Devices, name) for name in ("of", "warm_up", "_find")),
    *((devices, name) for name in ("flagged", "copied", "dense_local", "finite_flag", "_copied", "_begun")),
    (devices, "_accelerator"),
    *((contents, name) for name in ("find_flag_on", "copy_on")),
    *((arrivals.Arrivals, name) for name in ("fetch", "come", "deepen", "left")),
    *((arrivals.Arrival, name) for name in ("land", "give_up")),
    *((stream_order, name) for name in ("is_on_device", "is_capturing")),
    (standin.Event, "query"), (standin.Event, "record"), (standin.Stream, "wait_event"),
)  # fmt: skip


@contextlib.contextmanager
def failing(place: Any, name: str) -> Iterator[None]:
    """Let a function fail."""

    def fail(*_arguments: Any, **_options: Any) -> None:
        raise RuntimeError(f"a test lets {name} fail")

    whole = getattr(place, name)
    setattr(place, name, fail)
    try:
        yield
    finally:
        setattr(place, name, whole)


def faults() -> dict[str, Any]:
    """Let one function after the other fail: what training computes stays the same."""
    found = {}
    session._DEVICE_SECONDS = session._CALLS_SECONDS = SHORT_SECONDS
    for place, name in FAILING:
        whose = place.__name__.rpartition(".")[2]
        job = Job(f"fault-{whose}-{name}")
        job.fault = functools.partial(failing, place, name)
        buffer = on_device(torch.arange(3.0))
        for step in range(2):
            job.doubled(buffer)
            standin.go_on()
            with job.fault():
                job.recorder.step(step)
        with job.fault():
            job.close()
        found[f"{whose}.{name}"] = {
            "values": buffer.host.tolist(),
            "lines": [[line["mode"], line["shortfall"]] for line in job.lines("call")],
        }
    return found


def stepless() -> dict[str, Any]:
    """Never tell of a step: what has come is taken in at a later call."""
    job = Job("stepless", limits={"clone_bytes": 48})
    for _ in range(5):
        job.doubled(on_device(torch.ones(4)))
        standin.go_on()
        idle(job)
    job.close()
    return {"modes": [line["mode"] for line in job.lines("call")]}


SCENES = (kinds, order, late, ring, limits, end, backward, generators, faults, stepless, coalesced)

if __name__ == "__main__":
    for scene in SCENES:
        print(json.dumps({scene.__name__: scene()}), flush=True)
