"""Ingest is a union: the graph depends on the set of dumps that came in, not on their order, number or repetition."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

import provstore
from provstore.stores import open_store
from provstore.stores.dump import canonical_dump
from tests.simulator import Scenario, Shape3D, Style, simulate
from tests.simulator.retelling import halved, tell

SCENARIOS = {
    "pipeline": Scenario("megatron", Shape3D(world=8, steps=2, tp=2, pp=2), style=Style(prefix="rank_")),
    "batched sends and receives": Scenario("megatron", Shape3D(world=4, steps=2, pp=2, batched=True)),
    "two recorders a rank": Scenario("two_backends", Shape3D(world=4, steps=2)),
    "gloo": Scenario("hsdp", Shape3D(world=4, steps=2, shard=2, backend="gloo"), style=Style(sidecar="pgs")),
    "wrapped rings": Scenario("hsdp", Shape3D(world=4, steps=4, shard=2), buffer=20),
    "old format": Scenario("ddp", Shape3D(world=4, steps=2), style=Style(version="1.4")),
}


def _facts(store: Path) -> list[str]:
    """Return the facts of a graph, without the positions of its journal."""
    opened = open_store(f"embedded:{store}", writable=False)
    try:
        return [line for line in canonical_dump(opened) if '"Applied"' not in line]
    finally:
        opened.close()


def _ingest(store: Path, batches: Iterable[Sequence[Path]]) -> list[str]:
    for batch in batches:
        with provstore.open(f"embedded:{store}") as opened:
            opened.ingest(*batch, run="job")
    return _facts(store)


def _dumps(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.suffix != ".json")


@pytest.mark.parametrize("name", SCENARIOS)
def test_files_one_by_one_in_any_order_give_the_graph_of_the_whole_folder(name: str, tmp_path: Path) -> None:
    simulate(SCENARIOS[name]).write(tmp_path / "dumps")
    whole = _ingest(tmp_path / "whole", [[tmp_path / "dumps"]])
    files = _dumps(tmp_path / "dumps")
    random.Random(name).shuffle(files)
    assert len(whole) > 20
    assert _ingest(tmp_path / "apart", [[file] for file in files]) == whole


@pytest.mark.parametrize("name", ["pipeline", "gloo"])
def test_the_same_folder_twice_changes_nothing(name: str, tmp_path: Path) -> None:
    simulate(SCENARIOS[name]).write(tmp_path / "dumps")
    once = _ingest(tmp_path / "store", [[tmp_path / "dumps"]])
    assert _ingest(tmp_path / "store", [[tmp_path / "dumps"]]) == once


def test_overlapping_dumps_of_a_rank_give_one_graph_in_any_order(tmp_path: Path) -> None:
    simulate(SCENARIOS["pipeline"]).write(tmp_path / "dumps")
    told = halved(tell(tmp_path / "dumps"), 3)
    told.write(tmp_path / "split")
    files = _dumps(tmp_path / "split")
    assert len(files) == 9
    forward = _ingest(tmp_path / "forward", [[file] for file in files])
    backward = _ingest(tmp_path / "backward", [[file] for file in reversed(files)])
    assert forward == backward == _ingest(tmp_path / "at_once", [[tmp_path / "split"]])


def test_a_sidecar_that_comes_later_leads_to_the_graph_of_one_that_came_first(tmp_path: Path) -> None:
    simulate(SCENARIOS["gloo"]).write(tmp_path / "with")
    shutil.copytree(tmp_path / "with", tmp_path / "without", ignore=shutil.ignore_patterns("pgs_*", "json"))
    late = _ingest(tmp_path / "late", [[tmp_path / "without"], [tmp_path / "with"]])
    early = _ingest(tmp_path / "early", [[tmp_path / "with"], [tmp_path / "without"]])
    assert late == early
    assert any("SAME_AS" in line for line in late)


def test_a_store_can_be_rebuilt_from_its_journal_alone(tmp_path: Path) -> None:
    simulate(SCENARIOS["batched sends and receives"]).write(tmp_path / "dumps")
    before = _ingest(tmp_path / "store", [[file] for file in _dumps(tmp_path / "dumps")])
    (tmp_path / "store" / "graph.kgl").write_bytes(b"damaged")
    provstore.rebuild(f"embedded:{tmp_path / 'store'}")
    assert _facts(tmp_path / "store") == before
    with provstore.open(f"embedded:{tmp_path / 'store'}", read_only=True) as opened:
        assert opened.check().clean


def test_runs_and_attempts_live_side_by_side(tmp_path: Path) -> None:
    simulate(SCENARIOS["pipeline"]).write(tmp_path / "dumps")
    with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
        for run, attempt in (("one", 0), ("one", 1), ("two", 0)):
            store.ingest(tmp_path / "dumps", run=run, attempt=attempt)
        with pytest.raises(provstore.errors.InputError, match=r"names \d+ elements"):
            store.trace("tensor:0:1:out")
        traces = [store.trace("tensor:0:1:out", run=run, attempt=a, group="0") for run, a in (("one", 1), ("two", 0))]
    assert len(traces[0].nodes) == len(traces[1].nodes) > 0
    assert {node.run for node in traces[0].nodes} == {"one"}
    assert {node.attempt for node in traces[0].nodes} == {1}
