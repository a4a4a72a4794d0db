"""What really happened in a scenario, and whether its dumps can tell: computed from the run, never from the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median

from .execution import Call, Execution
from .faults import MISMATCHES, Injected
from .program import Group, Job
from .recorder import Moment

ORDER = frozenset({"order_deadlock", "skipped_call"})
KINDS: Mapping[str, frozenset[str]] = {
    "stuck": frozenset({"host"}),
    "dead": frozenset({"dead"}),
    "skip": frozenset({"skipped_call", "mismatch", "host"}),
    "extra": frozenset({"extra_call", "mismatch"}),
    "wrong_op": frozenset({"mismatch"}),
    "wrong_size": frozenset({"mismatch"}),
    "wrong_dtype": frozenset({"mismatch"}),
    "no_send": frozenset({"skipped_call", "host", "mismatch"}),
    "no_recv": frozenset({"skipped_call", "host", "mismatch"}),
    "device": frozenset({"device"}),
    "device_before": frozenset({"device", "collective_hang"}),
    "network": frozenset({"collective_hang"}),
    "wrong_group": frozenset({"skipped_call", "extra_call", "mismatch", "order_deadlock", "host"}),
    "slow": frozenset({"straggler"}),
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run, and what of it reaches the dumps."""

    job: Job
    run: Execution
    moments: Mapping[int, Moment]
    numbers: Mapping[tuple[int, int], int]
    without_dump: frozenset[int]
    lacks: frozenset[str]


@dataclass(frozen=True, slots=True)
class Truth:
    """What a diagnosis may and must say."""

    fault: str
    culprits: frozenset[int]
    kinds: frozenset[str]
    sets: tuple[frozenset[int], ...] = ()
    """Other sets of ranks that are a right answer: a whole group that hangs, a whole cycle."""
    instances: frozenset[tuple[str, int]] = frozenset()
    """(group name, number) in which the fault shows; empty = anywhere."""
    group: str = ""
    op: str = ""
    victims: frozenset[int] = frozenset()
    hangs: bool = False
    decidable: bool = False
    """The dumps hold enough to name the culprits."""
    allowed: frozenset[int] = frozenset()
    """All ranks with a fault, those whose fault another one hid included."""
    blind: bool = False
    """Transfers leave no trace, so that an idle rank can look like a cause: FR 8.2 allows a "possible" host."""
    without_dump: frozenset[int] = frozenset()
    """Ranks without a usable file: may be called dead or missing without being wrong, when others wait for them."""
    all_evidence: bool = True
    """Every rank's dump is there and whole."""
    parts: tuple[Truth, ...] = field(default=())
    """One a fault, when there are several."""


def establish(evidence: Evidence, injected: list[Injected], in_flight: bool, cycle: int) -> Truth:
    """Return the truth about a run."""
    whole = not evidence.without_dump
    hangs = _hangs(evidence)
    if cycle:
        members = frozenset(range(cycle))
        # without the finished calls, a call left out before looks the same
        needed = {"members", "comparable_numbers", "own_names", "whole_ring", "finished_calls"}
        decidable = not evidence.lacks & needed and not evidence.without_dump
        return Truth(
            "order", members, ORDER, (frozenset({0}),), hangs=hangs, decidable=decidable and hangs,
            victims=frozenset(range(cycle, evidence.job.world)), without_dump=evidence.without_dump, all_evidence=whole,
        )  # fmt: skip
    if not injected or in_flight:
        return Truth("none", frozenset(), frozenset(), without_dump=evidence.without_dump, all_evidence=whole)
    blind = "transfers" in evidence.lacks
    allowed = frozenset(made.fault.rank for made in injected)
    shown = [made for made in injected if _took_effect(evidence, made)] or injected
    parts = tuple(_one(evidence, made, hangs, alone=len(shown) == 1) for made in shown)
    if len(parts) == 1:
        return replace(parts[0], allowed=allowed, blind=blind)
    return Truth(
        "+".join(part.fault for part in parts),
        frozenset().union(*(part.culprits for part in parts)),
        frozenset().union(*(part.kinds for part in parts)),
        tuple(group for part in parts for group in part.sets),
        frozenset().union(*(part.instances for part in parts))
        if all(part.instances for part in parts)
        else frozenset(),
        hangs=hangs,
        decidable=all(part.decidable for part in parts),
        allowed=allowed,
        blind=blind,
        without_dump=evidence.without_dump,
        all_evidence=whole,
        parts=parts,
    )


