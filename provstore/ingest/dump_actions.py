"""Actions out of Flight Recorder dumps: what was called, never what was in it, as a dump holds no tensor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from provstore.evidence.recording import classes, policy
from provstore.graph.call_ids import call_ids
from provstore.model import ids
from provstore.model.action import Action
from provstore.model.dump import ABSENT, COLLECTIVE, Dump, TensorRecord
from provstore.model.evidence import MODES
from provstore.model.recording import NO_TENSOR_ACCESS, RecordingPolicy, RiskContext

Numbered = tuple[Action, int]
"""An action and its position in the program of its rank, as its source counts."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What calls with the same signature in the same group have alike."""

    op: str
    backend: str
    group: str
    name: str
    side_effect_class: str
    mode: str
    policy: RecordingPolicy
    shortfall: tuple[str, ...]
    shapes_in: tuple[tuple[int, ...], ...]
    shapes_out: tuple[tuple[int, ...], ...]
    dtypes_in: tuple[str, ...]
    dtypes_out: tuple[str, ...]


def dump_actions(
    dump: Dump,
    run: str,
    attempt: int,
    epoch: int,
    *,
    mode_floor: str = MODES[0],
    finite: Mapping[tuple[int, str, int, str], bool] | None = None,
    world: int | None = None,
) -> Iterator[Numbered]:
    """Yield the actions of one rank's dump in program order.

    Args:
        dump: One rank's calls.
        run: Name of the run.
        attempt: Its incarnation.
        epoch: Training epoch that all of them are said to be of.
        mode_floor: Mode that is demanded at least.
        finite: What tensor records say: (rank, group name, number, side) → all values were finite.
        world: Ranks of the run, where that is known: a group with another member leads out of it.
    """
    named = call_ids(dump, run, attempt)
    start = len(ids.attempt_iri(run, attempt)) + 1
    sides = ["in"] * len(dump.calls)
    for side, rows in (("out", named.on_output), ("call", named.bare)):
        for row in rows:
            sides[row] = side
    asked = _asked(dump, mode_floor, world)
    unique = _unique()
    flags = finite or {}
    parent: str | None = None
    calls, rank = dump.calls, dump.rank
    follows = _follows(dump)
    columns = zip(named.activities, calls.group, calls.signature, calls.channel, calls.seq, calls.op_id, calls.peer)
    for row, (activity, group, signature, channel, seq, op_id, peer) in enumerate(columns):
        known = asked[group, signature, channel]
        chain = activity[start:]
        is_collective = channel == COLLECTIVE
        action_id = unique(f"{chain}/{rank}" if is_collective else chain)
        yield (
            Action(
                action_id=action_id,
                op=known.op,
                rank=rank,
                at_ns=_time(dump, row),
                side_effect_class=known.side_effect_class,
                mode=known.mode,
                policy_mode=known.policy.mode,
                policy_reason=known.policy.reason,
                epoch=epoch,
                backend=known.backend,
                group=known.group,
                seq=seq if is_collective and seq != ABSENT else None,
                op_id=op_id if op_id != ABSENT and not is_collective else None,
                peer=peer if peer != ABSENT else None,
                side=sides[row],
                chain=chain,
                parent=parent if follows[row] else None,
                shortfall=known.shortfall,
                finite_in=flags.get((rank, known.name, seq, "in")) if flags else None,
                finite_out=flags.get((rank, known.name, seq, "out")) if flags else None,
                shapes_in=known.shapes_in,
                shapes_out=known.shapes_out,
                dtypes_in=known.dtypes_in,
                dtypes_out=known.dtypes_out,
            ),
            calls.record_id[row],
        )
        parent = action_id


def world_of(dumps: Sequence[Dump]) -> int | None:
    """Return the size of the world as sidecars state it, else that of the group that holds all other ranks."""
    stated = [dump.sidecar.world_size for dump in dumps if dump.sidecar and dump.sidecar.world_size]
    if stated:
        return max(stated)
    groups = [set(group.ranks) for dump in dumps for group in dump.groups if group.ranks]
    largest = max(groups, key=len, default=set[int]())
    return len(largest) if largest == set(range(len(largest))) and largest else None


def finite_values(records: Collection[TensorRecord]) -> dict[tuple[int, str, int, str], bool]:
    """Return which values were finite, by rank, group name, number and side."""
    return {(one.rank, one.group, one.seq, one.side): one.finite for one in records}


def _asked(dump: Dump, mode_floor: str, world: int | None) -> dict[tuple[int, int, int], _Asked]:
    found = {}
    for group_at, signature_at, channel in set(zip(dump.calls.group, dump.calls.signature, dump.calls.channel)):
        group, signature = dump.groups[group_at], dump.signatures[signature_at]
        has_tensors = bool(signature.input_sizes or signature.output_sizes)
        leaves_run = world is not None and classes.group_leaves_run(group.ranks or (), range(world))
        found_class = classes.side_effect_class(signature.op, has_tensors=has_tensors, leaves_run=leaves_run)
        demanded = policy.compile_recording_policy(RiskContext(side_effect_class=found_class))
        demanded = policy.raised(demanded, mode_floor)
        found[group_at, signature_at, channel] = _Asked(
            op=signature.op,
            backend=group.backend or dump.backend,
            group=ids.group_key(group.name, group.ranks),
            name=group.name,
            side_effect_class=found_class,
            # A call without tensors leaves nothing out.
            mode=MODES[0] if has_tensors else demanded.mode,
            policy=demanded,
            shortfall=(NO_TENSOR_ACCESS,) if has_tensors else (),
            shapes_in=signature.input_sizes,
            shapes_out=signature.output_sizes,
            dtypes_in=signature.input_dtypes,
            dtypes_out=signature.output_dtypes,
        )
    return found


def _follows(dump: Dump) -> bytearray:
    """Return for each row whether the row before it is its predecessor: nothing is known across a gap."""
    calls = dump.calls
    found = bytearray(len(calls))
    for row in range(1, len(calls)):
        closes = calls.batch[row - 1]
        after = calls.record_id[row]
        found[row] = after == calls.last_record_id[row - 1] + 1 or (closes != ABSENT and after == closes + 1)
    return found


def _time(dump: Dump, row: int) -> int:
    calls = dump.calls
    for column in (calls.created_ns, calls.started_ns, calls.completed_ns):
        if column[row] != ABSENT:
            return column[row]
    return 0


def _unique() -> Callable[[str], str]:
    """Return what gives each name once; a name that was given already gets a number."""
    given: dict[str, int] = {}

    def unique(name: str) -> str:
        count = given.get(name, 0)
        given[name] = count + 1
        return name if not count else f"{name}/again/{count}"

    return unique
