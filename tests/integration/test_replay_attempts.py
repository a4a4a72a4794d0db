"""Which attempt of a run is replayed and compared; a run says nothing about whether it can be run again by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from captures import healthy

from provstore.api.recording import record
from provstore.api.replaying import ReplayRequest, replay
from provstore.errors import InputError


def test_a_run_is_no_re_run_of_itself_and_another_attempt_of_it_is(tmp_path: Path) -> None:
    store = f"embedded:{tmp_path / 's'}"
    for attempt in (0, 1):
        record([healthy(tmp_path / str(attempt), epochs=1, attempt=attempt)], store=store)

    with pytest.raises(InputError, match="job: attempt 1: --against: is compared with itself"):
        replay(ReplayRequest("job", 0, against="job"), store=store)
    assert replay(ReplayRequest("job", 0, attempt=0, against="job"), store=store).anchors is not None


def test_of_several_attempts_it_is_told_which_one_was_chosen_unless_it_was_asked_for(tmp_path: Path) -> None:
    store = f"embedded:{tmp_path / 's'}"
    for attempt in (0, 1):
        record([healthy(tmp_path / str(attempt), epochs=1, attempt=attempt)], store=store)

    assert replay(ReplayRequest("job", 0), store=store).notes == (
        "attempt 1 was chosen of 0, 1: --attempt names another",
    )
    assert replay(ReplayRequest("job", 0, attempt=1), store=store).notes == ()
