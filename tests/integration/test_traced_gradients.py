"""Gradients as targets: named as their actions are, followed through the call that carried them.

Four ranks reduce one bucket a step, of two parameters: the call of a step carries eight gradients.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from captures import FULL, RankCapture

from provstore.cli._trace_view import tree_lines
from provstore.errors import InputError
from provstore.queries.lineage import trace
from provstore.queries.targets import Scope, resolve
from provstore.stores import GraphStore
from tests.conftest import Place
from tests.lineage_jobs import BASE, captured, graph_of

STEPS, NAMES = 3, ("0.bias", "2.weight")


def training(capture: RankCapture) -> None:
    for step in range(STEPS):
        for name in (*NAMES, *(["lonely"] if step == 0 else [])):
            carrier = {} if name == "lonely" else {"carried_by": [f"gloo/0@0-3/{step + 1}/{capture.rank}"]}
            capture.lines.append(
                {"t": "tensor", "ordinal": capture._ordinal, "epoch": 0, "step": step, "at_ns": capture.now(),
                 "op": "tensor.grad", "name": name, "class": "read", "policy": FULL, "mode": "validation",
                 "shortfall": ["time-budget"], "finite": True, "shape": [2], "dtype": "float32", **carrier}
            )  # fmt: skip
            capture._ordinal += 1
        capture.call(0, step=step, op_id=step + 1)


@pytest.fixture
def graph(tmp_path: Path) -> GraphStore:
    return graph_of(Place("memory", "memory:"), tmp_path, captured(tmp_path / "c", training))


def gradients(step: int) -> set[str]:
    return {f"{BASE}tensor/{rank}/{step}/{name}/grad" for rank in range(4) for name in NAMES}


def test_the_id_of_its_action_is_a_target(graph: GraphStore) -> None:
    for spelled in ("2.weight", "2%2Eweight"):
        found = resolve(graph, f"tensor.grad/2/1/{spelled}", Scope("job"))
        assert found == f"{BASE}tensor/2/1/2.weight/grad"
    root = trace(graph, found).root
    assert (root.label, root.kind, root.rank) == ("gradient of 2.weight, rank 2, step 1", "gradient", 2)
    assert (root.step, root.name) == (1, "2.weight")


@pytest.mark.parametrize(
    ("target", "instead"),
    [
        ("tensor.grad/2/9/2.weight", "rank 2 has the gradient of 2.weight of steps 0-2"),
        ("tensor.grad/2/1/no.such", "rank 2 has no gradient of no.such; it has those of 0.bias, 2.weight, lonely"),
        ("tensor.grad/7/1/2.weight", "there is no rank 7; there are 0-3"),
        ("tensor.activation/2/1/2", "no activation of rank 2 was recorded"),
    ],
)
def test_one_that_is_not_there_says_what_there_is_instead(graph: GraphStore, target: str, instead: str) -> None:
    with pytest.raises(InputError, match="^" + target) as refused:
        resolve(graph, target, Scope("job"))
    assert instead in str(refused.value)


def test_upwards_it_leads_through_its_carrier_to_what_the_other_ranks_put_in(graph: GraphStore) -> None:
    found = trace(graph, f"{BASE}tensor/2/1/2.weight/grad")

    iris = {node.iri for node in found.nodes}
    assert {f"{BASE}gloo/0@0-3/2/{rank}/in" for rank in range(4)} <= iris
    assert gradients(0) | gradients(1) - {found.target} <= iris
    assert not iris & gradients(2)
    assert "all_reduce #2 of default_pg (0), which carried it" in found.notes[0]


def test_downwards_it_leads_to_what_every_rank_got(graph: GraphStore) -> None:
    iris = {node.iri for node in trace(graph, f"{BASE}tensor/2/1/2.weight/grad", down=True).nodes}

    assert {f"{BASE}gloo/0@0-3/{seq}/{rank}/out" for seq in (2, 3) for rank in range(4)} <= iris
    assert f"{BASE}gloo/0@0-3/1/0/out" not in iris


def test_one_that_no_call_carried_has_no_ancestors_and_says_why(graph: GraphStore) -> None:
    found = trace(graph, f"{BASE}tensor/1/0/lonely/grad")

    assert found.nodes == ()
    assert found.notes[0].startswith("nothing recorded leads to it: no recorded call carried it")


def accumulating(capture: RankCapture) -> None:
    """Three passes, of which the last one's sum is reduced."""
    for name in ("w", "w#2", "w#3"):
        carrier = {"carried_by": [f"gloo/0@0-3/1/{capture.rank}"]} if name == "w#3" else {}
        capture.lines.append(
            {"t": "tensor", "ordinal": capture._ordinal, "epoch": 0, "step": 0, "at_ns": capture.now(),
             "op": "tensor.grad", "name": name, "class": "read", "policy": FULL, "mode": "validation",
             "shortfall": ["time-budget"], "finite": True, "shape": [2], "dtype": "float32", **carrier}
        )  # fmt: skip
        capture._ordinal += 1
    capture.call(0, step=0, op_id=1)


def test_a_gradient_that_was_accumulated_further_is_a_cause_of_what_the_sum_gave(stores: Place, tmp_path: Path) -> None:
    graph = graph_of(stores, tmp_path, captured(tmp_path / "c", accumulating))

    below = {node.iri for node in trace(graph, f"{BASE}tensor/2/0/w/grad", down=True).nodes}
    assert {f"{BASE}tensor/2/0/{name}/grad" for name in ("w%232", "w%233")} <= below
    assert {f"{BASE}gloo/0@0-3/1/{rank}/out" for rank in range(4)} <= below

    above = {node.iri for node in trace(graph, f"{BASE}gloo/0@0-3/1/0/out").nodes}
    assert {f"{BASE}tensor/{rank}/0/{name}/grad" for rank in range(4) for name in ("w", "w%232", "w%233")} <= above

    first = trace(graph, f"{BASE}tensor/2/0/w/grad")
    assert first.notes[0].endswith("what the rank got out of all_reduce #1 of default_pg (0), which carried it")


def test_the_gradients_of_a_call_share_a_line_and_actions_are_counted(graph: GraphStore) -> None:
    up = [line.text for line in tree_lines(trace(graph, f"{BASE}tensor/2/1/2.weight/grad"), width=100)]
    assert up[1:3] == ["← output of all_reduce #2 of default_pg (0), rank 2", "← all_reduce #2 of default_pg (0)"]
    assert "│  ├─ 7 gradients of step 1, ranks 0-3: 0.bias, 2.weight" in up

    below = trace(graph, f"{BASE}tensor/2/1/2.weight/grad", down=True)
    down = [line.text for line in tree_lines(below, width=100)]
    count = sum(node.kind == "action" for node in below.nodes)
    assert f"{count} recorded actions about these not shown: --verbose shows them, --json lists them" in down
    assert not any("action tensor.grad" in line for line in down)
    assert any("action tensor.grad" in line.text for line in tree_lines(below, width=100, verbose=True))
