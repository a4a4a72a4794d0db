"""A graph that lacks what its journal holds, or whose journal is gone: what is answered, and what is advised."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import kglite
import pytest

import provstore
from provstore.cli._reports import check_code, check_lines
from provstore.errors import InputError, StoreError
from provstore.evidence.keys import PrivateKey
from provstore.model.evidence import Observation
from provstore.stores.embedded import EmbeddedStore


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVSTORE_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PROVSTORE_CONFIG_HOME", str(tmp_path / "config"))


def record(store: provstore.Store, run: str, key: PrivateKey | None = None) -> None:
    store.record([Observation("loss", {"value": n / 2}, rank=0, step=n) for n in range(3)], run=run)
    if key is not None:
        store.seal(signer=key, run=run)


@pytest.fixture
def key(tmp_path: Path) -> PrivateKey:
    key = PrivateKey.generate()
    (tmp_path / "key.hex").write_text(key.public_key.hex())
    return key


@pytest.fixture
def place(tmp_path: Path, key: PrivateKey) -> Path:
    with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
        record(store, "one", key)
    return tmp_path / "store"


@pytest.fixture
def reader(place: Path, key: PrivateKey) -> Iterator[provstore.Store]:
    """A store that is read while another one writes to it."""
    with provstore.open(f"embedded:{place}") as writer:
        record(writer, "two", key)
        with provstore.open(f"embedded:{place}", read_only=True) as opened:
            yield opened


def test_an_answer_from_a_graph_that_is_behind_is_not_complete_and_says_why(reader: provstore.Store) -> None:
    for answer in (reader.query("runs/list"), reader.cypher("MATCH (r:Record) RETURN r.iri AS iri")):
        assert (answer.complete, answer.reason) == (False, "graph_behind_journal")
        assert "behind its journal, which process" in answer.notes[-1]


def test_what_is_not_found_in_a_graph_that_is_behind_may_only_be_missing_from_it(reader: provstore.Store) -> None:
    for ask in (
        lambda: reader.query("evidence/unsigned", run="two"),
        lambda: reader.trace("epoch:two:0"),
        lambda: reader.diagnose(run="two"),
    ):
        with pytest.raises(InputError) as refusal:
            ask()
        hint = str(refusal.value.hint)
        assert hint.count("behind its journal, which process") == 1
        assert "not in it yet" in hint


def test_a_check_beside_a_writer_compares_nothing_and_advises_no_rebuild(reader: provstore.Store) -> None:
    report = reader.check()
    text = "\n".join(line.text for line in check_lines(report, width=200))

    assert (report.clean, report.difference_count, check_code(report)) == (False, 0, 4)
    assert "which process" in text
    assert "they were not compared" in text
    assert "rebuild" not in text
    assert "clean" not in text


def test_a_check_beside_a_writer_still_names_damage_of_the_journal(place: Path, key: PrivateKey) -> None:
    with provstore.open(f"embedded:{place}") as writer:
        record(writer, "two", key)
        (segment,) = (place / "journal").glob("*.pvj")
        content = bytearray(segment.read_bytes())
        content[content.index(b'"loss"')] ^= 1
        segment.write_bytes(content)
        with provstore.open(f"embedded:{place}", read_only=True) as opened:
            report = opened.check()
    assert report.problems
    assert check_code(report) == 7


def test_a_graph_that_cannot_be_written_is_not_called_one_that_another_process_writes(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "graph.kgl").unlink()
    shutil.copytree(place, tmp_path / "before")
    with provstore.open(f"embedded:{place}", read_only=True):
        pass
    with provstore.open(f"embedded:{tmp_path / 'before'}") as store:
        record(store, "three")
    shutil.copy(place / "graph.kgl", tmp_path / "before" / "graph.kgl")

    def full(self: EmbeddedStore, *_: object) -> None:
        raise StoreError("graph.kgl: No space left on device")

    monkeypatch.setattr(EmbeddedStore, "write", full)
    belief = provstore.belief(public_keys=[tmp_path / "key.hex"])
    with provstore.open(f"embedded:{tmp_path / 'before'}", read_only=True) as opened:
        (answer,) = opened.verify("one", belief=belief, refresh=False)
    (finding,) = [one for one in answer.findings if one.code == "check-unfinished"]

    assert finding.text == (
        "The graph is 1 batch behind its journal, and could not be brought up to date "
        "(graph.kgl: No space left on device): it was not compared."
    )
    assert answer.exit_code == 4


def test_a_check_names_the_property_that_was_changed_and_not_two_lines(place: Path) -> None:
    graph = kglite.open(str(place / "graph.kgl"), storage="mapped", durable="off")
    graph.cypher("MATCH (r:Record {leaf_index: 1}) SET r.step = 77")
    graph.cypher("MATCH (r:Record {leaf_index: 2}) SET r.added = 'x'")
    graph.cypher("CREATE (n:Element:Entity {iri: 'zzz'})")
    graph.close()
    with provstore.open(f"embedded:{place}", read_only=True) as store:
        report = store.check()
    lines = [line.text for line in check_lines(report, width=300)]

    assert "node https://w3id.org/provstore/id/one/0/record/1: step is 77 in the graph, 1 in the journal" in lines
    assert (
        'node https://w3id.org/provstore/id/one/0/record/2: added is "x" in the graph, and not in the journal' in lines
    )
    assert "only in the graph: node zzz" in lines
    assert any("provstore verify" in line for line in lines)
    assert not any(line.lstrip().startswith("{") or '"properties"' in line for line in lines)


def test_a_journal_that_is_gone_is_to_be_restored_and_not_begun_anew(place: Path) -> None:
    shutil.rmtree(place / "journal")
    for action in (
        lambda: provstore.open(f"embedded:{place}"),
        lambda: provstore.open(f"embedded:{place}", read_only=True),
        lambda: provstore.rebuild(f"embedded:{place}"),
    ):
        with pytest.raises(StoreError, match="missing") as refusal:
            action()
        assert "restore the journal's folder" in str(refusal.value.hint)
        assert "rebuild" not in str(refusal.value.hint)
        assert not (place / "journal").exists()


def test_an_empty_journal_beside_a_graph_of_another_one_is_never_called_the_truth(place: Path, tmp_path: Path) -> None:
    with provstore.open("memory:", journal=tmp_path / "empty"):
        pass
    with pytest.raises(StoreError, match=r"another journal .* is empty") as refusal:
        provstore.open(f"embedded:{place}", journal=tmp_path / "empty")
    assert "restore the journal's folder" in str(refusal.value.hint)
    assert "would hold nothing" in str(refusal.value.hint)


def test_a_graph_that_a_full_disk_does_not_let_be_made_is_a_full_disk(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def save(self, _: str) -> None:
            raise kglite.FileIoError("File I/O error: No space left on device (os error 28)")

    (place / "graph.kgl").unlink()
    monkeypatch.setattr("provstore.stores.embedded._seed", lambda _: Full())
    with pytest.raises(StoreError, match=r"there is no graph yet.*disk full"):
        provstore.open(f"embedded:{place}", read_only=True)
    with pytest.raises(StoreError, match="cannot be created: disk full"):
        provstore.open(f"embedded:{place}")
    assert not list(place.glob("*.new"))
