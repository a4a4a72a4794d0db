"""Dumps that are recorded have the lineage that ingesting them gives, alone and beside a recording of their job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from provstore import open as open_store
from provstore.api.recording import record
from provstore.journal import Journal
from provstore.queries.targets import Scope, resolve
from tests.conftest import Place
from tests.lineage_facts import FROM_A_RECORDING, ancestors, lineage_facts
from tests.lineage_jobs import BASE, CALLS, WORLD, captured, dumped, graph_of, in_a_row, recorded, shown, taken_in


@pytest.fixture
def memory() -> Iterator[Place]:
    place = Place("memory", "memory:")
    yield place
    place.close()


def test_a_recording_and_the_dumps_of_a_job_give_the_same_facts(memory: Place, tmp_path: Path) -> None:
    recording = graph_of(memory, tmp_path / "r", captured(tmp_path / "c", in_a_row))
    found = lineage_facts(recording, BASE)
    recorded(tmp_path / "d", dumped(tmp_path / "dumps"), run="job", epoch=0)
    with open_store(f"embedded:{tmp_path / 'other'}", journal=tmp_path / "d" / "journal") as store:
        expected = lineage_facts(store._graph, BASE)

    assert found.labels == expected.labels
    assert found.relations == expected.relations
    for iri, facts in found.properties.items():
        assert {name: one for name, one in facts.items() if name != FROM_A_RECORDING}.items() <= (
            expected.properties[iri].items()
        )


@pytest.mark.parametrize("first", ["recording", "dumps"])
def test_recording_and_dumps_together_are_one_graph_in_either_order(stores: Place, tmp_path: Path, first: str) -> None:
    store, capture, dumps = stores.open(), captured(tmp_path / "c", in_a_row), dumped(tmp_path / "dumps")
    alone = tmp_path / "alone"
    recorded(alone, dumps, run="job", epoch=0)
    if first == "recording":
        recorded(tmp_path, capture)
        shown(tmp_path, store)
        assert taken_in(tmp_path, store, dumps) == ["new"] * WORLD
    else:
        Journal.open(tmp_path / "journal", writable=True).close()
        taken_in(tmp_path, store, dumps)
        recorded(tmp_path, capture)
        shown(tmp_path, store)

    both = lineage_facts(store, BASE)
    with open_store(f"embedded:{tmp_path / 'other'}", journal=alone / "journal") as opened:
        expected = lineage_facts(opened._graph, BASE)
    assert both.labels == expected.labels
    assert both.relations == expected.relations
    without = {
        iri: {name: one for name, one in facts.items() if name != FROM_A_RECORDING}
        for iri, facts in both.properties.items()
    }
    assert without == expected.properties
    assert resolve(store, "r2:seq4", Scope("job", 0)) == f"{BASE}gloo/0@0-3/4/2/in"


def test_no_diagnosis_is_made_of_a_recording_alone(tmp_path: Path) -> None:
    record([captured(tmp_path / "c", in_a_row)], store=f"embedded:{tmp_path / 's'}")

    with open_store(f"embedded:{tmp_path / 's'}") as store:
        found = store.diagnose(run="job")
    assert (found.status, found.findings) == ("undecided", ())
    assert "no dump of it is stored" in found.undecided[0].what


def test_dumps_that_are_recorded_are_taken_in_as_ingest_does(memory: Place, tmp_path: Path) -> None:
    dumps = dumped(tmp_path / "dumps")
    report = recorded(tmp_path, dumps, run="job", epoch=0)
    store = shown(tmp_path, memory.open())

    assert len(ancestors(store, "gloo/0@0-3/4/2/out", BASE)) == 32
    assert taken_in(tmp_path, store, dumps) == ["known"] * WORLD
    again = recorded(tmp_path, dumps, run="job", epoch=0)
    assert (again.is_known, again.position) == (True, report.position)


def test_dumps_that_were_ingested_are_recorded_and_nothing_of_their_lineage_is_written_twice(
    memory: Place, tmp_path: Path
) -> None:
    store, dumps = memory.open(), dumped(tmp_path / "dumps")
    Journal.open(tmp_path / "journal", writable=True).close()
    taken_in(tmp_path, store, dumps)
    with Journal.open(tmp_path / "journal", writable=False) as journal:
        before = len(list(journal.batches()))

    recorded(tmp_path, dumps, run="job", epoch=0)

    with Journal.open(tmp_path / "journal", writable=False) as journal:
        assert len(list(journal.batches())) == before


def test_a_dump_that_contradicts_what_was_taken_in_before_is_refused(tmp_path: Path) -> None:
    recorded(tmp_path, dumped(tmp_path / "dumps"), run="job", epoch=0)

    report = recorded(tmp_path, dumped(tmp_path / "later", calls=5, start=10**9), run="job", epoch=1)

    assert len(report.refused) == WORLD
    assert all("contradict each other" in text for text in report.refused)


def test_a_later_dump_of_the_same_process_adds_its_calls(memory: Place, tmp_path: Path) -> None:
    recorded(tmp_path, dumped(tmp_path / "dumps"), run="job", epoch=0)

    assert not recorded(tmp_path, dumped(tmp_path / "later", calls=5), run="job", epoch=0).refused

    graph = shown(tmp_path, memory.open())
    assert len(ancestors(graph, "gloo/0@0-3/5/0/out", BASE)) == 5 + 20 + 16


def test_what_was_recorded_before_there_was_lineage_gets_it_when_it_is_recorded_again(tmp_path: Path) -> None:
    capture = captured(tmp_path / "c", in_a_row)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("provstore.ingest.capture_lineage.RankLineage.write", lambda *_: None)
        first = recorded(tmp_path, capture)
    assert first.lineage == 0

    again = recorded(tmp_path, capture)

    assert (again.lineage, again.is_known) == (WORLD * CALLS, False)
    assert [one.status for one in again.epochs] == ["known"]
    assert recorded(tmp_path, capture).is_known
