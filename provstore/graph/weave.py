"""Turns one dump into facts: pure, every id made from what this file alone states."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import orjson

from provstore.graph.call_ids import SIDES, CallIds, call_ids
from provstore.graph.columns import constant, take, without_empty
from provstore.graph.completion import done_rows
from provstore.graph.dump_facts import dump_nodes, dump_relations
from provstore.graph.frames import source_line, user_frame
from provstore.model import ids
from provstore.model.block import Block, Column, Nodes, Relations, Value
from provstore.model.dump import ABSENT, CHANNEL_NAMES, COLLECTIVE, COMPLETED, STARTED, Dump, Signature

_DIGEST_DIGITS = 32
_PLAIN_COLUMNS = ("record_id", "op_id", "p2p_seq", "batch", "peer", "created_ns", "started_ns", "completed_ns")


def weave(dump: Dump, run: str, attempt: int) -> Block:
    """Return the facts that one dump states about one attempt of a run.

    At most two entities and five relations a call; no relation joins two ranks. Feeding the result of the same dump
    twice, or dumps in another order, changes nothing.
    """
    named = call_ids(dump, run, attempt)
    scope: dict[str, Value] = {"run": run, "attempt": attempt}
    signatures, signature_nodes = _signatures(dump)
    stacks, stack_nodes = _stacks(dump)
    references = {"signature": signatures, "stack": stacks}
    nodes = [
        *dump_nodes(dump, run, attempt),
        signature_nodes,
        stack_nodes,
        _collectives(dump, named, scope),
        _point_to_point(dump, named, scope),
        *(_calls(dump, named, side, scope, references) for side in SIDES),
        _outputs(dump, named, scope),
    ]
    relations = [
        *dump_relations(dump, run, attempt),
        *_relations(dump, named, done_rows(dump), ids.rank_iri(run, attempt, dump.rank)),
    ]
    return Block(run, attempt, tuple(n for n in nodes if len(n)), tuple(r for r in relations if len(r)))


def _signatures(dump: Dump) -> tuple[list[str | None], Nodes]:
    """Return (signature key of each call, the signature nodes)."""
    calls = dump.calls
    triples = list(zip(calls.group, calls.signature, calls.channel))
    keys: dict[tuple[int, int, int], str] = {}
    facts: dict[str, dict[str, str | int | None]] = {}
    for triple in dict.fromkeys(triples):
        group = dump.groups[triple[0]]
        found = _signature_facts(dump.signatures[triple[1]])
        found["backend"] = group.backend or dump.backend
        found["group"] = ids.group_key(group.name, group.ranks)
        found["channel"] = CHANNEL_NAMES[triple[2]]
        keys[triple] = signature_key(found)
        facts[keys[triple]] = found
    names = next(iter(facts.values()), {})
    columns: dict[str, Column] = {name: [found[name] for found in facts.values()] for name in names}
    return [keys[triple] for triple in triples], Nodes(("Signature",), list(facts), without_empty(columns))


def signature_key(facts: Mapping[str, object]) -> str:
    """Return the key of a signature, made from all that it says."""
    return _digest(orjson.dumps(facts, option=orjson.OPT_SORT_KEYS))


def _signature_facts(signature: Signature) -> dict[str, str | int | None]:
    return {
        "raw_name": signature.raw_name,
        "library": signature.library,
        "op": signature.op,
        "input_sizes": _json(signature.input_sizes),
        "output_sizes": _json(signature.output_sizes),
        "input_dtypes": _json(signature.input_dtypes),
        "output_dtypes": _json(signature.output_dtypes),
        "timeout_ms": None if signature.timeout_ms == ABSENT else signature.timeout_ms,
    }


def _stacks(dump: Dump) -> tuple[list[str | None], Nodes]:
    """Return (stack key of each call, the stack nodes)."""
    keys: dict[int, str | None] = {}
    facts: dict[str, tuple[str, str | None]] = {}
    for at in dict.fromkeys(dump.calls.stack):
        if at == ABSENT or not dump.stacks[at]:
            keys[at] = None
            continue
        frames = _json([[frame.name, frame.filename, frame.line] for frame in dump.stacks[at]])
        keys[at] = key = _digest(frames.encode())
        facts[key] = (frames, source_line(user_frame(dump.stacks[at])))
    columns: dict[str, Column] = {
        "frames": [frames for frames, _ in facts.values()],
        "user_frame": [line for _, line in facts.values()],
    }
    return [keys[at] for at in dump.calls.stack], Nodes(("Stack",), list(facts), columns)


def _collectives(dump: Dump, named: CallIds, scope: Mapping[str, Value]) -> Nodes:
    calls = dump.calls
    first = {
        activity: (group, seq)
        for activity, channel, group, seq in zip(named.activities, calls.channel, calls.group, calls.seq)
        if channel == COLLECTIVE
    }
    columns = _of_groups(dump, [group for group, _ in first.values()], scope)
    columns["seq"] = [seq if seq != ABSENT else None for _, seq in first.values()]
    columns["rank"] = [
        dump.rank if dump.groups[group].batched_p2p or not dump.seq_comparable else None for group, _ in first.values()
    ]
    return Nodes(("Element", "Activity", "Collective"), list(first), without_empty(columns))


def _point_to_point(dump: Dump, named: CallIds, scope: Mapping[str, Value]) -> Nodes:
    calls = dump.calls
    rows = [row for row, channel in enumerate(calls.channel) if channel != COLLECTIVE]
    columns = _of_groups(dump, [calls.group[row] for row in rows], scope)
    columns["rank"] = [dump.rank] * len(rows)
    columns["op_id"] = take(calls.op_id, rows)
    keys = [named.activities[row] for row in rows]
    return Nodes(("Element", "Activity", "PointToPoint"), keys, without_empty(columns))


def _of_groups(dump: Dump, groups: Sequence[int], scope: Mapping[str, Value]) -> dict[str, Column]:
    keys = [ids.group_key(group.name, group.ranks) for group in dump.groups]
    backends = [group.backend or dump.backend for group in dump.groups]
    columns = constant(scope, len(groups))
    columns["backend"] = [backends[group] for group in groups]
    columns["group"] = [keys[group] for group in groups]
    return columns


def _calls(
    dump: Dump,
    named: CallIds,
    side: str,
    scope: Mapping[str, Value],
    references: Mapping[str, Sequence[str | None]],
) -> Nodes:
    calls = dump.calls
    rows = named.rows(side)
    is_collective = [calls.channel[row] == COLLECTIVE for row in rows]
    seq = take(calls.seq, rows)
    columns = constant({**scope, "rank": dump.rank, "side": side}, len(rows))
    columns |= {name: take(getattr(calls, name), rows) for name in _PLAIN_COLUMNS}
    columns |= {name: [keys[row] for row in rows] for name, keys in references.items()}
    columns |= {
        "seq": seq if all(is_collective) else [n if c else None for n, c in zip(seq, is_collective)],
        "after_seq": () if all(is_collective) else [None if c else n for n, c in zip(seq, is_collective)],
        "last_record_id": [
            last if last != first else None
            for first, last in ((calls.record_id[row], calls.last_record_id[row]) for row in rows)
        ],
        "parts": [calls.parts[row] if calls.parts[row] > 1 else None for row in rows],
        "duration_ms": [None if math.isnan(value) else value for value in (calls.duration_ms[row] for row in rows)],
        "is_started": [calls.state[row] >= STARTED or None for row in rows],
        "is_completed": [calls.state[row] == COMPLETED or None for row in rows],
        "is_retired": [bool(calls.retired[row]) or None for row in rows],
        "thread": _unusual_threads(dump, rows),
    }
    return Nodes(("Element", "Entity", "Call"), [named.side(row, side) for row in rows], without_empty(columns))


def usual_thread(dump: Dump) -> int:
    """Return the index of the thread that made most of the dump's calls, ``ABSENT`` when none is stated."""
    counts = Counter(at for at in dump.calls.thread if at != ABSENT)
    return min(counts, key=lambda at: (-counts[at], dump.threads[at])) if counts else ABSENT


