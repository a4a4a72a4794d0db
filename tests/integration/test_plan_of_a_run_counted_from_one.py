"""The restore plan of an epoch before which nothing was: it has no checkpoint, and needs none."""

from __future__ import annotations

from pathlib import Path

import pytest
from captures import RankCapture

from provstore.api.recording import record
from provstore.api.replaying import ReplayRequest, replay


def checkpoint_said(tmp_path: Path, first_step: int) -> tuple[str, str]:
    for rank in range(2):
        capture = RankCapture(tmp_path / "c", rank)
        capture.begin(1, first_step)
        for step in (first_step, first_step + 1):
            capture.call(1, step=step)
        capture.end(1)
        capture.write()
    record([tmp_path / "c"], store=f"embedded:{tmp_path / 's'}")
    plan = replay(ReplayRequest("job", 1), store=f"embedded:{tmp_path / 's'}").plan
    (item,) = [one for one in plan.items if one.name == "checkpoint"]
    return plan.verdict, item.detail


@pytest.mark.parametrize("first_step", [0, 1])
def test_the_first_epoch_of_a_run_can_begin_without_a_checkpoint_wherever_its_steps_are_counted_from(
    tmp_path: Path, first_step: int
) -> None:
    assert checkpoint_said(tmp_path, first_step) == (
        "approximate",
        "the run begins here; it has no checkpoint before",
    )


def test_an_epoch_of_which_nothing_before_is_stored_is_no_beginning_when_its_steps_go_on(tmp_path: Path) -> None:
    assert checkpoint_said(tmp_path, 12) == ("not-possible", "none is recorded before it")
