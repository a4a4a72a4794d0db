"""Captured facts of a small run: two ranks, one all_reduce, a second one that only rank 0 entered."""

from __future__ import annotations

from provstore.exports import ExportInput
from provstore.model.block import Statement, Value

BASE = "https://w3id.org/provstore/id/job/0"
RANKS = [f"{BASE}/rank/{rank}" for rank in (0, 1)]
FIRST = f"{BASE}/nccl/0@0-1/0"
SECOND = f"{BASE}/nccl/0@0-1/1"
SEND = f"{BASE}/nccl/0@0-1/p2p/0/7"
RECV = f"{BASE}/nccl/0@0-1/p2p/1/9"

SIGNATURE: dict[str, Value] = {
    "raw_name": "nccl:all_reduce",
    "library": "nccl",
    "op": "all_reduce",
    "channel": "collective",
    "input_sizes": "[[4,2]]",
    "output_sizes": "[[4,2]]",
    "input_dtypes": '["Float"]',
    "output_dtypes": '["Float"]',
    "timeout_ms": 600000,
    "backend": "nccl",
    "group": "0@0-1",
}
SCOPE: dict[str, Value] = {"run": "job", "attempt": 0}


def node(labels: str, key: str, **properties: Value) -> Statement:
    return Statement(tuple(labels.split(":")), key, properties={**SCOPE, **properties})


def relation(source: str, name: str, target: str, **properties: Value) -> Statement:
    return Statement(("Element", "Element"), source, name, target, properties)


def call(rank: int, instance: str, seq: int, **properties: Value) -> Statement:
    facts: dict[str, Value] = {"rank": rank, "seq": seq, "side": "in", "signature": "s1", "stack": "k1"}
    return node("Element:Entity:Call", f"{instance}/{rank}/in", **{**facts, **properties})


def statements() -> list[Statement]:
    return [
        Statement(("Run",), "job/0", properties=SCOPE),
        Statement(("Signature",), "s1", properties=SIGNATURE),
        Statement(("Stack",), "k1", properties={"frames": "[]", "user_frame": "train.py:17 step"}),
        *(node("Element:Agent:Rank", iri, rank=rank) for rank, iri in enumerate(RANKS)),
        node("Element:Entity:ProcessGroup", f"{BASE}/nccl/0@0-1", name="0", ranks=[0, 1], backend="nccl"),
        node("Element:Activity:Collective", FIRST, backend="nccl", group="0@0-1", seq=0),
        node("Element:Activity:Collective", SECOND, backend="nccl", group="0@0-1", seq=1),
        node("Element:Activity:PointToPoint", SEND, backend="nccl", group="0@0-1", rank=0, op_id=7),
        node("Element:Activity:PointToPoint", RECV, backend="nccl", group="0@0-1", rank=1, op_id=9),
        call(0, FIRST, 0, record_id=0, created_ns=1700000000000000001, is_completed=True, duration_ms=0.25),
        call(1, FIRST, 0, record_id=0, is_completed=True),
        call(0, SECOND, 1, record_id=1),
        node("Element:Entity:Output", f"{FIRST}/0/out", rank=0, seq=0, side="out"),
        node("Element:Entity:Output", f"{FIRST}/1/out", rank=1, seq=0, side="out"),
        relation(FIRST, "USED", f"{FIRST}/0/in"),
        relation(FIRST, "USED", f"{FIRST}/1/in"),
        relation(SECOND, "USED", f"{SECOND}/0/in"),
        relation(f"{FIRST}/0/out", "WAS_GENERATED_BY", FIRST),
        relation(f"{FIRST}/1/out", "WAS_GENERATED_BY", FIRST),
        relation(FIRST, "WAS_ASSOCIATED_WITH", RANKS[0]),
        relation(FIRST, "WAS_ASSOCIATED_WITH", RANKS[1]),
        relation(SECOND, "WAS_ASSOCIATED_WITH", RANKS[0]),
        relation(SECOND, "WAS_INFORMED_BY", FIRST),
        relation(f"{SECOND}/0/in", "WAS_INFLUENCED_BY", f"{FIRST}/0/out"),
        relation(f"{FIRST}/0/out", "CALL_OF", FIRST),
        relation(RECV, "DERIVED_MESSAGE", SEND, scope="job/0", basis="exact"),
        relation(SEND, "DERIVED_MESSAGE", RECV, scope="job/0", basis="inferred"),
        relation(FIRST, "SAME_AS", SECOND, scope="job/0"),
    ]


RUN = ExportInput(statements, "run job")
