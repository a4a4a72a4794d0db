"""The page about records of training names every member that a record may have, and every line of a capture file."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from provstore.api import control
from provstore.capture.live_calls import LiveGroup
from provstore.capture.recording import job_header, tensor_events
from provstore.capture.recording.contents import Content, Side
from provstore.capture.recording.judging import Judged
from provstore.evidence import recorded_shapes
from provstore.evidence.recording import orders
from provstore.ingest import capture_epochs, replicas
from provstore.ingest.watch_spool import SPOOL
from provstore.model import recording, signals

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "protocol.md").read_text(encoding="utf-8")
RECORDS = PAGE.split("\n## Records of training\n", 1)[1]


def section(title):
    return RECORDS.split(f"\n### {title}\n", 1)[1].split("\n### ", 1)[0].split("\n## ", 1)[0]


def part(title):
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def told(line, title="Capture directory"):
    """Everything that the row of a line names."""
    (rows,) = tables(part(title))
    return set(re.findall(r"`([a-z_]+)`", rows[line]))


def tables(text):
    """First cells and second cells of each table."""
    found = [[]]
    for line in text.splitlines():
        if line.startswith("| `"):
            name, meaning = re.match(r"\| `([^`]+)` \| (.*) \|", line).groups()
            found[-1].append((name, meaning))
        elif found[-1]:
            found.append([])
    return [dict(rows) for rows in found if rows]


@pytest.mark.parametrize("kind", recorded_shapes.OWN)
def test_every_member_of_a_kind_is_named(kind):
    own = set(recorded_shapes.OWN[kind]) - {"at", "rank"}

    assert set(tables(section(kind))[0]) == own


def test_every_member_of_training_is_named():
    assert set(tables(section("action"))[1]) == {*recorded_shapes.TRAINING, *recorded_shapes.TRAINING_NEEDED}


def test_what_may_be_absent_says_so_and_nothing_else_does():
    top, training = tables(section("action"))
    absent = {name for name, meaning in {**top, **training}.items() if meaning.startswith("may be absent")}

    assert absent == {*recorded_shapes.OPTIONAL["action"], *recorded_shapes.TRAINING} - {"epoch"}


def test_every_line_of_a_capture_file_that_is_read_is_named():
    (lines,) = tables(part("Capture directory"))
    known = {"call", "tensor", "checkpoint", "rng", "escalation", "fault", "epoch-end"}

    assert set(lines) == {*known, *capture_epochs._TABLES, *capture_epochs._PASSED_OVER}


def test_every_member_of_the_line_of_a_group_is_named():
    group = LiveGroup("0", "gloo", (0, 1), "default_pg", lambda: None)
    assert set(job_header.group_members(group)) <= told("group")


def test_every_member_of_the_line_of_a_tensor_is_named():
    policy = recording.RecordingPolicy("full", "statistical anomaly detected", "P2")
    judged = Judged("read", policy, ("rank:0/esc-0",))
    side = Side(
        [[1]], ["float32"], 4, is_finite=True, digest="sha256:0", kind="k", statistics="{}", snapshot=[["f", 0]]
    )
    content = Content(None, side)
    event = tensor_events._Event("tensor.grad", "w", 1, judged, content, 0, 0, carried_by=["a"], uncarried="b")

    members = set(tensor_events._line(event, content, "full"))
    assert {"snap", "carried_by", "uncarried", "escalations", "stats"} <= members
    assert members - {"t", "at_ns", "epoch", "step"} <= told("tensor")


@pytest.fixture
def ordered(tmp_path):
    """A directory in which an operator ordered something, made it last longer, and ended it."""
    control.escalate(tmp_path, "run", "a")
    control.escalate(tmp_path, "run", "b", 5)
    control.deescalate(tmp_path, "run")
    return tmp_path


def test_every_member_of_an_order_is_named_and_its_source_is_spelled_as_it_is(ordered):
    (members,) = tables(part("Orders"))
    (said,) = json.loads((ordered / orders.FILE).read_text())["escalations"]
    assert set(said) == set(members)
    assert re.fullmatch(r"[^@]+@[^@]+", said["source"])
    assert "`user@host`" in members["source"]


def test_every_line_that_a_watcher_leaves_is_named_with_its_members(ordered):
    (rows,) = tables(part("What a watcher sees"))
    assert set(rows) == set(signals.SEEN)
    for line in map(json.loads, (ordered / SPOOL).read_text().splitlines()):
        assert set(line) - {"schema", "seen_ns", "t"} <= told(line["t"], "What a watcher sees")
    for kind, members in {
        signals.SIGNAL: {one.name for one in fields(recording.ExternalSignal)},
        signals.DISAGREEMENT: {one.name for one in fields(replicas.Disagreement)},
        signals.PROBLEM: {*(one.name for one in fields(recording.SignalProblem)), "code"},
        signals.ORDER: {*(one.name for one in fields(orders.Order)), "because"},
    }.items():
        assert members == told(kind, "What a watcher sees") - {"closed"}, kind
