"""Numbers of calls: those that Flight Recorder dumps give them, found by what a backend counts."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from provstore.capture.fail_open import tried
from provstore.capture.stream_order import HOST
from provstore.capture.torch_library import distributed_bindings, last_collective

if TYPE_CHECKING:
    from provstore.capture.live_calls import LiveCall

GLOO = "gloo"


def chosen_backend(config: str, wanted: Collection[str]) -> tuple[str, str | None] | None:
    """Return the backend of a group whose calls can be numbered, and the kind of device that has it to itself.

    Args:
        config: What torch says of the group, such as ``cpu:gloo,cuda:nccl``.
        wanted: Backends that can be numbered.

    Returns:
        (backend, ``None``) of a group with one; of several the wanted one, an accelerator's before the host's, each
        of which counts for itself; ``None`` where none is wanted.
    """
    parts = [(backend, device) for device, _, backend in (part.rpartition(":") for part in config.split(","))]
    found = [part for part in parts if part[0] in wanted]
    if not found:
        return None
    if len({backend for backend, _ in parts}) == 1:
        return found[0][0], None
    return min(found, key=lambda part: part[1] == HOST)


def give_numbers(call: LiveCall) -> bool:
    """Give an issued call its numbers; return whether they can be told."""
    group, counter = call.group, call.group.counter()
    group.latest = counter
    counts_both = group.backend == GLOO
    if call.is_point_to_point:
        group.sends_and_receives += 1
        call.op_id = counter if counts_both else None
        call.seq = counter - group.sends_and_receives if counts_both else counter
        return True
    others = group.sends_and_receives if counts_both else 0
    made = counter - call.counted_before
    if made != 1 and (made != len(call.inputs) or made < 1):
        return False
    call.seq, call.parts = call.counted_before - others + 1, made
    call.op_id = counter if counts_both else None
    return True


def sends_and_receives_before(torch: Any, group: Any, name: str, backend: str, device: Any) -> int | None:
    """Return how many sends and receives a group made before it is seen; ``None`` when nothing tells it.

    gloo's counter counts them, its recorder numbers without them: the difference is asked of the recorder.
    """
    counter = last_collective(group, device)
    if counter == 0 or backend != GLOO:
        return 0
    numbers = [number for number, _ in recorded_calls(torch, backend, name)]
    return counter - max(numbers) if numbers else None


def recorded_calls(torch: Any, backend: str, name: str) -> list[tuple[int, str]]:
    """Return (number, library) of each collective of a group that torch's own recorder holds, oldest first."""
    bindings = distributed_bindings(torch)
    generic = getattr(bindings, "_dump_fr_trace_json", None)
    older = getattr(bindings, "_dump_nccl_trace_json", None)
    asked = [partial(generic, True, False, backend=kind) for kind in dict.fromkeys((backend, f"{backend}2")) if generic]
    readers = [*asked, *(partial(one, True, False) for one in (generic, older) if one is not None)]
    for read in readers:
        data, _ = tried(read)
        entries = json.loads(data)["entries"] if data is not None else []
        found = [
            (int(one["collective_seq_id"]), str(one["profiling_name"]).partition(":")[0])
            for one in entries
            if one["process_group"][0] == name and not one.get("is_p2p")
        ]
        if found:
            return found
    return []
