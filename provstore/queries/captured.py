"""Sends and receives that a live recording saw, paired: what takes the calls of two ranks to know."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from provstore.cypher import query
from provstore.graph.derive import Link
from provstore.graph.matching import ALIGNED, BASIS_NAMES, EXACT
from provstore.queries.rows import integer, optional_integer, text
from provstore.queries.targets import activity_of
from provstore.stores import GraphStore

Lane = tuple[str, str, int, int]
"""Backend and group, source and destination."""
End = tuple[int, str, str]
"""Rank, backend and group."""


def recorded_messages(store: GraphStore, run: str, attempt: int) -> list[Link]:
    """Return receive → send of an attempt: the k-th send of a lane with its k-th receive.

    A lane is left out where a side may lack calls and the sides have unequally many, as who began where is then not
    known, and where its destination received from anyone.
    """
    scope = {"run": run, "attempt": attempt}
    rows = list(store.run(query("read/dumps/captured_messages"), scope))
    if not rows:
        return []
    keys = sorted({text(row, "captured") for row in rows})
    asked = {text(row, "key"): row for row in store.run(query("read/dumps/signatures"), {"keys": keys})}
    whole = {
        (integer(row, "rank"), text(row, "backend"), text(row, "group"))
        for row in store.run(query("read/dumps/captured_counts"), scope)
        if row["calls"] == row["counted"]
    }
    lanes: dict[Lane, dict[str, list[str]]] = defaultdict(lambda: {"send": [], "recv": []})
    from_anyone: set[End] = set()
    for row in rows:
        facts = asked[text(row, "captured")]
        channel, rank, peer = text(facts, "channel"), integer(row, "rank"), optional_integer(row, "peer")
        group = text(facts, "backend"), text(facts, "group")
        if peer is None:
            from_anyone.add((rank, *group))
            continue
        ends = (rank, peer) if channel == "send" else (peer, rank)
        lanes[*group, *ends].setdefault(channel, []).append(str(activity_of(text(row, "iri"))))
    links: list[Link] = []
    for (backend, group_key, source, target), lane in sorted(lanes.items()):
        sending, receiving = (source, backend, group_key), (target, backend, group_key)
        if receiving not in from_anyone:
            links += _pairs(lane["send"], lane["recv"], is_whole=whole.issuperset((sending, receiving)))
    return links


def _pairs(sends: list[str], receives: list[str], *, is_whole: bool) -> Iterator[Link]:
    if is_whole or len(sends) == len(receives):
        basis = BASIS_NAMES[EXACT if is_whole else ALIGNED]
        yield from (Link(receive, send, basis) for send, receive in zip(sends, receives))
