"""Lineage against brute force: closures, bounded walks, aliases, honest cuts."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from provstore.model.block import Block, Nodes, Relations
from provstore.queries import lineage
from provstore.stores import GraphStore, open_store

_KINDS = ("WAS_GENERATED_BY", "USED", "WAS_INFORMED_BY", "WAS_INFLUENCED_BY", "DERIVED_MESSAGE", "WAS_DERIVED_FROM")


def _store(edges: list[tuple[str, str, str]], nodes: int) -> GraphStore:
    store = open_store("memory:", writable=True)
    names = [f"n{at}" for at in range(nodes)]
    relations = []
    for kind in dict.fromkeys(kind for _, kind, _ in edges):
        ends = [(a, b) for a, k, b in edges if k == kind]
        relations.append(Relations(kind, [a for a, _ in ends], [b for _, b in ends]))
    store.write(Block("r", 0, (Nodes(("Element", "Entity"), names),), tuple(relations)))
    return store


def _random(seed: int, nodes: int = 40, edges: int = 80) -> list[tuple[str, str, str]]:
    luck = random.Random(seed)
    found = {(f"n{luck.randrange(nodes)}", f"n{luck.randrange(nodes)}"): luck.choice(_KINDS) for _ in range(edges)}
    return [(a, kind, b) for (a, b), kind in found.items() if a != b]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("down", [False, True])
def test_a_trace_is_everything_that_can_be_reached_with_its_distance(seed: int, down: bool) -> None:
    edges = _random(seed)
    graph = nx.DiGraph([(a, b) for a, _, b in edges])
    graph.add_node("n0")
    store = _store(edges, 40)
    distances = nx.single_source_shortest_path_length(graph.reverse() if down else graph, "n0")
    whole = lineage.trace(store, "n0", down=down)
    assert {node.iri: node.hops for node in whole.nodes} == {k: v for k, v in distances.items() if k != "n0"}
    assert whole.complete
    for depth in (1, 2, 3):
        cut = lineage.trace(store, "n0", down=down, limits=lineage.Limits(depth=depth))
        expected = {k: v for k, v in distances.items() if 0 < v <= depth}
        assert {node.iri: node.hops for node in cut.nodes} == expected
        assert cut.complete == (max(distances.values()) <= depth)


def test_an_alias_is_no_hop_and_is_walked_both_ways() -> None:
    edges = [("n0", "USED", "n1"), ("n1", "SAME_AS", "n2"), ("n2", "SAME_AS", "n1"), ("n2", "WAS_GENERATED_BY", "n3")]
    store = _store(edges, 4)
    for limits in (lineage.Limits(), lineage.Limits(depth=2)):
        found = lineage.trace(store, "n0", limits=limits)
        assert {node.iri: node.hops for node in found.nodes} == {"n1": 1, "n2": 1, "n3": 2}
        assert found.complete
    cut = lineage.trace(store, "n0", limits=lineage.Limits(depth=1))
    assert {node.iri for node in cut.nodes} == {"n1", "n2"}
    assert (cut.complete, cut.reason) == (False, "max_depth")


def test_a_cycle_ends() -> None:
    store = _store([("n0", "USED", "n1"), ("n1", "WAS_GENERATED_BY", "n0")], 2)
    assert [node.iri for node in lineage.trace(store, "n0").nodes] == ["n1"]


def test_a_cut_answer_says_why_and_how_much_is_left() -> None:
    store = _store([(f"n{at}", "WAS_INFORMED_BY", f"n{at + 1}") for at in range(30)], 31)
    few = lineage.trace(store, "n0", limits=lineage.Limits(max_nodes=5))
    assert (few.complete, few.reason, len(few.nodes)) == (False, "max_nodes", 5)
    late = lineage.trace(store, "n0", limits=lineage.Limits(timeout_seconds=0.0))
    assert (late.complete, late.reason) == (False, "timeout")
    assert lineage.trace(store, "n0", data_only=True).nodes == ()


def test_a_deep_chain_comes_back_whole() -> None:
    store = _store([(f"n{at}", "WAS_INFORMED_BY", f"n{at + 1}") for at in range(2000)], 2001)
    found = lineage.trace(store, "n0")
    assert len(found.nodes) == 2000
    assert found.counts["hops"] == 2000


def test_a_path_is_one_of_the_shortest() -> None:
    edges = [
        ("n0", "USED", "n1"),
        ("n1", "WAS_GENERATED_BY", "n2"),
        ("n0", "USED", "n3"),
        ("n3", "USED", "n4"),
        ("n4", "USED", "n2"),
    ]
    store = _store(edges, 6)
    assert [node.iri for node in lineage.path(store, "n0", "n2").nodes] == ["n0", "n1", "n2"]
    assert lineage.path(store, "n2", "n0").nodes == ()
