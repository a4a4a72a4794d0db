"""Fixtures that every test may use: a real Neo4j, and one store of each kind."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from provstore.stores import GraphStore, open_store

KINDS = ("memory", "embedded", "neo4j")

# What a machine does beside a test is no fault of the test.
settings.register_profile("whatever time it takes", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("whatever time it takes")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give whole files to workers in the order of ``tests/workers.py``; other ways to distribute stay as they are."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.workers import WholeFiles

    return WholeFiles(config, log)


def _server_module() -> ModuleType:
    path = Path(__file__).parent / "neo4j" / "server.py"
    found = sys.modules.get("provstore_test_server")
    if found is not None:
        return found
    spec = importlib.util.spec_from_file_location("provstore_test_server", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def neo4j_server() -> Callable[[str], Any]:
    """Start a Neo4j server of a version on first use, one of each version a session."""
    module = _server_module()
    stack = contextlib.ExitStack()
    running: dict[str, Any] = {}

    def start(version: str = module.LTS) -> Any:
        if version not in running:
            try:
                running[version] = stack.enter_context(module.server(version))
            except module.ServerMissingError as error:
                if os.environ.get("CI"):
                    pytest.fail(f"Neo4j {version}: {error}")
                pytest.skip(f"Neo4j {version}: {error}")
        return running[version]

    with stack:
        yield start


@pytest.fixture(scope="session")
def neo4j_uri(neo4j_server: Callable[[], Any]) -> Iterator[str]:
    """Address of a Neo4j server of the long-term release; user and password are in the environment."""
    server = neo4j_server()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROVSTORE_NEO4J_USER", server.user)
        patch.setenv("PROVSTORE_NEO4J_PASSWORD", server.password)
        yield server.uri


@dataclass
class Place:
    """One empty store of some kind; ``open`` opens it, again if need be."""

    kind: str
    uri: str
    _opened: list[GraphStore] = field(default_factory=list)

    def open(self, *, writable: bool = True) -> GraphStore:
        store = open_store(self.uri, writable=writable)
        self._opened.append(store)
        return store

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture
def empty_neo4j(neo4j_uri: str) -> str:
    """Address of a Neo4j server whose database holds nothing."""
    import neo4j

    auth = (os.environ["PROVSTORE_NEO4J_USER"], os.environ["PROVSTORE_NEO4J_PASSWORD"])
    with neo4j.GraphDatabase.driver(neo4j_uri, auth=auth) as driver:
        driver.execute_query("MATCH (n) DETACH DELETE n")
    return neo4j_uri


@pytest.fixture(params=KINDS)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """One empty store of each kind."""
    uri = {"memory": "memory:", "embedded": f"embedded:{tmp_path / 'store'}"}.get(request.param)
    place = Place(request.param, uri or request.getfixturevalue("empty_neo4j"))
    yield place
    place.close()
