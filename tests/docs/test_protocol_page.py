"""The page about records of training names every member that a record may have, and every line of a capture file."""

import re
from pathlib import Path

import pytest

from provstore.evidence import recorded_shapes
from provstore.ingest import capture_epochs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "protocol.md").read_text(encoding="utf-8")
RECORDS = PAGE.split("\n## Records of training\n", 1)[1]


def section(title):
    return RECORDS.split(f"\n### {title}\n", 1)[1].split("\n### ", 1)[0].split("\n## ", 1)[0]


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
    (lines,) = tables(PAGE.split("\n## Capture directory\n", 1)[1])
    known = {"call", "tensor", "checkpoint", "rng", "escalation", "fault", "epoch-end"}

    assert set(lines) == {*known, *capture_epochs._TABLES, *capture_epochs._PASSED_OVER}
