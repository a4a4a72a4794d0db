"""A job of forked gloo ranks that trains a small model again and again, recorded in different ways.

Usage: recorded_training.py SCENE WORLD FOLDER. Each rank leaves result<r>.json; the parent prints the exit codes.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import traceback
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as bindings
from torch.nn.parallel import DistributedDataParallel

import provstore.capture
from provstore.capture.content.limits import Limits
from provstore.evidence.recording import orders

warnings.simplefilter("ignore")
GENEROUS = {"steady_share": 1e6, "escalated_share": 1e6, "reserve_bytes": 0, "reserve_share": 0.0}
STEPS = 6
NAN_STEP, LARGE_UNTIL, KILL_STEP = 11, 7, 14


class Job:
    """One rank: its groups live as long as the process, each run has a model of its own."""

    def __init__(self, scene: str, rank: int, world: int, folder: Path) -> None:
        self.rank, self.world, self.folder = rank, world, folder
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/{scene}.store", rank=rank, world_size=world,
            timeout=timedelta(seconds=120),
        )  # fmt: skip
        pairs = [dist.new_group([first, first + 1], group_desc="pair") for first in range(0, world, 2)]
        self.pair = pairs[rank // 2]
        self.results: dict[str, Any] = {}

    def recorder(self, name: str, **options: Any) -> provstore.capture.Recorder:
        return provstore.capture.evidence("job", self.folder / name, attempt=0, **options)

    def train(
        self, recorder: Any, *, steps: int = STEPS, tell: bool = False, scene: str = "", failing: Any = None
    ) -> str:
        """Train, draw from every generator, and return a digest of the parameters and of the generators' states."""
        torch.manual_seed(3)
        random.seed(5)
        np.random.seed(7)
        torch.manual_seed(11 + self.rank)
        net = torch.nn.Sequential(torch.nn.Linear(24, 32), torch.nn.Dropout(0.3), torch.nn.Linear(32, 6))
        model = DistributedDataParallel(net, bucket_cap_mb=0.001)
        if tell:
            recorder.gradients(model)
            recorder.modules(net, inputs=["0"], outputs=["2"])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for step in range(steps):
            if failing is not None:
                failing.begin(failing.in_steps[step % len(failing.in_steps)])
            if step % 3 == 0 or failing is not None:
                recorder.begin_epoch(step if failing is not None else step // 3)
            ids = [random.randrange(1000) for _ in range(4)]
            recorder.data(ids)
            optimizer.zero_grad()
            batch = torch.randn(4, 24) + float(np.random.rand()) + ids[0] / 1000
            loss = model(batch).square().mean()
            if scene == "nan" and step == NAN_STEP and self.rank == 2:
                loss = loss * float("nan")
            loss.backward()
            self.other_calls(step, scene)
            optimizer.step()
            told = loss
            if scene == "nan" or failing is not None:
                told = float("nan") if failing is not None and step % 2 else 1.0
            recorder.step(step, loss=told, grad_norm=1.5, parameters=model if tell else None)
            if failing is not None:
                recorder.checkpoint("file:///nowhere")
            if scene == "nan" and step == KILL_STEP:
                dist.barrier()
                os.kill(os.getpid(), signal.SIGKILL)
        recorder.checkpoint("s3://user:secret@bucket/last", model if tell else None)
        states = hashlib.sha256()
        for value in [*model.parameters(), torch.get_rng_state()]:
            states.update(value.detach().numpy().tobytes())
        states.update(repr((random.getstate(), np.random.get_state()[1].tolist())).encode())
        return states.hexdigest()

    def other_calls(self, step: int, scene: str) -> None:
        """Use sub-groups, sends and receives, and operations that leave their inputs as they are."""
        largest = torch.tensor([float(self.rank), float(step)])
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=self.pair)
        if self.rank % 2 == 0:
            dist.send(torch.full((3,), float(step)), self.rank + 1)
        else:
            dist.recv(torch.empty(3), self.rank - 1)
        dist.all_gather_into_tensor(torch.empty(self.world), torch.tensor([float(self.rank)]))
        if scene == "nan" and step < LARGE_UNTIL:
            # Each fits into what may be digested in a step, all of them do not.
            for _ in range(4):
                dist.all_reduce(torch.ones(1 << 16))

    def modes(self) -> None:
        """Train in every mode; leave what the recorder of torch says of the calls."""
        ways: dict[str, dict[str, Any]] = {
            "bare": {"enabled": False},
            "default": {},
            "delta": {"mode_floor": "delta", "limits": Limits(**GENEROUS)},
            "full": {"mode_floor": "full", "limits": Limits(**GENEROUS)},
            "escalated": {"limits": Limits(**GENEROUS)},
            "nothing": {"mode_floor": "full", "limits": Limits(**dict.fromkeys(Limits().to_dict(), 0))},
            "small": {"mode_floor": "full", "limits": Limits(**GENEROUS | {"snapshot_bytes_step": 64})},
        }
        if self.rank == 0:
            (self.folder / "escalated").mkdir()
            orders.give(
                self.folder / "escalated", orders.Order(0, "manual", "run", "P1", 0, "a test asks", "operator", 1, 3)
            )
        dist.barrier()
        found = {}
        for name, options in ways.items():
            before = len(dumped())
            with self.recorder(name, **options) as recorder:
                found[name] = self.train(recorder, tell=name in {"delta", "full", "small"})
                (self.folder / f"{name}-dump{self.rank}.json").write_text(json.dumps(dumped()[before:]))
                if name == "delta":
                    self.known_values()
        found["bare again"] = self.train(self.recorder("off", enabled=False))
        self.results["digests"] = found

    def known_values(self) -> None:
        """Leave the bytes of one call of each side, as the program sees them."""
        value = torch.arange(5, dtype=torch.float64) * (self.rank + 1)
        given = value.numpy().tobytes().hex()
        dist.all_reduce(value, group=self.pair)
        self.results["known"] = {"in": given, "out": value.numpy().tobytes().hex(), "dtype": "float64", "shape": [5]}

    def nan(self) -> None:
        """Put a NaN into one rank's gradient, and be killed some steps later."""
        limits = Limits(**GENEROUS | {"digest_bytes_step": 1 << 20})
        with self.recorder("nan", limits=limits) as recorder:
            self.train(recorder, steps=20, scene="nan")

    def restarted(self) -> None:
        """Go on in the directory of the killed job."""
        with self.recorder("nan", limits=Limits(**GENEROUS)) as recorder:
            self.train(recorder, steps=2)

    def wrapped(self) -> None:
        """Train on a torch without hooks on collectives."""
        found = {"bare": self.train(self.recorder("off", enabled=False))}
        before = len(dumped())
        with self.recorder("wrapped", limits=Limits(**GENEROUS)) as recorder:
            found["wrapped"] = self.train(recorder)
        self.results |= {"digests": found, "dump": dumped()[before:]}

    def faults(self) -> None:
        """Let one function of the recorder after the other fail: in a step each, and while it begins and ends."""
        import recorded_faults

        failing = recorded_faults.Faults()
        options = {"mode_floor": "full", "limits": Limits(**GENEROUS)}
        recorder = self.recorder("healthy", **options)
        at_start = failing.take_called()
        failing.in_steps = [""]
        self.train(recorder, steps=4, tell=True, failing=failing)
        failing.in_steps = shared(failing.take_called(), self.world)
        recorder.close()
        at_end = failing.take_called()
        for name in shared([*at_start, *at_end], self.world):
            failing.begin(name)
            with self.recorder("beginnings", **options) as recorder:
                value = torch.ones(3)
                dist.all_reduce(value)
                recorder.step(0)
                assert value.tolist() == [float(self.world)] * 3
        failing.end()
        steps = len(failing.in_steps)
        found = {"bare": self.train(self.recorder("off", enabled=False), steps=steps)}
        with self.recorder("steps", **options) as recorder:
            found["failing"] = self.train(recorder, steps=steps, tell=True, failing=failing)
            failing.end()
        self.results |= {"digests": found, "hit": sorted(failing.hit)}

    def disk(self) -> None:
        """Train where the disk is full, or nothing may be written."""
        import resource

        found = {"bare": self.train(self.recorder("off", enabled=False))}
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        with self.recorder("full-disk") as recorder:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
            found["full disk"] = self.train(recorder)
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        (self.folder / f"a-file{self.rank}").touch()
        with self.recorder(f"a-file{self.rank}/below") as recorder:
            found["no directory"] = self.train(recorder)
        with self.recorder("forked") as recorder:
            child = os.fork()
            if not child:
                recorder.step(77)
                recorder.close()
                os._exit(0)
            self.results["child"] = os.waitpid(child, 0)[1]
            found["forked"] = self.train(recorder)
        self.results["digests"] = found


def shared(names: list[str], world: int) -> list[str]:
    """Return the names that any rank has, equal on all ranks: they take as many steps as one another."""
    found: list[Any] = [None] * world
    dist.all_gather_object(found, names)
    return sorted({name for part in found for name in part})


def dumped() -> list[list[Any]]:
    """Return (group, number, op) of each call in torch's own recorder."""
    entries = json.loads(bindings._dump_fr_trace_json(True, False))["entries"]
    return [
        [entry["process_group"][0], int(entry["collective_seq_id"]), int(entry["op_id"]), entry["profiling_name"]]
        for entry in entries
    ]


def main() -> None:
    scene, world, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    if scene == "wrapped":
        del dist.ProcessGroup.register_pre_hook
    children = []
    for rank in range(world):
        child = os.fork()
        if not child:
            code = 1
            try:
                job = Job(scene, rank, world, folder)
                getattr(job, scene)()
                (folder / f"{scene}-result{rank}.json").write_text(json.dumps(job.results))
                dist.destroy_process_group()
                code = 0
            except BaseException:  # noqa: BLE001  a child of a fork ends here, whatever happened
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        children.append(child)
    print("codes", [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])


if __name__ == "__main__":
    main()
