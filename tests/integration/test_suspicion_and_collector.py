"""Asking which actions are suspicious leaves Python's collector of reference cycles as it was, whatever the answer."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from provstore.api import suspecting
from provstore.journal import Journal


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.enable()


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_collector_is_as_it_was_before_the_question(is_enabled: bool, tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal", writable=True) as journal:
        (gc.enable if is_enabled else gc.disable)()
        suspecting.suspected(journal, "job", 0)

        assert gc.isenabled() is is_enabled


def test_the_collector_is_on_again_when_a_question_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(gc.isenabled())

    monkeypatch.setattr("provstore.ingest.recording.stored_bundles", fail)
    with Journal.open(tmp_path / "journal", writable=True) as journal:
        with pytest.raises(OSError, match="False"):
            suspecting.suspected(journal, "job", 0)

        assert gc.isenabled()
