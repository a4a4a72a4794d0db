"""The API of a store: saving findings, catching up, two writers, exports that appear whole, honest limits."""

from __future__ import annotations

import inspect
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import prov.model
import pytest
from captures import RankCapture, floats
from signed_captures import Signed, signed_capture

import provstore
from provstore.api.control import switch
from provstore.api.recording import record
from provstore.cli._app import run as command_line
from provstore.errors import ConfigError, InputError, SafeModeError, StoreError
from provstore.journal import Journal
from provstore.queries.info import behind
from provstore.stores import open_store
from tests.simulator import Fault, Scenario, Shape3D, simulate


@pytest.fixture
def hung(tmp_path: Path) -> Path:
    folder = tmp_path / "hung"
    simulate(Scenario("ddp", Shape3D(world=4, steps=3), (Fault("stuck", 2, 0.5),))).write(folder)
    return folder


def test_saved_findings_are_facts_that_a_rebuild_brings_back(hung: Path, tmp_path: Path) -> None:
    uri = f"embedded:{tmp_path / 'store'}"
    with provstore.open(uri) as store:
        store.ingest(hung)
        found = store.diagnose(save=True)
        store.diagnose(save=True)
    provstore.rebuild(uri)
    with provstore.open(uri, read_only=True) as store:
        rows = store.cypher(
            "MATCH (f:Finding)-[:WAS_DERIVED_FROM]->(d:Dump)"
            " RETURN f.culprits AS ranks, f.summary AS text ORDER BY text"
        ).rows
        assert store.check().clean
    assert [list(row["ranks"]) for row in rows[:1]] == [[2]]
    assert {row["text"] for row in rows} == {finding.summary for finding in found.findings}


def test_findings_cannot_be_saved_through_a_read_only_store(hung: Path, tmp_path: Path) -> None:
    uri = f"embedded:{tmp_path / 'store'}"
    with provstore.open(uri) as store:
        store.ingest(hung)
    with provstore.open(uri, read_only=True) as store, pytest.raises(ConfigError, match="reading only"):
        store.diagnose(save=True)


def test_a_graph_that_fell_behind_catches_up_when_it_is_opened(hung: Path, tmp_path: Path) -> None:
    place = tmp_path / "store"
    with provstore.open(f"embedded:{place}") as store:
        store.ingest(hung)
        expected = store.trace("tensor:1:3:out").to_dict()
    (place / "graph.kgl").unlink()
    with provstore.open(f"embedded:{place}", read_only=True) as store:
        assert store.trace("tensor:1:3:out").to_dict() == expected
    with Journal.open(place / "journal", writable=False) as journal:
        graph = open_store(f"embedded:{place}", writable=False)
        assert behind(graph, journal) == 0
        graph.close()


def test_a_reader_beside_a_writer_says_that_its_answer_may_lack_something(hung: Path, tmp_path: Path) -> None:
    place = tmp_path / "store"
    with provstore.open(f"embedded:{place}") as store:
        store.ingest(hung, run="one")
    with provstore.open(f"embedded:{place}") as writer:
        writer.ingest(hung, run="two")
        with provstore.open(f"embedded:{place}", read_only=True) as reader:
            trace = reader.trace("tensor:1:3:out", run="one")
    assert not trace.complete
    assert trace.reason == "graph_behind_journal"
    assert "behind its journal" in trace.notes[-1]


def test_a_second_writer_is_refused_by_name(tmp_path: Path) -> None:
    uri = f"embedded:{tmp_path / 'store'}"
    code = f"import provstore; provstore.open({uri!r})"
    with provstore.open(uri):
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert other.returncode != 0
    assert "StoreError" in other.stderr
    assert "is being written by process" in other.stderr


def test_an_unknown_query_or_parameter_is_named(hung: Path) -> None:
    with provstore.open("memory:") as store:
        store.ingest(hung)
        with pytest.raises(ConfigError, match="no such query"):
            store.query("collectives/nothing")
        with pytest.raises(ConfigError, match="colour not known"):
            store.query("runs/list", colour="red")
        with pytest.raises(ConfigError, match="call missing"):
            store.query("collectives/stack_of_call")
        with pytest.raises(InputError, match="the store holds none"):
            store.query("collectives/calls_by_group", run="other")


