"""record of what a later version wrote: exit 4, the version named, and what is known beside it is recorded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from captures import START_NS, RankCapture, healthy

Command = Callable[..., Any]
LATER = "provstore-capture/9"
SAID = "schema: 'provstore-capture/9' is not known; known is provstore-capture/1"


def rewritten(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def watch_line(schema: str) -> str:
    problem = {"source": "dcgm", "kind": "failed", "text": "dcgm: no answer", "count": 1}
    return json.dumps({"schema": schema, "seen_ns": START_NS, "t": "problem", **problem}) + "\n"


def answer(output: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(output)
    return said


def test_a_capture_of_a_later_version_is_exit_4_and_its_version_is_named(command: Command, tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "c", world=1, header={"schema": LATER}).write()
    said = command("record", capture)

    assert said.code == 4
    assert f"capture-rank0.jsonl: {SAID}" in " ".join(said.err.split())


def test_the_ranks_of_the_known_version_are_recorded_beside_one_of_a_later_and_it_is_exit_4(
    command: Command, tmp_path: Path
) -> None:
    capture = healthy(tmp_path / "c", epochs=1)
    rewritten(capture / "capture-rank1.jsonl", "provstore-capture/1", LATER)
    said = command("record", capture, "--json")

    assert said.code == 4
    assert [one["status"] for one in answer(said.out)["epochs"]] == ["new"]
    assert answer(said.out)["refused"] == [f"capture-rank1.jsonl: {SAID}"]


def test_a_directory_of_a_later_version_among_others_is_exit_4_and_they_are_recorded(
    command: Command, tmp_path: Path
) -> None:
    later = RankCapture(tmp_path / "later", world=1, header={"schema": LATER}).write()
    said = command("record", healthy(tmp_path / "c", epochs=1), later, "--json")

    assert said.code == 4
    assert [one["status"] for one in answer(said.out)["epochs"]] == ["new"]
    assert SAID in answer(said.out)["refused"][0]


def test_a_process_of_a_later_version_that_went_on_in_a_file_is_exit_4(command: Command, tmp_path: Path) -> None:
    one = RankCapture(tmp_path / "c", world=1)
    one.begin(0)
    one.call(0)
    one.lines.append({"t": "header", "schema": LATER, "run": "job", "attempt": 0, "rank": 0})
    one.end(0)
    said = command("record", one.write(), "--json")

    assert said.code == 4
    (problem,) = answer(said.out)["problems"]
    assert problem.endswith(f"'header': {SAID}")


def test_a_second_header_of_the_known_version_is_no_fault(command: Command, tmp_path: Path) -> None:
    one = RankCapture(tmp_path / "c", world=1)
    one.begin(0)
    one.call(0)
    one.lines.append({"t": "header", "schema": "provstore-capture/1", "run": "job", "attempt": 0, "rank": 0})
    one.end(0)

    assert command("record", one.write()).code == 0


def test_a_line_of_a_watcher_of_a_later_version_is_exit_4(command: Command, tmp_path: Path) -> None:
    capture = healthy(tmp_path / "c", epochs=1)
    first = watch_line("provstore-watch/1")
    (capture / "watch.jsonl").write_text(first + watch_line("provstore-watch/2"))
    said = command("record", capture, "--json")

    assert said.code == 4
    assert answer(said.out)["problems"] == [
        f"watch.jsonl: offset {len(first)}: schema: 'provstore-watch/2' is not known; known is provstore-watch/1"
    ]
    assert [one["new"] for one in answer(said.out)["signals"]] == [1]


def test_a_line_of_a_watcher_that_names_no_version_is_left_out_as_exit_3(command: Command, tmp_path: Path) -> None:
    capture = healthy(tmp_path / "c", epochs=1)
    (capture / "watch.jsonl").write_text(watch_line("weather/1"))

    assert command("record", capture).code == 3


def test_tensor_records_of_a_later_version_beside_dumps_are_exit_4(
    command: Command, samples: Path, tmp_path: Path
) -> None:
    line = {"schema": "provstore-tensor-record/2", "rank": 0, "group": "0", "seq": 1, "side": "in", "finite": True}
    dumps = Path(shutil.copytree(samples / "healthy", tmp_path / "dumps"))
    (dumps / "tensor_rank_0.jsonl").write_text(json.dumps(line) + "\n")
    said = command("record", dumps, "--run", "job", "--epoch", "0", "--json")

    assert said.code == 4
    assert "line 1: schema: 'provstore-tensor-record/2' is not known" in answer(said.out)["refused"][0]


@pytest.mark.parametrize("schema", ["weather/1", "", None, 9])
def test_a_capture_that_names_no_version_of_the_format_is_bad_input(
    command: Command, tmp_path: Path, schema: object
) -> None:
    capture = RankCapture(tmp_path / "c", world=1, header={"schema": schema}).write()
    said = command("record", capture)

    assert said.code == 2
    assert "does not begin with a header of provstore-capture/1" in " ".join(said.err.split())