def _took_effect(evidence: Evidence, made: Injected) -> bool:
    """Whether the job came as far as the fault, so that it shows in the dumps."""
    rank, kind = made.fault.rank, made.fault.kind
    if kind in ("stuck", "dead"):
        return rank in evidence.run.halted
    if kind == "slow":
        return True
    calls = {call.index: call for call in evidence.run.calls[rank]}
    if kind not in (*MISMATCHES, "device", "device_before", "network"):
        return any(index >= made.index for index in calls)
    if made.index not in calls:
        return False
    peers = [
        call
        for peer, index in _same_place(evidence, rank, made)
        for call in evidence.run.calls[peer]
        if call.index == index
    ]
    if kind == "device":
        return any(call.kernel.ended is not None for call in peers)
    return bool(peers) or made.op.kind in ("send", "recv", "batch")


def _one(evidence: Evidence, made: Injected, hangs: bool, alone: bool) -> Truth:
    fault, rank = made.fault, made.fault.rank
    group = made.op.group
    members = frozenset(group.ranks) if group is not None else frozenset()
    awaited = _awaited(evidence, rank)
    sets: tuple[frozenset[int], ...] = ()
    instances: frozenset[tuple[str, int]] = frozenset()
    if fault.kind in ("stuck", "dead"):
        instances = frozenset(awaited)
    elif fault.kind in (*MISMATCHES, "device", "device_before", "network") and group is not None:
        number = evidence.numbers.get((rank, made.index))
        if number is None:
            number = next(
                (evidence.numbers[peer] for peer in _same_place(evidence, rank, made) if peer in evidence.numbers), None
            )
        instances = (
            frozenset()
            if number is None or made.op.kind in ("send", "recv", "batch")
            else frozenset({(group.name, number)})
        )
    if fault.kind in ("network", "device_before"):
        sets = (members, frozenset())
    culprits = frozenset() if fault.kind == "network" else frozenset({rank})
    kinds = KINDS[fault.kind]
    if rank not in evidence.moments:
        # it took its own wrong call with it: the others only see that it is gone
        kinds |= {"dead"}
    sole = alone or fault.kind in ("stuck", "dead", "device", *MISMATCHES)
    return Truth(
        fault.kind, culprits, kinds, sets, instances, group.name if group is not None else "", made.op.op,
        frozenset(range(evidence.job.world)) - {rank} if hangs and fault.kind != "network" else frozenset(),
        hangs, _decidable(evidence, made, hangs, awaited) and sole,
        without_dump=evidence.without_dump, all_evidence=not evidence.without_dump,
    )  # fmt: skip


def _pending(evidence: Evidence, rank: int) -> list[Call]:
    moment = evidence.moments.get(rank)
    if moment is None:
        return []
    calls = evidence.run.calls[rank]
    return [
        c
        for c in calls
        if c.created <= moment.dumped_ns and (c.kernel.ended is None or c.kernel.ended > moment.dumped_ns)
    ]


def _hangs(evidence: Evidence) -> bool:
    return any(_pending(evidence, rank) for rank in evidence.moments)


def _places(evidence: Evidence, rank: int) -> dict[int, int]:
    """Return program index → place among the collectives of its group on this rank."""
    counts: Counter[int] = Counter()
    places = {}
    for call in evidence.run.calls[rank]:
        if call.op.kind in ("collective", "coalesced") and call.op.group is not None:
            places[call.index] = counts[call.op.group.key]
            counts[call.op.group.key] += 1
    return places


def _same_place(evidence: Evidence, rank: int, made: Injected) -> list[tuple[int, int]]:
    """Return the other members' (rank, index) of the instance in which ``made`` lies."""
    group = made.op.group
    assert group is not None
    place = sum(
        1
        for call in evidence.run.calls[rank]
        if call.index < made.index and call.op.group == group and call.op.kind in ("collective", "coalesced")
    )
    found = []
    for member in group.ranks:
        mine = [
            call.index
            for call in evidence.run.calls[member]
            if call.op.group == group and call.op.kind in ("collective", "coalesced")
        ]
        if member != rank and place < len(mine):
            found.append((member, mine[place]))
    return found


