"""What a watcher saw beside a job is recorded with it: the trail of what was kept in full ends at the XID event."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from captures import FULL, START_NS, RankCapture, floats, healthy

from provstore.analysis.evidence import projection_differences
from provstore.api import control
from provstore.api.diffing import diff
from provstore.api.recording import record
from provstore.cypher import query
from provstore.evidence.keys import PrivateKey
from provstore.evidence.recording import orders
from provstore.ingest.record_signals import stored_signals
from provstore.ingest.upkeep import replay
from provstore.ingest.watching import Sources, Watch
from provstore.journal import Journal
from provstore.model.recording_report import RecordReport
from provstore.queries.evidence import stored_evidence
from provstore.stores import GraphStore
from tests.conftest import Place
from tests.evidence_graphs import door

SCOPE = {"run": "job", "attempt": 0}
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.\n"
DEVICE = {"device": {"pci_bus_id": "00000000:3B:00.0"}}
SEEN_NS = START_NS + 5_000_000_000


def watched(directory: Path, log: Path, *, seen_ns: int = SEEN_NS) -> None:
    """Let a watcher see one XID error."""
    log.write_text("")
    sources = Sources(kernel_log=str(log), replicas=False)
    Watch(directory, sources, now_ns=lambda: seen_ns - 1).poll()
    with log.open("a") as file:
        file.write(XID)
    Watch(directory, sources, now_ns=lambda: seen_ns).poll()


def escalated(directory: Path, run: str = "job") -> Path:
    """One rank on a GPU that fails: what it did then was ordered, and kept, in full."""
    header = {"host": socket.gethostname(), **DEVICE}
    capture = RankCapture(directory, world=1, run=run, header=header)
    capture.begin(0)
    capture.call(0, step=1)
    capture.lines.append(
        {"t": "escalation", "event": "opened", "epoch": 0, "at_ns": SEEN_NS, "number": 0, "trigger": "xid",
         "source": "kernel-log", "scope": "rank:0", "rule": "P1", "opened_ns": SEEN_NS, "opened_step": 2,
         "reason": XID.strip()}
    )  # fmt: skip
    said = capture.call(0, step=2, policy=FULL, mode="full", escalations=["kernel-log/esc-0"])
    for side in ("in", "out"):
        capture.snapshot(said, side, floats(1.0, 2.0))
    capture.end(0)
    return capture.write()


def taken(journal: Path, *paths: Path, **more: Any) -> RecordReport:
    return record(paths, journal=journal, store="memory:", **more)


def signals(journal: Path, run: str = "job", attempt: int = 0) -> list[dict[str, Any]]:
    with Journal.open(journal, writable=False) as opened:
        return list(stored_signals(opened, run, attempt))


def lines_of(directory: Path) -> list[bytes]:
    return (directory / "watch.jsonl").read_bytes().splitlines()


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("watched")
    directory = escalated(place / "capture")
    watched(directory, place / "kern.log")
    return directory


@pytest.fixture
def copy(capture: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(capture, tmp_path / "copy"))


@pytest.fixture(scope="module")
def journal(capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journal]:
    place = tmp_path_factory.mktemp("recorded")
    taken(place / "journal", capture)
    with Journal.open(place / "journal", writable=False) as opened:
        yield opened


@pytest.fixture
def graph(stores: Place, journal: Journal) -> GraphStore:
    store = stores.open()
    replay(store, journal)
    return store


def test_what_was_recorded_in_full_leads_to_the_error_of_the_gpu_in_one_query(graph: GraphStore) -> None:
    (row,) = graph.run(query("read/evidence/why_in_full"), SCOPE)

    assert (row["op"], row["seq"], row["policy_reason"]) == ("all_reduce", 1, "external escalation signal")
    assert (row["trigger"], row["escalated"]) == ("xid", "rank:0")
    assert (row["signal"], row["xid"], row["device"]) == ("kernel-log", 79, "0000:3b:00")
    assert "fallen off the bus" in str(row["summary"])
    assert row["seen_ns"] == SEEN_NS


def test_signals_are_listed_with_the_actions_that_were_deepened_because_of_them(graph: GraphStore) -> None:
    (row,) = graph.run(query("read/evidence/signals"), SCOPE)

    assert (row["kind"], row["source"], row["xid"], row["ranks"]) == ("signal", "kernel-log", 79, [0])
    assert (row["escalations"], row["actions"]) == (1, 1)


def test_a_signal_is_attributed_to_its_rank_and_its_host(graph: GraphStore) -> None:
    (row,) = graph.run(query("read/evidence/signals"), SCOPE)
    base = "https://w3id.org/provstore/id/job/0"
    edges = graph.run(query("read/evidence_bytes/edges"), {"iris": [row["iri"]]})

    assert {(one["relation"], one["target"]) for one in edges} == {
        ("WAS_ATTRIBUTED_TO", f"{base}/rank/0"),
        ("WAS_ATTRIBUTED_TO", f"{base}/host/{socket.gethostname()}"),
    }


def test_signals_in_the_graph_are_what_their_records_give(graph: GraphStore, journal: Journal) -> None:
    found = projection_differences(journal.evidence("job", 0), stored_evidence(graph, "job", 0))

    assert list(found) == []


@pytest.mark.parametrize(
    "change",
    [
        "MATCH (s:ExternalSignal) SET s.xid = 31",
        "MATCH (s:ExternalSignal)-[r:WAS_ATTRIBUTED_TO]->(:Host) DELETE r",
        "MATCH (s:ExternalSignal) DETACH DELETE s",
        "CREATE (:Element:Entity:ExternalSignal {iri: 'https://w3id.org/provstore/id/x', run: 'job', attempt: 0})",
    ],
)
def test_a_signal_that_was_altered_in_the_graph_is_found(graph: GraphStore, journal: Journal, change: str) -> None:
    door(graph)(change)

    assert list(projection_differences(journal.evidence("job", 0), stored_evidence(graph, "job", 0)))


def test_each_line_is_a_record_and_the_bytes_are_kept(capture: Path, tmp_path: Path) -> None:
    (report,) = taken(tmp_path / "journal", capture).signals
    data = (capture / "watch.jsonl").read_bytes()
    found = signals(tmp_path / "journal")

    assert (report.new, report.counts) == (2, {"order": 1, "signal": 1})
    assert [one["line"] for one in found] == [hashlib.sha256(line).hexdigest() for line in lines_of(capture)]
    assert [one["offset"] for one in found] == [0, len(lines_of(capture)[0]) + 1]
    with Journal.open(tmp_path / "journal", writable=False) as opened:
        assert opened.kept(found[0]["file"]["sha256"], found[0]["file"]["bytes"]) == data
    assert (found[1]["because"], found[1]["opens"]) == (found[0]["line"], "kernel-log/esc-0")


def test_the_same_file_again_changes_nothing(copy: Path, tmp_path: Path) -> None:
    before = taken(tmp_path / "journal", copy)
    again = taken(tmp_path / "journal", copy)

    assert again.is_known
    assert again.position == before.position
    assert [one.new for one in again.signals] == [0]


def test_a_longer_copy_adds_only_what_is_new(copy: Path, tmp_path: Path) -> None:
    taken(tmp_path / "journal", copy)
    control.escalate(copy, "run", "its host was replaced", 5)
    (report,) = taken(tmp_path / "journal", copy).signals
    found = signals(tmp_path / "journal")

    assert (report.new, report.counts) == (1, {"order": 2, "signal": 1})
    assert (len(found), found[-1]["trigger"], found[-1]["text"]) == (3, "manual", "its host was replaced")


def test_bundles_do_not_depend_on_a_watcher(copy: Path, tmp_path: Path) -> None:
    with_it = taken(tmp_path / "one", copy)
    (copy / "watch.jsonl").unlink()
    without = taken(tmp_path / "two", copy)

    assert [one.digest for one in with_it.epochs] == [one.digest for one in without.epochs]
    assert without.signals == ()


def test_an_operators_order_is_a_signal_of_its_own(stores: Place, tmp_path: Path) -> None:
    directory = healthy(tmp_path / "capture", epochs=1)
    control.escalate(directory, "rank:1", "loss looks odd")
    control.deescalate(directory, "rank:1")
    taken(tmp_path / "journal", directory)
    store = stores.open()
    with Journal.open(tmp_path / "journal", writable=False) as opened:
        replay(store, opened)
    (row,) = store.run(query("read/evidence/signals"), SCOPE)

    assert (row["kind"], row["trigger"], row["summary"], row["escalations"]) == ("order", "manual", "loss looks odd", 1)
    assert [one["what"] for one in signals(tmp_path / "journal")] == ["order", "closed"]


def test_a_torn_last_line_is_named_and_read_when_it_is_whole(copy: Path, tmp_path: Path) -> None:
    spool = copy / "watch.jsonl"
    whole = spool.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    spool.write_bytes(whole[:-10])
    first = taken(tmp_path / "journal", copy)

    assert f"watch.jsonl: offset {last}: a torn last line of {len(whole) - 10 - last} bytes is left out" in first.notes
    assert first.problems == ()
    spool.write_bytes(whole)
    assert [one.new for one in taken(tmp_path / "journal", copy).signals] == [1]


def test_a_line_that_a_killed_watcher_left_unfinished_stays_a_line_of_its_own(copy: Path, tmp_path: Path) -> None:
    with (copy / "watch.jsonl").open("ab") as file:
        file.write(b'{"schema":"provstore-watch/1","seen_')
    control.escalate(copy, "run", "go on", 5)
    report = taken(tmp_path / "journal", copy)

    assert len(report.problems) == 1
    assert report.signals[0].counts == {"order": 2, "signal": 1}


def line(**more: Any) -> bytes:
    said = {"schema": "provstore-watch/1", "seen_ns": SEEN_NS, "t": "signal", "trigger": "xid", "source": "dcgm"}
    return json.dumps({**said, "line": "x", **more}).encode()


HOSTILE = {
    b"\xff\xfe": "no JSON",
    b"[1]": "no object",
    b"{" * 5_000: "no JSON",
    b'{"schema":"other/1"}': "schema",
    b'{"schema":"provstore-watch/1","schema":"provstore-watch/1"}': "schema",
    line(t="nonsense"): "t: is none of",
    line(seen_ns="now"): "seen_ns",
    line(seen_ns=2**63): "seen_ns",
    line(source=""): "source",
    line(ranks=[-1]): "ranks",
    line(ranks=["0"]): "ranks",
    line(code=-1): "code",
    line(code=True): "code",
    line(host="h" * 5_000): "host",
    line(value="NaN"): "f64:",
    line(t="order", trigger="xid", scope="run", reason="x", number=0, from_step=0, rule="P9", opened_ns=1): "rule",
    line(t="order", trigger="xid", scope="run", reason="x", number=-1, from_step=0, rule="P1", opened_ns=1): "number",
    line(t="problem", kind="unheard-of", text="x", count=1): "kind",
    b" " * 40_000: "40000 bytes",
}


@pytest.mark.parametrize(("bad", "reason"), HOSTILE.items(), ids=[str(at) for at in range(len(HOSTILE))])
def test_a_hostile_line_is_one_problem_with_its_place_and_the_others_are_read(
    copy: Path, tmp_path: Path, bad: bytes, reason: str
) -> None:
    spool = copy / "watch.jsonl"
    good = spool.read_bytes()
    spool.write_bytes(bad + b"\n" + good)
    report = taken(tmp_path / "journal", copy)
    (problem,) = report.problems

    assert problem.startswith("watch.jsonl: offset 0: ")
    assert reason in problem
    assert report.signals[0].counts == {"order": 1, "signal": 1}


def test_a_watch_file_that_is_none_is_refused_and_the_capture_is_recorded(copy: Path, tmp_path: Path) -> None:
    (copy / "watch.jsonl").unlink()
    (copy / "watch.jsonl").mkdir()
    report = taken(tmp_path / "journal", copy)

    assert report.refused == ("watch.jsonl: is no file",)
    assert len(report.epochs) == 1


def test_a_line_belongs_to_the_attempt_that_had_begun(tmp_path: Path) -> None:
    directory = tmp_path / "capture"
    for attempt, rank in ((0, 0), (1, 1)):
        capture = RankCapture(directory, rank, attempt=attempt, header={"started_ns": START_NS + attempt * 10**12})
        capture.begin(0)
        capture.call(0)
        capture.end(0)
        capture.write()
    (directory / "watch.jsonl").write_bytes(line(seen_ns=START_NS + 5) + b"\n" + line(seen_ns=START_NS + 2 * 10**12))
    with (directory / "watch.jsonl").open("ab") as file:
        file.write(b"\n")
    taken(tmp_path / "journal", directory)

    assert [one["offset"] for one in signals(tmp_path / "journal", attempt=0)] == [0]
    assert len(signals(tmp_path / "journal", attempt=1)) == 1


def test_a_source_that_gave_nothing_is_a_registered_finding_of_the_run(stores: Place, tmp_path: Path) -> None:
    directory = healthy(tmp_path / "capture", epochs=1)
    sources = Sources(gcm=("sh", "-c", "echo FAILED to execute; exit 1"), replicas=False)
    for at in range(3):
        Watch(directory, sources, now_ns=lambda at=at: SEEN_NS + at).poll()
    report = taken(tmp_path / "journal", directory)
    store = stores.open()
    with Journal.open(tmp_path / "journal", writable=False) as opened:
        replay(store, opened)
    (row,) = store.run(query("read/evidence/signals"), SCOPE)

    assert [(one.code, one.source) for one in report.signals[0].findings] == [("signal-failed", "gcm")]
    assert (row["kind"], row["code"], row["escalations"]) == ("problem", "signal-failed", 0)
    assert orders.read(directory) == ()


def test_what_was_seen_is_signed_with_the_rest(copy: Path, tmp_path: Path) -> None:
    taken(tmp_path / "journal", copy, signer=PrivateKey.generate())
    with Journal.open(tmp_path / "journal", writable=False) as opened:
        ends = opened.evidence_size("job", 0)
        heads = list(opened.evidence("job", 0).bundles())

        assert ends.bundles == len(heads) >= 1
        assert b'"kind":"external-signal"' in [one.line for one in opened.evidence("job", 0).records()][-2]


def test_a_difference_of_two_runs_stands_beside_the_error_of_a_gpu_near_it(tmp_path: Path) -> None:
    for run, value in (("left", 2.0), ("right", 3.0)):
        capture = RankCapture(tmp_path / run, world=1, run=run, header={"host": socket.gethostname(), **DEVICE})
        capture._clock += (run == "right") * 10**15
        capture.begin(0)
        for step in range(1, 5):
            capture.call(0, floats(1.0, value if step == 3 else 2.0), step=step)
        capture.end(0)
        capture.write()
    # Between the second and the third call of the second run.
    watched(tmp_path / "right", tmp_path / "kern.log", seen_ns=START_NS + 10**15 + 3_500_000)
    taken(tmp_path / "journal", tmp_path / "left", tmp_path / "right")
    found = diff("left", "right", store="memory:", journal=tmp_path / "journal")
    point = found.divergence.first_divergence

    assert point is not None
    assert point.step == 3
    assert [(one.event.run, one.event.what, one.event.scope) for one in found.divergence.correlations] == [
        ("right", "XID 79", "rank:0")
    ]
    assert found.divergence.correlations[0].seconds == pytest.approx(-0.0005)
