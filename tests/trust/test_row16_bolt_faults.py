"""A server behind a bad network: nothing is lost, nothing is doubled, and no one tries for ever (matrix row 16)."""

from __future__ import annotations

import time

import pytest
from fault_proxy import FaultProxy, Treatment
from scale import LONG, luck, times

from provstore import cypher
from provstore.errors import StoreError
from provstore.model.block import Block, Nodes, Relations
from provstore.stores import GraphStore, open_store
from provstore.stores.dump import canonical_dump

CUTS = times("CUTS", 20, 200)
LATENCIES = (0.05, 0.5) if LONG else (0.05,)
HALF_OPEN_SECONDS = 30.0 if LONG else 2.0
BOUND_SECONDS = 90
"""A store bears a minute of failures in one operation, and a quarter of one for its last connection."""


def facts(number: int, count: int = 40) -> Block:
    """Return nodes and relationships that no other number gives."""
    keys = [f"urn:{number}:{at}" for at in range(count)]
    nodes = Nodes(("Element", "Entity"), keys, {"run": ["r"] * count, "attempt": [0] * count})
    return Block("r", 0, (nodes,), (Relations("WAS_DERIVED_FROM", keys[1:], keys[:-1]),))


def alone(*blocks: Block) -> list[str]:
    """Return what a store holds into which the blocks were written once, without any fault."""
    store = open_store("memory:", writable=True)
    for number, block in enumerate(blocks, 1):
        store.write(block, ("journal", number))
    found = list(canonical_dump(store))
    store.close()
    return found


def stored(uri: str) -> tuple[list[str], list[dict[str, object]]]:
    reader = open_store(uri, writable=False)
    found = list(canonical_dump(reader)), list(reader.run(cypher.query("read/store/applied")))
    reader.close()
    return found


def written(uri: str, proxy: FaultProxy, block: Block, number: int) -> int:
    """Write a block as often as it takes, as an open store does that finds its graph behind; return the tries."""
    for tries in range(1, 4):
        store: GraphStore | None = None
        try:
            store = open_store(proxy.uri if tries < 3 else uri, writable=True)
            store.write(block, ("journal", number))
        except StoreError as error:
            print(f"try {tries}: {error}")
            continue
        finally:
            if store is not None:
                store.close()
        return tries
    raise AssertionError(f"block {number} could not be written although the network is well again")


def test_cuts_at_any_byte_lose_nothing_and_double_nothing(empty_neo4j: str) -> None:
    chance = luck("cuts")
    open_store(empty_neo4j, writable=True).close()
    blocks = [facts(at) for at in range(1, CUTS + 1)]
    for number, block in enumerate(blocks, 1):
        direction = chance.choice(("up", "down"))
        after = chance.randrange(1, 9_000 if direction == "up" else 4_000)
        chunk = chance.choice((1, 65536))
        treatment = Treatment(cut_after=after, direction=direction, chunk_bytes=chunk)
        started = time.monotonic()
        with FaultProxy(empty_neo4j, treatment, cuts=1) as proxy:
            tries = written(empty_neo4j, proxy, block, number)
            took = f"{time.monotonic() - started:.2f} s, {tries} tries, {proxy.connections} connections"
            print(f"cut {number}: {direction} after {after} bytes, pieces of {chunk}: {took}")
            assert proxy.connections <= 12
        assert time.monotonic() - started < BOUND_SECONDS
    found, applied = stored(empty_neo4j)
    assert found == alone(*blocks)
    assert applied == [{"journal": "journal", "jseq": CUTS}]


@pytest.mark.parametrize("latency", LATENCIES)
def test_a_slow_network_only_takes_longer(empty_neo4j: str, latency: float) -> None:
    open_store(empty_neo4j, writable=True).close()
    with FaultProxy(empty_neo4j, Treatment(latency_seconds=latency)) as proxy:
        assert written(empty_neo4j, proxy, facts(1), 1) == 1
    assert stored(empty_neo4j)[0] == alone(facts(1))


def test_a_network_of_single_bytes_only_takes_longer(empty_neo4j: str) -> None:
    """A server that has just started may take a greeting that comes in single bytes for none: then once more."""
    open_store(empty_neo4j, writable=True).close()
    with FaultProxy(empty_neo4j, Treatment(chunk_bytes=1)) as proxy:
        assert written(empty_neo4j, proxy, facts(1), 1) <= 2
    assert stored(empty_neo4j)[0] == alone(facts(1))


def test_a_connection_that_falls_silent_before_it_ends_loses_nothing(empty_neo4j: str) -> None:
    open_store(empty_neo4j, writable=True).close()
    treatment = Treatment(cut_after=2_000, half_open_seconds=HALF_OPEN_SECONDS)
    started = time.monotonic()
    with FaultProxy(empty_neo4j, treatment, cuts=1) as proxy:
        written(empty_neo4j, proxy, facts(1), 1)
    assert time.monotonic() - started < HALF_OPEN_SECONDS + BOUND_SECONDS
    assert stored(empty_neo4j)[0] == alone(facts(1))


def test_a_server_that_never_comes_back_is_given_up_in_time(empty_neo4j: str) -> None:
    open_store(empty_neo4j, writable=True).close()
    with FaultProxy(empty_neo4j, Treatment(cut_after=0), cuts=1 << 30) as proxy:
        started = time.monotonic()
        with pytest.raises(StoreError):
            open_store(proxy.uri, writable=True).close()
        assert time.monotonic() - started < BOUND_SECONDS
        assert proxy.connections <= 100
