"""Every shipped question gives equal rows on every engine, with the columns it declares."""

from __future__ import annotations

import json

import pytest

from provstore.cypher import names, query
from provstore.model.block import Block, Nodes, Relations
from provstore.stores import open_store

QUESTIONS = [name for name in names("read") if "BASE_LABEL" not in query(name).text]
_INTEGERS = frozenset(("attempt", "rank", "seq", "op_id", "limit", "depth", "peer", "record_id", "skip"))


def facts() -> Block:
    """Return a little of everything that the questions look for."""
    ranks, steps = 2, 4
    base = "urn:r/0/nccl/0@0-1"
    cells = [(rank, seq) for seq in range(steps) for rank in range(ranks)]
    ins = [f"{base}/{seq}/{rank}/in" for rank, seq in cells]
    outs = [f"{base}/{seq}/{rank}/out" for rank, seq in cells]
    acts = [f"{base}/{seq}" for _, seq in cells]
    size = len(cells)
    scope = {"run": ["r"] * size, "attempt": [0] * size}
    of_rank = {
        **scope,
        "rank": [rank for rank, _ in cells],
        "seq": [seq for _, seq in cells],
        "group": ["0@0-1"] * size,
    }
    done = [True if seq < steps - 1 else None for _, seq in cells]
    call = {
        **of_rank,
        "side": ["in"] * size,
        "backend": ["nccl"] * size,
        "record_id": [seq for _, seq in cells],
        "op_id": [seq for _, seq in cells],
        "signature": [f"s{seq % 2 + (rank if seq == 2 else 0)}" for rank, seq in cells],
        "stack": ["k0"] * size,
        "created_ns": [1_000 * seq + rank for rank, seq in cells],
        "started_ns": [1_000 * seq + 100 for _, seq in cells],
        "completed_ns": [1_000 * seq + 500 + 90 * seq if seq < steps - 1 else None for _, seq in cells],
        "is_started": done,
        "is_completed": done,
        "is_retired": done,
    }
    asked = {"op": ["all_reduce", "send", "recv"], "backend": ["nccl"] * 3, "group": ["0@0-1"] * 3}
    group = {"run": ["r"], "attempt": [0], "name": ["0"], "ranks": [[0, 1]], "backend": ["nccl"], "group": ["0@0-1"]}
    nodes = (
        Nodes(("Element", "Entity", "Call"), ins, call),
        Nodes(("Element", "Entity", "Output"), outs, {**of_rank, "side": ["out"] * size, "backend": ["nccl"] * size}),
        Nodes(("Element", "Activity", "Collective"), acts, {**scope, "seq": of_rank["seq"], "group": of_rank["group"]}),
        Nodes(("Element", "Agent", "Rank"), ["urn:r/0/rank/0"], {"run": ["r"], "attempt": [0], "rank": [0]}),
        Nodes(("Element", "Entity", "ProcessGroup"), [base], group),
        Nodes(("Element", "Entity", "Dump"), ["urn:d"], {"run": ["r"], "attempt": [0], "rank": [0], "sha256": ["ab"]}),
        Nodes(("Signature",), ["s0", "s1", "s2"], {**asked, "channel": ["collective", "send", "recv"]}),
        Nodes(("Stack",), ["k0"], {"frames": ["[]"], "user_frame": ["train.py:1 step"]}),
        Nodes(("Run",), ["r/0"], {"run": ["r"], "attempt": [0]}),
    )
    relations = (
        Relations("USED", acts, ins),
        Relations("WAS_GENERATED_BY", outs, acts),
        Relations("WAS_INFLUENCED_BY", ins[ranks:], outs[:-ranks]),
    )
    return Block("r", 0, nodes, relations)


def parameters(name: str) -> dict[str, object]:
    known = {"run": "r", "iri": "urn:r/0/nccl/0@0-1/3/1/in", "target": "urn:r/0/nccl/0@0-1/0/0/in", "sha256": "ab"}
    values: dict[str, object] = {}
    for parameter in query(name).params:
        if parameter == "iris":
            values[parameter] = [f"urn:r/0/nccl/0@0-1/{seq}/1/in" for seq in range(4)]
        elif parameter in _INTEGERS:
            values[parameter] = 1 if parameter in ("rank", "seq", "op_id", "peer", "record_id") else 0
        else:
            values[parameter] = known.get(parameter, ["x"] if parameter.endswith("s") else "all_reduce")
    return values


@pytest.fixture(scope="module")
def embedded():
    store = open_store("memory:", writable=True)
    store.write(facts())
    yield store
    store.close()


@pytest.fixture(scope="module")
def server(neo4j_uri):
    import os

    import neo4j

    auth = (os.environ["PROVSTORE_NEO4J_USER"], os.environ["PROVSTORE_NEO4J_PASSWORD"])
    with neo4j.GraphDatabase.driver(neo4j_uri, auth=auth) as driver:
        driver.execute_query("MATCH (n) DETACH DELETE n")
    store = open_store(neo4j_uri, writable=True)
    store.write(facts())
    yield store
    store.close()


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_gives_equal_rows_on_both_engines(embedded, server, name):
    asked = parameters(name)
    here, there = (list(store.run(query(name), asked)) for store in (embedded, server))
    if name == "read/lineage/path":
        # Of several shortest paths each engine picks its own.
        here, there = (
            [{"relations": row["relations"], "hops": len(row["iris"])} for row in rows] for rows in (here, there)
        )
        assert here == there
        return
    if query(name).text.rstrip().split("\n")[-1].startswith("ORDER BY"):
        assert comparable(here) == comparable(there)
    else:
        assert sorted(comparable(here)) == sorted(comparable(there))
    for row in here:
        assert tuple(row) == query(name).returns


def comparable(rows: list[dict[str, object]]) -> list[str]:
    """Return rows as text; labels of a node come in no set order."""
    sorted_labels = [
        {key: sorted(value) if key.endswith("labels") and value else value for key, value in row.items()}
        for row in rows
    ]
    return [json.dumps(row, sort_keys=True) for row in sorted_labels]
