"""Escalations that an operator orders for a running job."""

from __future__ import annotations

import json

import pytest

from provstore.evidence.recording import orders


@pytest.fixture
def capture(tmp_path):
    directory = tmp_path / "capture"
    directory.mkdir()
    (directory / "capture-rank0.jsonl").write_text('{"t":"step","step":41}\n')
    return directory


def test_an_order_opens_extends_and_closes_by_command(command, home, capture):
    ordered = ("admin", "escalate", "--scope", "run", "--reason", "loss looks odd", "--directory", capture)
    answer = command(*ordered, "--steps", "50")
    assert (answer.code, answer.err) == (0, "")
    assert "esc-0: run is recorded in full from step 43, for 50 steps" in answer.out
    (capture / "capture-rank0.jsonl").write_text('{"t":"step","step":60}\n')
    said = json.loads(command(*ordered, "--steps", "50", "--json").out)["ordered"]
    assert (said["number"], said["from_step"], said["steps"]) == (0, 43, 69), "to step 112: 60 + 2 + 50"
    (only,) = orders.read(capture)
    assert (only.trigger, only.rule, only.reason) == ("manual", "P1", "loss looks odd")

    answer = command("admin", "deescalate", "--scope", "run", "--directory", capture)
    assert (answer.code, answer.out.strip()) == (0, "esc-0: run: ended")
    assert orders.read(capture)[0].is_closed


def test_the_directory_may_stand_in_the_environment(command, home, capture, monkeypatch):
    monkeypatch.setenv("PROVSTORE_CAPTURE_DIRECTORY", str(capture))
    assert command("admin", "escalate", "--scope", "rank:2", "--reason", "new host").code == 0
    assert orders.read(capture)[0].scope == "rank:2"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["escalate", "--scope", "rank:x", "--reason", "y"], "rank:x: --scope"),
        (["escalate", "--scope", "all", "--reason", "y"], "all: --scope"),
        (["escalate", "--scope", "run", "--reason", " "], "--reason"),
        (["deescalate"], "nothing is ordered"),
        (["deescalate", "--scope", "run"], "nothing is ordered"),
    ],
)
def test_a_mistake_is_one_clear_error(command, home, capture, arguments, text):
    answer = command("admin", *arguments, "--directory", capture)
    assert (answer.code, answer.out) == (2, "")
    assert text in answer.err


def test_a_directory_that_is_missing_or_not_given_is_named(command, home, tmp_path):
    answer = command("admin", "escalate", "--scope", "run", "--reason", "y", "--directory", tmp_path / "gone")
    assert (answer.code, "gone: capture directory: no such directory" in answer.err) == (2, True)
    answer = command("admin", "deescalate")
    assert (answer.code, "PROVSTORE_CAPTURE_DIRECTORY" in answer.err) == (2, True)
