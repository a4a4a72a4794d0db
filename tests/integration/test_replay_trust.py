"""replay refuses evidence that does not hold: blobs and graph of the epoch as well as signed bytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from captures import RankCapture, floats
from signed_captures import Signed, packed, signed_capture

import provstore
from provstore.api import replaying
from provstore.api.emitting import emit
from provstore.api.recording import record
from provstore.api.replaying import Replay, ReplayRequest, replay
from provstore.api.stored_runs import StoredRun, Trustworthiness
from provstore.cli._app import run as command_line
from provstore.errors import ConfigError, TrustError
from provstore.model.evidence import Observation
from provstore.stores import open_store
from tests.evidence_graphs import door


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    return signed_capture(tmp_path_factory.mktemp("replayed"))


@pytest.fixture
def signed(made: Signed, tmp_path: Path) -> Signed:
    shutil.copytree(made.store, tmp_path / "store")
    return Signed(tmp_path / "store", made.key)


def replayed(signed: Signed, *, epoch: int = 0, uri: str | None = None, **more: object) -> Replay:
    belief = provstore.belief(public_keys=[signed.public], state=signed.store.parent / "anchors")
    request = ReplayRequest("job", epoch, **more)
    return replay(request, belief=belief, store=uri or f"embedded:{signed.store}", journal=signed.journal)


def change(signed: Signed, text: str, **parameters: object) -> None:
    graph = open_store(f"embedded:{signed.store}", writable=True)
    door(graph)(text, **parameters)
    graph.close()


def test_graph_and_blobs_of_an_epoch_that_holds_are_ok(made: Signed) -> None:
    found = replayed(made)
    assert (found.trust.axes["graph"], found.trust.axes["journal"], found.trust.is_ignored) == ("ok", "ok", False)
    assert found.trust.verdict == "limited"


@pytest.mark.parametrize(
    "edit",
    [
        "MATCH (a:Action {run: 'job'}) SET a.mode = 'delta'",
        "MATCH (r:Record {run: 'job', leaf_index: 0}) SET r.record = '{}'",
        "MATCH (e:EpochBundle {run: 'job'}) SET e.train_epoch = 7",
        "MATCH (a:Action {run: 'job'})-[e:USED]->() DELETE e",
        "MATCH (r:Record {run: 'job', leaf_index: 0}) DETACH DELETE r",
        "CREATE (:Element:Activity:Action {iri: 'x', run: 'job', attempt: 0, leaf_index: 0})",
    ],
)
def test_a_graph_that_says_something_else_of_the_epoch_is_refused(signed: Signed, edit: str) -> None:
    change(signed, edit)
    with pytest.raises(TrustError, match="graph-mismatch") as refused:
        replayed(signed)
    assert refused.value.code == "graph-mismatch"
    assert refused.value.exit_code == 1


def test_a_refused_epoch_is_used_where_that_is_asked_for_and_every_answer_says_so(signed: Signed) -> None:
    change(signed, "MATCH (a:Action {run: 'job'}) SET a.mode = 'delta'")
    found = replayed(signed, unverified=True)
    assert found.trust.is_ignored
    assert found.trust.axes["graph"] == "fault"
    assert found.to_dict()["unverified"] is True


def test_another_epoch_is_not_refused_for_what_the_graph_says_of_this_one(signed: Signed, tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "more", 0, 1)
    for epoch in (1, 2):
        capture.begin(epoch)
        capture.call(epoch, floats(3.0, 4.0))
        capture.end(epoch)
    both = Signed(tmp_path / "two", signed.key)
    record([capture.write()], store=f"embedded:{both.store}", signer=signed.key)
    with provstore.open(f"embedded:{both.store}"):
        pass  # makes the graph
    change(both, "MATCH (a:Action {run: 'job', train_epoch: 2}) SET a.mode = 'full'")
    assert replayed(both, epoch=1).trust.axes["graph"] == "ok"
    with pytest.raises(TrustError, match="graph-mismatch"):
        replayed(both, epoch=2)


def test_the_graph_is_left_out_when_asked_and_never_ok_then(signed: Signed) -> None:
    change(signed, "MATCH (a:Action {run: 'job'}) SET a.mode = 'delta'")
    found = replayed(signed, source="journal")
    assert found.trust.axes["graph"] == "not-checked"
    assert "the graph was not compared: as asked" in found.trust.findings
    with pytest.raises(ConfigError, match="--source"):
        ReplayRequest("job", 0, source="graph")


def test_without_a_graph_the_answer_says_that_none_was_compared(signed: Signed) -> None:
    (signed.store / "graph.kgl").unlink()
    found = replayed(signed)
    assert found.trust.axes["graph"] == "not-checked"
    assert any("graph.kgl is not there" in one for one in found.trust.findings)


def later(signed: Signed, folder: Path) -> None:
    """Record another run, of which the graph then knows nothing yet."""
    capture = RankCapture(folder, 0, 1, run="other")
    capture.begin(0)
    capture.call(0)
    capture.end(0)
    record([capture.write()], store=f"embedded:{signed.store}", signer=signed.key)


def test_a_graph_behind_its_journal_catches_up_first(signed: Signed, tmp_path: Path) -> None:
    later(signed, tmp_path / "more")
    assert replayed(signed).trust.axes["graph"] == "ok"


def test_a_graph_that_cannot_catch_up_is_not_compared_and_said_to_be(signed: Signed) -> None:
    with provstore.open(f"embedded:{signed.store}") as writer:
        writer.record([Observation("loss", {"value": 1.0})], run="other")
        found = replayed(signed)
    assert (found.trust.axes["graph"], found.trust.verdict, found.trust.is_ignored) == ("unknown", "unknown", False)
    assert any(one.startswith("check-unfinished: The graph is 1 batch") for one in found.trust.findings)


@pytest.mark.parametrize("role", ["snapshot", "rng-state", "statistics"])
def test_an_altered_blob_of_the_epoch_is_refused(signed: Signed, role: str) -> None:
    signed.blob(role).write_bytes(packed(b"another"))
    with pytest.raises(TrustError, match=r"altered|cut off") as refused:
        replayed(signed)
    assert refused.value.code == "subject-mismatch"
    found = replayed(signed, unverified=True)
    assert found.trust.is_ignored


@pytest.mark.parametrize("role", ["snapshot", "rng-state", "statistics"])
def test_a_missing_blob_refuses_nothing_and_is_named(signed: Signed, role: str) -> None:
    sha256 = signed.sha256(role)
    signed.blob(role).unlink()
    found = replayed(signed)
    assert not found.trust.is_ignored
    assert any(sha256 in one and "missing" in one for one in found.trust.findings)
    assert (found.trust.verdict, found.trust.axes["journal"]) == ("limited", "fault")
    assert (found.plan.item("rng").state == "missing") is (role == "rng-state")


def test_a_table_of_the_plan_that_is_missing_is_named_and_its_item_is_missing(signed: Signed) -> None:
    sha256 = signed.sha256("headers")
    signed.blob("headers").unlink()
    found = replayed(signed)
    assert found.plan.item("environment").state == "missing"
    assert sha256[:12] in found.plan.item("environment").detail
    assert [(one.sha256, one.state) for one in found.lost] == [(sha256, "missing")]
    assert found.exit_code == 3


def test_without_a_key_nothing_is_judged(signed: Signed) -> None:
    change(signed, "MATCH (a:Action {run: 'job'}) SET a.mode = 'delta'")
    found = replay(ReplayRequest("job", 0), store=f"embedded:{signed.store}")
    assert (found.trust.verdict, found.trust.axes) == ("not-verified", {})


def test_the_command_refuses_with_exit_1_and_takes_the_journal_alone(
    signed: Signed, capsys: pytest.CaptureFixture[str]
) -> None:
    change(signed, "MATCH (a:Action {run: 'job'}) SET a.mode = 'delta'")
    words = ["--json", "--store", f"embedded:{signed.store}", "replay", "--run", "job", "--epoch", "0"]
    words += ["--public-key", str(signed.public)]
    assert command_line(words) == 1
    assert "graph-mismatch" in capsys.readouterr().err
    assert command_line([*words, "--source", "journal"]) == 3
    said = json.loads(capsys.readouterr().out)
    assert said["verification"]["axes"]["graph"] == "not-checked"


def test_a_graph_on_a_server_is_compared_as_well(signed: Signed, empty_neo4j: str) -> None:
    with provstore.open(empty_neo4j, journal=signed.journal):
        pass  # catches up with the journal
    assert replayed(signed, uri=empty_neo4j).trust.axes["graph"] == "ok"
    graph = open_store(empty_neo4j, writable=True)
    door(graph)("MATCH (a:Action {run: 'job'}) SET a.mode = 'delta'")
    graph.close()
    with pytest.raises(TrustError, match="graph-mismatch"):
        replayed(signed, uri=empty_neo4j)


def test_a_re_run_whose_evidence_does_not_hold_is_refused_and_states_nothing_when_used_all_the_same(
    signed: Signed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = RankCapture(tmp_path / "again", 0, 1, run="again")
    capture.begin(0)
    capture.call(0, floats(1.0))
    capture.end(0)
    record([capture.write()], store=f"embedded:{signed.store}", signer=signed.key)

    def judged(run: StoredRun, belief: object, *, unverified: bool = False, look: object = None) -> Trustworthiness:
        """Say of the re-run alone that it does not hold."""
        if run.run == "again" and not unverified:
            raise TrustError("again: attempt 0: altered", code="fault")
        return Trustworthiness("fault" if run.run == "again" else "pass", is_ignored=run.run == "again")

    monkeypatch.setattr(replaying, "trustworthiness", judged)
    assert not replayed(signed, source="journal").is_unverified, "the run itself holds"
    with pytest.raises(TrustError, match="again: attempt 0: altered"):
        replayed(signed, source="journal", against="again")
    found = replayed(signed, source="journal", against="again", unverified=True)
    said = found.to_dict()
    assert (said["unverified"], said["rerun_verification"]["verdict"]) == (True, "fault")
    where = {"store": f"embedded:{signed.store}", "journal": signed.journal}
    emitted = emit(found, tmp_path / "out", version="1", **where)
    assert "nothing is stated of evidence that does not hold" in emitted.notes
