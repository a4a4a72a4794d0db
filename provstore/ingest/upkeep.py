"""Keeping the graph true to the journal: catching up, rebuilding, checking."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from provstore.errors import StoreError, TrustError
from provstore.graph.derive import derive
from provstore.graph.evidence_facts import bundle_block, record_blocks
from provstore.graph.merge import merge
from provstore.ingest.agent_joins import concerns, join_block
from provstore.journal import BundleFrame, Journal, Problem, RecordFrame
from provstore.model.block import Block
from provstore.model.dump_lines import read
from provstore.model.report import CheckReport, Difference
from provstore.queries.captured import recorded_messages
from provstore.queries.dumps import stored_dumps
from provstore.queries.info import applied, lost
from provstore.stores import GraphStore
from provstore.stores.dump import apart

_LOG = logging.getLogger("provstore")
_SHOWN_DIFFERENCES = 20


def catch_up(store: GraphStore, journal: Journal, progress: Callable[[int, int, str], None] | None = None) -> int:
    """Write to the graph what it lacks of the journal, derive the runs concerned anew; return the batches written."""
    return replay(store, journal, applied(store, journal), progress)


def replay(
    store: GraphStore,
    journal: Journal,
    start: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
    on_problem: Callable[[Problem], None] | None = None,
) -> int:
    """Write every batch of the journal after position ``start`` to the graph; return how many there were.

    Raises:
        StoreError: A batch is lost or altered and there is no ``on_problem`` to tell; with it the others go on.
    """
    touched: dict[tuple[str, int], None] = {}
    count, last, may_join = 0, start, False
    for jseq, content in journal.accepted(after=start, on_problem=on_problem):
        for block in graph_blocks(journal, content):
            store.write(block)
        if isinstance(content, Block):
            touched[content.run, content.attempt] = None
        may_join = may_join or concerns(content)
        count, last = count + 1, jseq
        if progress:
            progress(jseq, journal.position, "replaying the journal")
    for run, attempt in touched:
        dumps = stored_dumps(store, run, attempt)
        store.write(derive(dumps, merge(dumps).dumps, run, attempt, recorded_messages(store, run, attempt)))
    if may_join:
        show_joins(store, journal)
    if count:
        # What others have appended meanwhile comes with the next call.
        store.write(Block("", 0), (journal.journal_id, last))
    return count


def show_joins(store: GraphStore, journal: Journal) -> None:
    """Exchange what is derived of agents and training runs.

    Where damage hides it, what was derived before stays: a join must not keep a store from being opened.
    """
    try:
        joined = join_block(journal)
    except (StoreError, TrustError) as error:
        _LOG.warning("provstore: agents and training runs are not joined: %s", error)
        return
    if joined is not None:
        store.write(joined)


def show_evidence(store: GraphStore, journal: Journal) -> None:
    """Write the records and bundles that a graph lacks, and mark it as up to date; it must hold every batch."""
    until = journal.settled()
    for _, frame in journal.evidence_frames(applied(store, journal), until):
        for block in graph_blocks(journal, frame):
            store.write(block)
    store.write(Block("", 0), (journal.journal_id, until))


def graph_blocks(journal: Journal, content: Block | RecordFrame | BundleFrame) -> Sequence[Block]:
    """Return what the graph shows of something that the journal holds."""
    if isinstance(content, Block):
        return (content,)
    ref = f"{journal.journal_id}/{content.jseq}"
    if isinstance(content, RecordFrame):
        return record_blocks(content.run, content.attempt, content.first, content.lines, journal_ref=ref)
    note = content.checkpoint or None
    return (bundle_block(content.run, content.attempt, content.envelope, note, journal_ref=ref),)


def check(store: GraphStore, journal: Journal, empty: GraphStore, late: str = "") -> CheckReport:
    """Compare a graph with what its journal says it should hold, and the journal with its own checksums.

    Args:
        store: The graph to check.
        journal: Its journal.
        empty: An empty store, filled here from the journal for the comparison.
        late: Why the graph lacks something of the journal, in words; then they are not compared.
    """
    found = journal.check()
    problems = [str(problem) for problem in found if problem.is_loss]
    notes = tuple(str(problem) for problem in found if not problem.is_loss)
    position = applied(store, journal)
    if (gone := lost(store, journal)) is not None:
        problems.append(f"acked-lost: {gone}")
    if late:
        note = f"{late}: they were not compared"
        return CheckReport(tuple(problems), (), 0, journal.position, position, 0, (note, *notes))
    unreadable: list[Problem] = []
    replay(empty, journal, on_problem=unreadable.append)
    problems += [text for text in map(str, unreadable) if text not in problems]
    found_apart = apart(empty, store)
    lines = [*(("journal", line) for line in found_apart.left), *(("graph", line) for line in found_apart.right)]
    # What both sides say of one node stands together.
    ordered = sorted(lines, key=lambda one: (read(one[1]).subject, one[1]))
    shown = [Difference(side, line) for side, line in ordered[:_SHOWN_DIFFERENCES]]
    total, compared = len(lines), found_apart.compared
    return CheckReport(tuple(problems), tuple(shown), total, journal.position, position, compared, notes)