def test_an_export_to_a_file_appears_whole_or_not_at_all(hung: Path, tmp_path: Path) -> None:
    with provstore.open("memory:") as store:
        store.ingest(hung)
        report = store.export("prov-json", to=tmp_path / "run.json")
        assert report.verified
        with pytest.raises(InputError, match="cannot be written"):
            store.export("prov-n", to=tmp_path / "missing" / "run.provn")
        with pytest.raises(ConfigError, match="known are"):
            store.export("word", to=tmp_path / "run.doc")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hung", "run.json"]
    assert prov.model.ProvDocument.deserialize(str(tmp_path / "run.json"), format="json").get_records()


def test_a_document_of_the_prov_library_goes_in_and_comes_out_equal() -> None:
    document = prov.model.ProvDocument()
    document.add_namespace("ex", "https://example.org/")
    document.entity("ex:weights", {"ex:step": 12})
    document.activity("ex:training")
    document.wasGeneratedBy("ex:weights", "ex:training")
    with provstore.open("memory:") as store:
        report = store.ingest(document)
        assert report.files[0].records == 3
        assert store.ingest(document).files[0].status == "known"
        trace = store.trace("https://example.org/weights")
        assert [node.iri for node in trace.nodes] == ["https://example.org/training"]
        text = io.StringIO()
        store.export("prov-json", to=text)
    again = prov.model.ProvDocument.deserialize(content=text.getvalue(), format="json")
    assert again == document
    assert document == again


def test_a_trace_becomes_a_document_of_the_prov_library(hung: Path) -> None:
    with provstore.open("memory:") as store:
        store.ingest(hung)
        document = store.trace("tensor:1:3:out").to_prov()
    kinds = {type(record).__name__ for record in document.get_records()}
    assert {"ProvEntity", "ProvActivity", "ProvGeneration", "ProvUsage"} <= kinds


