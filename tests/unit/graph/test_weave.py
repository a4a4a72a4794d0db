"""Weaving: the graph of a dump, its size, and that it depends on nothing but the dump."""

from __future__ import annotations

import random
from collections import Counter

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from provstore.graph.weave import weave
from provstore.model.block import Block, Statement
from provstore.model.dump import COMPLETED, RECV, SCHEDULED, SEND, Dump
from tests.hand_dumps import Row, dump, ring

_LINEAGE = {"WAS_GENERATED_BY", "USED", "WAS_INFORMED_BY", "WAS_INFLUENCED_BY"}
_BASE = "https://w3id.org/provstore/id/r/0/nccl/0@0-3/"


def _graph(dumps: list[Dump]) -> nx.DiGraph:
    graph = nx.DiGraph()
    for one in dumps:
        for fact in weave(one, "r", 0).statements():
            if fact.type in _LINEAGE:
                graph.add_edge(fact.key, fact.target)
    return graph


def _facts(dumps: list[Dump]) -> set[str]:
    return {repr(fact) for one in dumps for fact in weave(one, "r", 0).statements()}


def _of(block: Block, kind: str) -> list[tuple[str, str | None]]:
    return [(fact.key, fact.target) for fact in block.statements() if fact.type == kind]


def _node(block: Block, key: str) -> Statement:
    return next(fact for fact in block.statements() if fact.type is None and fact.key == key)


def test_ancestors_of_an_output_are_exactly_the_calls_before_it_on_all_ranks() -> None:
    """The demo of the Flight Recorder specification: 4 ranks, 5 all_reduces numbered 0 to 4."""
    found = nx.descendants(_graph(ring()), f"{_BASE}3/2/out")
    activities = {f"{_BASE}{seq}" for seq in range(4)}
    inputs = {f"{_BASE}{seq}/{rank}/in" for seq in range(4) for rank in range(4)}
    outputs = {f"{_BASE}{seq}/{rank}/out" for seq in range(3) for rank in range(4)}
    assert found == activities | inputs | outputs
    assert len(found) == 32


def test_descendants_of_an_input_are_the_outputs_of_all_ranks_and_everything_after() -> None:
    found = nx.ancestors(_graph(ring()), f"{_BASE}3/2/in")
    assert {f"{_BASE}3/{rank}/out" for rank in range(4)} <= found
    assert {f"{_BASE}4"} | {f"{_BASE}4/{rank}/{side}" for rank in range(4) for side in ("in", "out")} <= found
    assert not {f"{_BASE}2", f"{_BASE}3/1/in"} & found


def test_a_pending_call_has_generated_nothing() -> None:
    block = weave(dump(2, [Row(0), Row(1, state=SCHEDULED, retired=0)]), "r", 0)
    assert _of(block, "WAS_GENERATED_BY") == [(f"{_BASE}0/2/out", f"{_BASE}0")]
    assert "is_completed" not in _node(block, f"{_BASE}1/2/in").properties


def test_without_completion_events_the_last_call_of_a_rank_is_never_shown_done() -> None:
    rows = [Row(seq, state=SCHEDULED, retired=1) for seq in range(3)]
    block = weave(dump(0, rows, eventless=True), "r", 0)
    assert {target for _, target in _of(block, "WAS_GENERATED_BY")} == {f"{_BASE}0", f"{_BASE}1"}


def test_a_later_retired_call_settles_the_ones_before_it() -> None:
    rows = [Row(0, state=SCHEDULED, retired=1), Row(1, state=SCHEDULED, retired=0), Row(2, state=SCHEDULED, retired=1)]
    block = weave(dump(0, [*rows, Row(3, state=SCHEDULED, retired=0)], eventless=True), "r", 0)
    assert {target for _, target in _of(block, "WAS_GENERATED_BY")} == {f"{_BASE}{seq}" for seq in range(3)}


