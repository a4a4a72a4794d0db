"""What a store holds, counted, and how far it is with its journal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from provstore.cypher import query
from provstore.queries.rows import integer, text, texts
from provstore.stores import GraphStore

if TYPE_CHECKING:
    from provstore.journal import Journal
    from provstore.journal.ending import Ending


def node_counts(store: GraphStore) -> dict[str, int]:
    """Return how many nodes there are, by their labels joined with ``:`` in alphabetical order."""
    counts: Counter[str] = Counter()
    for row in store.run(query("read/store/counts")):
        counts[":".join(sorted(texts(row, "labels")))] += integer(row, "nodes")
    return dict(sorted(counts.items()))


def applied(store: GraphStore, journal: Journal | Ending) -> int:
    """Return the position up to which a graph holds a journal's facts; 0 for none."""
    rows = store.run(query("read/store/applied"))
    return next((integer(row, "jseq") for row in rows if row["journal"] == journal.journal_id), 0)


def foreign_journal(store: GraphStore, journal: Journal) -> str | None:
    """Return the id of another journal that a graph was made from, when it holds nothing of ``journal``."""
    known = [text(row, "journal") for row in store.run(query("read/store/applied"))]
    return None if not known or journal.journal_id in known else known[0]


def is_shared(store: GraphStore) -> bool:
    """Return whether a graph holds the facts of several journals."""
    return len(list(store.run(query("read/store/applied")))) > 1


def other_positions(store: GraphStore, journal: Journal) -> list[str]:
    """Return the ids, as a graph states them, of the journals that it says it holds beside the one position of ours."""
    known = [row["journal"] for row in store.run(query("read/store/applied"))]
    if journal.journal_id in known:
        known.remove(journal.journal_id)
    return sorted(map(str, known))


def lost(store: GraphStore, journal: Journal) -> str | None:
    """Return what a graph holds that its journal acknowledged and no longer has, in words; None when nothing is."""
    first, last = journal.position + 1, applied(store, journal)
    if last < first:
        return None
    return f"the graph holds batches {first} to {last}, which the journal acknowledged and no longer has"


def behind(store: GraphStore, journal: Journal | Ending) -> int:
    """Return how many positions of the journal the graph lacks."""
    return max(0, journal.position - applied(store, journal))
