"""Tests are spread over workers as ``tests/workers.py`` says."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("xdist")

from tests import workers

ROOT = Path(__file__).parents[1]


def unit_of(nodeid: str) -> str:
    return workers.WholeFiles._split_scope(object.__new__(workers.WholeFiles), nodeid)


def test_the_files_that_are_said_to_take_long_are_there() -> None:
    assert [path for path in workers._LONG if not (ROOT / path).is_file()] == []


def test_a_file_is_a_unit_of_its_own() -> None:
    assert unit_of("tests/unit/graph/test_weave.py::one") == "tests/unit/graph/test_weave.py"


def test_all_that_needs_a_server_is_one_unit(request: pytest.FixtureRequest) -> None:
    asking = {item.nodeid for item in request.session.items if {"neo4j_server", "stores"} & {*item.fixturenames}}
    asking |= {"tests/conformance/test_neo4j.py::one", "tests/conformance/test_values.py::one"}

    assert {nodeid for nodeid in asking if unit_of(nodeid) != workers._SERVER} == set()
