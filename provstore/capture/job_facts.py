"""Where this process stands in the job: rank, groups, backends and device, as torch.distributed tells it.

Once the groups are destroyed torch tells nothing any more, but the recorder still holds their calls. So what was seen
while they existed is remembered for the dump at exit.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from provstore.capture.fail_open import tried

_NCCL_FAMILY = ("nccl", "nccl2", "nccl-lazy")


@dataclass(frozen=True, slots=True)
class JobFacts:
    """One look at the job from inside one of its processes."""

    rank: int | None = None
    world_size: int | None = None
    process_groups: tuple[Mapping[str, object], ...] = ()
    """As ``_get_all_pg_configs`` gives them: pg_name, pg_desc, backend_config, pg_size, ranks; this rank's groups."""
    backends: tuple[str, ...] = ()
    device: Mapping[str, str] = field(default_factory=dict)
    errors: tuple[str, ...] = ()


_seen: dict[int, JobFacts] = {}
"""What was seen of the latest job, by the identity of its default group; at most one entry."""


def look(torch: Any) -> JobFacts:
    """Return what is known now, completed by what was known while the groups still existed."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return next(iter(_seen.values()), None) or _from_environment()
    job = id(torch.distributed.group.WORLD)
    before = _seen.get(job, JobFacts())
    now = _from_groups(torch)
    facts = replace(
        now,
        process_groups=_union(before.process_groups, now.process_groups),
        backends=tuple(dict.fromkeys((*before.backends, *now.backends))),
        device=before.device or now.device,
    )
    _seen.clear()
    _seen[job] = facts
    return facts


def environment_number(name: str) -> int | None:
    """Return a number that a launcher such as torchrun left in the environment, or ``None``."""
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else None


def _from_environment() -> JobFacts:
    note = "torch.distributed: no process group was seen: groups are unknown, rank and size come from the environment"
    return JobFacts(environment_number("RANK"), environment_number("WORLD_SIZE"), errors=(note,))


def _from_groups(torch: Any) -> JobFacts:
    errors: list[str] = []
    groups = _group_configs(torch, errors)
    device, fault = tried(_device, torch)
    if fault is not None:
        errors.append(f"device: {fault}")
    return JobFacts(
        rank=torch.distributed.get_rank(),
        world_size=torch.distributed.get_world_size(),
        process_groups=groups,
        backends=_backends(groups),
        device=device or {},
        errors=tuple(errors),
    )


def _group_configs(torch: Any, errors: list[str]) -> tuple[Mapping[str, object], ...]:
    read = getattr(torch.distributed.distributed_c10d, "_get_all_pg_configs", None)
    if read is None:
        errors.append("process_groups: this torch has no _get_all_pg_configs: members of groups are not stated")
        return ()
    groups, fault = tried(read)
    if fault is not None:
        errors.append(f"process_groups: {fault}")
    return tuple(groups or ())


def _backends(groups: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """Return the names under which the groups may be recorded: those configured, and what "nccl" can stand for."""
    names: dict[str, None] = {}
    for group in groups:
        for part in str(group.get("backend_config", "")).split(","):
            names[part.rpartition(":")[2]] = None
    names.pop("", None)
    if any(name.startswith("nccl") for name in names):
        names.update(dict.fromkeys(_NCCL_FAMILY))
    return tuple(names)


def _device(torch: Any) -> Mapping[str, str]:
    """Return index, name, PCI bus id and UUID of this rank's device; empty while CUDA is not in use.

    CUDA's current device belongs to a thread, so only the main thread's answer, or the group's own device, counts.
    """
    cuda = torch.cuda
    if not cuda.is_available() or not cuda.is_initialized():
        return {}
    bound = getattr(torch.distributed.group.WORLD, "bound_device_id", None)
    index = bound.index if bound is not None else None
    if index is None and threading.current_thread() is threading.main_thread():
        index = cuda.current_device()
    return {} if index is None else _device_names(index, cuda.get_device_properties(index))


def _device_names(index: int, properties: Any) -> Mapping[str, str]:
    facts = {"index": str(index), "name": str(properties.name)}
    if hasattr(properties, "uuid"):
        facts["uuid"] = f"GPU-{str(properties.uuid).removeprefix('GPU-')}"
    if hasattr(properties, "pci_bus_id"):
        domain, bus, slot = (getattr(properties, f"pci_{part}_id", 0) for part in ("domain", "bus", "device"))
        facts["pci_bus_id"] = f"{domain:08X}:{bus:02X}:{slot:02X}.0"
    return facts


def _union(
    before: Iterable[Mapping[str, object]], now: Iterable[Mapping[str, object]]
) -> tuple[Mapping[str, object], ...]:
    """Return all groups ever seen in this job, the newest word on each."""
    known = {(str(group.get("pg_name")), str(group.get("ranks"))): group for group in (*before, *now)}
    return tuple(known.values())