def _awaited(evidence: Evidence, rank: int) -> dict[tuple[str, int], list[int]]:
    """Return (group name, number) → ranks that wait in it for ``rank``, which never came."""
    counts: Counter[tuple[int, int, int]] = Counter()
    gone = rank not in evidence.moments
    for call in evidence.run.calls[rank]:
        # what a dead process had begun died with it
        for key in () if gone and call.kernel.ended is None else _keys(call, rank):
            counts[key] += 1
    found: dict[tuple[str, int], list[int]] = {}
    for peer in evidence.moments:
        if peer == rank:
            continue
        mine: Counter[tuple[int, int, int]] = Counter()
        waiting = {call.index for call in _pending(evidence, peer)}
        for call in evidence.run.calls[peer]:
            group = call.op.group
            if group is None or rank not in group.ranks:
                continue
            for key in _keys(call, peer):
                wanted = (key[0], key[2], key[1]) if key[1] >= 0 else key
                if key[1] >= 0 and rank not in key[1:]:
                    continue
                if call.index in waiting and mine[key] >= counts[wanted if key[1] < 0 else key]:
                    number = evidence.numbers.get((peer, call.index), -1)
                    found.setdefault((group.name, number), []).append(peer)
                mine[key] += 1
    return found


def _keys(call: Call, rank: int) -> list[tuple[int, int, int]]:
    """Return what a call counts on: its group, or (group, sender, receiver) of each transfer."""
    group = call.op.group
    assert group is not None
    if call.op.kind in ("collective", "coalesced"):
        return [(group.key, -1, -1)]
    moves = call.op.parts or (call.op,)
    return [(group.key, rank, move.peer) if move.kind == "send" else (group.key, move.peer, rank) for move in moves]


def _decidable(evidence: Evidence, made: Injected, hangs: bool, awaited: dict[tuple[str, int], list[int]]) -> bool:
    fault, lacks, group = made.fault, evidence.lacks, made.op.group
    if lacks & {"comparable_numbers", "members"} or (evidence.without_dump - {fault.rank}):
        return False
    if fault.kind == "slow":
        return not lacks & {"clock", "finished_calls", "whole_ring"} and _is_late_enough(evidence, fault.rank)
    if not hangs or group is None:
        return False
    if fault.kind in ("stuck", "dead"):
        first = any(_oldest_is_in(evidence, peer, awaited) for peers in awaited.values() for peer in peers)
        blind = "status" in lacks and lacks & {"whole_ring", "finished_calls"}
        return first and "transfers" not in lacks and not blind
    if fault.kind in MISMATCHES:
        if fault.rank not in evidence.moments:
            return False
        entered = 1 + len(_same_place(evidence, fault.rank, made))
        return entered >= 3 and entered > len(group.ranks) // 2 and "transfers" not in lacks
    return _decidable_by_counts(evidence, made, group)


def _decidable_by_counts(evidence: Evidence, made: Injected, group: Group) -> bool:
    lacks, kind = evidence.lacks, made.fault.kind
    if kind == "device":
        # with nobody waiting and no dump time it could still be in flight (FR 8.2)
        victims = any(_pending(evidence, rank) for rank in evidence.moments if rank != made.fault.rank)
        return (victims or "dump_time" not in lacks) and not {"status", "finished_calls"} <= lacks
    if kind in ("device_before", "network"):
        return not evidence.job.has_p2p and ("dump_time" not in lacks or group.backend != "gloo")
    if lacks & {"whole_ring", "finished_calls", "transfers"} or kind == "wrong_group":
        return False
    if kind in ("no_send", "no_recv"):
        siblings = [other for other in evidence.job.groups if other.desc == group.desc]
        return len(siblings) >= 3 and not any(op.kind == "batch" for op in evidence.job.programs[0])
    return len(group.ranks) >= 3


def _is_late_enough(evidence: Evidence, rank: int) -> bool:
    """Whether the rank clearly meets FR 8.5 in one of its groups: how often last, how late against the cadence."""
    created: dict[int, dict[int, list[int]]] = {}
    for member, calls in enumerate(evidence.run.calls):
        for call in calls:
            if call.op.kind == "collective" and call.op.group is not None and rank in call.op.group.ranks:
                created.setdefault(call.op.group.key, {}).setdefault(member, []).append(call.created)
    for members in created.values():
        if len(members) < 3 or rank not in members:
            continue
        rows = list(zip(*members.values()))[1:]
        at = list(members).index(rank)
        late = [row[at] - median(row[:at] + row[at + 1 :]) for row in rows]
        last = sum(row[at] == max(row) for row in rows)
        firsts = [min(row) for row in rows]
        if len(rows) < 10:
            continue
        cadence = median(b - a for a, b in pairwise(firsts))
        if last >= 0.8 * len(rows) and median(late) >= max(0.25 * cadence, 8e6):
            return True
    return False


def _oldest_is_in(evidence: Evidence, peer: int, awaited: dict[tuple[str, int], list[int]]) -> bool:
    pending = _pending(evidence, peer)
    if not pending or pending[0].op.group is None:
        return False
    number = evidence.numbers.get((peer, pending[0].index), -1)
    return (pending[0].op.group.name, number) in awaited
