"""Which attempt a start of a recording takes, when nobody says: the first that no earlier start has left files of."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provstore.capture.recording.attempts import next_attempt


class Store:
    """What all ranks of a start share, as torch's stores behave."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}

    def compare_set(self, key: str, expected: str, wanted: str) -> bytes:
        if self.held.get(key, "") == expected:
            self.held[key] = wanted
        return self.held[key].encode()


def torch_with(store: Any) -> Any:
    def get() -> Any:
        if store is None:
            raise ValueError("Default process group has not been initialized")
        return store

    return SimpleNamespace(distributed=SimpleNamespace(distributed_c10d=SimpleNamespace(_get_default_store=get)))


def left(folder: Path, name: str, *, run: str = "r", attempt: Any = 0) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({"t": "header", "run": run, "attempt": attempt}) + "\n")


def test_a_first_start_takes_what_the_launcher_says(tmp_path: Path) -> None:
    assert next_attempt(torch_with(Store()), "r", tmp_path / "none", 0, 0) == 0
    assert next_attempt(torch_with(Store()), "r", tmp_path / "none", 0, 3) == 3


@pytest.mark.parametrize(("stated", "expected"), [(0, 3), (2, 3), (1, 1), (5, 5)])
def test_a_number_that_files_name_already_is_not_taken_again(tmp_path: Path, stated: int, expected: int) -> None:
    left(tmp_path / "c", "capture-rank0.jsonl")
    left(tmp_path / "c", "capture-rank7.1.jsonl", attempt=2)

    assert next_attempt(torch_with(None), "r", tmp_path / "c", 0, stated) == expected


def test_files_of_other_runs_and_those_without_a_header_count_for_nothing(tmp_path: Path) -> None:
    left(tmp_path / "c", "capture-rank0.jsonl", run="another")
    left(tmp_path / "c", "capture-rank0.1.jsonl", attempt="0")
    (tmp_path / "c" / "capture-rank0.2.jsonl").write_bytes(b"\xff{")
    (tmp_path / "c" / "capture-rank0.3.jsonl").touch()

    assert next_attempt(torch_with(None), "r", tmp_path / "c", 0, 0) == 0


def test_ranks_that_see_other_files_agree_by_what_the_first_of_them_laid_down(tmp_path: Path) -> None:
    left(tmp_path / "here", "capture-rank0.jsonl")
    store = Store()
    first = next_attempt(torch_with(store), "r", tmp_path / "here", 0, 0)
    left(tmp_path / "here", "capture-rank0.1.jsonl", attempt=first)
    (key,) = store.held
    # The second rank comes when the first has its file already.
    other = Store()
    other.held = {key.rpartition("/")[0] + "/2": str(first)}
    second = next_attempt(torch_with(other), "r", tmp_path / "here", 1, 0)

    assert (first, second) == (1, 1)


def test_a_store_that_fails_leaves_what_the_files_say(tmp_path: Path) -> None:
    left(tmp_path / "c", "capture-rank0.jsonl")

    class Broken:
        def compare_set(self, *_: str) -> bytes:
            raise RuntimeError("connection reset")

    assert next_attempt(torch_with(Broken()), "r", tmp_path / "c", 0, 0) == 1