def test_no_program_order_crosses_a_gap_in_the_records() -> None:
    block = weave(dump(0, [Row(0, record_id=0), Row(1, record_id=1), Row(3, record_id=3)]), "r", 0)
    assert _of(block, "WAS_INFORMED_BY") == [(f"{_BASE}1", f"{_BASE}0")]
    assert _of(block, "WAS_INFLUENCED_BY") == [(f"{_BASE}1/0/in", f"{_BASE}0/0/out")]


def test_a_send_has_an_input_only_and_a_receive_an_output_only() -> None:
    rows = [Row(0, "send", channel=SEND, peer=1, op_id=7), Row(0, "recv", channel=RECV, peer=1, op_id=8)]
    block = weave(dump(0, rows), "r", 0)
    assert _of(block, "USED") == [(f"{_BASE}p2p/0/7", f"{_BASE}p2p/0/7/0/in")]
    assert _of(block, "WAS_GENERATED_BY") == [(f"{_BASE}p2p/0/8/0/out", f"{_BASE}p2p/0/8")]
    assert _node(block, f"{_BASE}p2p/0/8/0/out").labels == ("Element", "Entity", "Call")


def test_a_call_without_tensors_has_a_record_that_its_instance_used() -> None:
    block = weave(dump(1, [Row(4, "barrier", inputs=(), outputs=())]), "r", 0)
    assert _of(block, "USED") == [(f"{_BASE}4", f"{_BASE}4/1/call")]
    assert _node(block, f"{_BASE}4/1/call").properties["side"] == "call"


def test_numbers_that_only_one_rank_vouches_for_stay_its_own() -> None:
    block = weave(dump(3, [Row(0)], seq_comparable=False), "r", 0)
    assert _of(block, "USED") == [(f"{_BASE}local/3/0", f"{_BASE}local/3/0/3/in")]


def test_a_group_that_nothing_declares_has_an_id_of_its_own() -> None:
    undeclared = dump(0, [Row(0)], [ring()[0].groups[0].__class__("0", "default_pg", None, "nccl")])
    assert _of(weave(undeclared, "r", 0), "USED")[0][0].endswith("/nccl/0@unknown/0")


def test_the_graph_is_linear_in_the_calls_of_a_large_group() -> None:
    ranks, calls = 256, 3
    facts = {repr(f): f for one in ring(ranks, calls) for f in weave(one, "r", 0).statements()}.values()
    relations = [fact for fact in facts if fact.type and fact.type != "WAS_ATTRIBUTED_TO"]
    elements = {fact.key for fact in facts if fact.type is None and fact.labels[0] == "Element"}
    assert len(relations) <= 5 * ranks * calls
    assert len(elements) <= 2 * ranks * calls + calls + ranks + 1 + ranks
    agents = {fact.key for fact in facts if "Agent" in fact.labels}
    assert not [fact for fact in relations if fact.key in agents]


def test_the_order_of_dumps_does_not_matter() -> None:
    dumps = ring()
    shuffled = dumps[:]
    random.Random(7).shuffle(shuffled)
    assert _facts(dumps) == _facts(shuffled)


@given(st.integers(1, 6), st.integers(1, 8))
def test_a_second_dump_of_a_rank_adds_and_changes_no_id(first: int, more: int) -> None:
    early = dump(
        0, [Row(s, state=COMPLETED if s < first - 1 else SCHEDULED, retired=0) for s in range(first)], name="a"
    )
    late = dump(0, [Row(s) for s in range(first + more)], name="b")
    keys = {fact.key for fact in weave(early, "r", 0).statements() if "Dump" not in fact.labels and fact.type is None}
    assert keys <= {fact.key for fact in weave(late, "r", 0).statements()}


def test_each_call_has_at_most_one_relation_of_a_kind() -> None:
    block = weave(ring()[1], "r", 0)
    counts = Counter((fact.type, fact.key) for fact in block.statements() if fact.type)
    assert max(counts.values()) == 1