def test_one_file_of_another_run_under_one_rank_is_refused_with_the_remedy(hung: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    simulate(Scenario("ddp", Shape3D(world=4, steps=3), seed=9)).write(other)
    strange = next(path for path in other.iterdir() if path.name.endswith("_1"))
    with provstore.open("memory:") as store:
        store.ingest(hung, run="job")
        report = store.ingest(strange, run="job")
        assert [file.status for file in report.files] == ["refused"]
        assert "--attempt" in str(report.files[0].reason)
        assert strange.name in str(report.files[0].reason)
        assert [culprit.rank for culprit in store.diagnose().findings[0].culprits] == [2]


def test_a_closed_journal_directory_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is none here"):
        provstore.open(f"embedded:{tmp_path / 'nothing'}", read_only=True)


def test_equal_bytes_of_two_ranks_are_two_dumps(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    simulate(Scenario("ddp", Shape3D(world=4, steps=3), (Fault("stuck", 2, 0.5),))).write(folder)
    for rank in (5, 6):
        (folder / f"nccl_trace_rank_{rank}").write_bytes(b"")
    expected = provstore.diagnose(folder).to_dict()
    with provstore.open("memory:") as store:
        report = store.ingest(folder)
        assert report.count("refused") == 2
        assert len(store.query("dumps/refused").rows) == 2
        assert store.diagnose().to_dict()["undecided"] == expected["undecided"]
        assert store.ingest(folder).facts == 0


def test_a_tensor_record_is_taken_in_once_and_names_the_origin_of_a_nan(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    simulate(Scenario("ddp", Shape3D(world=2, steps=2))).write(folder)
    for rank in range(2):
        lines = [
            {
                "rank": rank,
                "group": "0",
                "seq": seq,
                "side": side,
                "finite": seq < 3 or ((rank, side) == (0, "in") and seq == 3),
            }
            for seq in range(1, 6)
            for side in ("in", "out")
        ]
        text = "\n".join(
            json.dumps({"schema": "provstore-tensor-record/1", "nan_count": 0, "inf_count": 0, **x}) for x in lines
        )
        (folder / f"tensor_rank_{rank}.jsonl").write_text(text + "\n")
    with provstore.open("memory:") as store:
        store.ingest(folder)
        assert store.ingest(folder).facts == 0
        answer = store.diagnose(about="nan")
    (finding,) = answer.findings
    assert (finding.kind, [culprit.rank for culprit in finding.culprits], finding.seq) == ("nan_origin", [1], 3)


@pytest.mark.parametrize(
    "names", [{"attempt": "1"}, {"attempt": True}, {"attempt": -1}, {"attempt": 2**40}, {"run": ""}]
)
def test_a_name_that_could_not_be_read_back_never_reaches_the_journal(hung: Path, names: dict[str, object]) -> None:
    with provstore.open("memory:") as store:
        with pytest.raises(ConfigError, match="not a n"):
            store.ingest(hung, **names)  # type: ignore[arg-type]
        assert store.info().position == 0


def test_an_interruption_during_a_write_loses_nothing(
    hung: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between the journal's acknowledgement and the graph: the next open brings the graph up to date."""
    uri = f"embedded:{tmp_path / 'store'}"
    with provstore.open(uri) as store:
        real, calls = store._graph.write, iter(range(100))

        def interrupted(*arguments: object) -> object:
            if next(calls) == 2:
                raise KeyboardInterrupt
            return real(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(store._graph, "write", interrupted)
        report = store.ingest(hung, run="job")
    assert report.interrupted
    with provstore.open(uri) as store:
        assert store.check().clean
        assert store.ingest(hung, run="job").count("new") == 1
        assert [culprit.rank for culprit in store.diagnose().findings[0].culprits] == [2]
        assert store.check().clean


def test_a_graph_that_knows_more_than_its_journal_is_neither_written_nor_lost(hung: Path, tmp_path: Path) -> None:
    place = tmp_path / "store"
    with provstore.open(f"embedded:{place}") as store:
        store.ingest(hung, run="job")
    segment = next((place / "journal").glob("seg-*.pvj"))
    content = segment.read_bytes()
    segment.write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreError, match="acked-lost"):
        provstore.open(f"embedded:{place}")
    report = provstore.rebuild(f"embedded:{place}")
    assert "acked-lost" in report.problems[0]
    assert list(place.glob("graph-*.kgl"))
    with provstore.open(f"embedded:{place}") as store:
        store.ingest(hung, run="job")
        assert store.check().clean


def test_a_graph_of_another_journal_is_refused(hung: Path, tmp_path: Path) -> None:
    place = tmp_path / "store"
    with provstore.open(f"embedded:{place}") as store:
        store.ingest(hung, run="job")
    with pytest.raises(StoreError, match="another journal"):
        provstore.open(f"embedded:{place}", journal=tmp_path / "other")


def test_an_export_follows_links_keeps_modes_and_writes_into_pipes(hung: Path, tmp_path: Path) -> None:
    real, link, pipe = tmp_path / "real.provn", tmp_path / "link.provn", tmp_path / "pipe"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    with provstore.open("memory:") as store:
        store.ingest(hung)
        store.export("prov-n", to=link)
        store.export("prov-n", to=pipe)
    output, _ = reader.communicate(timeout=30)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert real.read_bytes() == output
    assert output.startswith(b"document")


def test_a_pipe_given_to_ingest_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rank_0")
    with provstore.open("memory:") as store:
        assert [file.status for file in store.ingest(tmp_path / "rank_0").files] == ["refused"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    """A signed run, and one beside it that differs in its one call."""
    signed = signed_capture(tmp_path_factory.mktemp("doors"))
    capture = RankCapture(signed.store.parent / "other", 0, 1, run="other")
    capture.begin(0)
    capture.call(0, floats(5.0, 6.0))
    capture.end(0)
    record([capture.write()], store=f"embedded:{signed.store}")
    return signed


@pytest.fixture
def doors(recorded: Signed) -> Iterator[provstore.Store]:
    with provstore.open(f"embedded:{recorded.store}", read_only=True) as store:
        yield store


def test_an_epoch_is_replayed_from_an_open_store_as_the_command_does(
    doors: provstore.Store, recorded: Signed, capsys: pytest.CaptureFixture[str]
) -> None:
    belief = provstore.belief(public_keys=[recorded.public], state=recorded.store.parent / "anchors")
    found = doors.replay("job", 0, rank=0, belief=belief)
    words = ["--json", "--store", f"embedded:{recorded.store}", "replay", "--run", "job", "--epoch", "0", "--rank", "0"]
    command_line([*words, "--public-key", str(recorded.public)])
    said = json.loads(capsys.readouterr().out)
    assert json.loads(json.dumps(found.to_dict())) == said
    assert found.trust.axes["graph"] == "ok"
    assert [one.op for one in found.actions] == ["all_reduce"]


def test_a_store_that_is_open_for_writing_is_replayed_without_a_second_lock(recorded: Signed, tmp_path: Path) -> None:
    shutil.copytree(recorded.store, tmp_path / "store")
    with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
        assert store.replay("job", 0).plan.epoch == 0
        assert store.diff("job", "other").divergence.first_divergence is not None
        switch(f"embedded:{tmp_path / 'store'}", on=True, reason="look first")
        with pytest.raises(SafeModeError, match="look first"):
            store.replay("job", 0, execute=True)


def test_arguments_of_a_replay_that_do_not_fit_are_refused(doors: provstore.Store) -> None:
    with pytest.raises(ConfigError, match="--instance"):
        doors.replay("job", 0, instance="gloo/0@0/1")
    with pytest.raises(InputError, match="epoch 4: not stored"):
        doors.replay("job", 4)


def test_two_runs_are_compared_from_an_open_store(doors: provstore.Store) -> None:
    found = doors.diff("job", "other")
    assert (found.exit_code, found.epochs) == (1, (0,))
    assert found.divergence.first_divergence.kind in {"shape", "input-digest"}
    with pytest.raises(ConfigError, match="less than 0"):
        doors.diff("job", "other", context=-1)


def test_evidence_is_listed_shown_and_exported_from_an_open_store(
    doors: provstore.Store, recorded: Signed, tmp_path: Path
) -> None:
    listed = {one.run: one for one in doors.list_evidence().runs}
    assert (listed["job"].closed, listed["other"].closed, listed["other"].bundles) == (True, False, ())
    assert [one.run for one in doors.list_evidence("job", epoch=0, mode="full").runs] == ["job"]
    item = doors.show_evidence("record:job:0")
    assert json.loads(item.raw)["kind"] in {"action", "ingest"}
    report = doors.export_evidence(tmp_path / "out", "job", public_keys=[recorded.public])
    belief = provstore.belief(public_keys=[recorded.public], state=tmp_path / "anchors")
    (answer,) = provstore.verify(tmp_path / "out", belief=belief)
    assert answer.counts["records"] == listed["job"].records == report.records
    assert doors.list_evidence(finding="nan-origin").to_dict()["runs"] == []
    with pytest.raises(InputError):
        doors.list_evidence(finding="no-such-code")
    with pytest.raises(ConfigError, match="--limit"):
        doors.list_evidence(finding="nan-origin", limit=-1)
    with pytest.raises(InputError, match="neither a bundle nor a record"):
        doors.show_evidence("record:job:999")


def test_agents_and_runs_are_joined_from_an_open_store_and_a_reader_accepts_nothing(doors: provstore.Store) -> None:
    assert doors.join().exit_code == 3
    with pytest.raises(ConfigError, match="reading only"):
        doors.join(accept=True)


def test_every_public_method_of_a_store_says_what_it_does_and_what_it_raises() -> None:
    for name, method in inspect.getmembers(provstore.Store, inspect.isfunction):
        if not name.startswith("_"):
            text = inspect.getdoc(method)
            assert text, name
            arguments = set(inspect.signature(method).parameters) - {"self", "store"}
            if len(arguments) > 2:
                assert "Args:" in text, name
                assert {one for one in arguments if f" {one}:" not in text} <= {"parameters"}, name
