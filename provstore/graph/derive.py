"""What takes more than one file to see: pairs, order between recorders, aliases; recomputed for a run, never a fact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from provstore.graph.call_ids import CallIds, call_ids
from provstore.graph.calltable import CallTable, build
from provstore.graph.completion import done_rows
from provstore.graph.matching import ALIGNED, BASIS_NAMES, aligned, paired
from provstore.graph.progress import Progress, progress
from provstore.model.block import Block, Relations
from provstore.model.dump import COLLECTIVE, Dump


@dataclass(frozen=True, slots=True)
class Link:
    """One derived relationship."""

    source: str
    target: str
    basis: str


def scope_of(run: str, attempt: int) -> str:
    """Return the scope whose derived relationships a block replaces."""
    return f"{run}/{attempt}"


def derive(
    dumps: Sequence[Dump], merged: Sequence[Dump], run: str, attempt: int, recorded: Sequence[Link] = ()
) -> Block:
    """Return the derived relationships of one attempt.

    Args:
        dumps: Every dump of the attempt as read, each under the ids it states itself.
        merged: The same, at most one for each rank and backend (``graph.merge``).
        run: The run.
        attempt: Its incarnation.
        recorded: Receive → send of what was recorded live; what dumps tell of a receive goes before it.
    """
    table = build(merged)
    how_far = progress(table)
    named = [call_ids(dump, run, attempt) for dump in table.dumps]
    activities = [activity for one in named for activity in one.activities]
    links = {
        "DERIVED_MESSAGE": _with_recorded(list(_messages(table, how_far, activities)), recorded),
        "DERIVED_GENERATED_BY": list(_settled_everywhere(table, how_far, named)),
        "DERIVED_PROGRAM_ORDER": list(_order_between_recorders(table, activities)),
        "SAME_AS": _both_ways([*_aligned_instances(table, how_far, activities), *_twins(dumps, merged, run, attempt)]),
    }
    scope = scope_of(run, attempt)
    relations = tuple(_relations(kind, found, scope) for kind, found in links.items() if found)
    return Block(run, attempt, relations=relations, replaces=scope)


def _relations(kind: str, links: Iterable[Link], scope: str) -> Relations:
    distinct = list({(link.source, link.target): link for link in links}.values())
    columns = {"scope": [scope] * len(distinct), "basis": [link.basis for link in distinct]}
    return Relations(kind, [link.source for link in distinct], [link.target for link in distinct], columns=columns)


def _messages(table: CallTable, how_far: Progress, activities: Sequence[str]) -> Iterator[Link]:
    """Yield receive → send."""
    pairs = paired(table, how_far)
    for send, receive, basis in zip(pairs.sends.tolist(), pairs.receives.tolist(), pairs.basis.tolist()):
        yield Link(activities[receive], activities[send], BASIS_NAMES[basis])


def _with_recorded(messages: list[Link], recorded: Iterable[Link]) -> list[Link]:
    known = {link.source for link in messages}
    return [*messages, *(link for link in recorded if link.source not in known)]


def _aligned_instances(table: CallTable, how_far: Progress, activities: Sequence[str]) -> Iterator[Link]:
    """Yield aliases between the rank-local ids of one collective, from every member to the first."""
    alignment = aligned(table, how_far)
    first: dict[tuple[int, int], str] = {}
    for row in np.flatnonzero((alignment.basis == ALIGNED) & (table.channel == COLLECTIVE)).tolist():
        key = int(table.group[row]), int(alignment.number[row])
        known = first.setdefault(key, activities[row])
        if known != activities[row]:
            yield Link(activities[row], known, "aligned")


def _settled_everywhere(table: CallTable, how_far: Progress, named: Sequence[CallIds]) -> Iterator[Link]:
    """Yield output → activity for calls that only all members together show to be done (backends without events)."""
    present = set(table.rank.tolist()) | {dump.rank for dump in table.dumps}
    candidates = []
    for at, dump in enumerate(table.dumps):
        if not dump.eventless:
            continue
        first = int(table.first_row[at])
        done = done_rows(dump)
        candidates += [
            (at, row, first + row) for row in named[at].outputs() if not done[row] and how_far.settled[first + row]
        ]
    if not candidates:
        return
    operations: dict[tuple[int, int], dict[int, str]] = {}
    wanted = {(int(table.group[row]), int(table.seq[row])) for _, _, row in candidates}
    for row in np.flatnonzero(np.isin(table.group, [group for group, _ in wanted])).tolist():
        key = int(table.group[row]), int(table.seq[row])
        if key in wanted and table.channel[row] == COLLECTIVE:
            operations.setdefault(key, {})[int(table.rank[row])] = table.signatures[int(table.signature[row])].op
    for at, local, row in candidates:
        group = table.groups[int(table.group[row])]
        members = operations[int(table.group[row]), int(table.seq[row])]
        if group.declared and set(group.ranks) <= set(members) & present and len(set(members.values())) == 1:
            yield Link(named[at].side(local, "out"), named[at].activities[local], "inferred")


def _order_between_recorders(table: CallTable, activities: Sequence[str]) -> Iterator[Link]:
    """Yield later → earlier where neighbours in a rank's time order stand in two recorders."""
    recorders: dict[int, list[int]] = {}
    for at, dump in enumerate(table.dumps):
        recorders.setdefault(dump.rank, []).append(at)
    for several in recorders.values():
        if len(several) < 2:
            continue
        rows = np.concatenate([np.arange(table.first_row[at], table.first_row[at + 1]) for at in several])
        rows = rows[np.argsort(table.created[rows], kind="stable")]
        for earlier, later in zip(rows.tolist(), rows[1:].tolist()):
            if table.dump[earlier] != table.dump[later] and activities[earlier] != activities[later]:
                yield Link(activities[later], activities[earlier], "inferred")


def _twins(dumps: Sequence[Dump], merged: Sequence[Dump], run: str, attempt: int) -> Iterator[Link]:
    """Yield aliases from the ids that a dump states to those of the same call in the merged dump."""
    of_recorder = {(dump.rank, dump.backend): dump for dump in merged}
    whole: dict[tuple[int, str], Mapping[object, tuple[CallIds, int]]] = {}
    for dump in dumps:
        target = of_recorder.get((dump.rank, dump.backend))
        if target is None or target is dump:
            continue
        key = dump.rank, dump.backend
        if key not in whole:
            names = call_ids(target, run, attempt)
            whole[key] = {call: (names, row) for row, call in enumerate(_identities(target))}
        mine = call_ids(dump, run, attempt)
        records = mine.records()
        outputs = set(mine.outputs())
        for row, call in enumerate(_identities(dump)):
            known = whole[key].get(call)
            if known is None or known[0].activities[known[1]] == mine.activities[row]:
                continue
            names, other = known
            yield Link(mine.activities[row], names.activities[other], "declared")
            yield Link(records[row], names.side(other, records[row].rsplit("/", 1)[1]), "declared")
            if row in outputs and not records[row].endswith("/out"):
                yield Link(mine.side(row, "out"), names.side(other, "out"), "declared")


def _identities(dump: Dump) -> Iterable[tuple[int, int]]:
    return zip(dump.calls.record_id, dump.calls.created_ns)


def _both_ways(links: Iterable[Link]) -> list[Link]:
    return [one for link in links for one in (link, Link(link.target, link.source, link.basis))]
