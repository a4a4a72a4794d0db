"""What record says of a recorder's own faults, of ranks that never ended an epoch, and of lines that differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from captures import RankCapture, floats


def fault(capture: RankCapture, where: str, error: str, count: int) -> None:
    capture.lines.append({"t": "fault", "epoch": 0, "where": where, "error": error, "count": count, "at_ns": 1})


def captured(folder: Path, *, faults: int = 0, ended: tuple[int, ...] = (0, 1), values: float = 1.0) -> Path:
    for rank in (0, 1):
        capture = RankCapture(folder, rank)
        capture.begin(0)
        capture.call(0, floats(values))
        for number in range(faults):
            # A fault that is seen often is written at 1, 2, 3, 4, 5, 8, …: the last count is the number seen.
            for count in (1, 2, 3, 4, 5, 8):
                fault(capture, f"place {number}", "TypeError: no such thing", count)
        if rank in ended:
            capture.end(0)
        capture.write()
    return folder


def run(tmp_path: Path, *arguments: str) -> tuple[int, str]:
    environment = {**os.environ, "COLUMNS": "200", "PROVSTORE_STORE": f"embedded:{tmp_path / 's'}"}
    done = subprocess.run(
        [sys.executable, "-m", "provstore", *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout


def told(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run(tmp_path, *arguments, "--json")[1])
    return answer


def test_a_fault_of_the_recorder_is_told_once_with_its_number_and_ranks(tmp_path: Path) -> None:
    capture = captured(tmp_path / "c", faults=1)
    code, text = run(tmp_path, "record", str(capture))

    assert code == 0
    assert text.count("TypeError") == 1
    assert "fault of the recorder: place 0: TypeError: no such thing: 16 times on ranks 0-1" in " ".join(text.split())
    assert told(tmp_path, "record", str(capture))["faults"] == [
        {"run": "job", "attempt": 0, "where": "place 0", "error": "TypeError: no such thing", "count": 16,
         "ranks": [0, 1]},
    ]  # fmt: skip


def test_many_different_faults_are_counted_beyond_the_first(tmp_path: Path) -> None:
    capture = captured(tmp_path / "c", faults=9)
    _, text = run(tmp_path, "record", str(capture))

    assert text.count("fault of the recorder:") == 5
    assert "4 other faults of the recorder" in text
    assert len(told(tmp_path, "record", str(capture))["faults"]) == 9


def test_ranks_that_never_ended_an_epoch_are_named(tmp_path: Path) -> None:
    capture = captured(tmp_path / "c", ended=(0,))
    _, text = run(tmp_path, "record", str(capture))

    assert "the epoch never ended on rank 1: it has no agent record" in text
    assert told(tmp_path, "record", str(capture))["epochs"][0]["open_ranks"] == [1]


def test_lines_that_differ_from_what_is_recorded_give_the_exit_code_of_lines_left_out(tmp_path: Path) -> None:
    assert run(tmp_path, "record", str(captured(tmp_path / "c")))[0] == 0
    code, text = run(tmp_path, "record", str(captured(tmp_path / "d", values=9.0)))

    assert code == 3
    assert "2 actions had other content when recorded; what was recorded stays" in text


def test_quiet_leaves_out_what_is_a_hint(tmp_path: Path) -> None:
    capture = captured(tmp_path / "c")
    _, text = run(tmp_path, "record", str(capture), "--quiet")

    assert "2 actions recorded" in text
    assert "provstore seal" not in text
