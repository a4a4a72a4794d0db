"""Names of what is recorded: operations as the table of classes has them, and the ids of actions."""

from __future__ import annotations

from provstore.capture.live_calls import RECV, SEND, LiveCall
from provstore.model import ids

_OPS = {
    "ALLGATHER": "all_gather",
    "ALLGATHER_BASE": "all_gather_into_tensor",
    "ALLGATHER_COALESCED": "all_gather_coalesced",
    "ALLGATHER_INTO_TENSOR_COALESCED": "all_gather_into_tensor_coalesced",
    "ALLREDUCE": "all_reduce",
    "ALLREDUCE_COALESCED": "all_reduce_coalesced",
    "ALLTOALL": "all_to_all",
    "ALLTOALL_BASE": "all_to_all_single",
    "REDUCE_SCATTER_BASE": "reduce_scatter_tensor",
    "REDUCE_SCATTER_TENSOR_COALESCED": "reduce_scatter_tensor_coalesced",
}
_CHANNELS = {SEND: "send", RECV: "recv"}


def op_of(hook_name: str) -> str:
    """Return an operation's name; one that torch adds later stays as it is, in lower case."""
    return _OPS.get(hook_name, hook_name.lower())


def channel_of(call: LiveCall) -> str:
    """Return ``collective``, ``send`` or ``recv``."""
    return _CHANNELS.get(call.name, "collective")


def side_of(call: LiveCall) -> str:
    """Return which entity carries the record of a call: ``in``, ``out`` or ``call``."""
    if call.inputs and call.name != RECV:
        return "in"
    return "out" if call.outputs and call.name != SEND else "call"


def group_key(call: LiveCall) -> str:
    """Return the group of a call as it stands in ids."""
    return call.group.key


def action_id(call: LiveCall, rank: int, part: int = 0) -> str:
    """Return the id of a call on this rank, unique in one attempt of a run."""
    base = f"{ids.component(call.group.backend)}/{group_key(call)}"
    if call.is_point_to_point:
        number = f"s{call.seq}" if call.op_id is None else str(call.op_id)
        return f"{base}/p2p/{rank}/{number}"
    return f"{base}/{(call.seq or 0) + part}/{rank}"
