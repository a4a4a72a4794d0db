"""What a program gives to ``recorder.checkpoint`` by mistake is a fault of the recording, and never stops training."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provstore.capture.recorder import Recorder
from provstore.capture.recording.guard import Guard


def recorder() -> tuple[Any, list[tuple[Any, ...]], list[tuple[str, str]]]:
    """A recorder, what its session was told, and the faults that were noted."""
    told: list[tuple[Any, ...]] = []
    faults: list[tuple[str, str]] = []
    guard = Guard(lambda where, error, _count: faults.append((where, error)))
    found = Recorder(None)
    found._session = SimpleNamespace(guard=guard, checkpoint=lambda *said: told.append(said))  # type: ignore[assignment]
    return found, told, faults


@pytest.mark.parametrize(("uri", "files"), [(5, ()), (None, ()), ("x", 5), ("x", [None]), ("x", None)])
def test_an_address_or_files_of_another_kind_reach_nobody(uri: Any, files: Any) -> None:
    found, told, faults = recorder()
    found.checkpoint(uri, files=files)
    assert told == []
    assert [where for where, _ in faults] == ["checkpoint"]
    assert faults[0][1].startswith("TypeError: ")


def test_what_is_of_its_kind_is_told_as_it_was() -> None:
    found, told, faults = recorder()
    found.checkpoint(Path("a/b"), "sha256:x", files=["c", Path("d")], action="load")
    assert told == [("a/b", "sha256:x", [Path("c"), Path("d")], "load")]
    assert faults == []
