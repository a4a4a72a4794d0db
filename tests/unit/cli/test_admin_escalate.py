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
    assert "esc-0: run is recorded in full from step 44, for 50 steps" in answer.out
    (capture / "capture-rank0.jsonl").write_text('{"t":"step","step":60}\n')
    said = json.loads(command(*ordered, "--steps", "50", "--json").out)["ordered"]
    assert (said["number"], said["from_step"], said["steps"]) == (0, 43, 69), "to step 112: 60 + 2 + 50"
    (only,) = orders.read(capture)
    assert (only.trigger, only.rule, only.reason) == ("manual", "P1", "loss looks odd")

    answer = command("admin", "deescalate", "--scope", "run", "--directory", capture)
    assert (answer.code, answer.out.strip()) == (0, "esc-0: run: ended")
    assert orders.read(capture)[0].is_closed


def test_an_order_before_the_first_step_says_that_it_begins_with_it(command, home, capture):
    (capture / "capture-rank0.jsonl").write_text('{"t":"epoch","epoch":7,"step":0}\n')
    ordered = ("admin", "escalate", "--scope", "run", "--reason", "y", "--directory", capture, "--steps", "50")
    answer = command(*ordered)
    assert "esc-0: run is recorded in full from the second step that is recorded, for 50 steps" in " ".join(
        answer.out.split()
    )


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


def rank(directory, number, *more, world=2, groups=(), host="node-a", restart=""):
    header = {"t": "header", "schema": "provstore-capture/1", "rank": number, "world_size": world, "host": host,
              "groups": [{"name": "0", "desc": "default_pg", "group": "0@0-1"}, *groups]}  # fmt: skip
    lines = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in (header, *more))
    (directory / f"capture-rank{number}{restart}.jsonl").write_text(lines)


END, STEP = {"t": "end", "epoch": 0}, {"t": "step", "step": 3}


def given(command, directory, scope, **more):
    return command("admin", "escalate", "--scope", scope, "--reason", "y", "--directory", directory, *more)


@pytest.mark.parametrize(
    ("scope", "why"),
    [
        ("rank:2", "there is no rank 2: the job has ranks 0-1"),
        ("host:node-c", "there is no host node-c: the ranks are on node-a, node-b"),
        ("group:tp", "no rank has told of a group tp so far: known are 0, 0@0-1, 1, 1@0-1, default_pg, dp"),
    ],
)
def test_what_the_job_does_not_have_is_refused_with_what_it_has(command, home, tmp_path, scope, why):
    rank(tmp_path, 0, STEP)
    rank(tmp_path, 1, {"t": "group", "name": "1", "desc": "dp", "group": "1@0-1"}, host="node-b")
    answer = given(command, tmp_path, scope)
    assert (answer.code, answer.out) == (2, "")
    assert why in " ".join(answer.err.split())
    assert not (tmp_path / orders.FILE).exists()
    for known in ("rank:1", "host:node-b", "group:dp", "group:default_pg", "run"):
        assert given(command, tmp_path, known).code == 0


@pytest.mark.parametrize("name", ["default", "default_pg", "0", "0@0-1"])
def test_a_group_is_called_as_in_targets_and_an_order_states_what_the_job_knows(command, home, tmp_path, name):
    rank(tmp_path, 0, STEP)
    rank(tmp_path, 1)
    assert given(command, tmp_path, f"group:{name}").code == 0
    (order,) = orders.read(tmp_path)
    assert order.scope == ("group:default_pg" if name == "default" else f"group:{name}")
    assert command("admin", "deescalate", "--scope", f"group:{name}", "--directory", tmp_path).code == 0
    assert orders.read(tmp_path)[0].is_closed


def test_a_job_of_which_every_rank_has_ended_takes_no_order_and_one_that_was_restarted_does(command, home, tmp_path):
    rank(tmp_path, 0, STEP, END)
    rank(tmp_path, 1, STEP)
    assert given(command, tmp_path, "run").code == 0
    rank(tmp_path, 1, STEP, END)
    answer = given(command, tmp_path, "run")
    assert (answer.code, "the job has ended" in answer.err) == (2, True)
    rank(tmp_path, 1, restart=".1")
    assert given(command, tmp_path, "run").code == 0


def test_where_a_rank_has_told_nothing_yet_only_its_number_is_judged(command, home, tmp_path):
    rank(tmp_path, 0, END, world=2)
    assert given(command, tmp_path, "host:node-z").code == 0
    assert given(command, tmp_path, "group:late").code == 0
    assert given(command, tmp_path, "rank:7").code == 2


def test_safe_mode_refuses_an_order_and_not_the_end_of_one(command, home, capture):
    journal = home / "journal"
    journal.mkdir(parents=True)
    ordered = ("admin", "escalate", "--scope", "run", "--reason", "y", "--directory", capture, "--journal", journal)
    assert command(*ordered).code == 0
    assert command("admin", "safe-mode", "on", "--reason", "copying", "--journal", journal).code == 0
    answer = command(*ordered)
    assert (answer.code, "admin escalate: refused by safe mode" in " ".join(answer.err.split())) == (6, True)
    assert command("admin", "deescalate", "--directory", capture, "--journal", journal).code == 0


def test_the_reasons_of_an_order_and_of_its_extension_are_both_kept(command, home, capture):
    ordered = ("admin", "escalate", "--scope", "run", "--directory", capture, "--steps", "9", "--reason")
    command(*ordered, "loss looks odd")
    answer = command(*ordered, "host was replaced")
    assert "before, for: loss looks odd" in " ".join(answer.out.split())
    (only,) = orders.read(capture)
    assert only.reasons == ("loss looks odd", "host was replaced")


def test_an_order_for_an_epoch_says_that_it_ends_with_the_epoch(command, home, capture):
    answer = command("admin", "escalate", "--scope", "epoch", "--reason", "rest", "--directory", capture)
    assert (answer.code, answer.out.strip()) == (
        0,
        "esc-0: epoch is recorded in full from step 44, until the epoch ends",
    )
