"""Facts that batches of one attempt state about the elements of another: nothing that is signed there covers them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from provstore.analysis.evidence.covering import scope_in
from provstore.model import ids
from provstore.model.block import Block, Nodes

Scope: TypeAlias = tuple[str, int]
_PLAIN = frozenset(("Element", "Entity", "Activity", "Agent"))
"""Labels of a node that is only the other end of a relationship."""


def stated_elsewhere(blocks: Iterable[tuple[int, Block]]) -> dict[Scope, list[int]]:
    """Return attempt → the batches of other attempts that say something of its elements.

    What is said is a property, a label or a cause; to be named as a cause changes nothing of an element.

    Args:
        blocks: (number, facts) of the batches of a journal.
    """
    found: dict[Scope, list[int]] = {}
    for number, block in blocks:
        own = (block.run, block.attempt)
        prefix = f"{ids.attempt_iri(*own)}/"
        scopes = {scope_in(iri) for iri in _changed(block) if not iri.startswith(prefix)}
        for scope in scopes - {own, None}:
            if scope is not None:
                found.setdefault(scope, []).append(number)
    return found


def _changed(block: Block) -> Iterator[str]:
    for nodes in block.nodes:
        if nodes.labels[0] == "Element" and _says(nodes):
            yield from nodes.keys
    for relations in block.relations:
        if relations.source_label == "Element":
            yield from relations.sources


def _says(nodes: Nodes) -> bool:
    return not _PLAIN.issuperset(nodes.labels) or any(
        value is not None for column in nodes.columns.values() for value in column
    )
