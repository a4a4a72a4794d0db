"""The evidence of one attempt, prepared once, on which every rule looks."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from provstore.analysis.instances import Instances, find_instances
from provstore.analysis.options import Options
from provstore.analysis.presence import Presence
from provstore.analysis.signatures import Demands, demands
from provstore.analysis.stillness import still_limit_seconds
from provstore.graph.calltable import CallTable, Flags, Integers, JobGroup, build
from provstore.graph.frames import user_frame
from provstore.graph.matching import EXACT, Pairs, aligned, is_complete, paired
from provstore.graph.progress import Progress, progress
from provstore.model.dump import ABSENT, COLLECTIVE, Dump, DumpSet, Signature
from provstore.model.finding import Culprit, Evidence, GroupName, Source

UNDER_WAY = 8
"""So many calls may be under way at once: a call with more after it on its rank did not stop that rank."""

MOST_RANKS = 1 << 20
"""No job is taken for larger, whatever a sidecar states."""


class Case:
    """Tables over all dumps, and the small questions that rules ask about one call."""

    def __init__(self, evidence: DumpSet, options: Options) -> None:
        self.evidence = evidence
        self.options = options
        self.table: CallTable = build(evidence.dumps)
        self.progress: Progress = progress(self.table)
        self.number = aligned(self.table, self.progress).number
        self.presence = Presence(self.table, self.number)
        self.wants: Demands = demands(self.table.signatures)
        self.refused = {item.rank for item in evidence.refusals if item.rank is not None and not item.skipped}

    @cached_property
    def instances(self) -> Instances:
        """All collective instances."""
        return find_instances(self.table, self.number, self.wants)

    @cached_property
    def _pairs(self) -> Pairs:
        return paired(self.table, self.progress)

    @cached_property
    def partner(self) -> Integers:
        """The row of each send's receive and each receive's send, or -1."""
        return self._pairs.partners()

    @cached_property
    def is_counted(self) -> Flags:
        """Whether a send or receive was paired by counting from the first call of both ends."""
        found = np.zeros(len(self.table), dtype=np.bool_)
        exact = self._pairs.basis == EXACT
        found[self._pairs.sends[exact]] = found[self._pairs.receives[exact]] = True
        return found

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Every rank that a dump, a group or a sidecar speaks of."""
        found = {dump.rank for dump in self.table.dumps} | self.refused
        for group in self.table.groups:
            found.update(group.ranks)
        for dump in self.table.dumps:
            if dump.sidecar is not None and dump.sidecar.world_size is not None:
                found.update(range(min(dump.sidecar.world_size, MOST_RANKS)))
        return tuple(sorted(found))

    @cached_property
    def missing(self) -> tuple[int, ...]:
        """Expected ranks without a usable dump."""
        return tuple(rank for rank in self.ranks if not self.presence.has_dump(rank))

    @cached_property
    def pending_of(self) -> dict[int, list[int]]:
        """Pending rows of each rank, in program order."""
        rows = np.flatnonzero(self.progress.pending)
        found: dict[int, list[int]] = {}
        for row in rows[np.lexsort((self.table.turn[rows], self.table.rank[rows]))]:
            found.setdefault(int(self.table.rank[row]), []).append(int(row))
        return found

    @cached_property
    def unretired_of(self) -> dict[int, list[int]]:
        """The last calls of eventless dumps that are still on the work list although later ones left it, by rank."""
        found: dict[int, list[int]] = {}
        later = self.table.first_row[self.table.dump + 1] - np.arange(len(self.table))
        for row in np.flatnonzero(self.progress.settled & (self.table.retired != 1) & (later <= UNDER_WAY)).tolist():
            found.setdefault(self.rank(row), []).append(row)
        return found

    @cached_property
    def hides_p2p(self) -> frozenset[int]:
        """Ranks of eventless dumps that may have sent or received unseen: counters run ahead, or a group is mute."""
        table = self.table
        ahead = self.progress.eventless & (table.channel == COLLECTIVE) & (table.op_id > table.seq)
        used = set(np.unique(table.group).tolist())
        mute = {at for at, group in enumerate(table.groups) if at not in used and len(group.ranks) > 1}
        eventless = {at for at, dump in enumerate(table.dumps) if dump.eventless}
        found = {int(rank) for rank in np.unique(table.rank[ahead])}
        for at, group in table.status:
            if at in eventless and group in mute:
                found.update(table.groups[group].ranks)
        found.update(dump.rank for dump in table.dumps if dump.eventless and _skips_groups(dump))
        return frozenset(found)

    def is_half_known(self, rank: int) -> bool:
        """Return whether an eventless rank may be in groups nobody speaks of: its own are not declared, nor alone."""
        table = self.table
        dumps = [at for at, dump in enumerate(table.dumps) if dump.rank == rank and dump.eventless]
        used = {int(group) for at in dumps for group in np.unique(table.group[table.rows_of_dump(at)])}
        return len(table.groups) > 1 and any(not table.groups[group].declared for group in used)

    @cached_property
    def _habits(self) -> set[tuple[int, str, str]]:
        """Disagreements that ended well: (detail, desc of the group, operation)."""
        found, table = self.instances, self.table
        if not len(found) or not (found.disagreement >= 0).any():
            return set()
        later = table.first_row[table.dump + 1] - np.arange(len(table))
        passed = self.progress.done | (self.progress.settled & (later > UNDER_WAY))
        fine = np.logical_and.reduceat(passed[found.rows], found.start[:-1]) & (found.disagreement >= 0)
        return {self._habit(int(at)) for at in np.flatnonzero(fine)}

    def _habit(self, at: int) -> tuple[int, str, str]:
        row = int(self.instances.rows[self.instances.start[at]])
        return int(self.instances.disagreement[at]), self.group(row).desc, self.signature(row).op

    def excused(self, at: int) -> bool:
        """Return whether equal disagreements of an instance's kind completed elsewhere: this job lives with them."""
        return self._habit(at) in self._habits

    def comparable(self, group: int) -> bool:
        """Return whether the recorded numbers of a group mean the same on all of its ranks."""
        dumps = [at for at, known in self.table.status if known == group]
        batched = any(self.table.status[at, group].batched_p2p for at in dumps)
        return not batched and all(self.table.dumps[at].seq_comparable for at in dumps)

    def is_reliable(self, group: int) -> bool:
        """Return whether calls of a group that were matched are surely the same call."""
        dumps = [at for at, known in self.table.status if known == group]
        return self.comparable(group) or all(
            self.table.dumps[at].seq_comparable and is_complete(self.table.dumps[at]) for at in dumps
        )

    def group(self, row: int) -> JobGroup:
        """Return the group of a call."""
        return self.table.groups[int(self.table.group[row])]

    def signature(self, row: int) -> Signature:
        """Return what a call asked for, with sizes and types."""
        return self.table.signatures[int(self.table.signature[row])]

    def rank(self, row: int) -> int:
        """Return the rank of a call."""
        return int(self.table.rank[row])

    def is_p2p(self, row: int) -> bool:
        """Return whether a call is a send or a receive."""
        return int(self.table.channel[row]) != COLLECTIVE

    def seq(self, row: int) -> int:
        """Return the number under which a call's own rank recorded it."""
        column = self.table.p2p_seq if self.is_p2p(row) else self.table.seq
        return int(column[row])

    def order(self, row: int) -> tuple[int, int, str, int, str, int]:
        """Return a key that puts calls of different ranks in one order, in which no clock and no name decides first."""
        size = len(self.group(row).ranks)
        return (
            self.seq(row),
            -size,
            self.signature(row).op,
            int(self.table.channel[row]),
            self.group(row).desc,
            self.rank(row),
        )

    def source(self, row: int) -> Source | None:
        """Return the line of user code that made a call."""
        dump = self.table.dumps[int(self.table.dump[row])]
        at = int(self.table.stack[row])
        frame = None if at == ABSENT else user_frame(dump.stacks[at])
        return None if frame is None else Source(frame.filename, frame.line, frame.name, dump.rank)

    def age_seconds(self, row: int) -> float | None:
        """Return how long a call had been waiting when its rank was dumped; None without a dump time."""
        sidecar = self.table.dumps[int(self.table.dump[row])].sidecar
        created = int(self.table.created[row])
        if sidecar is None or sidecar.dumped_at_ns is None or created == ABSENT:
            return None
        age = (sidecar.dumped_at_ns - self._newest[int(self.table.dump[row])]) / 1e9
        # A dump cannot be older than a call in it: such a time says nothing.
        return None if age < 0 else (sidecar.dumped_at_ns - created) / 1e9

    @cached_property
    def _newest(self) -> list[int]:
        """When the newest call of each dump was made."""
        spans = (self.table.rows_of_dump(at) for at in range(len(self.table.dumps)))
        return [int(self.table.created[span].max(initial=ABSENT)) for span in spans]

    def limit_seconds(self, row: int) -> float:
        """Return the age from which a wait counts as a hang: the limit of the watcher that found one, if lower."""
        limit = still_limit_seconds(self.table.dumps[int(self.table.dump[row])].sidecar)
        usual = self.usual_limit_seconds(row)
        return usual if limit is None else min(limit, usual)

    def is_over_due(self, rows: Iterable[int]) -> bool:
        """Return whether a dump time or a timeout shows of any call that it waited for long, whatever watchers say."""
        return any(
            self.progress.timed_out[row] or (age is not None and age >= self.usual_limit_seconds(row))
            for row, age in ((row, self.age_seconds(row)) for row in rows)
        )

    def usual_limit_seconds(self, row: int) -> float:
        """Return the age from which a wait counts as a hang where no watcher says more."""
        timeout_ms = self.signature(row).timeout_ms
        limit = self.options.wait_limit_seconds
        return limit if timeout_ms <= 0 else min(limit, timeout_ms / 10_000)

    def evidence_of(self, rows: Iterable[int]) -> tuple[Evidence, ...]:
        """Return where calls can be looked up."""
        found = []
        for row in rows:
            dump = self.table.dumps[int(self.table.dump[row])]
            found.append(Evidence(dump.file, dump.digest, dump.rank, int(self.table.record_id[row])))
        return tuple(found)

    def dumps_of(self, rank: int) -> tuple[Evidence, ...]:
        """Return the dumps of a rank as a whole."""
        return tuple(Evidence(dump.file, dump.digest, rank) for dump in self.table.dumps if dump.rank == rank)

    def culprit(self, rank: int) -> Culprit:
        """Return a rank with its host, when a dump tells it."""
        for dump in self.table.dumps:
            if dump.rank == rank:
                host = dump.host or (dump.sidecar.host if dump.sidecar else None)
                return Culprit(rank, host)
        return Culprit(rank)

    def group_name(self, group: int) -> GroupName:
        """Return a group as findings show it."""
        item = self.table.groups[group]
        return GroupName(item.name, item.desc, item.ranks, "declared" if item.declared else "observed")


def _skips_groups(dump: Dump) -> bool:
    """Return whether the process-local numbers of a dump's groups leave one out, and no table declares the groups."""
    known = {group.pg_id for group in dump.groups if group.pg_id >= 0}
    declared = any(group.ranks is not None for group in dump.groups)
    return bool(known) and not declared and len(known) <= max(known)
