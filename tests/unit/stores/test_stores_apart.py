"""What two stores hold apart: every fact that differs is found, and nothing that is alike."""

from __future__ import annotations

import contextlib
import random

from provstore.model.block import Block, Nodes, Relations
from provstore.stores import open_store
from provstore.stores.dump import apart, canonical_dump


def _block(ranks: dict[str, int], links: list[tuple[str, str]] = ()) -> Block:
    nodes = Nodes(("Element", "Entity"), list(ranks), {"rank": list(ranks.values())})
    edges = Relations("WAS_DERIVED_FROM", [source for source, _ in links], [target for _, target in links])
    return Block("r", 0, (nodes,), (edges,) if links else ())


def _store(*blocks: Block):
    store = open_store("memory:", writable=True)
    for block in blocks:
        store.write(block)
    return contextlib.closing(store)


def test_stores_that_were_filled_in_another_order_hold_nothing_apart():
    parts = [_block({f"n{at}": at for at in range(start, start + 50)}) for start in range(0, 500, 50)]
    mixed = random.Random(7).sample(parts, len(parts))
    with _store(*parts) as one, _store(*mixed) as other:
        found = apart(one, other)
        assert (found.left, found.right, found.compared) == ((), (), 500)


def test_each_changed_missing_and_added_fact_is_told_and_nothing_else():
    ranks = {f"n{at}": at for at in range(300)}
    with _store(_block(ranks, [("n1", "n0"), ("n2", "n1")])) as one:
        changed = {**ranks, "n7": 70, "extra": 1}
        del changed["n9"]
        with _store(_block(changed, [("n1", "n0"), ("n3", "n1")])) as other:
            found = apart(one, other)
            expected = set(canonical_dump(one)) ^ set(canonical_dump(other))
    assert {*found.left, *found.right} == expected
    assert len(found.left) == len(found.right) == 3
    assert [line[:8] for line in found.left] == ['{"labels', '{"labels', '{"from":']


def test_an_empty_store_lacks_everything():
    with _store(_block({"a": 1, "b": 2})) as one, _store() as other:
        found = apart(one, other)
        assert list(found.left) == list(canonical_dump(one))
        assert found.right == ()
