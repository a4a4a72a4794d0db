"""The nodes of evidence against the bytes they show: every property, label and relationship is recomputed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from provstore.analysis.evidence.facts import Difference, Fact, multiset_differences, node
from provstore.graph.action_facts import own_keys
from provstore.graph.evidence_facts import BUNDLE_LABELS, KEY_LABELS, bundle_block, members, record_block, told_blocks
from provstore.graph.recorded_ids import record_iri
from provstore.graph.signal_facts import own_signals
from provstore.model.block import Block, Nodes, Relations, Statement
from provstore.model.evidence import EvidenceLog, RecordAt

PAGE = 5_000
ONLY_IN_JOURNAL = ("journal_ref",)
"""Properties that follow from the journal, not from what is signed."""


class EvidenceNodes(Protocol):
    """The nodes of evidence of one attempt in a graph."""

    def listing(self) -> Iterator[str]:
        """Yield the id of every node labelled as record or bundle."""
        ...

    def nodes(self, iris: Sequence[str]) -> Iterator[Mapping[str, object]]:
        """Yield ``iri``, ``labels`` and ``properties`` of the nodes with these ids."""
        ...

    def edges(self, iris: Sequence[str]) -> Iterator[Mapping[str, object]]:
        """Yield ``source``, ``relation``, ``target`` and ``properties`` of every relationship at these nodes once."""
        ...


def projection_differences(log: EvidenceLog, graph: EvidenceNodes) -> Iterator[Difference]:
    """Yield where the nodes of evidence of one attempt differ from what its bytes give.

    Args:
        log: The bytes; of the same graph when it is judged alone.
        graph: The nodes.
    """
    known: set[str] = set()
    keys: dict[str, Block] = {}
    for page in _pages(log.records()):
        yield from _records(log, graph, page, known)
    for bundle in log.bundles():
        # What a bundle claims costs memory before anybody has checked its signature.
        most = len(known) + PAGE
        block = bundle_block(log.run, log.attempt, bundle.envelope, bundle.checkpoint, max_members=most)
        own = _of(block, BUNDLE_LABELS, 1)
        known.update(own)
        keys.update(dict.fromkeys(_of(block, KEY_LABELS), block))
        yield from _compared(graph, block, own)
    for iri in sorted(keys):
        block = keys[iri]
        yield from _compared(graph, Block(log.run, log.attempt, tuple(_labelled(block, KEY_LABELS))), [iri])
    yield from _extra(graph, known)


def _pages(records: Iterable[RecordAt]) -> Iterator[list[RecordAt]]:
    """Yield runs of records whose indexes follow each other."""
    page: list[RecordAt] = []
    for record in records:
        if page and (len(page) == PAGE or record.index is None or record.index != (page[-1].index or 0) + 1):
            yield page
            page = []
        page.append(record)
    if page:
        yield page


def _records(log: EvidenceLog, graph: EvidenceNodes, page: Sequence[RecordAt], known: set[str]) -> Iterator[Difference]:
    first = page[0].index
    if first is None:
        known.add(page[0].where)
        yield Difference(Fact(("Element", page[0].where)), "leaf_index", "is no index in the run tree")
        return
    said = members([record.line for record in page])
    block = record_block(log.run, log.attempt, first, [record.line for record in page], said=said)
    own = [record_iri(log.run, log.attempt, first + at) for at in range(len(page))]
    known.update(own)
    yield from _compared(graph, block, own)
    for told in told_blocks(log.run, log.attempt, first, said):
        yield from _told(graph, told, known)


def _told(graph: EvidenceNodes, block: Block, known: set[str]) -> Iterator[Difference]:
    """Yield how the nodes that only these records give differ: actions, epochs, signals, what leads on from them."""
    own = [*own_keys(block), *own_signals(block)]
    known.update(own)
    inside = set(own)
    relations = []
    for rows in block.relations:
        pairs = [pair for pair in zip(rows.sources, rows.targets) if pair[0] in inside]
        relations.append(Relations(rows.type, [source for source, _ in pairs], [target for _, target in pairs]))
    yield from _compared(graph, Block(block.run, block.attempt, block.nodes, tuple(relations)), own)


def _compared(graph: EvidenceNodes, block: Block, iris: Sequence[str]) -> Iterator[Difference]:
    """Yield how the nodes with these ids, and the relationships at them, differ from what a block gives."""
    own = set(iris)
    rows = list(block.statements())
    recorded = [_recorded(row) for row in rows if row.target is None and row.key in own]
    recorded += [_relation(row.key, str(row.type), str(row.target), {}) for row in rows if row.target is not None]
    held = [_held(row) for row in graph.nodes(iris)]
    held += [
        _relation(str(row["source"]), str(row["relation"]), str(row["target"]), row["properties"])
        for row in graph.edges(iris)
    ]
    yield from multiset_differences(recorded, held)


def _recorded(row: Statement) -> Fact:
    return node(row.labels, {"iri": row.key, **row.properties})


def _held(row: Mapping[str, object]) -> Fact:
    labels, properties = row["labels"], row["properties"]
    shown = properties if isinstance(properties, dict) else {}
    left = {name: value for name, value in shown.items() if name not in ONLY_IN_JOURNAL}
    return node(labels if isinstance(labels, list) else [], left)


def _relation(source: str, kind: str, target: str, properties: object) -> Fact:
    held = properties if isinstance(properties, dict) else {}
    return Fact((kind, "Element", source, "Element", target), properties=held)


def _extra(graph: EvidenceNodes, known: set[str]) -> Iterator[Difference]:
    """Yield the nodes that are labelled as evidence and that no bytes give, and those that share an id."""
    seen: set[str] = set()
    for iri in graph.listing():
        fact = Fact(("Element", iri))
        if iri not in known:
            yield Difference(fact, None, "is labelled as evidence, and no recorded bytes give it", is_extra=True)
        elif iri in seen:
            yield Difference(fact, None, "shares its id with another node of evidence", is_extra=True)
        seen.add(iri)


def _of(block: Block, labels: tuple[str, ...], at_most: int | None = None) -> list[str]:
    return [key for nodes in _labelled(block, labels)[:at_most] for key in nodes.keys]


def _labelled(block: Block, labels: tuple[str, ...]) -> list[Nodes]:
    return [nodes for nodes in block.nodes if nodes.labels == labels]
