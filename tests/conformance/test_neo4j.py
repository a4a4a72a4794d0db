"""What only a server has: plans, log-ins, versions, several writers at once, connections that break."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import neo4j
import pytest

from provstore import cypher
from provstore.cypher import adhoc, query
from provstore.errors import ConfigError, StoreError
from provstore.model.block import Block, Nodes, Relations
from provstore.stores import neo4j as neo4j_store
from provstore.stores import open_store
from provstore.stores.dump import canonical_dump


def ladder(steps: int, ranks: int = 4) -> Block:
    """Return a ladder: at each step every rank reads what the step before made, and all make the next."""
    things = [f"urn:thing:{at:05}" for at in range(steps + 1)]
    acts = [f"urn:act:{at:05}:{rank}" for at in range(steps) for rank in range(ranks)]
    of = [at for at in range(steps) for _ in range(ranks)]
    calls = {"run": ["r"] * len(acts), "attempt": [0] * len(acts), "rank": list(range(ranks)) * steps, "seq": of}
    nodes = (Nodes(("Element", "Entity"), things), Nodes(("Element", "Activity", "Call"), acts, calls))
    relations = (
        Relations("WAS_GENERATED_BY", [things[at + 1] for at in of], acts),
        Relations("USED", acts, [things[at] for at in of]),
    )
    return Block("r", 0, nodes, relations)


@contextlib.contextmanager
def driver(uri: str) -> Iterator[neo4j.Driver]:
    auth = (os.environ["PROVSTORE_NEO4J_USER"], os.environ["PROVSTORE_NEO4J_PASSWORD"])
    with neo4j.GraphDatabase.driver(uri, auth=auth) as opened:
        yield opened


def operators(uri: str, asked: cypher.Query, parameters: dict[str, object]) -> set[str]:
    """Return the operators of the plan that the server would follow."""

    def walk(plan) -> Iterator[str]:
        yield plan["operatorType"].partition("@")[0]
        for child in plan.get("children", ()):
            yield from walk(child)

    with driver(uri) as opened:
        return set(walk(opened.execute_query("EXPLAIN " + asked.text, parameters).summary.plan))


@pytest.mark.parametrize("name", ["read/lineage/ancestors", "read/lineage/descendants"])
def test_a_closure_seeks_its_start_and_expands_with_a_visited_set(empty_neo4j, name):
    store = open_store(empty_neo4j, writable=True)
    store.write(ladder(600))
    store.close()
    plan = operators(empty_neo4j, query(name), {"iri": "urn:thing:00600"})
    assert "NodeUniqueIndexSeek" in plan
    assert any(step.startswith("VarLengthExpand(Pruning") for step in plan)
    assert "VarLengthExpand(All)" not in plan


def test_a_call_is_found_by_its_number_through_an_index(empty_neo4j):
    store = open_store(empty_neo4j, writable=True)
    store.write(ladder(600))
    store.close()
    asked = {"run": "r", "attempt": 0, "rank": 2, "seq": 77}
    plan = operators(empty_neo4j, query("read/targets/by_number"), asked)
    assert "NodeIndexSeek" in plan
    assert not plan & {"NodeByLabelScan", "AllNodesScan"}


@pytest.mark.parametrize("file", ["write/relations", "write/records"])
def test_a_relationship_is_written_by_seeking_both_ends(empty_neo4j, file):
    open_store(empty_neo4j, writable=True).close()
    names = {"RELATION_TYPE": "USED", "SOURCE_LABEL": "Element", "TARGET_LABEL": "Element"}
    row = {"source": "a", "target": "b", "properties": {"recordKey": "k"}}
    plan = operators(empty_neo4j, cypher.named(query(file), names), {"rows": [row]})
    assert "NodeUniqueIndexSeek" in plan or "NodeUniqueIndexSeek(Locking)" in plan
    assert not plan & {"NodeByLabelScan", "AllNodesScan"}


def test_every_unique_key_is_a_constraint_of_the_server(empty_neo4j):
    open_store(empty_neo4j, writable=True).close()
    with driver(empty_neo4j) as opened:
        rows = opened.execute_query("SHOW CONSTRAINTS YIELD labelsOrTypes, properties").records
    unique = {(row["labelsOrTypes"][0], row["properties"][0]) for row in rows}
    assert {("Element", "iri"), ("Bundle", "key"), ("AttributeKey", "key"), ("USED", "recordKey")} <= unique


def test_the_server_says_its_version_and_edition(empty_neo4j):
    store = open_store(empty_neo4j, writable=False)
    assert store.about["engine"] == "Neo4j"
    assert store.about["version"].startswith("5.26")
    assert store.about["edition"] == "community"
    store.close()


def test_a_wrong_password_is_one_clear_error(neo4j_uri):
    with pytest.raises(StoreError, match="log-in: the server refuses it") as refusal:
        open_store(neo4j_uri, writable=False, user="neo4j", password="wrong")
    assert "PROVSTORE_NEO4J_PASSWORD" in refusal.value.hint
    assert "wrong" not in str(refusal.value)


def test_a_server_that_does_not_answer_is_one_clear_error():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(StoreError, match=f"bolt://127.0.0.1:{port}: server: it does not answer"):
        open_store(f"bolt://127.0.0.1:{port}", writable=False)


def test_an_address_that_is_none_is_a_config_error():
    with pytest.raises(ConfigError, match="not an address of a Neo4j server"):
        open_store("bolt://host:port", writable=False)


def test_an_unsupported_version_is_one_clear_error(neo4j_uri, monkeypatch):
    monkeypatch.setattr(neo4j_store, "OLDEST", (9999, 0))
    with pytest.raises(StoreError, match=r"Neo4j 5\.26\.\d+: not supported; 9999\.0 or newer is needed"):
        open_store(neo4j_uri, writable=True)


def test_a_reader_changes_nothing(empty_neo4j):
    reader = open_store(empty_neo4j, writable=False)
    with pytest.raises(StoreError, match="opened for reading only"):
        reader.write(ladder(1))
    write = query("write/applied")
    with pytest.raises(StoreError, match=r"(?i)writ"):
        list(reader.run(write, {"journal": "j", "jseq": 1}))
    assert list(canonical_dump(reader)) == []
    reader.close()


def test_several_writers_of_the_same_facts_leave_them_once(empty_neo4j):
    whole = ladder(60)
    open_store(empty_neo4j, writable=True).close()

    def write(at: int) -> None:
        store = open_store(empty_neo4j, writable=True)
        store.write(whole, (f"journal{at}", 1))
        store.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    alone = open_store("memory:", writable=True)
    alone.write(whole)
    store = open_store(empty_neo4j, writable=False)
    assert list(canonical_dump(store)) == list(canonical_dump(alone))
    assert len(list(store.run(query("read/store/applied")))) == 4
    store.close()


class Proxy:
    """Passes bytes to a server and cuts each connection after so many bytes, as long as cuts are left."""

    def __init__(self, uri: str, after: int, cuts: int) -> None:
        parts = urlsplit(uri)
        self._server = (parts.hostname, parts.port)
        self._after = after
        self.cuts = cuts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"bolt://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            for source, sink, counts in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pass, args=(source, sink, counts), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                passed += len(data)
                if counts and self.cuts > 0 and passed > self._after:
                    self.cuts -= 1
                    break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.mark.parametrize("after", [600, 900, 1300, 2000, 2600])
def test_a_connection_that_breaks_loses_nothing_and_doubles_nothing(empty_neo4j, after):
    whole = ladder(30)
    open_store(empty_neo4j, writable=True).close()
    proxy = Proxy(empty_neo4j, after, 0)
    store = open_store(proxy.uri, writable=True)
    proxy.cuts = 2
    try:
        store.write(whole, ("journal", 1))
        store.close()
    except StoreError:
        store.close()
        # What could not be finished is repeated as a whole.
        store = open_store(empty_neo4j, writable=True)
        store.write(whole, ("journal", 1))
        store.close()
    proxy.close()
    alone = open_store("memory:", writable=True)
    alone.write(whole)
    reader = open_store(empty_neo4j, writable=False)
    assert list(canonical_dump(reader)) == list(canonical_dump(alone))
    assert list(reader.run(query("read/store/applied"))) == [{"journal": "journal", "jseq": 1}]
    reader.close()


def test_the_current_release_serves_the_same_facts(neo4j_server, monkeypatch):
    import sys

    server = neo4j_server(sys.modules["provstore_test_server"].CURRENT)
    login = {"user": server.user, "password": server.password}
    store = open_store(server.uri, writable=True, **login)
    with neo4j.GraphDatabase.driver(server.uri, auth=(server.user, server.password)) as opened:
        opened.execute_query("MATCH (n) DETACH DELETE n")
    whole = ladder(300)
    alone = open_store("memory:", writable=True)
    derived = Relations("SAME_AS", ["urn:thing:00001"], ["urn:thing:00002"], columns={"scope": ["r/0"]})
    for writer in (store, alone):
        for _ in range(2):
            writer.write(whole, ("journal", 1))
            writer.write(Block("r", 0, (), (derived,), replaces="r/0"))
    assert list(canonical_dump(store)) == list(canonical_dump(alone))
    for name in ("read/lineage/ancestors", "read/lineage/descendants"):
        asked = {"iri": "urn:thing:00150"}
        assert list(store.run(query(name), asked)) == list(alone.run(query(name), asked))
    assert [row["n"] for row in store.run(adhoc("MATCH (c:Call {rank: 1}) RETURN count(c) AS n"))] == [300]
    assert not store.about["version"].startswith("5.")
    store.close()
    monkeypatch.setenv("PROVSTORE_NEO4J_USER", server.user)
    monkeypatch.setenv("PROVSTORE_NEO4J_PASSWORD", server.password)
    plan = operators(server.uri, query("read/lineage/ancestors"), {"iri": "urn:thing:00300"})
    assert "NodeUniqueIndexSeek" in plan
    assert "VarLengthExpand(All)" not in plan
