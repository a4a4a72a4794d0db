"""A store against a model in plain dictionaries: any sequence of writes leaves what the model says."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from provstore.errors import StoreError
from provstore.model.block import Block, Nodes, Relations
from provstore.stores import open_store
from provstore.stores.dump import canonical_dump

KEYS = [f"urn:{name}" for name in "abcdef"]
some_keys = st.lists(st.sampled_from(KEYS), min_size=1, max_size=5)
labels = st.sampled_from([(), ("Entity",), ("Activity", "Collective"), ("Entity", "Call")])
values = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=5), st.booleans(), st.floats(allow_nan=False))
names = st.sampled_from(["rank", "seq", "name", "prov__role"])
captured = st.sampled_from(["USED", "WAS_GENERATED_BY"])
derived = st.sampled_from(["SAME_AS", "DERIVED_MESSAGE"])
scopes = st.sampled_from(["r/0", "r/1"])
ends = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)), max_size=4)


class Model:
    """What a store must hold, without any engine."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[set[str], dict[str, object]]] = {}
        self.captured: set[tuple[str, str, str]] = set()
        self.records: dict[tuple[str, str, str, str], None] = {}
        self.derived: dict[tuple[str, str, str], str] = {}

    def add(self, keys, extra, name, value):
        for key in keys:
            held, properties = self.nodes.setdefault(key, ({"Element"}, {"iri": key}))
            held.update(extra)
            properties.setdefault(name, value)

    def lines(self) -> list[str]:
        nodes = [{"labels": sorted(held), "properties": properties} for held, properties in self.nodes.values()]
        edges = [(kind, a, b, {}) for kind, a, b in self.captured]
        edges += [(kind, a, b, {"recordKey": key}) for kind, a, b, key in self.records]
        edges += [(kind, a, b, {"scope": scope}) for (kind, a, b), scope in self.derived.items()]
        relations = [
            {"type": kind, "from": ["Element", a], "to": ["Element", b], "properties": properties}
            for kind, a, b, properties in edges
        ]
        return [line for part in (nodes, relations) for line in sorted(map(_line, part))]


def _line(fact) -> str:
    return json.dumps(fact, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


class StoreMachine(RuleBasedStateMachine):
    """Writes at random to a store and to the model."""

    uri: str | None = None

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp())
        self.place = self.uri or f"embedded:{self.folder / 'store'}"
        self.model = Model()
        self.store = open_store(self.place, writable=True)
        self.counter = 0

    @rule(keys=some_keys, extra=labels, name=names, value=values)
    def add_nodes(self, keys, extra, name, value):
        self.store.write(Block("r", 0, (Nodes(("Element", *extra), keys, {name: [value] * len(keys)}),)))
        self.model.add(keys, extra, name, value)

    @rule(kind=captured, pairs=ends)
    def relate(self, kind, pairs):
        block = Block("r", 0, (), (Relations(kind, [a for a, _ in pairs], [b for _, b in pairs]),))
        if self._write(block, pairs):
            recorded = {(held, a, b) for held, a, b, _ in self.model.records}
            self.model.captured |= {(kind, a, b) for a, b in pairs} - recorded

    @rule(kind=captured, pairs=ends)
    def record(self, kind, pairs):
        keys = [f"doc#{self.counter + at}" for at in range(len(pairs))]
        self.counter += len(pairs)
        relations = Relations(kind, [a for a, _ in pairs], [b for _, b in pairs], columns={"recordKey": keys})
        if self._write(Block("r", 0, (), (relations, relations)), pairs):
            self.model.records |= {(kind, a, b, key): None for (a, b), key in zip(pairs, keys)}
            self.model.captured -= {(kind, a, b) for a, b in pairs}

    @rule(kind=derived, scope=scopes, pairs=ends)
    def derive(self, kind, scope, pairs):
        pairs = [(a, b) for a, b in pairs if (a < b) == (scope == "r/0")]
        columns = {"scope": [scope] * len(pairs)}
        relations = Relations(kind, [a for a, _ in pairs], [b for _, b in pairs], columns=columns)
        if self._write(Block("r", 0, (), (relations,), replaces=scope), pairs):
            self.model.derived = {edge: held for edge, held in self.model.derived.items() if held != scope}
            self.model.derived |= {(kind, a, b): scope for a, b in pairs}

    @rule()
    def reopen(self):
        if self.place != "memory:":
            self.store.close()
            self.store = open_store(self.place, writable=True)

    def _write(self, block, pairs) -> bool:
        try:
            self.store.write(block)
        except StoreError as error:
            told = str(error)
            assert "there is no :Element" in told
            assert {key for pair in pairs for key in pair} - self.model.nodes.keys()
            return False
        assert {key for pair in pairs for key in pair} <= self.model.nodes.keys()
        return True

    @invariant()
    def holds_what_the_model_says(self):
        if hasattr(self, "store"):
            assert list(canonical_dump(self.store)) == self.model.lines()

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)


def machine(where: str | None) -> type[StoreMachine]:
    return type("Machine", (StoreMachine,), {"uri": where})


def bounds(examples: int, steps: int) -> settings:
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=examples, stateful_step_count=steps, suppress_health_check=quiet)


@pytest.mark.parametrize("where", ["memory:", None], ids=["memory", "embedded"])
def test_any_sequence_of_writes_leaves_what_the_model_says(where):
    run_state_machine_as_test(machine(where), settings=bounds(20, 12))


@pytest.mark.parametrize("least_of_a_hub", [1, 2, 1_000])
def test_any_sequence_of_writes_through_the_bulk_writers_leaves_what_the_model_says(monkeypatch, least_of_a_hub):
    monkeypatch.setattr("provstore.stores.embedded.BULK_ROWS", 1)
    monkeypatch.setattr("provstore.stores.embedded.HUB_RELATIONS", least_of_a_hub)
    run_state_machine_as_test(machine("memory:"), settings=bounds(20, 12))


def test_any_sequence_of_writes_to_a_server_leaves_what_the_model_says(empty_neo4j):
    class Emptied(StoreMachine):
        uri = empty_neo4j

        def teardown(self):
            import os

            import neo4j

            super().teardown()
            auth = (os.environ["PROVSTORE_NEO4J_USER"], os.environ["PROVSTORE_NEO4J_PASSWORD"])
            with neo4j.GraphDatabase.driver(empty_neo4j, auth=auth) as driver:
                driver.execute_query("MATCH (n) DETACH DELETE n")

    run_state_machine_as_test(Emptied, settings=bounds(5, 8))