def _unusual_threads(dump: Dump, rows: Iterable[int]) -> list[str | None]:
    usual = usual_thread(dump)
    texts = [" ".join(thread) for thread in dump.threads]
    return [None if at in (ABSENT, usual) else texts[at] for at in (dump.calls.thread[row] for row in rows)]


def _outputs(dump: Dump, named: CallIds, scope: Mapping[str, Value]) -> Nodes:
    rows = named.second_output
    columns = constant({**scope, "rank": dump.rank, "side": "out"}, len(rows))
    columns["seq"] = take(dump.calls.seq, rows)
    return Nodes(("Element", "Entity", "Output"), [named.side(row, "out") for row in rows], without_empty(columns))


def _relations(dump: Dump, named: CallIds, done: bytearray, rank: str) -> list[Relations]:
    activities = named.activities
    generated = [row for row in named.outputs() if done[row]]
    steps = _program_order(dump)
    distinct = list(dict.fromkeys(activities))
    return [
        Relations(
            "WAS_GENERATED_BY", [named.side(row, "out") for row in generated], [activities[row] for row in generated]
        ),
        Relations(
            "USED",
            [activities[row] for row in (*named.on_input, *named.bare)],
            [*(named.side(row, "in") for row in named.on_input), *(named.side(row, "call") for row in named.bare)],
        ),
        Relations(
            "CALL_OF",
            [named.side(row, "out") for row in named.on_output],
            [activities[row] for row in named.on_output],
        ),
        Relations("WAS_ASSOCIATED_WITH", distinct, [rank] * len(distinct)),
        _pairs("WAS_INFORMED_BY", ((activities[later], activities[earlier]) for earlier, later in steps)),
        _pairs("WAS_INFLUENCED_BY", _data_order(named, done, steps)),
    ]


def _program_order(dump: Dump) -> list[tuple[int, int]]:
    """Return (earlier row, later row) of neighbours in program order; no pair crosses a gap in the records."""
    calls = dump.calls
    steps = []
    for row in range(1, len(calls)):
        ends = calls.last_record_id[row - 1] + 1
        closes = calls.batch[row - 1]
        if calls.record_id[row] == ends or (closes != ABSENT and calls.record_id[row] == closes + 1):
            steps.append((row - 1, row))
    return steps


def _data_order(named: CallIds, done: bytearray, steps: Iterable[tuple[int, int]]) -> Iterable[tuple[str, str]]:
    """Yield (input, the rank's latest earlier output) where that output is known to exist."""
    outputs = {*named.on_output, *named.second_output}
    inputs = set(named.on_input)
    latest: int | None = None
    reached = -1
    for earlier, later in steps:
        if earlier != reached:
            latest = None
        if earlier in outputs:
            latest = earlier
        reached = later
        if latest is not None and done[latest] and later in inputs:
            yield named.side(later, "in"), named.side(latest, "out")


def _pairs(kind: str, pairs: Iterable[tuple[str, str]]) -> Relations:
    distinct = {pair: None for pair in pairs if pair[0] != pair[1]}
    return Relations(kind, [source for source, _ in distinct], [target for _, target in distinct])


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGEST_DIGITS]
