"""Recording for backends that keep no Flight Recorder of their own (torch 2.15 and later).

torch itself attaches its hook to every group of such a backend when the group is made; this room adds the groups that
torch leaves out. A hook numbers calls from the moment it is attached, so it must be there before the group's first
call: it is attached to the groups that exist when watching begins, and to later ones when the user asks.
"""

from __future__ import annotations

import weakref
from typing import Any

from provstore.capture.torch_library import distributed_bindings, distributed_world, live_groups

_RECORD_THEMSELVES = frozenset({"gloo", "nccl", "nccl-legacy", "xccl", "undefined"})

_handles: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""By group. A hook detaches when its handle is dropped, so each lives as long as its group."""


def attach_recorders(torch: Any) -> list[str]:
    """Attach torch's recorder hook to each group that nobody records; return the names of those groups.

    Raises:
        RuntimeError: torch refused a hook.
    """
    hook = getattr(distributed_bindings(torch), "FlightRecorderHook", None)
    if hook is None or not torch.distributed.is_initialized():
        return []
    attached = []
    for group, name in unrecorded_groups(torch):
        _handles[group] = hook.attach(group, torch.distributed.get_process_group_ranks(group))
        attached.append(name)
    return attached


def unrecorded_groups(torch: Any) -> list[tuple[Any, str]]:
    """Return (group, name) of each group whose backends keep no record and that has no hook yet."""
    world = distributed_world(torch)
    hooked_by_torch = getattr(world, "pg_flight_recorder_hooks", {})
    return [
        (group, name)
        for group, name in live_groups(torch)
        if group not in _handles and group not in hooked_by_torch and not _records_itself(world, group)
    ]


def _records_itself(world: Any, group: Any) -> bool:
    config = str(world.pg_backend_config.get(group, ""))
    return any(part.rpartition(":")[2] in _RECORD_THEMSELVES for part in config.split(","))
