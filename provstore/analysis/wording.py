"""The words of findings: ranks folded, groups, calls and source lines named the same way everywhere."""

from __future__ import annotations

from collections.abc import Iterable

from provstore.analysis.case import Case
from provstore.analysis.rank_lists import ranks_text
from provstore.analysis.waits import BATCHED, BEHIND, NOT_POSTED, Blocker, Wait
from provstore.graph.calltable import JobGroup
from provstore.model.dump import CHANNEL_NAMES, SEND
from provstore.model.finding import Hop, Source

NO_CALL = "no call recorded"


def rank_words(ranks: Iterable[int]) -> str:
    """Return ``rank 3`` or ``ranks 0-2,5``."""
    ordered = sorted(set(ranks))
    return f"rank{'' if len(ordered) == 1 else 's'} {ranks_text(ordered)}"


def verb(ranks: Iterable[int], one: str, many: str) -> str:
    """Return the form of a verb that fits the number of ranks."""
    return one if len(set(ranks)) == 1 else many


def group_words(group: JobGroup) -> str:
    """Return a group as ``desc (name)``."""
    return f"{group.desc} ({group.name})" if group.desc else f"group {group.name}"


def call_words(case: Case, row: int) -> str:
    """Return a call as ``all_reduce #7 of default_pg (0)``, a send or receive with its other end."""
    group = group_words(case.group(row))
    if not case.is_p2p(row):
        return f"{case.signature(row).op} #{case.seq(row)} of {group}"
    channel = int(case.table.channel[row])
    way = "to" if channel == SEND else "from"
    return f"{CHANNEL_NAMES[channel]} {way} rank {int(case.table.peer[row])} (#{case.seq(row)}) of {group}"


def source_words(source: Source | None) -> str:
    """Return `` at train.py:165``, or nothing."""
    return "" if source is None else f" at {source.file.rsplit('/', 1)[-1]}:{source.line}"


def shape_words(case: Case, row: int) -> str:
    """Return what a call asked for: operation, sizes and element types."""
    signature = case.signature(row)
    sizes = f"{_sizes(signature.input_sizes)} → {_sizes(signature.output_sizes)}"
    dtypes = ",".join(dict.fromkeys((*signature.input_dtypes, *signature.output_dtypes)))
    return f"{signature.op} {sizes} {dtypes}".rstrip()


def _sizes(sizes: tuple[tuple[int, ...], ...]) -> str:
    text = ",".join("×".join(map(str, shape)) or "scalar" for shape in sizes[:3])
    return f"[{text}{',…' if len(sizes) > 3 else ''}]"


def hop(case: Case, wait: Wait, blocker: Blocker) -> Hop:
    """Return one step of a chain: what a rank waits in, and whom that call waits for."""
    source = case.source(wait.row)
    what = f"rank {wait.rank} waits in {call_words(case, wait.row)}{source_words(source)}"
    why = {
        "absent": f"rank {blocker.rank} has not entered it",
        BEHIND: f"rank {blocker.rank} entered it but waits in an older call",
        NOT_POSTED: f"rank {blocker.rank} has not posted its side",
        BATCHED: f"rank {blocker.rank} posted its side in a batch that has not ended",
        "no_dump": f"rank {blocker.rank} left no dump",
        "unknown": f"where rank {blocker.rank} stands is not known",
    }[blocker.reason]
    op = case.signature(wait.row).op
    name = case.group(wait.row).name
    return Hop(wait.rank, f"{what}: {why}", blocker.reason, name, op, case.seq(wait.row), source)


def last_call_words(case: Case, rank: int) -> str:
    """Return the last call of a rank, and how far it got."""
    rows = [
        table_rows for at, dump in enumerate(case.table.dumps) if dump.rank == rank for table_rows in _last(case, at)
    ]
    if not rows:
        return NO_CALL if case.presence.has_dump(rank) else "no dump"
    row = max(rows, key=lambda at: int(case.table.turn[at]))
    return f"{call_words(case, row)}{source_words(case.source(row))}, {_how_far(case, row)}"


def last_call_clause(case: Case, rank: int) -> str:
    """Return the last call of a rank as part of a sentence."""
    words = last_call_words(case, rank)
    return "no call of it is recorded" if words == NO_CALL else f"its last call was {words}"


def _how_far(case: Case, row: int) -> str:
    if not case.progress.pending[row]:
        return "settled" if case.progress.eventless[row] else "done"
    oldest = case.pending_of[case.rank(row)][0]
    return "pending" if oldest == row else f"pending behind {call_words(case, oldest)}"


def _last(case: Case, at: int) -> list[int]:
    span = case.table.rows_of_dump(at)
    return [span.stop - 1] if span.stop > span.start else []
